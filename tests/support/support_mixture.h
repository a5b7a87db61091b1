/* SPDX-License-Identifier: Apache-2.0
 * Data of known structure for approximate graphs, and what such a graph is held to. */
#ifndef SUPPORT_MIXTURE_H
#define SUPPORT_MIXTURE_H

#include "kith/kith.h"

/* Points of `clusters` Gaussians, each on a plane of its own of `inner` dimensions: centre + spread
 * A z, A and z standard normal, A divided by the root of inner. Centres are standard normal. */
typedef struct test_mixture {
    kith_dtype dtype; /* F32, or U8: 128 + 32 x, cut */
    int64_t rows;
    int32_t cols;
    int32_t inner;
    int64_t clusters;
    double spread;
    int nonnegative; /* |x| */
    uint64_t seed;
} test_mixture;

/* malloc'd data, contiguous, the stride filled in. */
kith_matrix test_mixture_make(const test_mixture *mixture);
/* float32, of any sign. */
kith_matrix test_mixture_points(int64_t rows, int32_t cols, int32_t inner, int64_t clusters,
                                double spread, uint64_t seed);
/* Row `to` becomes a copy of row `from`. */
void test_mixture_copy(const kith_matrix *points, int64_t to, int64_t from);
void test_mixture_free(kith_matrix *points);

/* Ends the test where a row is not ascending by (distance, id), has an id twice, its own (unless
 * own), one that is none, or a distance that is not canonical (ctx: the processor). */
void test_graph_is_sound(kith_ctx *ctx, const char *name, const kith_matrix *points,
                         kith_metric metric, const kith_neighbors *graph, int own);
/* Share of the first `at` whose distance is at most the true at-th. */
double test_graph_recall(kith_metric metric, const kith_neighbors *graph,
                         const kith_neighbors *truth, int64_t at);

#endif
