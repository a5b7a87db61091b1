/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The lists of a work hold, for each position, the positions that may be among its k first.
 * `rescore` gives them canonical keys and sorts them, a batch of rows at a time; then
 *
 *   kernels write   every row is its own answer: `write` puts it where it belongs
 *   the host does   equal rows are expanded, degenerate rows join, one id is left out:
 *                   the code of the processor (exact_answer.h), on all threads (fused_host.c)
 *   chunks          lists of (key, id) are merged in host memory, and written at last
 *
 * Rows that lost candidates (fused_set.h) are skipped by the host, harmlessly written by kernels,
 * and taken again by fused_rerun.c.
 */
#include "fused/fused_answer.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"

/* Pairs of a batch: what the device writes, and what the host reads. */
static const uint64_t PAIR_BYTES = 128u << 20;

_Static_assert(sizeof(kin_fused_pair) == sizeof(kin_pair), "pairs are read in place");

/* ---- Making ---------------------------------------------------------------------------------- */

uint64_t kin_fused_answers_bytes(int64_t rows, int64_t k)
{
    const uint64_t n = (uint64_t)rows;
    const uint64_t a_neighbour = sizeof(uint32_t) + sizeof(float) + sizeof(double);
    const uint64_t pairs = kin_size_mul(n, (uint64_t)(k + 1) * sizeof(kin_fused_pair));
    const uint64_t outputs = kin_size_mul(n, (uint64_t)k * a_neighbour + 2 * sizeof(uint32_t));
    return kin_size_add(outputs, pairs < PAIR_BYTES ? pairs : PAIR_BYTES);
}

static bool plain(const kin_groups *groups)
{
    return groups->next == NULL && groups->degenerate == 0;
}

static uint64_t cells_of(const kin_fused_answers *a)
{
    return kin_size_mul((uint64_t)a->target.out->rows, (uint64_t)a->target.out->k);
}

/* The same parts of an answer as the caller's, in device memory. */
static kith_status make_device_outputs(kin_fused_answers *a)
{
    const kin_fused_device *on = &a->on;
    const kith_neighbors *out = a->target.out;
    a->device = (kith_neighbors){.rows = out->rows, .k = out->k};
    if (out->ids != NULL) {
        KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &a->device.ids, cells_of(a), sizeof(uint32_t),
                              "ids of neighbours"));
    }
    if (out->distances != NULL) {
        KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &a->device.distances, cells_of(a), sizeof(float),
                              "distances"));
    }
    if (out->distances64 != NULL) {
        KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &a->device.distances64, cells_of(a), sizeof(double),
                              "distances"));
    }
    return KITH_OK;
}

static kith_status make_kernel_writer(kin_fused_answers *a, bool out_on_device)
{
    const kin_fused_device *on = &a->on;
    if (out_on_device) {
        a->device = *a->target.out;
    } else {
        a->owns_device = true; /* those that were made, too, where one is lacking */
        KIN_TRY(make_device_outputs(a));
    }
    a->exclude = a->target.exclude;
    if (a->exclude != NULL && !a->exclude_on_device) {
        const uint64_t bytes = (uint64_t)a->target.out->rows * sizeof *a->exclude;
        KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &a->own_exclude, bytes, 1, "excluded ids"));
        KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, a->own_exclude, a->target.exclude, bytes));
        a->exclude = a->own_exclude;
    }
    KIN_TRY(kin_gpu_alloc(on->ctx, on->gpu, &a->short_rows, 1, sizeof *a->short_rows, "counters"));
    return kin_gpu_fill(on->ctx, on->gpu, a->short_rows, 0, sizeof *a->short_rows);
}

/* Host memory for outputs that will be copied to the device at the end. */
static kith_status make_host_outputs(kin_fused_answers *a)
{
    kith_ctx *ctx = a->on.ctx;
    const kith_neighbors *out = a->target.out;
    a->host = (kith_neighbors){.rows = out->rows, .k = out->k};
    a->owns_host = true;
    if (out->ids != NULL) {
        KIN_TRY(kin_alloc(ctx, &a->host.ids, cells_of(a), sizeof(uint32_t), "ids of neighbours"));
    }
    if (out->distances != NULL) {
        KIN_TRY(kin_alloc(ctx, &a->host.distances, cells_of(a), sizeof(float), "distances"));
    }
    if (out->distances64 != NULL) {
        KIN_TRY(kin_alloc(ctx, &a->host.distances64, cells_of(a), sizeof(double), "distances"));
    }
    a->target.out = &a->host;
    return KITH_OK;
}

/* The host reads what it leaves out. */
static kith_status fetch_exclude(kin_fused_answers *a)
{
    const kin_fused_device *on = &a->on;
    if (a->target.exclude == NULL || !a->exclude_on_device) {
        return KITH_OK;
    }
    const uint64_t bytes = (uint64_t)a->target.out->rows * sizeof *a->own_exclude;
    KIN_TRY(kin_alloc(on->ctx, &a->own_exclude, bytes, 1, "excluded ids"));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, a->own_exclude, a->target.exclude, bytes));
    a->target.exclude = a->own_exclude;
    return KITH_OK;
}

static kith_status make_threads(kin_fused_answers *a)
{
    kith_ctx *ctx = a->on.ctx;
    KIN_TRY(
        kin_alloc_zero(ctx, &a->threads, (uint64_t)ctx->threads, sizeof *a->threads, "threads"));
    for (int32_t t = 0; t < ctx->threads; t++) {
        KIN_TRY(kin_answer_make(ctx, a->groups, a->metric, a->wanted, &a->threads[t]));
    }
    return KITH_OK;
}

kith_status kin_fused_answers_make(kin_fused_answers *a, bool out_on_device, bool chunks)
{
    kith_ctx *ctx = a->on.ctx;
    const uint64_t rows = (uint64_t)a->target.out->rows;
    kith_status status = KITH_OK;
    a->kernels_write = !chunks && !a->by_host && plain(a->groups) && plain(a->target.groups);
    if (a->kernels_write) {
        KIN_TRY_GOTO(status, make_kernel_writer(a, out_on_device), done);
        goto done;
    }
    if (out_on_device) {
        KIN_TRY_GOTO(status, make_host_outputs(a), done);
    }
    KIN_TRY_GOTO(status, fetch_exclude(a), done);
    KIN_TRY_GOTO(status, make_threads(a), done);
    if (chunks) {
        KIN_TRY_GOTO(status,
                     kin_alloc(ctx, &a->merged, kin_size_mul(rows, (uint64_t)a->wanted),
                               sizeof *a->merged, "lists of all chunks"),
                     done);
        status = kin_alloc_zero(ctx, &a->merged_count, rows, sizeof *a->merged_count,
                                "lists of all chunks");
    }
done:
    if (status != KITH_OK) {
        kin_fused_answers_free(a);
    }
    return status;
}

static void free_outputs(kin_fused_answers *a)
{
    if (a->owns_device) {
        kin_gpu_free(a->on.gpu, a->device.ids);
        kin_gpu_free(a->on.gpu, a->device.distances);
        kin_gpu_free(a->on.gpu, a->device.distances64);
        a->owns_device = false;
    }
    if (a->owns_host) {
        kin_free(a->on.ctx, a->host.ids);
        kin_free(a->on.ctx, a->host.distances);
        kin_free(a->on.ctx, a->host.distances64);
        a->owns_host = false;
    }
}

void kin_fused_answers_free(kin_fused_answers *a)
{
    kith_ctx *ctx = a->on.ctx;
    for (int32_t t = 0; a->threads != NULL && t < ctx->threads; t++) {
        kin_answer_free(ctx, &a->threads[t]);
    }
    kin_free(ctx, a->threads);
    kin_free(ctx, a->merged_count);
    kin_free(ctx, a->merged);
    kin_gpu_free(a->on.gpu, a->short_rows);
    if (a->kernels_write) {
        kin_gpu_free(a->on.gpu, a->own_exclude);
    } else {
        kin_free(ctx, a->own_exclude);
    }
    free_outputs(a);
    a->threads = NULL;
    a->merged_count = NULL;
    a->merged = NULL;
    a->short_rows = NULL;
    a->own_exclude = NULL;
}

void kin_fused_answers_chunk(kin_fused_answers *a, const kin_groups *groups, uint32_t id0)
{
    a->groups = groups;
    a->id0 = id0;
    for (int32_t t = 0; t < a->on.ctx->threads; t++) {
        a->threads[t].groups = groups;
    }
}

/* ---- A batch --------------------------------------------------------------------------------- */

void kin_fused_delivery_free(kin_fused_answers *a, kin_fused_delivery *d)
{
    kin_gpu_free(a->on.gpu, d->pairs);
    kin_gpu_free(a->on.gpu, d->counts);
    kin_free(a->on.ctx, d->host_pairs);
    kin_free(a->on.ctx, d->host_counts);
    kin_free(a->on.ctx, d->host_ids);
    *d = (kin_fused_delivery){0};
}

kith_status kin_fused_delivery_make(kin_fused_answers *a, int64_t rows, int32_t k,
                                    kin_fused_delivery *d)
{
    const kin_fused_device *on = &a->on;
    const int64_t fit = (int64_t)(PAIR_BYTES / ((uint64_t)k * sizeof *d->pairs));
    kith_status status = KITH_OK;
    *d = (kin_fused_delivery){
        .most = kin_min_i64(kin_round_up(kin_max_i64(fit, 1), KIN_FUSED_BLOCK), rows), .k = k};
    const uint64_t most = (uint64_t)d->most;
    const uint64_t pairs = kin_size_mul(most, (uint64_t)k);
    KIN_TRY_GOTO(status,
                 kin_gpu_alloc(on->ctx, on->gpu, &d->pairs, pairs, sizeof *d->pairs,
                               "neighbours of a batch"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_gpu_alloc(on->ctx, on->gpu, &d->counts, most, sizeof *d->counts, "counts of a batch"),
        done);
    if (!a->kernels_write) {
        KIN_TRY_GOTO(status,
                     kin_alloc(on->ctx, &d->host_pairs, pairs, sizeof *d->host_pairs,
                               "neighbours of a batch"),
                     done);
        KIN_TRY_GOTO(
            status,
            kin_alloc(on->ctx, &d->host_counts, most, sizeof *d->host_counts, "counts of a batch"),
            done);
        KIN_TRY_GOTO(status,
                     kin_alloc(on->ctx, &d->host_ids, most, sizeof *d->host_ids, "ids of a batch"),
                     done);
    }
done:
    if (status != KITH_OK) {
        kin_fused_delivery_free(a, d);
    }
    return status;
}

kith_status kin_fused_answers_write(kin_fused_answers *a, const kin_fused_pair *pairs,
                                    const int32_t *counts, int32_t k, const uint32_t *ids,
                                    int64_t rows)
{
    const kin_fused_write job = {.metric = a->metric,
                                 .ids = ids,
                                 .left_out = a->exclude,
                                 .leaves_own_out = a->target.leaves_self_out,
                                 .rows = rows,
                                 .pairs = pairs,
                                 .count = counts,
                                 .k = k,
                                 .k_out = (int32_t)a->device.k,
                                 .out_ids = a->device.ids,
                                 .out_distances = a->device.distances,
                                 .out_distances64 = a->device.distances64,
                                 .short_rows = a->short_rows};
    return kin_gpu_check(a->on.ctx, a->on.gpu, a->on.kernels->write(a->on.stream, &job),
                         "writing neighbours");
}

kith_status kin_fused_delivery_run(kin_fused_answers *a, kin_fused_delivery *d, const uint32_t *ids,
                                   int64_t rows, const uint8_t *lost)
{
    const kin_fused_device *on = &a->on;
    if (a->kernels_write) {
        return kin_fused_answers_write(a, d->pairs, d->counts, d->k, ids, rows);
    }
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, d->host_pairs, d->pairs,
                             (uint64_t)rows * (uint64_t)d->k * sizeof *d->pairs));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, d->host_counts, d->counts,
                             (uint64_t)rows * sizeof *d->counts));
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, d->host_ids, ids, (uint64_t)rows * sizeof *d->host_ids));
    const kin_fused_finished lists = {.pairs = d->host_pairs,
                                      .counts = d->host_counts,
                                      .ids = d->host_ids,
                                      .lost = lost,
                                      .rows = rows,
                                      .k = d->k};
    return kin_fused_host_write(a, &lists);
}

kith_status kin_fused_delivery_rescore(const kin_fused_delivery *d, const kin_fused_work *work,
                                       const kin_fused_rows *rows, const kin_fused_rows *cols,
                                       int64_t row0, int64_t count)
{
    const kin_fused_device *on = &work->on;
    const kin_fused_rescore job = {.set = work->rows,
                                   .cols_set = work->cols,
                                   .set_rows = *rows,
                                   .cols_rows = *cols,
                                   .lists = work->lists,
                                   .row0 = row0,
                                   .rows = count,
                                   .pairs = d->pairs,
                                   .count = d->counts,
                                   .keys = &work->counters->keys};
    return kin_gpu_check(on->ctx, on->gpu, on->kernels->rescore(on->stream, &job),
                         "computing canonical distances");
}

kith_status kin_fused_answers_rescore(kin_fused_answers *a, const kin_fused_work *work,
                                      const kin_fused_rows *rows, const kin_fused_rows *cols,
                                      const uint8_t *lost)
{
    const int32_t k = work->lists.k;
    kin_fused_delivery d;
    KIN_TRY(kin_fused_delivery_make(a, work->rows.points, k, &d));
    kith_status status = KITH_OK;
    for (int64_t row0 = 0; row0 < work->rows.points; row0 += d.most) {
        const int64_t count = kin_min_i64(d.most, work->rows.points - row0);
        KIN_TRY_GOTO(status, kin_fused_delivery_rescore(&d, work, rows, cols, row0, count), done);
        KIN_TRY_GOTO(status,
                     kin_fused_delivery_run(a, &d, work->rows.ids + row0, count,
                                            lost == NULL ? NULL : lost + row0),
                     done);
    }
done:
    kin_fused_delivery_free(a, &d);
    return status;
}

kith_status kin_fused_answers_take_none(kin_fused_answers *a, const uint32_t *ids, int64_t count)
{
    const kin_fused_finished none = {.ids = ids, .rows = count};
    return kin_fused_host_write(a, &none);
}

kith_status kin_fused_answers_take_whole(kin_fused_answers *a, const kin_pair *pairs,
                                         const uint32_t *ids, int64_t rows, int32_t k)
{
    const kin_groups *groups = a->groups;
    const kin_groups distinct = {.rows = groups->rows};
    const kin_fused_finished lists = {.pairs = pairs, .ids = ids, .rows = rows, .k = k};
    kin_fused_answers_chunk(a, &distinct, a->id0);
    const kith_status status = kin_fused_host_write(a, &lists);
    kin_fused_answers_chunk(a, groups, a->id0);
    return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

static kith_status copy_out(kin_fused_answers *a, const kith_neighbors *out)
{
    const kin_fused_device *on = &a->on;
    const uint64_t cells = cells_of(a);
    uint64_t short_rows = 0;
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, &short_rows, a->short_rows, sizeof short_rows));
    if (short_rows != 0) {
        return kin_fail(on->ctx, KITH_E_INTERNAL,
                        "%llu rows have fewer than %lld neighbours (a bound is wrong; please "
                        "report it)",
                        (unsigned long long)short_rows, (long long)out->k);
    }
    if (!a->owns_device) {
        return KITH_OK;
    }
    if (out->ids != NULL) {
        KIN_TRY(
            kin_gpu_download(on->ctx, on->gpu, out->ids, a->device.ids, cells * sizeof *out->ids));
    }
    if (out->distances != NULL) {
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, out->distances, a->device.distances,
                                 cells * sizeof *out->distances));
    }
    if (out->distances64 != NULL) {
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, out->distances64, a->device.distances64,
                                 cells * sizeof *out->distances64));
    }
    return KITH_OK;
}

static kith_status copy_in(kin_fused_answers *a, const kith_neighbors *out)
{
    const kin_fused_device *on = &a->on;
    const uint64_t cells = cells_of(a);
    if (out->ids != NULL) {
        KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, out->ids, a->host.ids, cells * sizeof *out->ids));
    }
    if (out->distances != NULL) {
        KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, out->distances, a->host.distances,
                               cells * sizeof *out->distances));
    }
    if (out->distances64 != NULL) {
        KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, out->distances64, a->host.distances64,
                               cells * sizeof *out->distances64));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

kith_status kin_fused_answers_finish(kin_fused_answers *a, const kith_neighbors *out,
                                     int64_t corpus_rows)
{
    if (a->kernels_write) {
        return copy_out(a, out);
    }
    /* Lists of degenerate rows name the lowest ids of the whole corpus. */
    const kin_groups whole = {.rows = corpus_rows};
    const kin_groups *groups = a->groups;
    kin_fused_answers_chunk(a, &whole, 0);
    const kith_status status = kin_fused_host_finish(a);
    kin_fused_answers_chunk(a, groups, 0);
    KIN_TRY(status);
    return a->owns_host ? copy_in(a, out) : KITH_OK;
}
