/* SPDX-License-Identifier: Apache-2.0
 * Medians of a tree's words against sorting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/select_word.h"
#include "tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 5 };
static const char *const SHAPE_NAMES[SHAPES] = {"rising", "falling", "tossed", "an organ pipe",
                                                "what samples never see"};

/* Distinct, as a tree's are: the low half is the place. */
static void fill(int shape, int64_t count, uint64_t *words)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t high = shape == 0   ? (uint64_t)i
                              : shape == 1 ? (uint64_t)(count - i)
                              : shape == 2 ? ((uint64_t)i * 0x9e3779b97f4a7c15u) >> 40
                              : shape == 3 ? (uint64_t)(i < count / 2 ? i : count - i)
                                           : (uint64_t)(i % (count / 31 + 1) == 0);
        words[i] = high << 32 | (uint64_t)i;
    }
}

static void compare(int shape, int64_t count, int64_t rank)
{
    uint64_t *words = malloc((size_t)count * sizeof *words);
    uint64_t *sorted = malloc((size_t)count * sizeof *sorted);
    assert_non_null(words);
    assert_non_null(sorted);
    fill(shape, count, words);
    memcpy(sorted, words, (size_t)count * sizeof *sorted);
    kin_select_sort_words(sorted, count);
    assert_int_equal(kin_tree_median(words, count, rank), sorted[rank]);
    kin_select_sort_words(words, count);
    assert_memory_equal(words, sorted, (size_t)count * sizeof *sorted);
    free(sorted);
    free(words);
}

static void sorting(void **state)
{
    (void)state;
    static const int64_t COUNTS[] = {1, 2, 12, 13, 61, 99, 100, 128, 999, 1000, 4096, 100003};
    for (int shape = 0; shape < SHAPES; shape++) {
        for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
            const int64_t count = COUNTS[i];
            const int64_t ranks[] = {0, count / 7, count / 2, count - 1};
            for (int r = 0; r < 4; r++) {
                compare(shape, count, ranks[r]);
            }
        }
        printf("%s: up to 100,003 words, ranks at both ends and between, as sorted\n",
               SHAPE_NAMES[shape]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sorting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
