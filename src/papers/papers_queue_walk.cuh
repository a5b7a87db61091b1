/* SPDX-License-Identifier: Apache-2.0
 * The kernel of the three queues: a warp serves 32 rows, each lane keeps the queue of its own.
 *
 *   matrix, row-major        shared memory            scratch, of this warp
 *   row 0  ################  tile: 32 rows x 32       queue: place 0 of rows 0 .. 31
 *   row 1  ################  words, 33 apart, so             place 1 of rows 0 .. 31
 *   ...                      that a lane's walk              ...
 *   row 31 ################  along its row has no            place k - 1 of rows 0 .. 31
 *          <- 32 places ->   conflicts of banks       so that lanes that touch one place together
 *          one row a load    buffer: 32 words each    touch neighbouring words
 *
 * A load reads 32 neighbouring places of one row; all 32 of a tile are on their way while the tile
 * before is walked. Lanes beyond the last row read nothing and take part in the votes alone.
 *
 * Candidates of a lane are either the whole of its row, or the children of the nodes that were
 * selected one level above (papers_queue.cu): then a lane reads its own, G neighbours each.
 *
 * Control flow is the same for all lanes, but for the body of one insertion. Votes are taken at
 *   - every four candidates: does anyone have one (no buffer), is a buffer short of room for four
 *     more (buffers);
 *   - every candidate that is offered: does anyone offer one still;
 *   - aligned: every level of a merge.
 * So a vote is never reached by some lanes only.
 *
 * Instances. m and the buffer's size are constants of the instance that is used without wishes;
 * those for other sizes know them when they start, and their buffer's memory is given at the
 * launch. */
#ifndef KIN_PAPERS_QUEUE_WALK_CUH
#define KIN_PAPERS_QUEUE_WALK_CUH

#include "papers/papers_queue_lane.cuh"
#include "select/select_launch.cuh"

/* ---- On the host ------------------------------------------------------------------------------
 *
 * The map of the queues' scratch memory, and what a launch of queue_kernel is given beside a task.
 *
 *   scratch   [ words: rows x k, by rows | queues: rows x k | aside | nodes: rows x k | 1 | 2 ... ]
 *                                        [ what kin_select_finish wants ...        ]
 *
 * Queues, nodes, and what a merge by path copies aside (at most k a row, and of that merge alone)
 * of 32 rows lie together, the rows' places side by side. Nodes and the levels 1, 2 ... are there
 * with groups alone. Words come first, the rest is no longer needed when they are finished. Every
 * part is proportional to the rows. */

/* Beyond the task: where its queues lie, what they are fed with, where they go. */
typedef struct kin_queue_run {
    void *queue;
    void *aside;
    int64_t aside_places;  /* of a row */
    const uint32_t *nodes; /* candidates are what lies below these; NULL: the whole row */
    uint32_t *nodes_out;   /* the low 32 bits of the words go here, may be `nodes` */
    void *words;           /* or else, all of them here */
    int32_t group_log;     /* a node has 2^group_log below it */
    int32_t in_order;      /* the words are to be ascending where the method can */
} kin_queue_run;

/* 2^32 columns halve 32 times at most. */
enum { KIN_QUEUE_LEVELS = 32 };

typedef struct kin_queue_plan {
    uint64_t queue_at; /* bytes from the begin of scratch */
    uint64_t aside_at;
    int64_t aside_places;
    uint64_t nodes_at;
    uint64_t level_at[KIN_QUEUE_LEVELS];
    int64_t width[KIN_QUEUE_LEVELS]; /* entries a row; level 1 is [0] */
    int32_t levels;
    int32_t group_log;
    uint64_t bytes; /* without what finishing wants */
} kin_queue_plan;

/* Bytes of a node, that is of its key, or of key and id where ids are given; and of a node with its
 * number behind it, as it is selected. */
static inline uint64_t kin_queue_node_bytes(const kin_select_job *task)
{
    return task->ids != NULL ? 16 : task->dtype == KIN_SELECT_F64 ? 8 : 4;
}

static inline uint64_t kin_queue_node_word_bytes(const kin_select_job *task)
{
    return task->ids != NULL || task->dtype == KIN_SELECT_F64 ? 16 : 8;
}

static inline uint64_t kin_queue_aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static inline int32_t kin_queue_level(const kin_select_job *task)
{
    return task->level != 0 ? task->level : KITH_QUEUE_LEVEL;
}

static inline int32_t kin_queue_buffer(const kin_select_job *task)
{
    return task->buffer_size != 0 ? task->buffer_size : KITH_QUEUE_BUFFER;
}

/* The upper run of the largest merge. */
static inline int64_t kin_queue_aside(const kin_select_job *task)
{
    int64_t half = kin_queue_level(task);
    while (2 * half < task->k) {
        half *= 2;
    }
    return task->merge_path != 0 && half < task->k ? half : 0;
}

/* Levels are built until one is no wider than what is read below k nodes anyway; all are at least k
 * wide, so k nodes can be selected from each. */
static inline kin_queue_plan kin_queue_plan_make(const kin_select_job *task)
{
    kin_queue_plan plan = {};
    const uint64_t places = (uint64_t)task->rows * (uint64_t)task->k;
    const uint64_t word_bytes = (uint64_t)kin_word_bytes(task->dtype);
    while (task->group > 1 << plan.group_log) {
        plan.group_log += 1;
    }
    plan.queue_at = kin_queue_aligned(places * word_bytes);
    int64_t width = task->cols;
    while (task->group > 1 && width > task->k * task->group) {
        width = (width + task->group - 1) / task->group;
        plan.width[plan.levels] = width;
        plan.levels += 1;
    }
    const uint64_t widest = plan.levels == 0 ? word_bytes : kin_queue_node_word_bytes(task);
    plan.aside_places = kin_queue_aside(task);
    plan.aside_at = plan.queue_at + kin_queue_aligned(places * widest);
    plan.nodes_at = plan.aside_at +
                    kin_queue_aligned((uint64_t)task->rows * (uint64_t)plan.aside_places * widest);
    plan.bytes = plan.nodes_at;
    if (plan.levels == 0) {
        return plan;
    }
    plan.bytes = plan.nodes_at + kin_queue_aligned(places * sizeof(uint32_t));
    for (int32_t level = 0; level < plan.levels; level++) {
        const uint64_t entries = (uint64_t)task->rows * (uint64_t)plan.width[level];
        plan.level_at[level] = plan.bytes;
        plan.bytes += kin_queue_aligned(entries * kin_queue_node_bytes(task));
    }
    return plan;
}

/* Without nodes, and without a place for words. */
static inline kin_queue_run kin_queue_run_make(const kin_select_job *task,
                                               const kin_queue_plan *plan)
{
    kin_queue_run run = {};
    run.queue = (char *)task->scratch + plan->queue_at;
    run.aside = (char *)task->scratch + plan->aside_at;
    run.aside_places = plan->aside_places;
    run.group_log = plan->group_log;
    return run;
}

/* ---- The kernel ------------------------------------------------------------------------------ */

enum { KIN_QUEUE_LANES = 32, KIN_QUEUE_TILE_PITCH = 33, KIN_QUEUE_STEP = 4 };
#define KIN_QUEUE_ALL 0xffffffffu

/* A queue, and what of it is known when its kernel is compiled. LEVEL, BUFFER: m and the size of a
 * buffer, or 0: the task says. PATH: merges go by merge path. */
template <kith_select_method METHOD, int LEVEL, int BUFFER, bool PATH> struct kin_queue_kind {
    static constexpr kith_select_method method = METHOD;
    static constexpr int level = LEVEL;
    static constexpr int buffer = BUFFER;
    static constexpr bool path = PATH;
    static constexpr bool merges = METHOD == KITH_SELECT_MERGE_QUEUE;
};

/* A lane and its row. */
template <typename Word> struct kin_queue_walker {
    kin_queue<Word> queue;
    int64_t level; /* m */
    Word *aside;   /* for merge path */
    Word last;     /* the word in place 0 */
    bool present;  /* false: beyond the last row */
    int32_t count; /* words in the buffer */
};

template <typename Kind, typename Word>
static __device__ __forceinline__ int64_t queue_level(const kin_queue_walker<Word> &lane)
{
    return Kind::level != 0 ? (int64_t)Kind::level : lane.level;
}

/* What kinds without constants call, so that there are not as many copies of it as kernels. */
template <bool PATH, typename Word>
static __device__ __noinline__ void queue_join_all_apart(kin_queue<Word> queue, Word *aside,
                                                         int64_t level)
{
    kin_queue_join_all<PATH>(queue, aside, level);
}

template <typename Word>
static __device__ __noinline__ void queue_sort_apart(Word *buffer, int32_t count, int32_t size)
{
    kin_queue_sort_runs(buffer, KIN_QUEUE_LANES, count, size);
}

template <typename Kind, typename Word>
static __device__ __forceinline__ void queue_sort(Word *buffer, int32_t count, int32_t size)
{
    if (Kind::buffer != 0) {
        kin_queue_sort<Kind::buffer != 0 ? Kind::buffer : 1>(buffer, KIN_QUEUE_LANES, count);
    } else {
        queue_sort_apart(buffer, count, size);
    }
}

/* `word` comes before the one in place 0. */
template <typename Kind, typename Word>
static __device__ __forceinline__ void queue_replace(const kin_queue_walker<Word> &lane, Word word)
{
    const int64_t level = queue_level<Kind>(lane);
    if (Kind::method == KITH_SELECT_INSERTION) {
        kin_queue_insert(lane.queue, lane.queue.k, word);
    } else if (Kind::method == KITH_SELECT_HEAP) {
        kin_queue_sink(lane.queue, word);
    } else {
        kin_queue_insert_first(lane.queue, level, word);
        for (int64_t half = level; half < lane.queue.k && kin_queue_wants(lane.queue, level, half);
             half *= 2) {
            kin_queue_join<Kind::path>(lane.queue, lane.aside, half);
        }
    }
}

/* All lanes call it, those with `takes` with a word that comes before the last one. */
template <typename Kind, typename Word>
static __device__ __forceinline__ void queue_take(kin_queue_walker<Word> *lane, bool aligned,
                                                  bool takes, Word word)
{
    const int64_t level = queue_level<Kind>(*lane);
    if (Kind::merges && aligned) {
        if (takes) {
            kin_queue_insert_first(lane->queue, level, word);
        }
        __syncwarp();
        for (int64_t half = level; half < lane->queue.k; half *= 2) {
            const bool wants = lane->present && kin_queue_wants(lane->queue, level, half);
            if (__any_sync(KIN_QUEUE_ALL, wants) == 0) {
                break;
            }
            if (lane->present) {
                kin_queue_join<Kind::path>(lane->queue, lane->aside, half);
            }
        }
    } else if (takes) {
        queue_replace<Kind>(*lane, word);
    }
    if (takes) { /* a merge leaves place 0 as it is */
        lane->last = lane->queue.front[0];
    }
    __syncwarp();
}

/* All lanes call it, those with `count` > 0 with that many words, `pitch` apart. rising: they are
 * sorted, so that what a word cannot pass, no later one can. */
template <typename Kind, typename Word>
static __device__ __forceinline__ void queue_offer(kin_queue_walker<Word> *lane, bool aligned,
                                                   const Word *words, int32_t pitch, int32_t count,
                                                   bool rising)
{
    for (int32_t i = 0;; i++) {
        const bool has = i < count;
        const Word word = has ? words[i * pitch] : kin_word_worst<Word>();
        const bool takes = has && word < lane->last;
        if (__any_sync(KIN_QUEUE_ALL, takes) != 0) {
            queue_take<Kind>(lane, aligned, takes, word);
        } else if (rising || __any_sync(KIN_QUEUE_ALL, has) == 0) {
            break;
        }
    }
}

/* The next 32 places of 32 rows, one row a load. */
template <typename Value>
static __device__ __forceinline__ void queue_read(const kin_select_job &task, int64_t row0,
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
queue_lay(const kin_select_job &task, int64_t row0, int64_t place,
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
queue_gather(const kin_select_job &task, const kin_queue_run &run, const kin_device_row<Value> &row,
             int64_t first, bool present, const uint32_t *nodes, int64_t pitch,
             typename Value::word *own)
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

template <typename Value, typename Kind>
static __global__ void __launch_bounds__(KIN_QUEUE_LANES, queue_warps<Value>())
    queue_kernel(const __grid_constant__ kin_select_job task,
                 const __grid_constant__ kin_queue_run run)
{
    typedef typename Value::word word_type;
    __shared__ word_type tile[KIN_QUEUE_LANES * KIN_QUEUE_TILE_PITCH];
    __shared__ word_type buffers[(Kind::buffer != 0 ? Kind::buffer : 1) * KIN_QUEUE_LANES];
    extern __shared__ __align__(16) unsigned char sized[];
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
    word_type *buffer = (Kind::buffer != 0 ? buffers : (word_type *)sized) + thread;
    const int32_t size = Kind::buffer != 0 ? Kind::buffer : task.buffer_size;

    kin_queue_walker<word_type> lane;
    lane.queue.front = (word_type *)run.queue + front;
    lane.queue.pitch = pitch;
    lane.queue.k = task.k;
    lane.level = task.level;
    lane.aside = (word_type *)run.aside + row0 * run.aside_places + (present ? thread : 0);
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
            const bool acts = buffered ? lane.count > size - KIN_QUEUE_STEP : any;
            if (__any_sync(KIN_QUEUE_ALL, acts) == 0) {
                continue;
            }
            if (!buffered) {
                queue_offer<Kind>(&lane, aligned, own + at, 1, KIN_QUEUE_STEP, false);
            } else {
                const int32_t count = acts || task.buffer != KITH_BUFFER_PLAIN ? lane.count : 0;
                if (rising) {
                    queue_sort<Kind>(buffer, count, size);
                }
                queue_offer<Kind>(&lane, aligned, buffer, KIN_QUEUE_LANES, count, rising);
                lane.count -= count;
            }
        }
    }
    if (buffered) {
        if (rising) {
            queue_sort<Kind>(buffer, lane.count, size);
        }
        queue_offer<Kind>(&lane, aligned, buffer, KIN_QUEUE_LANES, lane.count, rising);
    }

    if (run.nodes_out != NULL) {
        for (int64_t at = 0; present && at < task.k; at++) {
            run.nodes_out[front + at * pitch] =
                (uint32_t)lane.queue.front[(task.k - 1 - at) * pitch];
        }
        return;
    }
    if (Kind::merges && present && run.in_order != 0) {
        if (Kind::level != 0) {
            kin_queue_join_all<Kind::path>(lane.queue, lane.aside, queue_level<Kind>(lane));
        } else {
            queue_join_all_apart<Kind::path>(lane.queue, lane.aside, lane.level);
        }
    }
    queue_write(lane, (word_type *)run.words, row0, task.rows, tile);
}

template <typename Value, typename Kind>
static int queue_launch(kin_gpu_stream *stream, const kin_select_job *given,
                        const kin_queue_run *run)
{
    const int64_t warps = (given->rows - 1) / KIN_QUEUE_LANES + 1;
    kin_select_job task = *given;
    int32_t bytes = 0;
    if (warps > INT32_MAX) {
        return (int)cudaErrorInvalidValue;
    }
    task.level = kin_queue_level(given);
    task.buffer_size = kin_queue_buffer(given);
    if (Kind::buffer == 0) {
        bytes = task.buffer_size * KIN_QUEUE_LANES * (int32_t)sizeof(typename Value::word);
        KIN_CUDA_TRY(kin_gpu_allow_shared(stream, queue_kernel<Value, Kind>));
    }
    queue_kernel<Value, Kind>
        <<<(unsigned)warps, KIN_QUEUE_LANES, (size_t)bytes, stream->stream>>>(task, *run);
    return kin_gpu_launched();
}

/* Sizes that are asked for, or those that are constants. */
template <typename Value, kith_select_method METHOD, bool PATH>
static int queue_launch_sized(kin_gpu_stream *stream, const kin_select_job *task,
                              const kin_queue_run *run)
{
    const bool usual_buffer =
        task->buffer == KITH_BUFFER_NONE || kin_queue_buffer(task) == (int32_t)KITH_QUEUE_BUFFER;
    const bool usual_level =
        METHOD != KITH_SELECT_MERGE_QUEUE || kin_queue_level(task) == (int32_t)KITH_QUEUE_LEVEL;
    return usual_buffer && usual_level
               ? queue_launch<Value,
                              kin_queue_kind<METHOD, KITH_QUEUE_LEVEL, KITH_QUEUE_BUFFER, PATH>>(
                     stream, task, run)
               : queue_launch<Value, kin_queue_kind<METHOD, 0, 0, PATH>>(stream, task, run);
}

/* One launch: the queues of task->number over one matrix of values or nodes. */
template <typename Value>
static int kin_queue_walk(kin_gpu_stream *stream, const kin_select_job *task,
                          const kin_queue_run *run)
{
    switch (task->number) {
    case KITH_SELECT_INSERTION:
        return queue_launch_sized<Value, KITH_SELECT_INSERTION, false>(stream, task, run);
    case KITH_SELECT_HEAP:
        return queue_launch_sized<Value, KITH_SELECT_HEAP, false>(stream, task, run);
    case KITH_SELECT_MERGE_QUEUE:
        return task->merge_path != 0
                   ? queue_launch_sized<Value, KITH_SELECT_MERGE_QUEUE, true>(stream, task, run)
                   : queue_launch_sized<Value, KITH_SELECT_MERGE_QUEUE, false>(stream, task, run);
    default:
        return (int)cudaErrorInvalidValue;
    }
}

#endif
