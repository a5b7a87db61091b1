/* SPDX-License-Identifier: Apache-2.0
 * Rows that are wanted next are brought to the device while it computes.
 *
 *   begin   a hint: a thread of its own starts to copy. Device memory is taken now, in the caller's
 *           thread and within the budget. Where there is no room, no thread or no pinned memory,
 *           nothing happens: whoever takes the rows then uploads them himself
 *   take    the block with these very rows, complete; it is the caller's now
 *   end     what was not taken is given up: threads are joined, blocks are free again
 *
 * Whoever begins ends, before the rows' owner may touch them, in failure too. All of it by the one
 * thread that works with the kin_gpu; the rows are only read, and only between begin and take or
 * end. */
#ifndef KIN_GPU_AHEAD_H
#define KIN_GPU_AHEAD_H

#include "gpu/gpu.h"

/* So many uploads at a time; a hint beyond them is not taken. */
enum { KIN_GPU_AHEAD_MOST = 2 };

/* Whether hints are taken at all: not in a scope that was narrowed (kin_gpu_narrow). */
bool kin_gpu_ahead_wanted(const kin_gpu *gpu);
/* Nothing has failed in this call so far: what fails here is forgotten (kin_forgive). */
void kin_gpu_ahead_begin(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows);
/* *block: the rows on the device, which later work of the stream may read; kin_gpu_free gives them
 * back. NULL: nobody has begun with these. Waits, asking the progress function; tells the error
 * that the copy met. */
kith_status kin_gpu_ahead_take(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void *block);
/* Whether there was something to give up: memory is free now that was not. */
bool kin_gpu_ahead_end(kin_gpu *gpu);

/* The same rows wherever they come from: ahead, else uploaded now, by a team in lockstep a part
 * each. What is in *block after a failure is the caller's, too. */
kith_status kin_gpu_bring(kith_ctx *ctx, kin_gpu *gpu, const kin_gpu_rows *rows, void **block);

/* For kin_gpu_close. */
void kin_gpu_ahead_close(kin_gpu *gpu);

#endif
