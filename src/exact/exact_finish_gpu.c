/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A list that overflowed still proved a reach, mostly a good one: what it lost was lost
 * early. Its rows become a set of their own, which starts with that reach and has lists of many
 * times the room; they meet all columns once, one-sided. What overflows again has more columns
 * within the bounds' slack than a list holds (ties, clusters finer than the cheap type): canonical
 * keys of all its pairs decide.
 *
 * More neighbours than a block of threads sorts (KIN_SCREEN_GPU_SORTED_K): the keys of some rows'
 * lists stand in a matrix, behind the last of a row what comes after all, and a selection gives the
 * first k of each row, sorted. As many rows at a time as keep that within LONG_BYTES.
 *
 * Memory. As many rows at a time as keep their lists within LIST_BYTES. In a scope of nothing
 * (gpu.h) lost rows are solved at once, with less than the 128 KiB of a seed's smallest matrix, for
 * k up to 4,096: 64 KiB of pairs, 40 KiB of keys and a count, 16 KiB of ids; before that, 48 KiB of
 * ids and reaches. For larger k the pairs of a batch, 4 KiB for each neighbour, were more. Long
 * lists have their own room beside those (kin_exact_gpu_long_bytes), by the longest there is.
 *
 * A team. How the answers of several GPUs come together that did a graph in lockstep
 * (exact_search_gpu.c; graph/graph_finish_gpu.c).
 *
 * Members rescore the rows that they own, a batch at a time; the first one fetches the pairs and
 * writes them, as it writes its own, so that equal rows, degenerate ones and outputs on the host or
 * on its device are cared for in one place. Of 10^7 rows with k = 10 it fetches 1.3 GB in all.
 */
#include "exact/exact_answer_gpu.h"

static const uint64_t LIST_BYTES = 1u << 30;
static const uint64_t LEAST_PAIRS = 1u << 16;
static const uint64_t LONG_BYTES = 1u << 30;
enum { ROOM_A_NEIGHBOUR = 32, ROOM = 4096, SOLVED_AT_ONCE = 4096, LONG_SHARE = 16 };

/* ---- Long lists ------------------------------------------------------------------------------ */

typedef struct long_lists {
    int64_t rows; /* at a time */
    int64_t k;
    kin_screen_gpu_unsorted all;
    double *keys; /* of the first k */
    uint32_t *ids;
} long_lists;

static void name_long(kin_layout *layout, void *job)
{
    long_lists *l = job;
    const uint64_t entries = kin_size_mul((uint64_t)l->rows, (uint64_t)l->all.pitch);
    const uint64_t first = kin_size_mul((uint64_t)l->rows, (uint64_t)l->k);
    l->all.keys = kin_layout_array(layout, entries, sizeof *l->all.keys);
    l->all.ids = kin_layout_array(layout, entries, sizeof *l->all.ids);
    l->keys = kin_layout_array(layout, first, sizeof *l->keys);
    l->ids = kin_layout_array(layout, first, sizeof *l->ids);
}

static kin_select_job selection_of(const long_lists *l, int64_t rows)
{
    return (kin_select_job){.values = (const char *)l->all.keys,
                            .ids = (const char *)l->all.ids,
                            .stride_bytes = l->all.pitch * (int64_t)sizeof *l->all.keys,
                            .ids_stride_bytes = l->all.pitch * (int64_t)sizeof *l->all.ids,
                            .rows = rows,
                            .cols = l->all.pitch,
                            .k = l->k,
                            .dtype = KIN_SELECT_F64,
                            .sorted = true,
                            .out_values = l->keys,
                            .out_ids = l->ids};
}

static uint64_t long_bytes(const kin_gpu *gpu, const long_lists *of)
{
    long_lists l = *of;
    const kin_select_job selection = selection_of(of, of->rows);
    return kin_size_add(kin_gpu_layout_bytes(name_long, &l),
                        kin_select_device_scratch(gpu, &selection));
}

static uint64_t long_budget(uint64_t room)
{
    return room / LONG_SHARE < LONG_BYTES ? room / LONG_SHARE : LONG_BYTES;
}

uint64_t kin_exact_gpu_long_bytes(const kin_gpu *gpu, int64_t rows, int64_t cols, int64_t k,
                                  uint64_t room)
{
    long_lists l = {.rows = rows, .k = k, .all.pitch = kin_max_i64(cols, k)};
    const uint64_t budget = long_budget(room);
    if (k <= KIN_SCREEN_GPU_SORTED_K) {
        return 0;
    }
    const uint64_t whole = long_bytes(gpu, &l);
    l.rows = 1;
    const uint64_t least = long_bytes(gpu, &l);
    return whole <= budget ? whole : least > budget ? least : budget;
}

/* As many entries as the longest of the lists has, at least k. */
static kith_status find_pitch(const kin_screen_gpu_device *on, const kin_screen_gpu_rescore *job,
                              long_lists *l)
{
    const uint64_t rows = (uint64_t)job->rows;
    int32_t *counts = NULL;
    int32_t longest = job->lists.k;
    KIN_HOLD(hold, on->ctx);
    KIN_NEW(&hold, counts, rows, "lengths of lists");
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, counts, job->lists.counts + job->row0,
                             rows * sizeof *counts));
    for (uint64_t i = 0; i < rows; i++) {
        longest = counts[i] > longest ? counts[i] : longest;
    }
    l->all.pitch = kin_min_i64(longest, kin_max_i64(job->lists.capacity, job->lists.k));
    return KITH_OK;
}

/* Rows at .. at + count of a job. */
static kith_status select_some(const kin_screen_gpu_device *on, const kin_screen_gpu_rescore *job,
                               const long_lists *l, int64_t at, int64_t count)
{
    const kin_select_job selection = selection_of(l, count);
    const kin_screen_gpu_join join = {
        .keys = l->keys, .ids = l->ids, .count = count * l->k, .pairs = job->pairs + at * l->k};
    kin_screen_gpu_rescore part = *job;
    part.row0 += at;
    part.rows = count;
    part.count += at;
    part.all = l->all;
    KIN_TRY(KIN_SCREEN_LAUNCH(on, rescore, &part, "computing canonical distances"));
    KIN_TRY(kin_select_part(on->ctx, on->gpu, &selection));
    return KIN_SCREEN_LAUNCH(on, join, &join, "joining keys and ids");
}

static kith_status rescore_long(const kin_screen_gpu_device *on, const kin_screen_gpu_rescore *job)
{
    long_lists l = {.rows = job->rows, .k = job->lists.k};
    const uint64_t budget = long_budget(kin_gpu_scope(on->gpu));
    KIN_HOLD(hold, on->ctx);
    KIN_TRY(find_pitch(on, job, &l));
    while (l.rows > 1 && long_bytes(on->gpu, &l) > budget) {
        l.rows = kin_ceil_div(l.rows, 2);
    }
    KIN_TRY(kin_gpu_hold_layout(&hold, on->gpu, name_long, &l, "keys of long lists"));
    for (int64_t at = 0; at < job->rows; at += l.rows) {
        KIN_TRY(select_some(on, job, &l, at, kin_min_i64(l.rows, job->rows - at)));
    }
    return KITH_OK;
}

/* ---- Complete lists -------------------------------------------------------------------------- */

/* Canonical keys of the lists of `count` rows of a work, from position row0 on, into pairs and
 * counts. rows, cols: the matrices of its sets. */
static kith_status rescore(const kin_exact_gpu_delivery *d, const kin_screen_gpu_work *work,
                           const kin_screen_gpu_rows *rows, const kin_screen_gpu_rows *cols,
                           int64_t row0, int64_t count)
{
    const kin_screen_gpu_device *on = &work->on;
    const kin_screen_gpu_rescore job = {.set = work->rows,
                                        .cols_set = work->cols,
                                        .set_rows = *rows,
                                        .cols_rows = *cols,
                                        .lists = work->lists,
                                        .row0 = row0,
                                        .rows = count,
                                        .pairs = d->pairs,
                                        .count = d->counts,
                                        .keys = &work->counters->keys};
    return job.lists.k > KIN_SCREEN_GPU_SORTED_K
               ? rescore_long(on, &job)
               : KIN_SCREEN_LAUNCH(on, rescore, &job, "computing canonical distances");
}

/* To the answers: complete lists, or those that are not in lost[] (by position). */
static kith_status rescore_all(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                               const kin_screen_gpu_rows *rows, const kin_screen_gpu_rows *cols,
                               const uint8_t *lost)
{
    const int32_t k = work->lists.k;
    kin_exact_gpu_delivery d;
    KIN_HOLD(hold, a->on.ctx);
    KIN_TRY(kin_exact_gpu_delivery_make(&hold, a, work->rows.points, k, &d));
    for (int64_t row0 = 0; row0 < work->rows.points; row0 += d.most) {
        const int64_t count = kin_min_i64(d.most, work->rows.points - row0);
        KIN_TRY(rescore(&d, work, rows, cols, row0, count));
        KIN_TRY(kin_exact_gpu_delivery_run(a, &d, work->rows.ids + row0, count,
                                           lost == NULL ? NULL : lost + row0));
    }
    return KITH_OK;
}

/* ---- Lists that overflowed ------------------------------------------------------------------- */

/* Rows that lost candidates. */
typedef struct rerun {
    kin_exact_gpu_answers *a;
    const kin_screen_gpu_work *work;
    const kin_screen_gpu_rows *rows;
    const kin_screen_gpu_rows *cols;
    const uint32_t *positions; /* device */
} rerun;

/* Ids and reach of the lost rows first .. first + count, on the device. */
static kith_status take_some(const rerun *r, int64_t first, int64_t count, uint32_t *ids,
                             double *reach)
{
    const kin_screen_gpu_device *on = &r->a->on;
    const kin_screen_gpu_take job = {.of = r->positions + first,
                                     .count = count,
                                     .ids = r->work->rows.ids,
                                     .reach = r->work->lists.reach,
                                     .to_ids = ids,
                                     .to_reach = reach};
    return KIN_SCREEN_LAUNCH(on, take, &job, "finding rows");
}

/* Rows of the host's ids[]: canonical keys of all their pairs. */
static kith_status solve_some(kin_exact_gpu_answers *a, kin_exact_gpu_solving *s,
                              const uint32_t *ids)
{
    const kin_screen_gpu_device *on = &a->on;
    const uint64_t n = (uint64_t)s->count;
    const uint64_t pairs = kin_size_mul(n, (uint64_t)s->k);
    uint32_t *device_ids = NULL;
    kin_pair *host_pairs = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, device_ids, n, "rows to solve");
    s->ids = device_ids;
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, device_ids, ids, n * sizeof *ids));
    KIN_TRY(s->among != NULL ? kin_exact_gpu_pick_among(on, s) : kin_exact_gpu_direct_rows(on, s));
    if (a->kernels_write) {
        return kin_exact_gpu_answers_write(a, s->pairs, NULL, s->k, device_ids, s->count);
    }
    KIN_NEW(&hold, host_pairs, pairs, "neighbours of a batch");
    KIN_TRY(kin_gpu_download(on->ctx, on->gpu, host_pairs, s->pairs, pairs * sizeof *host_pairs));
    return kin_exact_gpu_answers_take_whole(a, host_pairs, ids, s->count, s->k);
}

kith_status kin_exact_gpu_answers_solve(kin_exact_gpu_answers *a, const kin_screen_gpu_rows *rows,
                                        const kin_screen_gpu_rows *cols, const uint32_t *ids,
                                        int64_t count)
{
    const kin_screen_gpu_device *on = &a->on;
    const int64_t found = a->among != NULL ? a->among->points : cols->rows;
    const int32_t k = (int32_t)kin_min_i64(a->wanted, found);
    const uint64_t quarter = kin_gpu_scope(on->gpu) / 4;
    const uint64_t bytes = quarter > LEAST_PAIRS ? quarter : LEAST_PAIRS;
    const int64_t fit = (int64_t)(bytes / ((uint64_t)k * sizeof(kin_screen_gpu_pair)));
    const int64_t most = kin_min_i64(count, kin_max_i64(1, kin_min_i64(fit, SOLVED_AT_ONCE)));
    kin_exact_gpu_solving s = {.rows = rows, .cols = cols, .among = a->among, .k = k};
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, s.pairs, kin_size_mul((uint64_t)most, (uint64_t)k),
                "neighbours of a batch");
    for (int64_t first = 0; first < count; first += most) {
        s.count = kin_min_i64(most, count - first);
        KIN_TRY(solve_some(a, &s, ids + first));
    }
    return KITH_OK;
}

/* Ids of the lost rows, to the host. */
static kith_status name_rows(const rerun *r, int64_t count, uint32_t *names)
{
    const kin_screen_gpu_device *on = &r->a->on;
    const int64_t most = kin_min_i64(count, SOLVED_AT_ONCE);
    uint32_t *ids = NULL;
    double *reach = NULL;
    KIN_HOLD(hold, on->ctx);
    KIN_GPU_NEW(&hold, on->gpu, ids, (uint64_t)most, "rows to solve");
    KIN_GPU_NEW(&hold, on->gpu, reach, (uint64_t)most, "rows to solve");
    for (int64_t first = 0; first < count; first += most) {
        const int64_t some = kin_min_i64(most, count - first);
        KIN_TRY(take_some(r, first, some, ids, reach));
        KIN_TRY(
            kin_gpu_download(on->ctx, on->gpu, names + first, ids, (uint64_t)some * sizeof *ids));
    }
    return KITH_OK;
}

/* Without room for another try: canonical keys of all pairs at once. */
static kith_status solve_all(const rerun *r, int64_t count)
{
    uint32_t *ids = NULL;
    KIN_HOLD(hold, r->a->on.ctx);
    KIN_NEW(&hold, ids, (uint64_t)count, "rows to solve");
    KIN_TRY(name_rows(r, count, ids));
    return kin_exact_gpu_answers_solve(r->a, r->rows, r->cols, ids, count);
}

static rerun rerun_of(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                      const kin_screen_gpu_rows *rows, const kin_screen_gpu_rows *cols)
{
    return (rerun){a, work, rows, cols, (const uint32_t *)work->before};
}

/* By position, which rows lost candidates: for the host, which leaves them out. */
static kith_status bring_lost(kin_hold *hold, const kin_exact_gpu_answers *a,
                              const kin_screen_gpu_work *work, uint8_t **lost)
{
    const uint64_t rows = (uint64_t)work->rows.points;
    if (a->kernels_write) {
        return KITH_OK;
    }
    KIN_NEW(hold, *lost, rows, "row flags");
    return kin_gpu_download(a->on.ctx, a->on.gpu, *lost, work->lists.lost, rows);
}

/* Complete lists of a work that are brought together nowhere else; *count: of those that are not.
 */
static kith_status take_lists(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                              const kin_screen_gpu_rows *rows, const kin_screen_gpu_rows *cols,
                              int64_t *count)
{
    uint8_t *lost = NULL;
    uint64_t *found = NULL;
    KIN_HOLD(hold, a->on.ctx);
    KIN_TRY(kin_screen_gpu_work_lost(work, &found));
    KIN_TRY(bring_lost(&hold, a, work, &lost));
    KIN_TRY(rescore_all(a, work, rows, cols, lost));
    KIN_TRY(kin_screen_gpu_work_lost_wait(work));
    *count = (int64_t)*found;
    return KITH_OK;
}

/* What is worst of all rows is no better than what is worst of these. */
static kith_status run_batch(const rerun *r, int64_t first, int64_t count, int32_t capacity)
{
    const kin_screen_gpu_device *on = &r->a->on;
    int64_t again = 0;
    kin_screen_gpu_worst *col_worst = NULL;
    kin_screen_gpu_chosen chosen = kin_screen_gpu_chosen_of(&r->work->rows.frame, count);
    kin_screen_gpu_work work = {.on = *on, .cols = r->work->cols};
    chosen.set.worst = r->work->rows.worst;
    kith_status status = kin_screen_gpu_chosen_make(on, &chosen);
    work.rows = chosen.set;
    KIN_THEN(status, kin_gpu_alloc(on->ctx, on->gpu, &col_worst,
                                   (uint64_t)(work.cols.padded / KIN_SCREEN_GPU_TILE),
                                   sizeof *col_worst, "the worst of tiles"));
    KIN_THEN(status, kin_screen_gpu_worst_find(on, &work.cols, col_worst));
    work.col_worst = col_worst;
    KIN_THEN(status, kin_screen_gpu_work_make(&work, r->work->lists.k, capacity));
    KIN_THEN(status, take_some(r, first, count, chosen.ids, work.lists.reach));
    KIN_THEN(status, kin_screen_gpu_chosen_round(on, r->rows, &chosen));
    KIN_THEN(status, kin_screen_gpu_work_rerun(&work));
    KIN_THEN(status, take_lists(r->a, &work, r->rows, r->cols, &again));
    KIN_THEN(status, kin_screen_gpu_work_tally(&work, &r->a->tally));
    const rerun rest = rerun_of(r->a, &work, r->rows, r->cols);
    KIN_THEN(status, again > 0 ? solve_all(&rest, again) : KITH_OK);
    kin_screen_gpu_work_free(&work);
    kin_gpu_free(on->gpu, col_worst);
    kin_gpu_free(on->gpu, chosen.block);
    return status;
}

/* The `count` rows of a work that lost candidates. In the end by canonical keys of all pairs, so
 * this always ends. */
static kith_status run_again(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                             const kin_screen_gpu_rows *rows, const kin_screen_gpu_rows *cols,
                             int64_t count)
{
    const rerun r = rerun_of(a, work, rows, cols);
    const uint64_t room = kin_gpu_scope(a->on.gpu) / 4;
    const int64_t words = (int64_t)((room < LIST_BYTES ? room : LIST_BYTES) / sizeof(uint64_t));
    const int64_t wished = kin_max_i64((int64_t)ROOM_A_NEIGHBOUR * work->lists.k + ROOM,
                                       2 * (int64_t)work->lists.capacity);
    const int64_t useful = kin_min_i64(wished, kin_max_i64(work->cols.padded, work->lists.k + 8));
    const int32_t capacity = (int32_t)kin_min_i64(useful, words / KIN_SCREEN_GPU_BLOCK);
    const int64_t most =
        words / kin_max_i64(capacity, 1) / KIN_SCREEN_GPU_BLOCK * KIN_SCREEN_GPU_BLOCK;
    const bool twice =
        capacity > work->lists.capacity + work->lists.capacity / 2 || capacity >= useful;
    for (int64_t first = 0; twice && first < count; first += most) {
        KIN_TRY(run_batch(&r, first, kin_min_i64(most, count - first), capacity));
    }
    return twice ? KITH_OK : solve_all(&r, count);
}

/* ---- Lists on their way ---------------------------------------------------------------------- */

/* What a member shows of a batch. */
typedef struct batch {
    const kin_screen_gpu_pair *pairs;
    const int32_t *counts;
} batch;

/* Rows of batch number b of a part: *row0 and how many. */
static int64_t rows_of(const kin_exact_gpu_relay *relay, int32_t part, int64_t b, int64_t most,
                       int64_t *row0)
{
    *row0 = relay->firsts[part] + b * most;
    return kin_max_i64(0, kin_min_i64(most, relay->firsts[part + 1] - *row0));
}

static int64_t batches_of(const kin_exact_gpu_relay *relay, int32_t parts, int64_t most)
{
    int64_t count = 0;
    for (int32_t p = 0; p < parts; p++) {
        count = kin_max_i64(count, kin_ceil_div(relay->firsts[p + 1] - relay->firsts[p], most));
    }
    return count;
}

/* By the first member: its own batch, then those of the others, by way of its own memory. */
static kith_status deliver_batch(const kin_exact_gpu_relay *relay, kin_exact_gpu_delivery *d,
                                 int64_t b)
{
    const kin_screen_gpu_device *on = &relay->answers->on;
    for (int32_t p = 0; p < kin_gpu_parts(on->gpu); p++) {
        int64_t row0 = 0;
        const int64_t rows = rows_of(relay, p, b, d->most, &row0);
        const uint64_t n = (uint64_t)rows;
        if (rows == 0) {
            continue;
        }
        if (p > 0) {
            const batch *theirs = kin_gpu_shown(on->gpu, p);
            KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, d->pairs, theirs->pairs,
                                      n * (uint64_t)d->k * sizeof *d->pairs));
            KIN_TRY(kin_gpu_copy_from(on->ctx, on->gpu, p, d->counts, theirs->counts,
                                      n * sizeof *d->counts));
        }
        KIN_TRY(relay->deliver(relay->arg, d, row0, rows));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

static kith_status compute_batch(const kin_exact_gpu_relay *relay, kin_exact_gpu_delivery *d,
                                 int64_t b)
{
    const kin_screen_gpu_device *on = &relay->answers->on;
    int64_t row0 = 0;
    const int64_t rows = rows_of(relay, kin_gpu_part(on->gpu), b, d->most, &row0);
    if (rows > 0) {
        KIN_TRY(relay->compute(relay->arg, d, row0, rows));
    }
    return kin_gpu_wait(on->ctx, on->gpu);
}

kith_status kin_exact_gpu_team_relay(const kin_exact_gpu_relay *relay)
{
    kin_gpu *gpu = relay->answers->on.gpu;
    const bool delivers = kin_gpu_part(gpu) == 0;
    kin_exact_gpu_delivery d = {0};
    KIN_HOLD(hold, relay->answers->on.ctx);
    kith_status status =
        kin_exact_gpu_delivery_make(&hold, relay->answers, relay->rows, relay->k, &d);
    if (status == KITH_OK && delivers && relay->begin != NULL) {
        status = relay->begin(relay->arg, &d);
    }
    status = kin_gpu_meet(gpu, status);
    const int64_t batches = status == KITH_OK ? batches_of(relay, kin_gpu_parts(gpu), d.most) : 0;
    for (int64_t b = 0; b < batches && status == KITH_OK; b++) {
        const kith_status own = compute_batch(relay, &d, b);
        const batch mine = {d.pairs, d.counts};
        kin_gpu_show(gpu, &mine);
        status = kin_gpu_meet(gpu, own);
        KIN_THEN(status, kin_gpu_meet(gpu, delivers ? deliver_batch(relay, &d, b) : KITH_OK));
    }
    return status;
}

/* ---- The answers of a graph ------------------------------------------------------------------ */

typedef struct answering {
    kin_exact_gpu_answers *a;
    const kin_screen_gpu_work *work;
    const kin_screen_gpu_rows *rows;
    const kin_screen_gpu_rows *cols;
    const uint8_t *lost;
} answering;

static kith_status rescore_some(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows)
{
    const answering *g = arg;
    return rescore(d, g->work, g->rows, g->cols, row0, rows);
}

static kith_status deliver_some(void *arg, kin_exact_gpu_delivery *d, int64_t row0, int64_t rows)
{
    const answering *g = arg;
    return kin_exact_gpu_delivery_run(g->a, d, g->work->rows.ids + row0, rows,
                                      g->lost == NULL ? NULL : g->lost + row0);
}

/* Sums of all members, to the first one. */
static kith_status add_tallies(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work)
{
    kin_gpu *gpu = a->on.gpu;
    kin_screen_gpu_tally own = {0};
    const kith_status status = kin_screen_gpu_work_tally(work, &own);
    kin_gpu_show(gpu, &own);
    KIN_TRY(kin_gpu_meet(gpu, status));
    for (int32_t p = 0; p < work->share.parts; p++) {
        const kin_screen_gpu_tally *one = kin_gpu_shown(gpu, p);
        a->tally.pairs += one->pairs;
        a->tally.skipped += one->skipped;
        a->tally.keys += one->keys;
    }
    return kin_gpu_meet(gpu, KITH_OK);
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* By a team: the first one's count. */
static kith_status take_shared(const answering *g, int64_t *count)
{
    kin_exact_gpu_answers *a = g->a;
    const kin_screen_gpu_work *work = g->work;
    answering own = *g;
    uint8_t *lost = NULL;
    uint64_t *found = NULL;
    kith_status status = KITH_OK;
    KIN_HOLD(hold, a->on.ctx);
    KIN_TRY(kin_gpu_gather(a->on.ctx, a->on.gpu, work->lists.lost, sizeof *work->lists.lost,
                           work->share.firsts));
    if (work->share.part == 0) {
        status = kin_screen_gpu_work_lost(work, &found);
        KIN_THEN(status, bring_lost(&hold, a, work, &lost));
        KIN_THEN(status, kin_screen_gpu_work_lost_wait(work));
        *count = status == KITH_OK ? (int64_t)*found : 0;
    }
    KIN_TRY(kin_gpu_meet(a->on.gpu, status));
    own.lost = lost;
    const kin_exact_gpu_relay relay = {.answers = a,
                                       .firsts = work->share.firsts,
                                       .rows = work->rows.points,
                                       .k = work->lists.k,
                                       .compute = rescore_some,
                                       .deliver = deliver_some,
                                       .arg = &own};
    KIN_TRY(kin_exact_gpu_team_relay(&relay));
    return add_tallies(a, work);
}

kith_status kin_exact_gpu_answers_take(kin_exact_gpu_answers *a, const kin_screen_gpu_work *work,
                                       const kin_screen_gpu_rows *rows,
                                       const kin_screen_gpu_rows *cols)
{
    const answering g = {a, work, rows, cols, NULL};
    const bool alone = work->share.parts == 0; /* one of a team may be, too: a descent's control */
    int64_t count = 0;
    KIN_TRY(alone ? take_lists(a, work, rows, cols, &count) : take_shared(&g, &count));
    if (count > 0) {
        a->tally.reruns += (double)count;
        KIN_TRY(run_again(a, work, rows, cols, count));
    }
    return alone ? kin_screen_gpu_work_tally(work, &a->tally) : KITH_OK; /* at last: it waits */
}
