/* SPDX-License-Identifier: Apache-2.0
 * The buffer k-d tree for the device of stub_module.c, as stub_tree.c has the walk: every query has
 * found all it wants before the first leaf. */
#include "papers/papers_kernels.h"

#include <string.h>

extern const kin_papers_buffer_kernels stub_buffers;
extern uint32_t stub_lost(void); /* stub_kernels.c */
extern int stub_loses(uint32_t lost);

static int begin(kin_gpu_stream *stream, const kin_papers_buffers *job)
{
    (void)stream;
    memset(job->queries, 0, (size_t)job->walk.count * sizeof *job->queries);
    memset(job->fill, 0, sizeof *job->fill << job->walk.tree.height);
    memset(job->counts, 0, sizeof *job->counts);
    return 0;
}

static int find(kin_gpu_stream *stream, const kin_papers_batch *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int empty(kin_gpu_stream *stream, const kin_papers_emptying *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int alone(kin_gpu_stream *stream, const kin_papers_rest *job)
{
    (void)stream;
    (void)job;
    return 0;
}

static int end(kin_gpu_stream *stream, const kin_papers_buffers *job)
{
    const kin_tree_gpu_lists *lists = &job->walk.lists;
    const uint32_t lost = stub_lost();
    const int64_t first = job->walk.place0;
    const int64_t packets = (job->walk.count + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET;
    (void)stream;
    memset(lists->words + first * lists->capacity, 0,
           (size_t)(packets * KIN_TREE_GPU_PACKET * lists->capacity) * sizeof *lists->words);
    for (int64_t p = first; p < first + job->walk.count; p++) {
        lists->counts[p] = lists->wanted;
        lists->lost[p] = (uint8_t)stub_loses(lost);
        job->walk.met[2] += lists->lost[p];
    }
    return 0;
}

const kin_papers_buffer_kernels stub_buffers = {
    .begin = begin, .find = find, .empty = empty, .alone = alone, .end = end};
