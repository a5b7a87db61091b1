/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The lists of the graph become answers in the way of the exact engine:
 *
 *   screened, no equal rows   hand -> rescore -> kernels write
 *   equal rows, own ids       hand -> rescore -> the host puts a row's own group in its place,
 *                             expands equal rows and writes
 *   no screen                 keys of the lists -> the host sorts and writes
 *
 * A row whose list has fewer entries than an answer needs (draws that met, few points) is solved by
 * canonical keys of all its pairs.
 */
#include "graph/graph_run_gpu.h"
#include "host/host_threads.h"

enum { ROWS_A_TASK = 256 };

/* What the end of a descent holds. */
typedef struct ending {
    kin_graph_gpu_run *run;
    kin_hold hold;
    kin_exact_gpu_answers answers;
    kin_screen_gpu_lists lists; /* screened: as handed over */
    bool owns;        /* rows are among their own neighbours, or stand for equal ones, which are */
    uint8_t *lacking; /* by position: 1 where the list is too short */
    int64_t lacking_count;
    uint32_t *ids; /* host: rows of positions */
    /* A batch on the host. */
    double *own;
    kin_graph_gpu_keying keying; /* no screen */
    kin_pair *lists_of;          /* rows x `pitch` of a batch */
    int32_t *counts;
} ending;

static kith_status make_flags(ending *e)
{
    KIN_NEW_ZERO(&e->hold, e->lacking, (uint64_t)e->run->count, "row flags");
    return KITH_OK;
}

static void note_count(ending *e, int64_t position, int32_t count)
{
    e->lacking[position] = count < e->run->wanted;
    e->lacking_count += e->lacking[position];
}

/* ---- A batch on the host --------------------------------------------------------------------- */

/* Lists of `rows` rows from position row0 on, `pitch` places each. */
typedef struct batch {
    const ending *e;
    int64_t row0;
    int64_t rows;
    int32_t pitch;
} batch;

static kith_status put_own_of_some(void *arg, int64_t i, int32_t thread)
{
    const batch *b = arg;
    const ending *e = b->e;
    (void)thread;
    int64_t count = e->counts[i];
    (void)kin_pair_insert(e->lists_of + i * b->pitch, count + 1, &count,
                          (kin_pair){e->own[i], e->ids[b->row0 + i], 1});
    e->counts[i] = (int32_t)count;
    return KITH_OK;
}

/* Lists of others, sorted, become answers. */
static kith_status write_batch(const batch *b)
{
    const ending *e = b->e;
    batch given = *b;
    if (e->owns) {
        KIN_TRY(kin_graph_gpu_own_keys(e->run, e->ids + b->row0, b->rows, e->own));
        KIN_TRY(
            kin_parallel_rows(e->run->on.ctx, NULL, b->rows, ROWS_A_TASK, put_own_of_some, &given));
    }
    const kin_exact_gpu_finished lists = {.pairs = e->lists_of,
                                          .counts = e->counts,
                                          .ids = e->ids + b->row0,
                                          .lost = e->lacking + b->row0,
                                          .rows = b->rows,
                                          .k = b->pitch};
    return kin_exact_gpu_host_write(&e->answers, &lists);
}

static kith_status make_batch(ending *e, int64_t rows, int32_t pitch)
{
    const uint64_t n = (uint64_t)rows;
    KIN_NEW(&e->hold, e->own, n, "keys of a batch");
    KIN_NEW(&e->hold, e->counts, n, "counts of a batch");
    KIN_NEW(&e->hold, e->lists_of, kin_size_mul(n, (uint64_t)pitch), "neighbours of a batch");
    return KITH_OK;
}

/* ---- Screened -------------------------------------------------------------------------------- */

static kith_status hand_over(ending *e)
{
    kin_graph_gpu_run *run = e->run;
    KIN_TRY(kin_screen_gpu_lists_make(&run->on, &run->points.set, run->wanted, run->graph.length,
                                      &e->lists));
    const kin_graph_gpu_hand job = {.graph = run->graph, .lists = e->lists};
    KIN_TRY(KIN_ROOM_LAUNCH(run, hand, &job, "handing lists over"));
    return run->share.parts > 0 ? kin_gpu_gather(run->on.ctx, run->on.gpu, e->lists.counts,
                                                 sizeof *e->lists.counts, run->share.firsts)
                                : KITH_OK;
}

/* Kernels write what there is, and count rows that have too little: mostly there are none. */
static kith_status find_lacking(ending *e)
{
    const kin_graph_gpu_run *run = e->run;
    kith_ctx *ctx = run->on.ctx;
    const uint64_t n = (uint64_t)run->count;
    uint64_t *short_rows = e->answers.short_rows;
    uint64_t seen = 0;
    int32_t *counts = NULL;
    KIN_TRY(kin_gpu_download(ctx, run->on.gpu, &seen, short_rows, sizeof seen));
    if (seen == 0) {
        return KITH_OK;
    }
    KIN_TRY(kin_gpu_fill(ctx, run->on.gpu, short_rows, 0, sizeof *short_rows));
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, counts, n, "counts of lists");
    const kith_status status =
        kin_gpu_download(ctx, run->on.gpu, counts, e->lists.counts, n * sizeof *counts);
    for (int64_t p = 0; status == KITH_OK && p < run->count; p++) {
        note_count(e, p, counts[p]);
    }
    return status;
}

/* What rescoring left for the host: pairs of `wanted` others, then the own row among them. */
static kith_status deliver_by_host(ending *e, const kin_exact_gpu_delivery *d, int64_t row0,
                                   int64_t rows)
{
    const kin_screen_gpu_device *on = &e->run->on;
    const batch b = {.e = e, .row0 = row0, .rows = rows, .pitch = d->k + 1};
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, d->host_pairs, d->pairs,
                             (uint64_t)rows * (uint64_t)d->k * sizeof *d->pairs));
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, e->counts, d->counts,
                             (uint64_t)rows * sizeof *d->counts));
    for (int64_t i = 0; i < rows; i++) {
        memcpy(e->lists_of + i * b.pitch, d->host_pairs + i * d->k,
               (size_t)e->counts[i] * sizeof *d->host_pairs);
        note_count(e, row0 + i, e->counts[i]);
    }
    return write_batch(&b);
}

static kith_status rescore(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows)
{
    const ending *e = arg;
    const kin_graph_gpu_run *run = e->run;
    const kin_screen_gpu_rescore job = {.set = run->points.set,
                                        .cols_set = run->points.set,
                                        .set_rows = run->corpus->prepared.rows,
                                        .cols_rows = run->corpus->prepared.rows,
                                        .lists = e->lists,
                                        .row0 = row0,
                                        .rows = rows,
                                        .pairs = d->pairs,
                                        .count = d->counts};
    return KIN_SCREEN_LAUNCH(&run->on, rescore, &job, "computing canonical distances");
}

static kith_status deliver(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows)
{
    ending *e = arg;
    const uint32_t *ids = e->run->points.set.ids + row0;
    return e->answers.kernels_write ? kin_exact_gpu_delivery_run(&e->answers, d, ids, rows, NULL)
                                    : deliver_by_host(e, d, row0, rows);
}

static kith_status make_host_batch(void *arg, kin_exact_gpu_delivery *d)
{
    ending *e = arg;
    return e->answers.kernels_write ? KITH_OK : make_batch(e, d->most, d->k + 1);
}

/* By all members of a team: what they own. */
static kith_status end_shared(ending *e)
{
    const kin_graph_gpu_run *run = e->run;
    const kin_exact_gpu_relay relay = {.answers = &e->answers,
                                       .firsts = run->share.firsts,
                                       .rows = run->count,
                                       .k = e->lists.k,
                                       .compute = rescore,
                                       .deliver = deliver,
                                       .begin = make_host_batch,
                                       .arg = e};
    KIN_TRY(kin_exact_gpu_team_relay(&relay));
    return run->share.part == 0 && e->answers.kernels_write ? find_lacking(e) : KITH_OK;
}

static kith_status end_screened(ending *e)
{
    const int64_t count = e->run->count;
    kin_exact_gpu_delivery d = {0};
    KIN_HOLD(hold, e->run->on.ctx);
    KIN_TRY(hand_over(e));
    if (e->run->share.parts > 0) {
        return end_shared(e);
    }
    KIN_TRY(kin_exact_gpu_delivery_make(&hold, &e->answers, count, e->lists.k, &d));
    KIN_TRY(make_host_batch(e, &d));
    for (int64_t row0 = 0; row0 < count; row0 += d.most) {
        const int64_t rows = kin_min_i64(d.most, count - row0);
        KIN_TRY(rescore(e, &d, row0, rows));
        KIN_TRY(deliver(e, &d, row0, rows));
        KIN_TRY(kin_progress(e->run->on.ctx, "rescore", (double)row0, (double)count));
    }
    return e->answers.kernels_write ? find_lacking(e) : KITH_OK;
}

/* ---- No screen ------------------------------------------------------------------------------- */

static kith_status sort_some(void *arg, int64_t i, int32_t thread)
{
    const batch *b = arg;
    const ending *e = b->e;
    const int32_t length = e->run->graph.length;
    (void)thread;
    kin_pair *list = e->lists_of + i * b->pitch;
    int32_t count = 0;
    for (int32_t j = 0; j < length; j++) {
        const uint32_t id = e->keying.entries[i * length + j];
        if (id != KITH_ID_NONE) {
            list[count++] = (kin_pair){e->keying.keys[i * length + j], id, 1};
        }
    }
    kin_select_sort_pairs(list, count);
    e->counts[i] = count;
    return KITH_OK;
}

static kith_status key_batch(ending *e, int64_t row0, int64_t rows)
{
    const kin_graph_gpu_run *run = e->run;
    batch b = {.e = e, .row0 = row0, .rows = rows, .pitch = run->graph.length + 1};
    for (int64_t i = 0; i < rows; i++) {
        e->keying.positions[i] = (uint32_t)(row0 + i);
    }
    KIN_TRY(kin_graph_gpu_key_lists(run, &e->keying, run->points.set.ids, &run->graph, rows));
    KIN_TRY(kin_parallel_rows(run->on.ctx, NULL, rows, ROWS_A_TASK, sort_some, &b));
    for (int64_t i = 0; i < rows; i++) {
        note_count(e, row0 + i, e->counts[i]);
    }
    return write_batch(&b);
}

static kith_status end_direct(ending *e)
{
    const kin_graph_gpu_run *run = e->run;
    const int32_t length = run->graph.length;
    const int64_t most = kin_graph_gpu_key_rows(run->count, length);
    e->keying = (kin_graph_gpu_keying){.rows = most, .length = length, .what = "keys of a batch"};
    KIN_TRY(kin_graph_gpu_keying_make(&e->hold, run->on.gpu, &e->keying));
    KIN_TRY(make_batch(e, most, length + 1));
    for (int64_t row0 = 0; row0 < run->count; row0 += most) {
        KIN_TRY(key_batch(e, row0, kin_min_i64(most, run->count - row0)));
        KIN_TRY(kin_progress(run->on.ctx, "rescore", (double)row0, (double)run->count));
    }
    return KITH_OK;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static kith_status read_ids(ending *e)
{
    const kin_graph_gpu_run *run = e->run;
    const uint64_t bytes = (uint64_t)run->count * sizeof *e->ids;
    KIN_NEW(&e->hold, e->ids, (uint64_t)run->count, "the order of the points");
    return kin_gpu_download(run->on.ctx, run->on.gpu, e->ids, run->points.set.ids, bytes);
}

/* Rows whose lists are too short. */
static kith_status solve_lacking(ending *e)
{
    const kin_graph_gpu_run *run = e->run;
    const kin_screen_gpu_rows *rows = &run->corpus->prepared.rows;
    int64_t found = 0;
    if (e->lacking_count == 0) {
        return KITH_OK;
    }
    if (e->ids == NULL) {
        KIN_TRY(read_ids(e));
    }
    for (int64_t p = 0; p < run->count; p++) {
        if (e->lacking[p] != 0) {
            e->ids[found++] = e->ids[p];
        }
    }
    return kin_exact_gpu_answers_solve(&e->answers, rows, rows, e->ids, found);
}

static void free_ending(ending *e)
{
    kin_hold_end(&e->hold);
    kin_screen_gpu_lists_free(&e->run->on, &e->lists);
    kin_exact_gpu_answers_free(&e->answers);
}

/* What a member of a team that does not write does at the end: its own lists' keys. */
static kith_status serve_end(kin_graph_gpu_run *run)
{
    ending e = {.run = run};
    e.answers =
        (kin_exact_gpu_answers){.on = run->on, .groups = run->groups, .kernels_write = true};
    const kith_status status = end_screened(&e);
    kin_screen_gpu_lists_free(&run->on, &e.lists);
    return status;
}

kith_status kin_graph_gpu_finish(kin_graph_gpu_run *run)
{
    if (run->share.part > 0) {
        return serve_end(run);
    }
    const kin_graph_request *request = run->request;
    const bool leaves = kin_graph_leaves_own_out(request);
    ending e = {.run = run,
                .hold = {.ctx = run->on.ctx},
                .owns = !leaves || !kin_graph_gpu_is_plain(run->groups)};
    e.answers = (kin_exact_gpu_answers){
        .on = run->on,
        .metric = request->distance.metric,
        .groups = run->groups,
        .target = {.groups = run->groups, .leaves_self_out = leaves, .out = run->out},
        .by_host = !run->screened || !leaves,
        .wanted = kin_min_i64(request->k + (leaves ? 1 : 0), run->rows)};
    KIN_TRY(kin_exact_gpu_answers_make(&e.answers,
                                       (run->request->place & KIN_GPU_OUT_ON_DEVICE) != 0, false));
    kith_status status = make_flags(&e);
    KIN_THEN(status, e.answers.kernels_write ? KITH_OK : read_ids(&e));
    KIN_THEN(status, run->screened ? end_screened(&e) : end_direct(&e));
    KIN_THEN(status, solve_lacking(&e));
    KIN_THEN(status, kin_exact_gpu_answers_finish(&e.answers, run->out, run->rows));
    free_ending(&e);
    return status;
}
