/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The methods `insertion`, `heap` and `merge_queue`, after Tang, Huang, Eyers, Mills and Guo,
 * "Efficient selection algorithm for fast k-NN search on GPUs" (2015): one thread a row keeps the k
 * words that come first so far in a queue whose last word is at hand. A candidate enters only if it
 * comes before that one. What differs is how the queue is kept (sections III-A to III-C), how
 * candidates reach it (III-D, buffered search) and how many there are (III-E, hierarchical
 * partition).
 *
 *   papers_queue_lane.cuh    the queues, the work of one lane
 *   papers_queue_walk.cuh    the kernel: tiles, buffers, votes; scratch; with a picture of memory
 *   papers_queue_group.cu    hierarchical partition
 *   this file                the launch
 *
 * Buffers. The 32 lanes of a warp run one instruction, so one lane's insertion costs as much as
 * 32. A buffer gathers what has passed. plain: a lane without room for four more empties its own;
 * full: it makes the whole warp empty theirs, so that insertions happen side by side; sorted: each
 * lane sorts its words before, so that the first ones move the threshold and the later ones fail
 * at the cost of one comparison. Emptying four early lets the walk vote once in four candidates.
 *
 * Merge path (merge queue). Two levels are merged by a network, whose steps are the same for all
 * lanes, or by merge path, which reads and writes each word once.
 *
 * Aligned (merge queue). One lane that must merge a level makes all merge it. That costs the same
 * time, and the others will not have to soon.
 *
 * Why it is right. A queue holds the k first words of what it was offered: the word that leaves is
 * the last of k + 1. Words waiting in a buffer are offered before the end, and what a buffer kept
 * out came behind k others. Words order by key and id, and equal words are equal elements; so ties
 * need no care, and the order in which candidates come changes no byte.
 *
 * Cost. n candidates, u = k (1 + ln(n / k)) of which enter in random order, all in falling order.
 * An entry costs O(k) moves (insertion), O(log k) in places that differ by lane (heap), O(log^2 k)
 * on average, regular (merge queue). Memory: each value is read once (groups: see there), k words a
 * row are kept in the caches as far as they fit. Scratch: 2 k words a row, with merge path up to 3
 * k.
 *
 * Limits. A warp serves 32 rows, so a device is busy from some ten thousand rows on, and idle with
 * few; that is the method's nature, and what `auto` is for. Any k. */
#include "papers/papers_queue_walk.cuh"

/* The queue of insertion is in order at any time, a merge queue is once all its levels are one. */
static bool leaves_order(const kin_select_job *task)
{
    return task->number != KITH_SELECT_HEAP;
}

static uint64_t queue_scratch(kin_gpu_stream *stream, const kin_select_job *task)
{
    const kin_queue_plan plan = kin_queue_plan_make(task);
    const uint64_t finish =
        plan.queue_at + kin_select_finish_scratch(stream, task, leaves_order(task));
    return plan.bytes > finish ? plan.bytes : finish;
}

static int walk(kin_gpu_stream *stream, const kin_select_job *task, const kin_queue_run *run)
{
    KIN_SELECT_BY_TYPE(task->dtype, kin_queue_walk, stream, task, run)
}

static int queue_launch(kin_gpu_stream *stream, const kin_select_job *task)
{
    const kin_queue_plan plan = kin_queue_plan_make(task);
    char *scratch = (char *)task->scratch;
    kin_queue_run run = kin_queue_run_make(task, &plan);
    run.words = scratch;
    run.in_order = task->sorted != 0 || task->out_kth != NULL ? 1 : 0;
    if (plan.levels != 0) {
        const int status = kin_queue_select_nodes(stream, task, &plan);
        if (status != 0) {
            return status;
        }
        run.nodes = (const uint32_t *)(scratch + plan.nodes_at);
    }
    const int status = walk(stream, task, &run);
    if (status != 0) {
        return status;
    }
    return kin_select_finish(stream, task, scratch, leaves_order(task), scratch + plan.queue_at);
}

/* Told apart by task->number. */
#define QUEUE(name)                                                             \
    uint64_t name##_scratch(kin_gpu_stream *stream, const kin_select_job *task) \
    {                                                                           \
        return queue_scratch(stream, task);                                     \
    }                                                                           \
    int name##_launch(kin_gpu_stream *stream, const kin_select_job *task)       \
    {                                                                           \
        return queue_launch(stream, task);                                      \
    }
QUEUE(kin_papers_insertion)
QUEUE(kin_papers_heap)
QUEUE(kin_papers_merge_queue)
