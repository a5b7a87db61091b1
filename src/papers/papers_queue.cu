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
 *   this file                hierarchical partition, the launch
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

/* ---- Hierarchical partition ------------------------------------------------------------------ */

/* Idea. Hierarchical partition (section III-E of the merge-queue paper): of each G neighbours in a
 * row the first one makes a node, of each G nodes again, until a level is no wider than k G. Then
 * down again: k nodes are selected from the top level; below a level's k nodes lie at most k G, of
 * which k are selected; at last of values.
 *
 *   level 2     n0              n1              n2 ...     all of it is searched: k nodes
 *   level 1     n0  n1  n2  n3  n4  n5  n6  n7  n8 ...     what lies below these: k nodes
 *   values      0 1 2 3 4 5 6 7 8 9 ...                    what lies below these: k values
 *
 * The paper goes on until a level has k nodes, which would all be selected; the step is left out.
 *
 * Why it is right, ties included. Let x be one of the k first of a level and v its node above. If v
 * is not among the k nodes selected, k other nodes come before it, each with an element that does
 * not come behind x; so x is not needed (an element of the same word is as good). That holds
 * if nodes are ordered as the elements that they stand for:
 *   - ids that are places: a node is (key, number of the node). Numbers grow with places, so of two
 *     nodes of one key the first has the smaller id;
 *   - ids that were given: a node is (key, id, number), in a word of 128 bits for every type.
 * Numbers are below 2^31, so no node is the worst word, not even one of NaN.
 *
 * Cost. Building reads the values once and writes n / (G - 1) keys; the search then looks at k G
 * candidates a level, log_G(n / (k G)) levels. The G below a node are read by one lane, so that
 * small G waste most of a sector of 32 bytes. Scratch: n / (G - 1) keys a row (with given ids, 16
 * bytes each), and k words and numbers. Candidates are offered best node first: the threshold is
 * low from the start on.
 *
 * Limits. Nothing is won where k G is near n; with k G >= n there is no level at all. */

enum { BUILD_THREADS = 256, GRID_ROWS = 65535 };

/* ---- Nodes, as the values of a matrix ------------------------------------------------------- */

/* What a node keeps of the first word below it (`of`), and what it is with its number (`make`). */
struct node_key32 {
    typedef uint32_t bits;
    typedef kin_word64 word;
    static __device__ __forceinline__ word make(bits key, uint32_t number, bool)
    {
        return kin_word64_make(key, number);
    }
    static __device__ __forceinline__ bits of(kin_word64 first, bool)
    {
        return (uint32_t)(first >> 32);
    }
};

struct node_key64 {
    typedef uint64_t bits;
    typedef kin_word128 word;
    static __device__ __forceinline__ word make(bits key, uint32_t number, bool)
    {
        return kin_word128_make(key, number);
    }
    static __device__ __forceinline__ bits of(kin_word128 first, bool)
    {
        return (uint64_t)(first >> 64);
    }
};

/* key, id, 32 bits for the number. */
struct node_given {
    typedef kin_word128 bits;
    typedef kin_word128 word;
    static __device__ __forceinline__ word make(bits kept, uint32_t number, bool)
    {
        return kept | number;
    }
    static __device__ __forceinline__ bits of(kin_word64 first, bool)
    {
        return kin_word128_make(first >> 32, 0) | (kin_word128)(uint32_t)first << 32;
    }
    static __device__ __forceinline__ bits of(kin_word128 first, bool of_node)
    {
        return of_node ? first >> 32 << 32 : first >> 64 << 64 | (kin_word128)(uint32_t)first << 32;
    }
};

template <typename Value> struct nodes_of {
    typedef node_key32 plain;
};
template <> struct nodes_of<kin_value_f64> {
    typedef node_key64 plain;
};

/* ---- Up ------------------------------------------------------------------------------------- */

/* A thread a node. below: a matrix of Value, which are nodes if OF_NODES. */
template <typename Value, typename Node, bool OF_NODES>
static __global__ void __launch_bounds__(BUILD_THREADS)
    build_kernel(const __grid_constant__ kin_select_job below, typename Node::bits *nodes,
                 int64_t width, int32_t group_log)
{
    const int64_t node = (int64_t)blockIdx.x * BUILD_THREADS + (int64_t)threadIdx.x;
    if (node >= width) {
        return;
    }
    const int64_t first = node << group_log;
    const int64_t end = min(first + ((int64_t)1 << group_log), below.cols);
    for (int64_t at = blockIdx.y; at < below.rows; at += gridDim.y) {
        const kin_device_row<Value> row(below, at);
        typename Value::word least = kin_word_worst<typename Value::word>();
        for (int64_t place = first; place < end; place++) {
            const typename Value::word word = row.word(place);
            least = word < least ? word : least;
        }
        nodes[at * width + node] = Node::of(least, OF_NODES);
    }
}

template <typename Value, typename Node, bool OF_NODES>
static int build(kin_gpu_stream *stream, const kin_select_job *below, const kin_select_job *above,
                 int32_t group_log)
{
    const dim3 grid((unsigned)((above->cols - 1) / BUILD_THREADS + 1),
                    (unsigned)(below->rows < GRID_ROWS ? below->rows : GRID_ROWS));
    build_kernel<Value, Node, OF_NODES><<<grid, BUILD_THREADS, 0, stream->stream>>>(
        *below, (typename Node::bits *)above->values, above->cols, group_log);
    return kin_gpu_launched();
}

/* ---- Up and down ---------------------------------------------------------------------------- */

/* A level is a matrix of nodes, whose ids are their places. */
static kin_select_job level_task(const kin_select_job *task, const kin_queue_plan *plan,
                                 int32_t level)
{
    kin_select_job above = *task;
    above.values = (const char *)task->scratch + plan->level_at[level];
    above.stride_bytes = plan->width[level] * (int64_t)kin_queue_node_bytes(task);
    above.cols = plan->width[level];
    above.ids = NULL;
    above.ids_stride_bytes = 0;
    above.first_id = 0;
    above.largest = 0;
    return above;
}

template <typename Value, typename Node>
static int select_nodes(kin_gpu_stream *stream, const kin_select_job *task,
                        const kin_queue_plan *plan)
{
    kin_select_job above = level_task(task, plan, 0);
    int status = build<Value, Node, false>(stream, task, &above, plan->group_log);
    for (int32_t level = 1; level < plan->levels && status == 0; level++) {
        const kin_select_job below = above;
        above = level_task(task, plan, level);
        status = build<Node, Node, true>(stream, &below, &above, plan->group_log);
    }
    kin_queue_run run = kin_queue_run_make(task, plan);
    run.nodes_out = (uint32_t *)((char *)task->scratch + plan->nodes_at);
    for (int32_t level = plan->levels - 1; level >= 0 && status == 0; level--) {
        above = level_task(task, plan, level);
        status = kin_queue_walk<Node>(stream, &above, &run);
        run.nodes = run.nodes_out;
    }
    return status;
}

template <typename Value>
static int select_nodes_by_ids(kin_gpu_stream *stream, const kin_select_job *task,
                               const kin_queue_plan *plan)
{
    return task->ids != NULL
               ? select_nodes<Value, node_given>(stream, task, plan)
               : select_nodes<Value, typename nodes_of<Value>::plain>(stream, task, plan);
}

/* Builds the levels of a plan that has some, and selects k nodes from each;
 * those of the lowest level are then at scratch + plan->nodes_at. */
static int queue_select_nodes(kin_gpu_stream *stream, const kin_select_job *task,
                              const kin_queue_plan *plan)
{
    KIN_SELECT_BY_TYPE(task->dtype, select_nodes_by_ids, stream, task, plan)
}

/* ---- The launch ------------------------------------------------------------------------------ */

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
        const int status = queue_select_nodes(stream, task, &plan);
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
