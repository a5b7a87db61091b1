/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/shard_job.h"

#include "base/base_size.h"
#include "base/base_try.h"
#include "file/file_checksum.h"
#include "host/host_threads.h"

enum { ENTRIES_A_TASK = 1 << 16 };
/* Between two records of a result that is copied from lists on disk. */
enum { RECORD_BYTES = 1 << 30 };

/* ---- Opening -------------------------------------------------------------------------------- */

static kith_status open_files(void *arg)
{
    kin_shard_result *r = arg;
    KIN_TRY(kin_fingerprint_make(r->ctx, &r->job->points, &r->meta.points));
    return kin_parts_open(r->ctx, r->path, &r->params, &r->meta, r->wanted, &r->parts);
}

/* To the job's caller. */
static kith_status explain(const kin_shard_result *r, kith_status status)
{
    return status == KITH_OK ? KITH_OK : kin_fail_like(r->job->ctx, status, r->ctx);
}

static kith_status wait(kin_shard_result *r)
{
    return kin_beside_wait(&r->opening, r->job->ctx);
}

static void describe(kin_shard_result *r)
{
    const kin_shard_job *job = r->job;
    r->meta = kith_result_meta_default();
    r->meta.kind = KITH_KIND_GRAPH;
    r->meta.metric = job->metric;
    r->meta.exact = job->descends  ? KITH_APPROXIMATE
                    : job->filters ? KITH_EXACTNESS_UNKNOWN /* no file says the filter */
                                   : KITH_CERTIFIED;
    r->meta.corpus_rows = job->points.rows;
    r->params = kith_result_stream_params_default();
    r->params.format = job->params.format;
    r->params.rows = job->points.rows;
    r->params.k = job->k;
    r->params.job = r->text;
    r->params.restart = job->params.restart;
    r->wanted = job->params.parts == KITH_PARTS_AUTO
                    ? (int32_t)kin_min_i64(job->shards, KITH_PARTS_MAX)
                    : job->params.parts;
}

kith_status kin_shard_result_begin(kin_shard_result *result)
{
    describe(result);
    KIN_TRY(kin_shard_make_ctx(result->job->ctx, 1, &result->ctx));
    if (!result->job->follows) {
        return explain(result, open_files(result));
    }
    kin_beside_start(&result->opening, result->ctx, open_files, result);
    return KITH_OK;
}

int32_t kin_shard_result_parts(const kin_shard_result *result)
{
    const bool open = !result->opening.started && result->parts != NULL;
    return open && result->wanted > 0 ? result->parts->count : 0;
}

kith_status kin_shard_result_look(void *arg)
{
    kin_shard_result *r = arg;
    return atomic_load(&r->opening.ended) ? wait(r) : KITH_OK;
}

void kin_shard_result_end(kin_shard_result *result)
{
    if (result->ctx != NULL) {
        (void)wait(result);
        kin_parts_close(result->parts);
        kith_ctx_free(result->ctx);
        result->parts = NULL;
        result->ctx = NULL;
    }
}

/* ---- Lists ---------------------------------------------------------------------------------- */

typedef struct converting {
    const kin_shard_job *job;
    const double *keys;
    float *distances;
    int64_t count;
} converting;

static kith_status convert(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const converting *c = arg;
    const int64_t first = task * ENTRIES_A_TASK;
    kin_shard_to_distances(c->job, c->keys + first, kin_min_i64(ENTRIES_A_TASK, c->count - first),
                           c->distances + first);
    return KITH_OK;
}

static kith_status put_rows(void *arg, kith_ctx *ctx, int64_t first, const kith_neighbors *rows)
{
    const kin_shard_result *r = arg;
    return kin_parts_put(ctx, r->parts, first, rows);
}

/* The table of found keys is free by now, and as large as the distances. */
static kith_status write_part(void *arg, const kin_shard_part *part)
{
    kin_shard_result *r = arg;
    const kin_shard_job *job = r->job;
    if (kin_parts_stand(r->parts, part->first, part->rows)) {
        return KITH_OK;
    }
    float *distances = (float *)(void *)job->found_keys;
    converting c = {job, part->lists.keys, distances, part->rows * job->k};
    KIN_TRY(kin_parallel(job->ctx, NULL, kin_ceil_div(c.count, ENTRIES_A_TASK), convert, &c));
    const kith_neighbors rows = {
        .ids = part->lists.ids, .distances = distances, .rows = part->rows, .k = job->k};
    return put_rows(r, job->ctx, part->first, &rows);
}

/* Of an approximate graph; told again, lists may be others than before. */
static kith_status tell_recall(void *arg)
{
    kin_shard_result *r = arg;
    KIN_TRY(wait(r));
    if (r->job->follows) {
        kin_shard_estimate(r->job, &r->recall);
        kin_parts_hurry(r->parts, RECORD_BYTES);
    }
    const kith_status status = kin_parts_tell_recall(r->ctx, r->parts, &r->recall, r->told);
    r->told = true;
    return explain(r, status);
}

static kith_status write_groups(kin_shard_result *r, bool *lost)
{
    const kin_shard_sink sink = {r, tell_recall, put_rows};
    return kin_shard_unite(r->job, &sink, lost);
}

static kith_status write_shards(kin_shard_result *r, bool *lost)
{
    if (r->job->descends) {
        KIN_TRY(kin_shard_recall(r->job, r->run, &r->recall, lost));
        if (*lost) {
            return KITH_OK;
        }
        KIN_TRY(tell_recall(r));
    }
    return kin_shard_each(r->run, write_part, r, lost);
}

kith_status kin_shard_result_write(kin_shard_result *result, bool *lost)
{
    *lost = false;
    KIN_TRY(result->job->follows ? write_groups(result, lost) : write_shards(result, lost));
    return *lost ? KITH_OK : explain(result, kin_parts_finish(result->ctx, result->parts));
}
