/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Hierarchical partition (section III-E of the merge-queue paper): of each G neighbours in a
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
#include "papers/papers_queue_walk.cuh"

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

int kin_queue_select_nodes(kin_gpu_stream *stream, const kin_select_job *task,
                           const kin_queue_plan *plan)
{
    KIN_SELECT_BY_TYPE(task->dtype, select_nodes_by_ids, stream, task, plan)
}
