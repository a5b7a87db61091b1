/* SPDX-License-Identifier: Apache-2.0
 *
 * Threshold heap (TH-heap paper: III, V.A compression, V.B and V.C Algorithms 4 to 7; the heap is
 * that of Atkinson, Sack, Santoro, Strothotte 1986). Contract: select_body.h.
 *
 * Idea: the k-th of a small sample is a threshold that at least k words of the row do not exceed.
 * One pass keeps what does not exceed it, side by side in memory (about n k / sample words); those
 * go through a min-max heap of k, which knows its first and its last at once: the last refuses what
 * comes too late, and at the end the k are taken from the front in order.
 *
 * The sample is job->sample * k words at even strides instead of random ones, so that a run gives
 * the same work every time. What equals the threshold is kept (the paper's text does so, its
 * equation 4 counts without). Words are compared, so of equal distances only those whose id is not
 * behind the threshold's are kept.
 *
 * Min-max heap: the children of place i are 2i + 1 and 2i + 2; on even levels no descendant comes
 * before a node, on odd levels none comes behind it. It starts full, so words trickle down and
 * never bubble up; it is built from the bottom like Floyd's heap.
 *
 * Cost: one read, sample * k log k for the threshold, log k for each survivor that is inserted,
 * k log k at the end; n words of memory, since a threshold may keep everything. Limits: a row whose
 * strides hit its largest words keeps too much; where the sample is the row nothing is pruned.
 */
#define SELECT_BODY "select/select_threshold_heap_body.inc"

enum { PRUNE_BLOCK = 256 };

#include "select/select_twice.inc"

static uint64_t scratch_bytes(const kin_select_job *job, int64_t longest_run)
{
    const int64_t k = kin_min_i64(job->k, longest_run);
    return kin_size_mul(kin_size_add((uint64_t)k, (uint64_t)longest_run),
                        (uint64_t)kin_word_bytes(job->dtype));
}

const kin_select_body kin_select_threshold_heap = {scratch_bytes, select_any};
