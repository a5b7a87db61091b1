/* SPDX-License-Identifier: Apache-2.0
 * Approximate graphs of shards, and what each shard gets from another one by a merge. A merge wants
 * the rows of both one behind the other, and for each the graph of its own rows alone: lists that
 * have met others hold few ids of their own shard any more, and the graph that the build has left
 * is kept beside them. */
#include "shard/shard_job.h"

enum { ROWS_A_TASK = 4096 };

/* Rounds end by a recall that is wanted, else nobody asks for one. */
static kith_descent_params params_for(const kin_shard_job *job, int64_t most)
{
    kith_descent_params params = job->descent;
    params.k = kin_min_i64(job->k, most);
    params.recall_at = kin_min_i64(params.recall_at, params.k);
    params.sample = params.recall > 0.0 ? params.sample : -1;
    return params;
}

static void keep_own(const kin_shard_job *job, const kin_shard_part *a)
{
    const kith_neighbors *found = &job->found[0];
    for (int64_t row = 0; row < a->rows; row++) {
        for (int64_t i = 0; i < job->k; i++) {
            a->lists.own[row * job->k + i] =
                i < found->k ? found->ids[row * found->k + i] : KITH_ID_NONE;
        }
    }
}

kith_status kin_shard_descend(const kin_shard_job *job, const kith_matrix *rows,
                              const kith_descent_params *like, const kith_neighbors *out)
{
    const kith_search_params params = kin_shard_search_params(like, out->k);
    return kith_graph(job->ctx, rows, &params, out, NULL);
}

kith_status kin_shard_build_descent(void *arg, const kin_shard_part *a)
{
    kin_shard_job *job = arg;
    const kith_matrix rows = kin_shard_rows_of(job, a);
    const kith_descent_params params = params_for(job, a->rows - (job->self ? 0 : 1));
    kin_shard_clear(job, a);
    kin_shard_aim(job, &a, &params.k, 1);
    if (params.k > 0) {
        KIN_TRY(kin_shard_note(job, kin_shard_descend(job, &rows, &params, &job->found[0]), a));
    }
    keep_own(job, a);
    return kin_shard_take(job, &job->found[0], a->first, a);
}

/* ---- Two shards one behind the other -------------------------------------------------------- */

typedef struct gathering {
    const kith_matrix *rows;
    unsigned char *to;
} gathering;

static kith_status copy_row(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const gathering *g = arg;
    const int64_t row_bytes = (int64_t)g->rows->cols * kith_dtype_bytes(g->rows->dtype);
    memcpy(g->to + row * row_bytes,
           (const unsigned char *)g->rows->data + row * g->rows->stride_bytes, (size_t)row_bytes);
    return KITH_OK;
}

/* The first shard stays where it is as long as it meets others. */
static kith_status gather(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b,
                          kith_matrix *both)
{
    const kin_shard_part *const parts[] = {a, b};
    const int64_t row_bytes = kin_shard_row_bytes(job);
    const int64_t most = kin_ceil_div(job->points.rows, job->shards);
    if (job->pair_rows == NULL) {
        KIN_TRY(kin_alloc(job->ctx, &job->pair_rows,
                          kin_size_mul((uint64_t)(KIN_SHARD_SIDES * most), (uint64_t)row_bytes), 1,
                          "rows of two shards"));
        job->gathered = -1;
    }
    for (int i = 0; i < KIN_SHARD_SIDES; i++) {
        const kith_matrix rows = kin_shard_rows_of(job, parts[i]);
        gathering g = {&rows, job->pair_rows + (i == 0 ? 0 : a->rows * row_bytes)};
        if (i == 1 || job->gathered != a->shard) {
            KIN_TRY(kin_parallel_rows(job->ctx, NULL, rows.rows, ROWS_A_TASK, copy_row, &g));
        }
    }
    job->gathered = a->shard;
    *both = job->points;
    both->data = job->pair_rows;
    both->rows = a->rows + b->rows;
    both->stride_bytes = row_bytes;
    return KITH_OK;
}

/* ---- A meeting ------------------------------------------------------------------------------ */

typedef struct counting {
    uint32_t *ids;
    int64_t count;
    uint32_t rows;      /* of the first shard */
    uint32_t offset[2]; /* what is added to ids of the first shard's rows, and of the second's */
} counting;

static kith_status count_from_all(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const counting *c = arg;
    const int64_t step = 16 * (int64_t)ROWS_A_TASK;
    const int64_t last = kin_min_i64((task + 1) * step, c->count);
    for (int64_t i = task * step; i < last; i++) {
        if (c->ids[i] != KITH_ID_NONE) {
            c->ids[i] += c->offset[c->ids[i] >= c->rows];
        }
    }
    return KITH_OK;
}

/* Ids of both shards' rows become those of all points, in the same order. */
static kith_status count_ids(kin_shard_job *job, const kin_shard_part *a, const kin_shard_part *b,
                             int64_t entries)
{
    counting c = {.ids = job->found_ids,
                  .count = entries,
                  .rows = (uint32_t)a->rows,
                  .offset = {(uint32_t)a->first, (uint32_t)(b->first - a->rows)}};
    return kin_parallel(job->ctx, NULL, kin_ceil_div(entries, 16 * (int64_t)ROWS_A_TASK),
                        count_from_all, &c);
}

kith_status kin_shard_meet_descent(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_job *job = arg;
    const kin_shard_part *const parts[] = {a, b};
    const int64_t rows = a->rows + b->rows;
    const kith_descent_params params = params_for(job, rows - (job->self ? 0 : 1));
    const int64_t k[] = {params.k, params.k};
    const kith_neighbors graph1 = {.ids = a->lists.own, .rows = a->rows, .k = job->k};
    const kith_neighbors graph2 = {.ids = b->lists.own, .rows = b->rows, .k = job->k};
    kith_matrix both;
    KIN_TRY(gather(job, a, b, &both));
    kin_shard_aim(job, parts, k, KIN_SHARD_SIDES);
    const kith_neighbors out = {
        .ids = job->found_ids, .distances64 = job->found_keys, .rows = rows, .k = params.k};
    const kith_search_params named = kin_shard_search_params(&params, params.k);
    KIN_TRY(kin_shard_note(job,
                           kith_graph_merge(job->ctx,
                                            &(kith_merge_sets){&both, a->rows, &graph1, &graph2},
                                            &named, &out, NULL),
                           a));
    return count_ids(job, a, b, rows * params.k);
}

kith_status kin_shard_merge_descent(void *arg, const kin_shard_part *a, const kin_shard_part *b)
{
    kin_shard_job *job = arg;
    KIN_TRY(kin_shard_take(job, &job->found[0], 0, a));
    KIN_TRY(kin_shard_take(job, &job->found[1], 0, b));
    if (job->sample.count > 0) {
        kin_shard_sample_note(job, a);
        kin_shard_sample_note(job, b);
    }
    return KITH_OK;
}
