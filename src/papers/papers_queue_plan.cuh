/* SPDX-License-Identifier: Apache-2.0
 * What the files of the three queues share on the host: the map of their scratch memory, and what a
 * launch of queue_kernel is given beside a task.
 *
 *   scratch   [ words: rows x k, by rows | queues: rows x k | aside | nodes: rows x k | 1 | 2 ... ]
 *                                        [ what kin_select_finish wants ...        ]
 *
 * Queues, nodes, and what a merge by path copies aside (at most k a row, and of that merge alone)
 * of 32 rows lie together, the rows' places side by side. Nodes and the levels 1, 2 ... are there
 * with groups alone. Words come first, the rest is no longer needed when they are finished. Every
 * part is proportional to the rows. */
#ifndef KIN_PAPERS_QUEUE_PLAN_CUH
#define KIN_PAPERS_QUEUE_PLAN_CUH

#include "papers/papers_launch.cuh"

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
static inline uint64_t kin_queue_node_bytes(const kin_select_task *task)
{
    return task->ids != NULL ? 16 : task->dtype == KIN_SELECT_F64 ? 8 : 4;
}

static inline uint64_t kin_queue_node_word_bytes(const kin_select_task *task)
{
    return task->ids != NULL || task->dtype == KIN_SELECT_F64 ? 16 : 8;
}

static inline uint64_t kin_queue_aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static inline int32_t kin_queue_level(const kin_select_task *task)
{
    return task->level != 0 ? task->level : KITH_QUEUE_LEVEL;
}

static inline int32_t kin_queue_buffer(const kin_select_task *task)
{
    return task->buffer_size != 0 ? task->buffer_size : KITH_QUEUE_BUFFER;
}

/* The upper run of the largest merge. */
static inline int64_t kin_queue_aside(const kin_select_task *task)
{
    int64_t half = kin_queue_level(task);
    while (2 * half < task->k) {
        half *= 2;
    }
    return task->merge_path != 0 && half < task->k ? half : 0;
}

/* Levels are built until one is no wider than what is read below k nodes anyway; all are at least k
 * wide, so k nodes can be selected from each. */
static inline kin_queue_plan kin_queue_plan_make(const kin_select_task *task)
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
static inline kin_queue_run kin_queue_run_make(const kin_select_task *task,
                                               const kin_queue_plan *plan)
{
    kin_queue_run run = {};
    run.queue = (char *)task->scratch + plan->queue_at;
    run.aside = (char *)task->scratch + plan->aside_at;
    run.aside_places = plan->aside_places;
    run.group_log = plan->group_log;
    return run;
}

/* papers_queue_group.cu: builds the levels of a plan that has some, and selects k nodes from each;
 * those of the lowest level are then at scratch + plan->nodes_at. */
int kin_queue_select_nodes(kin_gpu_stream *stream, const kin_select_task *task,
                           const kin_queue_plan *plan);

#endif
