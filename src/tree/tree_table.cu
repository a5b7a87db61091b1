/* SPDX-License-Identifier: Apache-2.0
 * The table of tree_kernels.h, short because rows make themselves, and which kernel a launch takes.
 * A walk: by the length of its lists (tree_walk_short.cu, tree_walk_long.cu), and whether columns
 * have periods (tree_walk_box.cu). The end of lists: a lane a place where they are short, a block a
 * place where they are long (tree_finish_short.cu, tree_finish_long.cu). */
#include "tree/tree_finish.cuh"
#include "tree/tree_walk.cuh"

int kin_tree_launch_walk(kin_gpu_stream *stream, const kin_tree_gpu_walk *job)
{
    if (job->count == 0) {
        return 0;
    }
    if (job->tree.wide > KIN_TREE_GPU_MOST_COLS || job->tree.wide % KIN_TREE_GPU_WIDE != 0 ||
        job->lists.capacity <= job->lists.wanted) {
        return (int)cudaErrorInvalidValue;
    }
    if (job->tree.period != NULL) {
        return kin_tree_gpu_walk_box(stream, job);
    }
    return job->lists.capacity > KIN_TREE_GPU_SHORT ? kin_tree_gpu_walk_long(stream, job)
                                                    : kin_tree_gpu_walk_short(stream, job);
}

static int32_t walk_short(kin_gpu_stream *stream)
{
    (void)stream;
    return KIN_TREE_GPU_SHORT;
}

int kin_tree_launch_finish(kin_gpu_stream *stream, const kin_tree_gpu_finish *job)
{
    if (job->count == 0) {
        return 0;
    }
    if (job->corpus.cols > KIN_TREE_GPU_MOST_COLS || job->place0 % KIN_TREE_GPU_PACKET != 0 ||
        (uintptr_t)job->pairs % sizeof(kin_screen_gpu_pair) != 0 ||
        (job->answers.rows != 0 && job->lists.capacity > KIN_TREE_GPU_SHORT)) {
        return (int)cudaErrorInvalidValue;
    }
    return job->lists.capacity <= KIN_TREE_GPU_SHORT ? kin_tree_gpu_finish_short(stream, job)
                                                     : kin_tree_gpu_finish_long(stream, job);
}

#define KIN_ENTRY(name) kin_tree_launch_##name,
extern "C" const kin_tree_kernels kin_tree_table;
const kin_tree_kernels kin_tree_table = {KIN_TREE_LAUNCHES(KIN_ENTRY) walk_short};
