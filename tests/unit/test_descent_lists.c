/* SPDX-License-Identifier: Apache-2.0
 * A list of NN-Descent takes what is nearest: joins against sorting all that came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph_start.h"
#include "support/support_descents.h"

#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 12, JOINS = 4000 };

static uint64_t drawn_word(uint64_t *seed)
{
    const uint32_t position = 1 + (uint32_t)(test_uniform(seed) * 60.0);
    /* Orders that positions have, so that one position never has two; many are equal. */
    return kin_graph_word(position * 7 % 16, position, test_uniform(seed) < 0.5 ? 0u : 1u);
}

static int by_word(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* What joining has to give, by sorting all that there is: of one position in list and offers what
 * the list has. */
static int32_t join_plainly(uint64_t *list, const uint64_t *words, int32_t count)
{
    uint64_t all[2 * LENGTH];
    int32_t made = 0;
    int32_t came = 0;
    for (int32_t i = 0; i < LENGTH + count; i++) {
        const uint64_t word = i < LENGTH ? list[i] : words[i - LENGTH] | 1;
        bool known = word == KIN_GRAPH_EMPTY;
        for (int32_t j = 0; j < made; j++) {
            known |= (all[j] | 1) == (word | 1);
        }
        all[made] = word;
        made += known ? 0 : 1;
    }
    qsort(all, (size_t)made, sizeof *all, by_word);
    for (int32_t i = 0; i < LENGTH; i++) {
        const uint64_t word = i < made ? all[i] : KIN_GRAPH_EMPTY;
        bool known = word == KIN_GRAPH_EMPTY;
        for (int32_t j = 0; j < LENGTH; j++) {
            known |= (list[j] | 1) == (word | 1);
        }
        came += known ? 0 : 1;
    }
    for (int32_t i = 0; i < LENGTH; i++) {
        list[i] = i < made ? all[i] : KIN_GRAPH_EMPTY;
    }
    return came;
}

static void name_lists(kin_layout *layout, void *lists)
{
    kin_graph_lists_name(layout, 100, LENGTH, lists);
}

static void lists_take_what_is_nearest(void **state)
{
    (void)state;
    kith_ctx *ctx = test_descent_ctx(1);
    kin_graph_lists lists;
    uint64_t seed = 3;
    uint64_t plain[LENGTH];
    void *block = NULL;
    assert_int_equal(kin_layout_make(ctx, name_lists, &lists, "lists", &block), KITH_OK);
    kin_graph_lists_clear(&lists);
    memset(plain, 0xff, sizeof plain);
    for (int round = 0; round < JOINS; round++) {
        uint64_t words[LENGTH];
        uint64_t scratch[LENGTH];
        const int32_t count = (int32_t)(test_uniform(&seed) * LENGTH);
        if (round % 8 == 0) {
            memset(plain, 0xff, sizeof plain);
            memset(lists.words, 0xff, sizeof plain);
            kin_graph_list_measure(&lists, 0);
        }
        for (int32_t i = 0; i < count; i++) {
            words[i] = drawn_word(&seed) | 1;
        }
        const int32_t came = join_plainly(plain, words, count);
        assert_int_equal(kin_graph_list_join(&lists, 0, words, count, scratch), came);
        assert_memory_equal(lists.words, plain, sizeof plain);
        assert_true(test_list_is_sound(&lists, 0));
        if (round % 8 == 4) { /* entries become OLD as rounds make them */
            uint64_t room[LENGTH + 32];
            assert_int_equal(kin_graph_list_merge(&lists, 0, LENGTH / 2, room), 0);
            memcpy(plain, lists.words, sizeof plain);
        }
    }
    kin_free(ctx, block);
    kith_ctx_free(ctx);
    printf("%d joins of lists are those of sorting everything\n", JOINS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_take_what_is_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
