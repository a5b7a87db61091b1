/* SPDX-License-Identifier: Apache-2.0
 * Lists of NN-Descent (graph_word.h) for tests of their kernels: made, tidied, compared with what
 * a device has; and what a launch takes. */
#ifndef SUPPORT_WORDS_H
#define SUPPORT_WORDS_H

#include "graph/graph_kernels.h"

#include <stdbool.h>

enum { TEST_MIXES = 3 }; /* of costs: nearly all different, whole numbers, few different ones */

extern uint64_t test_graph_gpu_seed;

const kin_graph_gpu_kernels *test_graph_gpu_kernels(void);
uint32_t test_below(uint64_t bound);
uint32_t test_random_order(int mix);

/* Sorts `count` words; of the first `window` of them each different one goes to the list, which is
 * filled up with empty places. Returns how many went. */
int32_t test_tidy(uint64_t *words, int64_t count, int64_t window, int32_t length, uint64_t *list);
/* Lists of different positions below `bound`, not the own one; some full, some empty. */
uint64_t *test_make_graph(int64_t points, int32_t length, uint64_t bound, int mix);
/* What a kernel left on the device against what it should have left; a difference is told. */
void test_compare_words(const char *what, int64_t points, int32_t length, const void *want,
                        const void *device, uint64_t bytes);

/* Milliseconds of what is launched between them. */
bool test_times_wanted(void);
void test_time_begin(void);
void test_time_end(const char *what);

#endif
