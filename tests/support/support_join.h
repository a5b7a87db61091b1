/* SPDX-License-Identifier: Apache-2.0
 * Cross-matching of NN-Descent on a device (graph_join.cu) against plain loops: points of whole
 * numbers whose products and sums fp32 has exactly, samples and lists of any kind, the offers that
 * must come out. */
#ifndef SUPPORT_JOIN_H
#define SUPPORT_JOIN_H

#include "graph/graph_kernels.h"

#include <stdbool.h>

enum { TEST_JOIN_LENGTH = 8 /* of a list */, TEST_JOIN_HELD = 16 };

typedef struct test_join {
    const char *name;
    kin_screen_gpu_type type;
    int32_t cols;
    int64_t points;
    int32_t forward;
    int32_t reverse;
    int32_t news; /* of every point; -1: drawn */
    int32_t olds;
    bool all;
    bool products;        /* terms are no squares */
    int64_t split;        /* rows below are one set, the others another; 0: one set */
    const uint32_t *rows; /* of positions, for a split; NULL: the last row stands first */
    uint64_t seed;

    int8_t *values; /* points x cols; NULL: rows as given, and keys */
    int32_t *terms;
    double *keys; /* by position: keys[to * points + other] */
    bool symmetric;
    uint32_t *ids[2]; /* samples: NEW, OLD */
    int32_t *counts[2];
    uint64_t *words;
    uint64_t *want;
    uint64_t evaluations;

    kin_graph_gpu_join job;
    void *held[TEST_JOIN_HELD];
    int held_count;
} test_join;

/* A block of device memory that test_join_free gives back. */
void *test_join_hold(test_join *s, void *block);
void test_join_free(test_join *s);

/* Points of whole numbers, on both sides, as s->type and s->cols say. */
void test_join_round(test_join *s);
/* Draws samples and lists for points that are there, joins twice on the device, counts differences
 * in test_wrong, and frees. */
void test_join_run(test_join *s);

#endif
