/* SPDX-License-Identifier: Apache-2.0
 * The kernel of the three queues: a warp serves 32 rows, each lane keeps the queue of its own.
 *
 *   matrix, row-major        shared memory            scratch, of this warp
 *   row 0  ################  tile: 32 rows x 32       queue: place 0 of rows 0 .. 31
 *   row 1  ################  words, 33 apart, so             place 1 of rows 0 .. 31
 *   ...                      that a lane's walk              ...
 *   row 31 ################  along its row has no            place k - 1 of rows 0 .. 31
 *          <- 32 places ->   conflicts of banks       so that lanes that touch one place together
 *          one row a load    buffer: 16 x 32 words    touch neighbouring words
 *
 * A load reads 32 neighbouring places of one row; all 32 of a tile are on their way while the tile
 * before is walked. Lanes beyond the last row read nothing and take part in the votes alone.
 *
 * Candidates of a lane are either the whole of its row, or the children of the nodes that were
 * selected one level above (papers_queue_group.cu): then a lane reads its own, G neighbours each.
 *
 * Control flow is the same for all lanes, but for the body of one insertion. Votes are taken at
 *   - every four candidates: does anyone have one (no buffer), is a buffer short of room for four
 *     more (buffers);
 *   - every candidate that is offered: does anyone offer one still;
 *   - aligned: every level of a merge.
 * So a vote is never reached by some lanes only. */
#ifndef KIN_PAPERS_QUEUE_WALK_CUH
#define KIN_PAPERS_QUEUE_WALK_CUH

#include "gpu/gpu_stream.cuh"
#include "papers/papers_queue_lane.cuh"
#include "papers/papers_queue_plan.cuh"
#include "select/select_value.cuh"

enum { KIN_QUEUE_LANES = 32, KIN_QUEUE_TILE_PITCH = 33, KIN_QUEUE_STEP = 4 };
#define KIN_QUEUE_ALL 0xffffffffu

/* A lane and its row. */
template <typename Word> struct kin_queue_walker {
    kin_queue<Word> queue;
    Word last;     /* the word in place 0 */
    bool present;  /* false: beyond the last row */
    int32_t count; /* words in the buffer */
};

/* All lanes call it, those with `takes` with a word that comes before the last one. */
template <kith_select_method METHOD, typename Word>
static __device__ __forceinline__ void queue_take(kin_queue_walker<Word> *lane, bool aligned,
                                                  bool takes, Word word)
{
    if (METHOD == KITH_SELECT_MERGE_QUEUE && aligned) {
        if (takes) {
            kin_queue_insert_first(lane->queue, word);
        }
        __syncwarp();
        for (int64_t half = KIN_QUEUE_LEVEL; half < lane->queue.k; half *= 2) {
            const bool wants = lane->present && kin_queue_wants(lane->queue, half);
            if (__any_sync(KIN_QUEUE_ALL, wants) == 0) {
                break;
            }
            if (lane->present) {
                kin_queue_merge(lane->queue, half);
            }
        }
    } else if (takes) {
        kin_queue_replace<METHOD>(lane->queue, word);
    }
    if (takes) { /* a merge leaves place 0 as it is */
        lane->last = lane->queue.front[0];
    }
    __syncwarp();
}

/* All lanes call it, those with `count` > 0 with that many words, `pitch` apart. rising: they are
 * sorted, so that what a word cannot pass, no later one can. */
template <kith_select_method METHOD, typename Word>
static __device__ __forceinline__ void queue_offer(kin_queue_walker<Word> *lane, bool aligned,
                                                   const Word *words, int32_t pitch, int32_t count,
                                                   bool rising)
{
    for (int32_t i = 0;; i++) {
        const bool has = i < count;
        const Word word = has ? words[i * pitch] : kin_word_worst<Word>();
        const bool takes = has && word < lane->last;
        if (__any_sync(KIN_QUEUE_ALL, takes) != 0) {
            queue_take<METHOD>(lane, aligned, takes, word);
        } else if (rising || __any_sync(KIN_QUEUE_ALL, has) == 0) {
            break;
        }
    }
}

/* The next 32 places of 32 rows, one row a load. */
template <typename Value>
static __device__ __forceinline__ void queue_read(const kin_select_task &task, int64_t row0,
                                                  int64_t place,
                                                  typename Value::bits (&next)[KIN_QUEUE_LANES])
{
    const char *at =
        task.values + row0 * task.stride_bytes + place * (int64_t)sizeof(typename Value::bits);
#pragma unroll
    for (int i = 0; i < KIN_QUEUE_LANES; i++) {
        if (row0 + i < task.rows && place < task.cols) {
            next[i] = *(const typename Value::bits *)at;
        }
        at += task.stride_bytes;
    }
}

/* What queue_read has read, as words: tile[row][place]. */
template <typename Value>
static __device__ __forceinline__ void
queue_lay(const kin_select_task &task, int64_t row0, int64_t place,
          const typename Value::bits (&next)[KIN_QUEUE_LANES], typename Value::word *tile)
{
    const int32_t lane = (int32_t)threadIdx.x;
    const char *ids = task.ids == NULL ? NULL : task.ids + row0 * task.ids_stride_bytes;
#pragma unroll
    for (int i = 0; i < KIN_QUEUE_LANES; i++) {
        typename Value::word word = kin_word_worst<typename Value::word>();
        if (row0 + i < task.rows && place < task.cols) {
            const uint32_t id = ids == NULL
                                    ? task.first_id + (uint32_t)place
                                    : ((const uint32_t *)(ids + i * task.ids_stride_bytes))[place];
            word = Value::make(next[i], id, task.largest != 0);
        }
        tile[i * KIN_QUEUE_TILE_PITCH + lane] = word;
    }
}

/* Instead: the lane's candidates [first, first + 32) below its selected nodes. */
template <typename Value>
static __device__ __forceinline__ void
queue_gather(const kin_select_task &task, const kin_queue_run &run,
             const kin_device_row<Value> &row, int64_t first, bool present, const uint32_t *nodes,
             int64_t pitch, typename Value::word *own)
{
#pragma unroll 8
    for (int i = 0; i < KIN_QUEUE_LANES; i++) {
        const int64_t parent = (first + i) >> run.group_log;
        typename Value::word word = kin_word_worst<typename Value::word>();
        if (present && parent < task.k) {
            const int64_t group = (int64_t)1 << run.group_log;
            const int64_t place =
                ((int64_t)nodes[parent * pitch] << run.group_log) + (i & (group - 1));
            word = place < task.cols ? row.word(place) : word;
        }
        own[i] = word;
    }
}

/* The queues of a warp as rows, first words first; through the tile, so that reads and writes are
 * of neighbours. All lanes call it. */
template <typename Word>
static __device__ __forceinline__ void queue_write(const kin_queue_walker<Word> &lane, Word *words,
                                                   int64_t row0, int64_t rows, Word *tile)
{
    const int32_t thread = (int32_t)threadIdx.x;
    const int64_t k = lane.queue.k;
    for (int64_t base = 0; base < k; base += KIN_QUEUE_LANES) {
        __syncwarp();
#pragma unroll 8
        for (int i = 0; i < KIN_QUEUE_LANES; i++) {
            if (lane.present && base + i < k) {
                tile[thread * KIN_QUEUE_TILE_PITCH + i] =
                    lane.queue.front[(k - 1 - base - i) * lane.queue.pitch];
            }
        }
        __syncwarp();
        for (int i = 0; i < KIN_QUEUE_LANES; i++) {
            if (row0 + i < rows && base + thread < k) {
                words[(row0 + i) * k + base + thread] = tile[i * KIN_QUEUE_TILE_PITCH + thread];
            }
        }
    }
}

/* Warps that a processor must have room for: what the shared memory of sm_80 allows for words of
 * 128 bits, and where registers begin to be spilled for those of 64. */
template <typename Value> static constexpr int queue_warps()
{
    return sizeof(typename Value::word) == 8 ? 12 : 6;
}

template <typename Value, kith_select_method METHOD>
static __global__ void __launch_bounds__(KIN_QUEUE_LANES, queue_warps<Value>())
    queue_kernel(const __grid_constant__ kin_select_task task,
                 const __grid_constant__ kin_queue_run run)
{
    typedef typename Value::word word_type;
    __shared__ word_type tile[KIN_QUEUE_LANES * KIN_QUEUE_TILE_PITCH];
    __shared__ word_type buffers[KIN_QUEUE_BUFFER * KIN_QUEUE_LANES];
    const int32_t thread = (int32_t)threadIdx.x;
    const int64_t row0 = (int64_t)blockIdx.x * KIN_QUEUE_LANES;
    const int64_t pitch = min(task.rows - row0, (int64_t)KIN_QUEUE_LANES);
    const bool present = thread < pitch;
    const int64_t front = row0 * task.k + (present ? thread : 0);
    const bool aligned = task.aligned != 0;
    const bool buffered = task.buffer != KITH_BUFFER_NONE;
    const bool rising = task.buffer == KITH_BUFFER_SORTED;
    const bool gathers = run.nodes != NULL;
    const kin_device_row<Value> row(task, row0 + (present ? thread : 0));
    word_type *own = tile + thread * KIN_QUEUE_TILE_PITCH;
    word_type *buffer = buffers + thread;

    kin_queue_walker<word_type> lane;
    lane.queue.front = (word_type *)run.queue + front;
    lane.queue.pitch = pitch;
    lane.queue.k = task.k;
    lane.present = present;
    lane.last = present ? kin_word_worst<word_type>() : (word_type)0; /* 0: nothing comes before */
    lane.count = 0;
    if (present) {
        kin_queue_clear(lane.queue);
    }

    const int64_t candidates = gathers ? task.k << run.group_log : task.cols;
    typename Value::bits next[KIN_QUEUE_LANES];
    if (!gathers) {
        queue_read<Value>(task, row0, thread, next);
    }
    for (int64_t base = 0; base < candidates; base += KIN_QUEUE_LANES) {
        if (gathers) {
            queue_gather<Value>(task, run, row, base, present, run.nodes + front, pitch, own);
        } else {
            __syncwarp(); /* the tile before has been walked */
            queue_lay<Value>(task, row0, base + thread, next, tile);
            __syncwarp();
            queue_read<Value>(task, row0, base + KIN_QUEUE_LANES + thread, next);
        }
        for (int32_t at = 0; at < KIN_QUEUE_LANES; at += KIN_QUEUE_STEP) {
            bool any = false;
#pragma unroll
            for (int i = 0; i < KIN_QUEUE_STEP; i++) {
                const word_type word = own[at + i];
                const bool passes = word < lane.last;
                any = any || passes;
                if (buffered && passes) {
                    buffer[lane.count * KIN_QUEUE_LANES] = word;
                    lane.count += 1;
                }
            }
            /* The lanes that must act, and with them, or not, the others. */
            const bool acts = buffered ? lane.count > KIN_QUEUE_BUFFER - KIN_QUEUE_STEP : any;
            if (__any_sync(KIN_QUEUE_ALL, acts) == 0) {
                continue;
            }
            if (!buffered) {
                queue_offer<METHOD>(&lane, aligned, own + at, 1, KIN_QUEUE_STEP, false);
            } else {
                const int32_t count = acts || task.buffer != KITH_BUFFER_PLAIN ? lane.count : 0;
                if (rising) {
                    kin_queue_sort(buffer, KIN_QUEUE_LANES, count);
                }
                queue_offer<METHOD>(&lane, aligned, buffer, KIN_QUEUE_LANES, count, rising);
                lane.count -= count;
            }
        }
    }
    if (buffered) {
        if (rising) {
            kin_queue_sort(buffer, KIN_QUEUE_LANES, lane.count);
        }
        queue_offer<METHOD>(&lane, aligned, buffer, KIN_QUEUE_LANES, lane.count, rising);
    }

    if (run.nodes_out != NULL) {
        for (int64_t at = 0; present && at < task.k; at++) {
            run.nodes_out[front + at * pitch] =
                (uint32_t)lane.queue.front[(task.k - 1 - at) * pitch];
        }
        return;
    }
    if (METHOD == KITH_SELECT_MERGE_QUEUE && present && run.in_order != 0) {
        kin_queue_merge_all(lane.queue);
    }
    queue_write(lane, (word_type *)run.words, row0, task.rows, tile);
}

template <typename Value, kith_select_method METHOD>
static int queue_launch(kin_gpu_stream *stream, const kin_select_task *task,
                        const kin_queue_run *run)
{
    const int64_t warps = (task->rows - 1) / KIN_QUEUE_LANES + 1;
    if (warps > INT32_MAX) {
        return (int)cudaErrorInvalidValue;
    }
    queue_kernel<Value, METHOD>
        <<<(unsigned)warps, KIN_QUEUE_LANES, 0, stream->stream>>>(*task, *run);
    return kin_gpu_launched();
}

/* One launch: the queues of task->method over one matrix of values or nodes. */
template <typename Value>
static int kin_queue_walk(kin_gpu_stream *stream, const kin_select_task *task,
                          const kin_queue_run *run)
{
    switch (task->method) {
    case KITH_SELECT_INSERTION:
        return queue_launch<Value, KITH_SELECT_INSERTION>(stream, task, run);
    case KITH_SELECT_HEAP:
        return queue_launch<Value, KITH_SELECT_HEAP>(stream, task, run);
    case KITH_SELECT_MERGE_QUEUE:
        return queue_launch<Value, KITH_SELECT_MERGE_QUEUE>(stream, task, run);
    default:
        return (int)cudaErrorInvalidValue;
    }
}

#endif
