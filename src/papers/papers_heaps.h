/* SPDX-License-Identifier: Apache-2.0
 * The processor's part of the pipeline hybrid: the k first of what a GPU left of each row, by
 * min-max heaps (papers_threshold_heap.c), on all threads. */
#ifndef KIN_PAPERS_HEAPS_H
#define KIN_PAPERS_HEAPS_H

#include "fused/fused_kernels.h"
#include "select/select_body.h"
#include "select/select_pairs.h"

/* Columns of the sample of a row from whose k-th its threshold comes: times k of them (0: as many
 * as suit), a multiple of 128; 0 where all columns are no more. And how many columns that threshold
 * leaves, with room for chance. */
int64_t kin_papers_sample_columns(int64_t columns, int64_t k, int32_t times);
int32_t kin_papers_sample_leaves(int64_t columns, int64_t sample, int64_t k);

typedef struct kin_papers_heaps {
    kith_ctx *ctx;
    const kin_select_body *body;
    kin_select_job job; /* of one row */
    struct kin_papers_heap *threads;
} kin_papers_heaps;

/* Rows have at most `room` hits. */
kith_status kin_papers_heaps_make(kith_ctx *ctx, int64_t k, int64_t room, kin_papers_heaps *heaps);
uint64_t kin_papers_heaps_bytes(int64_t k, int64_t room); /* of a thread */
void kin_papers_heaps_free(kin_papers_heaps *heaps);

/* Row i has the hits places[i] .. places[i + 1] - 1, in any order; its first k (or all, if they are
 * fewer: counts) go to pairs + i * k, sorted. Adds its seconds to the report's selection. */
kith_status kin_papers_heaps_run(const kin_papers_heaps *heaps, const kin_fused_hit *hits,
                                 const int64_t *places, int64_t rows, kin_pair *pairs,
                                 int32_t *counts);

#endif
