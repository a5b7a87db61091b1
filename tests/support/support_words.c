/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_words.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "select/select_word.h"
#include "support/support_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t test_graph_gpu_seed = 11;
static void *events[2];

const kin_graph_gpu_kernels *test_graph_gpu_kernels(void)
{
    return test_device->module->graph;
}

uint32_t test_below(uint64_t bound)
{
    return (uint32_t)kin_random_below(&test_graph_gpu_seed, bound);
}

uint32_t test_random_order(int mix)
{
    const uint64_t bound = mix == 0 ? (uint64_t)1 << 24 : mix == 1 ? 500 : 3;
    const int32_t cost = (int32_t)test_below(bound) - (mix == 1 ? 250 : 0);
    return mix == 1 ? kin_graph_order_of_int(cost) : kin_graph_order_of_float((float)cost);
}

int32_t test_tidy(uint64_t *words, int64_t count, int64_t window, int32_t length, uint64_t *list)
{
    kin_select_sort_words(words, count);
    int32_t kept = 0;
    for (int64_t i = 0; i < count && i < window && kept < length; i++) {
        if (words[i] != KIN_GRAPH_EMPTY && (i == 0 || words[i] != words[i - 1])) {
            list[kept++] = words[i];
        }
    }
    for (int32_t i = kept; i < length; i++) {
        list[i] = KIN_GRAPH_EMPTY;
    }
    return kept;
}

uint64_t *test_make_graph(int64_t points, int32_t length, uint64_t bound, int mix)
{
    uint64_t *words = test_host_room((size_t)(points * length) * sizeof *words);
    uint64_t drawn[KIN_GRAPH_GPU_MOST_LIST];
    for (int64_t p = 0; p < points; p++) {
        const int32_t most = (int32_t)kin_min_i64(length, (int64_t)(bound - 1) / 2);
        const int32_t count = p % 5 == 1   ? 0
                              : p % 5 == 2 ? most
                                           : (int32_t)test_below((uint64_t)most + 1);
        /* Positions at even strides, from a random one on, are different. */
        uint64_t stride = bound / ((uint64_t)count + 1);
        stride = stride > 0 ? stride : 1;
        const uint64_t first = test_below(bound);
        int32_t kept = 0;
        for (int32_t i = 0; i < count; i++) {
            const uint64_t position = (first + stride * (uint64_t)i) % (bound > 0 ? bound : 1);
            if (position != (uint64_t)p) {
                drawn[kept++] =
                    kin_graph_word(test_random_order(mix), (uint32_t)position, test_below(2));
            }
        }
        (void)test_tidy(drawn, kept, kept, length, words + p * length);
    }
    return words;
}

void test_compare_words(const char *what, int64_t points, int32_t length, const void *want,
                        const void *device, uint64_t bytes)
{
    unsigned char *got = test_host_room(bytes);
    test_download(got, device, bytes);
    if (bytes > 0 && memcmp(want, got, bytes) != 0) {
        uint64_t at = 0;
        while (((const unsigned char *)want)[at] == got[at]) {
            at++;
        }
        test_wrong += 1;
        if (test_wrong <= TEST_MOST_TOLD) {
            uint64_t words[2] = {0};
            const uint64_t word = at / 8 * 8;
            const size_t width = bytes - word < 8 ? (size_t)(bytes - word) : 8;
            memcpy(&words[0], (const unsigned char *)want + word, width);
            memcpy(&words[1], got + word, width);
            printf("WRONG %s: %lld points, lists of %d, byte %lld: want %016" PRIx64
                   ", got %016" PRIx64 "\n",
                   what, (long long)points, length, (long long)at, words[0], words[1]);
            (void)fflush(stdout);
        }
    }
    free(got);
}

/* ---- Times ----------------------------------------------------------------------------------- */

bool test_times_wanted(void)
{
    return getenv("KITH_TIMES") != NULL;
}

void test_time_begin(void)
{
    const kin_gpu_ops *ops = test_device->module->ops;
    test_launch(ops->event_make(&events[0]), "an event");
    test_launch(ops->event_make(&events[1]), "an event");
    test_launch(ops->event_record(test_device->stream, events[0]), "an event");
}

void test_time_end(const char *what)
{
    const kin_gpu_ops *ops = test_device->module->ops;
    float milliseconds = 0;
    test_launch(ops->event_record(test_device->stream, events[1]), "an event");
    test_launch(ops->event_wait(events[1]), what);
    test_launch(ops->event_between(events[0], events[1], &milliseconds), "an event");
    ops->event_free(events[0]);
    ops->event_free(events[1]);
    printf("%-60s %8.3f ms\n", what, (double)milliseconds);
    (void)fflush(stdout);
}
