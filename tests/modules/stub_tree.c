/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the tree for the device of stub_module.c, as those of stub_kernels.c are: memory is
 * written where kernels write, answers mean nothing. STUB_LOST: of a hundred launches, how many
 * leave lists that lost something. */
#include "tree/tree_kernels.h"

#include <stdlib.h>
#include <string.h>

extern const kin_tree_kernels stub_tree;
extern uint32_t stub_lost(void); /* stub_kernels.c */
extern int stub_loses(uint32_t lost);

static int measure(kin_gpu_stream *stream, const kin_tree_gpu_measure *job)
{
    (void)stream;
    for (int32_t c = 0; c < job->rows.cols; c++) {
        job->low[c] = -1.0;
        job->high[c] = 1.0;
    }
    return 0;
}

static int round_rows(kin_gpu_stream *stream, const kin_tree_gpu_round *job)
{
    (void)stream;
    memset(job->out, 0, (size_t)(job->count * job->wide) * sizeof *job->out);
    memset(job->lost, 0, (size_t)job->count * sizeof *job->lost);
    return 0;
}

/* As much as the sort of a GPU's library takes. */
static int order(kin_gpu_stream *stream, const kin_tree_gpu_order *job)
{
    (void)stream;
    if (job->scratch == NULL) {
        *job->scratch_bytes = (uint64_t)job->count * 3 * sizeof(uint32_t) + (1U << 14);
        return 0;
    }
    memset(job->scratch, 0, (size_t)job->count * 3 * sizeof(uint32_t));
    for (int64_t p = 0; p < job->count; p++) {
        job->order[p] = (uint32_t)p;
    }
    return 0;
}

/* As much as kin_tree_gpu_peak_bytes says. */
static int build(kin_gpu_stream *stream, const kin_tree_gpu_build *job)
{
    const kin_tree_gpu *tree = &job->tree;
    const uint64_t bytes = (uint64_t)tree->points * (9 * ((uint64_t)tree->cols + 1) + 8);
    uint32_t *ids = (uint32_t *)(uintptr_t)tree->ids;
    (void)stream;
    if (job->scratch == NULL) {
        *job->scratch_bytes = bytes;
        return 0;
    }
    memset(job->scratch, 0, (size_t)bytes);
    memset((void *)(uintptr_t)tree->lost, 0, ((size_t)2 << tree->height) * sizeof *tree->lost);
    memset(ids, 0xff, (size_t)tree->blocks * KIN_TREE_LANES * sizeof *ids);
    for (int64_t p = 0; p < tree->points; p++) {
        ids[p] = job->firsts != NULL ? job->firsts[p] : (uint32_t)p;
    }
    return 0;
}

static int walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    const kin_tree_gpu_lists *lists = &job->lists;
    const uint32_t lost = stub_lost();
    const int64_t packets = (job->count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    (void)stream;
    memset(lists->words + job->place0 * lists->capacity, 0,
           (size_t)(packets * KIN_TREE_GPU_PACKET * lists->capacity) * sizeof *lists->words);
    for (int64_t p = job->place0; p < job->place0 + job->count; p++) {
        lists->counts[p] = lists->wanted;
        lists->lost[p] = (uint8_t)stub_loses(lost);
        job->met[2] += lists->lost[p];
    }
    return 0;
}

static int32_t walk_short(kin_gpu_stream *stream)
{
    enum { SHORT = 64 };
    (void)stream;
    return SHORT;
}

static int finish(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    const int64_t rows = job->answers.rows != 0 ? 0 : job->count;
    (void)stream;
    for (int64_t i = 0; i < rows * job->lists.wanted; i++) {
        job->pairs[i] = (kin_screen_gpu_pair){.id = (uint32_t)(i % job->lists.wanted)};
    }
    for (int64_t i = 0; i < rows; i++) {
        job->counts[i] = job->lists.wanted;
    }
    return 0;
}

const kin_tree_kernels stub_tree = {.measure = measure,
                                    .round = round_rows,
                                    .order = order,
                                    .build = build,
                                    .walk = walk,
                                    .walk_short = walk_short,
                                    .finish = finish};
