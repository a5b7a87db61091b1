/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The lists of a work hold, for each position, the positions that may be among its k first.
 * `rescore` gives them canonical keys and sorts them, a batch of rows at a time; then
 *
 *   kernels write   every row is its own answer: `write` puts it where it belongs
 *   the host does   equal rows are expanded, degenerate rows join, one id is left out:
 *                   the code of the processor (exact_answer.h), on all threads
 *   chunks          lists of (key, id) are merged in host memory, and written at last
 *
 * Rows that lost candidates (screen_set_gpu.h) are skipped by the host, harmlessly written by
 * kernels, and taken again by exact_finish_gpu.c.
 */
#include "exact/exact_answer_gpu.h"

#include "host/host_threads.h"

enum { ROWS_A_TASK = 64 };

/* Pairs of a batch: what the device writes, and what the host reads. */
static const uint64_t PAIR_BYTES = 128u << 20;

_Static_assert(sizeof(kin_screen_gpu_pair) == sizeof(kin_pair), "pairs are read in place");

/* ---- Parts of what is asked ------------------------------------------------------------------ */

kith_neighbors kin_exact_gpu_rows_of(const kith_neighbors *out, int64_t first, int64_t count)
{
    const int64_t cells = first * out->k;
    return (kith_neighbors){.ids = out->ids == NULL ? NULL : out->ids + cells,
                            .distances = out->distances == NULL ? NULL : out->distances + cells,
                            .distances64 =
                                out->distances64 == NULL ? NULL : out->distances64 + cells,
                            .rows = count,
                            .k = out->k};
}

void kin_exact_gpu_slice_of(const kin_exact_gpu_query *query, int64_t first, int64_t count,
                            kin_exact_gpu_slice *slice)
{
    slice->queries = kin_matrix_part(query->queries, first, count);
    slice->request = *query->request;
    slice->request.exclude =
        query->request->exclude == NULL ? NULL : query->request->exclude + first;
    slice->out = kin_exact_gpu_rows_of(query->out, first, count);
    slice->query = (kin_exact_gpu_query){&slice->queries, query->name, &slice->request,
                                         query->place, &slice->out};
}

/* ---- By a team ------------------------------------------------------------------------------- */

kin_exact_gpu_member kin_exact_gpu_member_of(kith_ctx *ctx, kin_gpu *gpu, int64_t rows,
                                             int32_t part, int32_t parts)
{
    const int64_t first = rows * part / parts;
    return (kin_exact_gpu_member){ctx, gpu, part, parts, first, rows * (part + 1) / parts - first};
}

void kin_exact_gpu_told_take(const kin_exact_gpu_member *member, kin_exact_gpu_told *told)
{
    told->reports[member->part] = member->ctx->report;
    told->rows[member->part] = member->count;
}

void kin_exact_gpu_told_add_up(const kin_exact_gpu_told *told, int32_t parts, kith_report *report)
{
    double all = 0.0;
    for (int32_t p = 0; p < parts; p++) {
        all += (double)told->rows[p];
    }
    report->skipped_share = report->looked_share = report->rerun_share = report->candidates = 0.0;
    for (int32_t p = 0; p < parts && all > 0.0; p++) {
        const double weight = (double)told->rows[p] / all;
        report->skipped_share += told->reports[p].skipped_share * weight;
        report->looked_share += told->reports[p].looked_share * weight;
        report->rerun_share += told->reports[p].rerun_share * weight;
        report->candidates += told->reports[p].candidates * weight;
    }
}

typedef struct dividing {
    const kin_exact_gpu_division *job;
    kin_exact_gpu_told told;
} dividing;

static kith_status solve_share(void *arg, kith_ctx *ctx, kin_gpu *gpu, int32_t part, int32_t parts)
{
    dividing *d = arg;
    const kin_exact_gpu_member own = kin_exact_gpu_member_of(ctx, gpu, d->job->rows, part, parts);
    const kith_status status = own.count > 0 ? d->job->solve(d->job->arg, &own) : KITH_OK;
    kin_exact_gpu_told_take(&own, &d->told);
    return status;
}

kith_status kin_exact_gpu_divide(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_division *job)
{
    dividing d = {.job = job};
    KIN_TRY(kin_gpu_team_run(ctx, gpu->team, false, solve_share, &d));
    kin_exact_gpu_told_add_up(&d.told, (int32_t)kin_max_i64(1, kin_gpu_team_count(gpu->team)),
                              &ctx->report);
    return KITH_OK;
}

kith_status kin_exact_gpu_solve(kith_ctx *ctx, kin_gpu *gpu, bool shared,
                                const kin_exact_gpu_division *job)
{
    const kin_exact_gpu_member alone = kin_exact_gpu_member_of(ctx, gpu, job->rows, 0, 1);
    const kith_report before = ctx->report;
    if (shared) {
        const kith_status status = kin_exact_gpu_divide(ctx, gpu, job);
        if (!kin_exact_gpu_team_yields(ctx, status)) {
            return status;
        }
        ctx->report = before;
    }
    return job->solve(job->arg, &alone);
}

bool kin_exact_gpu_team_yields(kith_ctx *ctx, kith_status status)
{
    enum { WARNING = 1 };
    if (status == KITH_OK || status == KITH_E_CANCELLED || status == KITH_E_DEVICE) {
        return false;
    }
    if (status == KITH_E_DEVICE_MEMORY) {
        kin_log(ctx, WARNING, "one GPU alone goes on, in batches: %s", ctx->failure.detail);
    }
    kin_forgive(ctx);
    return true;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static bool plain(const kin_groups *groups)
{
    return groups->next == NULL && groups->degenerate == 0;
}

void kin_exact_gpu_outputs_name(kin_layout *layout, const kith_neighbors *wanted, int64_t rows,
                                kith_neighbors *own)
{
    const uint64_t cells = kin_size_mul((uint64_t)rows, (uint64_t)wanted->k);
    *own = (kith_neighbors){.rows = rows, .k = wanted->k};
    if (wanted->ids != NULL) {
        own->ids = kin_layout_array(layout, cells, sizeof *own->ids);
    }
    if (wanted->distances != NULL) {
        own->distances = kin_layout_array(layout, cells, sizeof *own->distances);
    }
    if (wanted->distances64 != NULL) {
        own->distances64 = kin_layout_array(layout, cells, sizeof *own->distances64);
    }
}

/* All parts of `to`, and where they come from. */
static kin_gpu_fetches fetches_of(const kith_neighbors *to, const kith_neighbors *from)
{
    const uint64_t cells = (uint64_t)(to->rows * to->k);
    kin_gpu_fetches f = {.count = 0};
    if (to->ids != NULL) {
        f.parts[f.count++] = (kin_gpu_fetch){to->ids, from->ids, cells * sizeof *to->ids};
    }
    if (to->distances != NULL) {
        f.parts[f.count++] =
            (kin_gpu_fetch){to->distances, from->distances, cells * sizeof *to->distances};
    }
    if (to->distances64 != NULL) {
        f.parts[f.count++] =
            (kin_gpu_fetch){to->distances64, from->distances64, cells * sizeof *to->distances64};
    }
    return f;
}

kith_status kin_exact_gpu_outputs_fetch(const kin_screen_gpu_device *on, const kith_neighbors *to,
                                        const kith_neighbors *from)
{
    const kin_gpu_fetches fetches = fetches_of(to, from);
    return kin_gpu_fetch_all(on->ctx, on->gpu, &fetches);
}

kith_status kin_exact_gpu_outputs_send(kith_ctx *ctx, kin_gpu *gpu, const kith_neighbors *to,
                                       const kith_neighbors *from)
{
    const kin_gpu_fetches sent = fetches_of(to, from);
    for (int32_t i = 0; i < sent.count; i++) {
        const kin_gpu_fetch *part = &sent.parts[i];
        KIN_TRY(kin_gpu_upload(ctx, gpu, part->to, part->from, part->bytes));
    }
    return KITH_OK;
}

/* What kernels write with. */
static void name_device(kin_layout *layout, void *answers)
{
    kin_exact_gpu_answers *a = answers;
    const kith_neighbors *out = a->target.out;
    if (!a->out_on_device) {
        kin_exact_gpu_outputs_name(layout, out, out->rows, &a->device);
    }
    if (a->target.exclude != NULL && !a->exclude_on_device) {
        a->own_exclude = kin_layout_array(layout, (uint64_t)out->rows, sizeof *a->own_exclude);
    }
    a->short_rows = kin_layout_array(layout, KIN_EXACT_GPU_COUNTS, sizeof *a->short_rows);
}

static kith_status make_kernel_writer(kin_exact_gpu_answers *a)
{
    const kin_screen_gpu_device *on = &a->on;
    a->device = *a->target.out;
    a->exclude = a->target.exclude;
    KIN_TRY(kin_gpu_layout_make(on->ctx, on->gpu, name_device, a, "answers", &a->device_block));
    if (a->own_exclude != NULL) {
        const uint64_t bytes = (uint64_t)a->target.out->rows * sizeof *a->exclude;
        KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, a->own_exclude, a->target.exclude, bytes));
        a->exclude = a->own_exclude;
    }
    return kin_gpu_fill(on->ctx, on->gpu, a->short_rows, 0,
                        KIN_EXACT_GPU_COUNTS * sizeof *a->short_rows);
}

/* What the host writes with: outputs that are copied to the device at the end, what it leaves out,
 * a list a thread, the lists of chunks. */
static void name_host(kin_layout *layout, void *answers)
{
    kin_exact_gpu_answers *a = answers;
    const kith_neighbors *out = a->target.out;
    const uint64_t rows = (uint64_t)out->rows;
    kin_answer spare;
    if (a->out_on_device) {
        kin_exact_gpu_outputs_name(layout, out, out->rows, &a->host);
    }
    if (a->target.exclude != NULL && a->exclude_on_device) {
        a->own_exclude = kin_layout_array(layout, rows, sizeof *a->own_exclude);
    }
    a->threads = kin_layout_array(layout, (uint64_t)a->on.ctx->threads, sizeof *a->threads);
    for (int32_t t = 0; t < a->on.ctx->threads; t++) {
        kin_answer *one = kin_layout_item(a->threads, t, &spare);
        *one = (kin_answer){.groups = a->groups, .metric = a->metric, .wanted = a->wanted};
        kin_answer_name(layout, one);
    }
    if (a->chunks) {
        a->merged =
            kin_layout_array(layout, kin_size_mul(rows, (uint64_t)a->wanted), sizeof *a->merged);
        a->merged_count = kin_layout_zeros(layout, rows, sizeof *a->merged_count);
    }
}

static kith_status make_host_writer(kin_exact_gpu_answers *a)
{
    const kin_screen_gpu_device *on = &a->on;
    KIN_TRY(kin_layout_make(on->ctx, name_host, a, "answers", &a->host_block));
    if (a->own_exclude != NULL) {
        const uint64_t bytes = (uint64_t)a->target.out->rows * sizeof *a->own_exclude;
        KIN_TRY(kin_gpu_download(on->ctx, on->gpu, a->own_exclude, a->target.exclude, bytes));
        a->target.exclude = a->own_exclude;
    }
    if (a->out_on_device) {
        a->target.out = &a->host;
    }
    return KITH_OK;
}

kin_exact_gpu_answers kin_exact_gpu_answers_of(const kin_screen_gpu_device *on,
                                               const kin_exact_gpu_query *query,
                                               const kin_groups *corpus, const kin_groups *asked)
{
    const kin_request *request = query->request;
    const bool graph = query->queries == NULL;
    return (kin_exact_gpu_answers){
        .on = *on,
        .metric = request->distance.metric,
        .groups = corpus,
        .target = {.groups = asked,
                   .exclude = graph ? NULL : request->exclude,
                   .leaves_self_out = graph && kin_request_leaves(request, true),
                   .out = query->out},
        .exclude_on_device = (query->place & KIN_GPU_DATA_ON_DEVICE) != 0,
        .by_host = kin_exact_gpu_by_host(request),
        .wanted = kin_request_ids(request, graph, corpus->rows)};
}

kith_status kin_exact_gpu_answers_make(kin_exact_gpu_answers *a, bool out_on_device, bool chunks)
{
    a->out_on_device = out_on_device;
    a->chunks = chunks;
    a->kernels_write = !chunks && !a->by_host && plain(a->groups) && plain(a->target.groups);
    const kith_status status = a->kernels_write ? make_kernel_writer(a) : make_host_writer(a);
    if (status != KITH_OK) {
        kin_exact_gpu_answers_free(a);
    }
    return status;
}

void kin_exact_gpu_answers_free(kin_exact_gpu_answers *a)
{
    kin_free(a->on.ctx, a->host_block);
    kin_gpu_free(a->on.gpu, a->device_block);
    a->host_block = NULL;
    a->device_block = NULL;
}

void kin_exact_gpu_answers_chunk(kin_exact_gpu_answers *a, const kin_groups *groups, uint32_t id0)
{
    a->groups = groups;
    a->id0 = id0;
    for (int32_t t = 0; t < a->on.ctx->threads; t++) {
        a->threads[t].groups = groups;
    }
}

/* ---- The host's part ------------------------------------------------------------------------- */

/* The first `wanted` of the row's list so far and of the present chunk's. */
static void merge_list(const kin_exact_gpu_answers *a, const kin_answer *answer, uint32_t row,
                       kin_pair *scratch)
{
    kin_pair *list = a->merged + (int64_t)row * a->wanted;
    const int64_t have = a->merged_count[row];
    int64_t i = 0;
    int64_t j = 0;
    int64_t count = 0;
    while (count < a->wanted && (i < have || j < answer->count)) {
        kin_pair other = {0};
        if (j < answer->count) {
            other = answer->list[j];
            other.id += a->id0;
        }
        const bool old = j == answer->count || (i < have && kin_pair_less(&list[i], &other));
        scratch[count++] = old ? list[i++] : other;
        j += old ? 0 : 1;
    }
    memcpy(list, scratch, (size_t)count * sizeof *list);
    a->merged_count[row] = (int32_t)count;
}

typedef struct writing {
    const kin_exact_gpu_answers *a;
    const kin_exact_gpu_finished *lists;
    kin_pair *scratch; /* by thread, wanted of them; for merging */
} writing;

static kith_status write_row(void *arg, int64_t i, int32_t thread)
{
    const writing *w = arg;
    const kin_exact_gpu_answers *a = w->a;
    const kin_exact_gpu_finished *l = w->lists;
    kin_answer *answer = &a->threads[thread];
    if (l->ids[i] == KITH_ID_NONE || (l->lost != NULL && l->lost[i] != 0)) {
        return KITH_OK;
    }
    const bool none = l->pairs == NULL;
    const int32_t full = l->counts == NULL ? l->k : l->counts[i];
    kin_answer_expand(answer, none ? NULL : l->pairs + i * l->k, none ? 0 : full);
    if (a->merged == NULL) {
        return kin_answer_write_group(a->on.ctx, &a->target, answer, l->ids[i]);
    }
    merge_list(a, answer, a->row0 + l->ids[i], w->scratch + (int64_t)thread * a->wanted);
    return KITH_OK;
}

kith_status kin_exact_gpu_host_write(const kin_exact_gpu_answers *a,
                                     const kin_exact_gpu_finished *lists)
{
    kith_ctx *ctx = a->on.ctx;
    writing w = {.a = a, .lists = lists};
    KIN_HOLD(hold, ctx);
    if (a->merged != NULL) {
        KIN_NEW(&hold, w.scratch, kin_size_mul((uint64_t)ctx->threads, (uint64_t)a->wanted),
                "merged lists");
    }
    return kin_parallel_rows(ctx, "rescore", lists->rows, ROWS_A_TASK, write_row, &w);
}

static kith_status write_merged(void *arg, int64_t row, int32_t thread)
{
    const kin_exact_gpu_answers *a = arg;
    kin_answer *answer = &a->threads[thread];
    answer->count = a->merged_count[row];
    memcpy(answer->list, a->merged + row * a->wanted, (size_t)answer->count * sizeof *answer->list);
    if (answer->count == 0) { /* no chunk had a list for it: a degenerate row */
        kin_answer_degenerate(answer);
    }
    return kin_answer_write_group(a->on.ctx, &a->target, answer, (uint32_t)row);
}

static kith_status finish_on_host(kin_exact_gpu_answers *a)
{
    if (a->merged == NULL) {
        kin_answer_write_degenerates(&a->target, &a->threads[0]);
        return KITH_OK;
    }
    return kin_parallel_rows(a->on.ctx, "rescore", a->target.out->rows, ROWS_A_TASK, write_merged,
                             a);
}

/* ---- A batch --------------------------------------------------------------------------------- */

static void name_delivery(kin_layout *layout, void *delivery)
{
    kin_exact_gpu_delivery *d = delivery;
    const uint64_t most = (uint64_t)d->most;
    d->pairs = kin_layout_array(layout, kin_size_mul(most, (uint64_t)d->k), sizeof *d->pairs);
    d->counts = kin_layout_array(layout, most, sizeof *d->counts);
}

static void name_delivery_host(kin_layout *layout, void *delivery)
{
    kin_exact_gpu_delivery *d = delivery;
    const uint64_t most = (uint64_t)d->most;
    const uint64_t pairs = kin_size_mul(most, (uint64_t)d->k);
    d->host_pairs = kin_layout_array(layout, pairs, sizeof *d->host_pairs);
    d->host_counts = kin_layout_array(layout, most, sizeof *d->host_counts);
    d->host_ids = kin_layout_array(layout, most, sizeof *d->host_ids);
}

/* Rows of a batch. */
static kin_exact_gpu_delivery delivery_of(int64_t rows, int32_t k)
{
    const int64_t fit = (int64_t)(PAIR_BYTES / ((uint64_t)k * sizeof(kin_screen_gpu_pair)));
    return (kin_exact_gpu_delivery){
        .most = kin_min_i64(kin_round_up(kin_max_i64(fit, 1), KIN_SCREEN_GPU_BLOCK), rows), .k = k};
}

kith_status kin_exact_gpu_delivery_make(kin_hold *hold, const kin_exact_gpu_answers *a,
                                        int64_t rows, int32_t k, kin_exact_gpu_delivery *d)
{
    const char *what = "neighbours of a batch";
    *d = delivery_of(rows, k);
    KIN_TRY(kin_gpu_hold_layout(hold, a->on.gpu, name_delivery, d, what));
    return a->kernels_write ? KITH_OK : kin_hold_layout(hold, name_delivery_host, d, what);
}

/* All parts of an answer, and ids that are left out: what kernels write with at most. */
uint64_t kin_exact_gpu_answers_bytes(int64_t rows, int64_t k)
{
    uint32_t id = 0;
    float distance = 0.0F;
    double distance64 = 0.0;
    const kith_neighbors out = {
        .ids = &id, .distances = &distance, .distances64 = &distance64, .rows = rows, .k = k};
    kin_exact_gpu_answers a = {.target = {.exclude = &id, .out = &out}};
    return kin_size_add(kin_gpu_layout_bytes(name_device, &a),
                        kin_exact_gpu_delivery_bytes(rows, (int32_t)k + 1));
}

uint64_t kin_exact_gpu_delivery_bytes(int64_t rows, int32_t k)
{
    kin_exact_gpu_delivery d = delivery_of(rows, k);
    return kin_gpu_layout_bytes(name_delivery, &d);
}

kin_screen_gpu_write kin_exact_gpu_answers_job(const kin_exact_gpu_answers *a, const uint32_t *ids,
                                               int64_t rows)
{
    return (kin_screen_gpu_write){.metric = a->metric,
                                  .ids = ids,
                                  .left_out = a->exclude,
                                  .leaves_own_out = a->target.leaves_self_out,
                                  .rows = rows,
                                  .k_out = (int32_t)a->device.k,
                                  .out_ids = a->device.ids,
                                  .out_distances = a->device.distances,
                                  .out_distances64 = a->device.distances64,
                                  .short_rows = a->fills ? NULL : a->short_rows,
                                  .fills = a->fills};
}

kith_status kin_exact_gpu_answers_write(kin_exact_gpu_answers *a, const kin_screen_gpu_pair *pairs,
                                        const int32_t *counts, int32_t k, const uint32_t *ids,
                                        int64_t rows)
{
    kin_screen_gpu_write job = kin_exact_gpu_answers_job(a, ids, rows);
    job.pairs = pairs;
    job.count = counts;
    job.k = k;
    return KIN_SCREEN_LAUNCH(&a->on, write, &job, "writing neighbours");
}

kith_status kin_exact_gpu_delivery_run(kin_exact_gpu_answers *a, kin_exact_gpu_delivery *d,
                                       const uint32_t *ids, int64_t rows, const uint8_t *lost)
{
    const kin_screen_gpu_device *on = &a->on;
    if (a->kernels_write) {
        return kin_exact_gpu_answers_write(a, d->pairs, d->counts, d->k, ids, rows);
    }
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, d->host_pairs, d->pairs,
                             (uint64_t)rows * (uint64_t)d->k * sizeof *d->pairs));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, d->host_counts, d->counts,
                             (uint64_t)rows * sizeof *d->counts));
    KIN_TRY(
        kin_gpu_download(on->ctx, on->gpu, d->host_ids, ids, (uint64_t)rows * sizeof *d->host_ids));
    const kin_exact_gpu_finished lists = {.pairs = d->host_pairs,
                                          .counts = d->host_counts,
                                          .ids = d->host_ids,
                                          .lost = lost,
                                          .rows = rows,
                                          .k = d->k};
    return kin_exact_gpu_host_write(a, &lists);
}

kith_status kin_exact_gpu_answers_take_whole(kin_exact_gpu_answers *a, const kin_pair *pairs,
                                             const uint32_t *ids, int64_t rows, int32_t k)
{
    const kin_groups *groups = a->groups;
    const kin_groups distinct = {.rows = groups->rows};
    const kin_exact_gpu_finished lists = {.pairs = pairs, .ids = ids, .rows = rows, .k = k};
    kin_exact_gpu_answers_chunk(a, &distinct, a->id0);
    const kith_status status = kin_exact_gpu_host_write(a, &lists);
    kin_exact_gpu_answers_chunk(a, groups, a->id0);
    return status;
}

/* ---- The end --------------------------------------------------------------------------------- */

static kith_status copy_out(kin_exact_gpu_answers *a, const kith_neighbors *out)
{
    const kin_screen_gpu_device *on = &a->on;
    uint64_t short_rows = 0;
    KIN_TRY(a->settled ? KITH_OK
                       : kin_gpu_download(on->ctx, on->gpu, &short_rows, a->short_rows,
                                          sizeof short_rows));
    if (short_rows != 0) {
        return kin_fail(on->ctx, KITH_E_INTERNAL,
                        "%llu rows have fewer than %lld neighbours (a bound is wrong; please "
                        "report it)",
                        (unsigned long long)short_rows, (long long)out->k);
    }
    if (a->out_on_device || !a->behind) {
        return a->out_on_device ? KITH_OK : kin_exact_gpu_outputs_fetch(on, out, &a->device);
    }
    const kin_gpu_fetches fetches = fetches_of(out, &a->device);
    void *block = a->device_block;
    a->device_block = NULL;
    return kin_gpu_behind_begin(on->ctx, on->gpu, &fetches, block);
}

static kith_status copy_in(const kin_exact_gpu_answers *a, const kith_neighbors *out)
{
    KIN_TRY(kin_exact_gpu_outputs_send(a->on.ctx, a->on.gpu, out, &a->host));
    return kin_gpu_wait(a->on.ctx, a->on.gpu);
}

kith_status kin_exact_gpu_answers_finish(kin_exact_gpu_answers *a, const kith_neighbors *out,
                                         int64_t corpus_rows)
{
    if (a->kernels_write) {
        return copy_out(a, out);
    }
    /* Lists of degenerate rows name the lowest ids of the whole corpus. */
    const kin_groups whole = {.rows = corpus_rows};
    const kin_groups *groups = a->groups;
    kin_exact_gpu_answers_chunk(a, &whole, 0);
    const kith_status status = finish_on_host(a);
    kin_exact_gpu_answers_chunk(a, groups, 0);
    KIN_TRY(status);
    return a->out_on_device ? copy_in(a, out) : KITH_OK;
}
