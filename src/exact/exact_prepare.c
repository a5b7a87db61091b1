/* SPDX-License-Identifier: Apache-2.0 */
#include "exact/exact_prepare.h"

#include "base/base_size.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"

#include <stdio.h>

/* ---- Equal rows ------------------------------------------------------------------------------ */

enum { ROWS_A_TASK = 4096 };

typedef struct hashing {
    const kin_rows *rows;
    uint64_t row_bytes;
    uint64_t *hashes;
} hashing;

static const unsigned char *row_of(const kin_rows *rows, int64_t row)
{
    const unsigned char *data = rows->matrix.data;
    return data + row * rows->matrix.stride_bytes;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b | 1);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two independent chains, so that the multiplier is busy. Equal bytes give equal hashes; a
 * collision costs a comparison, not an answer. */
static uint64_t hash_bytes(const unsigned char *bytes, uint64_t count)
{
    uint64_t a = 0xd6e8feb86659fd93u;
    uint64_t b = 0xa0761d6478bd642fu;
    uint64_t words[2];
    uint64_t i = 0;
    for (; i + sizeof words <= count; i += sizeof words) {
        memcpy(words, bytes + i, sizeof words);
        a = mix(a, words[0]) + words[0];
        b = mix(b, words[1]) + words[1];
    }
    memset(words, 0, sizeof words);
    memcpy(words, bytes + i, (size_t)(count - i));
    a = mix(a, words[0] ^ count);
    b = mix(b, words[1]);
    return mix(a, b);
}

static kith_status hash_rows(void *arg, int64_t row, int32_t thread)
{
    (void)thread;
    const hashing *h = arg;
    h->hashes[row] = hash_bytes(row_of(h->rows, row), h->row_bytes);
    return KITH_OK;
}

static bool is_degenerate(const kin_rows *rows, int64_t row)
{
    return rows->transforms != NULL && rows->transforms[row].degenerate != 0.0;
}

/* An open table of firsts, at most half full. Rows are entered in rising id, so that the first that
 * is found is the lowest. */
typedef struct table {
    uint32_t *slots;
    uint64_t mask;
    uint32_t *last; /* by first: the last id of its group so far; NULL while all are alone */
} table;

static uint64_t table_slots(int64_t rows)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)rows) {
        slots *= 2;
    }
    return slots;
}

/* The group of a row: its first, which is the row itself when it is new. */
static uint32_t enter(const table *t, const hashing *h, uint32_t row)
{
    for (uint64_t at = h->hashes[row] & t->mask;; at = (at + 1) & t->mask) {
        const uint32_t first = t->slots[at];
        if (first == KITH_ID_NONE) {
            t->slots[at] = row;
            return row;
        }
        if (h->hashes[first] == h->hashes[row] &&
            memcmp(row_of(h->rows, first), row_of(h->rows, row), (size_t)h->row_bytes) == 0) {
            return first;
        }
    }
}

/* Where rows are entered one after the other, each waits for its slot: it is asked for this many
 * rows before. */
enum { ROWS_AHEAD = 16 };

static void ask_ahead(const table *t, const hashing *h, int64_t row)
{
    if (row + ROWS_AHEAD < h->rows->matrix.rows) {
        __builtin_prefetch(&t->slots[h->hashes[row + ROWS_AHEAD] & t->mask], 1);
    }
}

/* What only groups of several rows need, made when the first of them is found. */
static kith_status make_chains(kith_ctx *ctx, table *t, kin_groups *groups)
{
    const uint64_t n = (uint64_t)groups->rows;
    KIN_TRY(kin_alloc(ctx, &groups->weights, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, &groups->next, n, sizeof(uint32_t), "groups of equal rows"));
    KIN_TRY(kin_alloc(ctx, &t->last, n, sizeof(uint32_t), "groups of equal rows"));
    memset(groups->next, 0xff, (size_t)n * sizeof *groups->next);
    for (uint64_t i = 0; i < n; i++) {
        groups->weights[i] = 1;
        t->last[i] = (uint32_t)i;
    }
    return KITH_OK;
}

static kith_status note_degenerate(kith_ctx *ctx, uint32_t row, kin_groups *groups)
{
    if (groups->degenerates == NULL) {
        KIN_TRY(kin_alloc(ctx, &groups->degenerates, (uint64_t)groups->rows, sizeof(uint32_t),
                          "degenerate rows"));
    }
    groups->degenerates[groups->degenerate++] = row;
    return KITH_OK;
}

/* A row that is not degenerate, after those before it. */
static kith_status add_row(kith_ctx *ctx, table *t, uint32_t row, uint32_t first,
                           kin_groups *groups)
{
    if (first == row) {
        groups->firsts[groups->count++] = row;
        return KITH_OK;
    }
    if (t->last == NULL) {
        KIN_TRY(make_chains(ctx, t, groups));
    }
    groups->next[t->last[first]] = row;
    groups->weights[first] += 1;
    t->last[first] = row;
    return KITH_OK;
}

static kith_status collect(kith_ctx *ctx, const hashing *h, table *t, kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        const uint32_t row = (uint32_t)i;
        ask_ahead(t, h, i);
        if (is_degenerate(h->rows, i)) {
            KIN_TRY(note_degenerate(ctx, row, groups));
            continue;
        }
        KIN_TRY(add_row(ctx, t, row, enter(t, h, row), groups));
    }
    return KITH_OK;
}

/* Every row that is not degenerate is a group. */
static kith_status list_rows(kith_ctx *ctx, const kin_rows *rows, kin_groups *groups)
{
    for (int64_t i = 0; i < groups->rows; i++) {
        if (is_degenerate(rows, i)) {
            KIN_TRY(note_degenerate(ctx, (uint32_t)i, groups));
        } else {
            groups->firsts[groups->count++] = (uint32_t)i;
        }
    }
    return KITH_OK;
}

static kith_status find_groups(kith_ctx *ctx, hashing *h, table *t, kin_groups *groups)
{
    const uint64_t slots = table_slots(groups->rows);
    KIN_TRY(kin_alloc(ctx, &h->hashes, (uint64_t)groups->rows, sizeof(uint64_t), "hashes of rows"));
    KIN_TRY(kin_alloc(ctx, &t->slots, slots, sizeof(uint32_t), "a table of rows"));
    t->mask = slots - 1;
    memset(t->slots, 0xff, (size_t)slots * sizeof *t->slots);
    KIN_TRY(kin_parallel_rows(ctx, "prepare", groups->rows, ROWS_A_TASK, hash_rows, h));
    return collect(ctx, h, t, groups);
}

kith_status kin_groups_make(kith_ctx *ctx, const kin_rows *rows, bool distinguish,
                            kin_groups *groups)
{
    *groups = (kin_groups){.rows = rows->matrix.rows};
    hashing h = {.rows = rows,
                 .row_bytes =
                     (uint64_t)rows->matrix.cols * (uint64_t)kith_dtype_bytes(rows->matrix.dtype)};
    table t = {0};
    kith_status status =
        kin_alloc(ctx, &groups->firsts, (uint64_t)groups->rows, sizeof(uint32_t), "distinct rows");
    KIN_THEN(status, distinguish ? list_rows(ctx, rows, groups) : find_groups(ctx, &h, &t, groups));
    kin_free(ctx, t.slots);
    kin_free(ctx, h.hashes);
    kin_free(ctx, t.last);
    if (status != KITH_OK) {
        kin_groups_free(ctx, groups);
    }
    return status;
}

kith_status kin_groups_of_firsts(kith_ctx *ctx, int64_t rows, const uint32_t *firsts,
                                 const uint8_t *degenerate, kin_groups *groups)
{
    table t = {0};
    *groups = (kin_groups){.rows = rows};
    kith_status status =
        kin_alloc(ctx, &groups->firsts, (uint64_t)rows, sizeof *groups->firsts, "distinct rows");
    for (int64_t i = 0; status == KITH_OK && i < rows; i++) {
        const uint32_t row = (uint32_t)i;
        status = degenerate != NULL && degenerate[i] != 0
                     ? note_degenerate(ctx, row, groups)
                     : add_row(ctx, &t, row, firsts != NULL ? firsts[i] : row, groups);
    }
    kin_free(ctx, t.last);
    if (status != KITH_OK) {
        kin_groups_free(ctx, groups);
    }
    return status;
}

void kin_groups_free(kith_ctx *ctx, kin_groups *groups)
{
    kin_free(ctx, groups->degenerates);
    kin_free(ctx, groups->next);
    kin_free(ctx, groups->weights);
    kin_free(ctx, groups->firsts);
    memset(groups, 0, sizeof *groups);
}

static void plan_kept(kin_layout *plan, uint64_t n, kin_rows_known known)
{
    kin_layout_alone(plan, n, sizeof(uint32_t)); /* firsts */
    for (int chain = 0; known.equal && chain < 2; chain++) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
    if (known.degenerate) {
        kin_layout_alone(plan, n, sizeof(uint32_t));
    }
}

static void plan_groups(kin_layout *plan, int64_t rows, bool distinguish, kin_rows_known known)
{
    const uint64_t n = (uint64_t)rows;
    known.equal = known.equal && !distinguish;
    plan_kept(plan, n, known);
    if (distinguish) {
        return;
    }
    const uint64_t kept = kin_layout_mark(plan);
    kin_layout_alone(plan, n, sizeof(uint64_t));
    kin_layout_alone(plan, table_slots(rows), sizeof(uint32_t));
    if (known.equal) {
        kin_layout_alone(plan, n, sizeof(uint32_t)); /* last */
    }
    kin_layout_back(plan, kept);
}

/* ---- Prepared rows ----------------------------------------------------------------------------
 */

static kith_status transform(kith_ctx *ctx, kin_prepared *prepared)
{
    if (!kin_metric_get_traits(prepared->distance.metric)->transforms) {
        return KITH_OK;
    }
    kin_row_transform *transforms = NULL;
    KIN_TRY(kin_alloc(ctx, &transforms, (uint64_t)prepared->rows.matrix.rows, sizeof *transforms,
                      "row norms"));
    prepared->rows.transforms = transforms;
    return kin_metric_transforms(ctx, &prepared->rows.matrix, prepared->distance.metric,
                                 transforms);
}

/* What the metric makes of rows, and which are equal. */
static kith_status group_rows(kith_ctx *ctx, bool distinguish, kin_prepared *p)
{
    KIN_TRY(transform(ctx, p));
    KIN_TRY(kin_groups_make(ctx, &p->rows, distinguish, &p->groups));
    const uint64_t count = (uint64_t)p->groups.count;
    KIN_TRY(kin_alloc(ctx, &p->order, count, sizeof *p->order, "the order of the points"));
    memcpy(p->order, p->groups.firsts, (size_t)count * sizeof *p->order);
    return KITH_OK;
}

kith_status kin_prepare_rows(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             const char *name, int flags, kin_prepared *prepared)
{
    memset(prepared, 0, sizeof *prepared);
    prepared->rows.matrix = *matrix;
    prepared->distance = *distance;
    int64_t start = kin_clock_ns();
    if ((flags & KIN_ROWS_CHECKED) == 0) {
        KIN_TRY(kin_metric_check(ctx, matrix, distance->metric, name));
        KIN_TRY(kin_metric_check_box(ctx, matrix, distance, name));
    }
    prepared->seconds_check = kin_clock_since(start);
    start = kin_clock_ns();
    const kith_status status = group_rows(ctx, (flags & KIN_ROWS_DISTINCT) != 0, prepared);
    prepared->seconds_prepare = kin_clock_since(start);
    if (status != KITH_OK) {
        kin_prepared_free(ctx, prepared);
    }
    return status;
}

kin_rows_known kin_prepare_unknown(const kith_matrix *matrix, const kin_distance *distance)
{
    return (kin_rows_known){.distinct = matrix->rows,
                            .equal = true,
                            .degenerate = kin_metric_get_traits(distance->metric)->transforms};
}

kith_status kin_prepare_know(kith_ctx *ctx, const kith_matrix *matrix, const kin_distance *distance,
                             kin_rows_known *known)
{
    kin_prepared prepared;
    *known = kin_prepare_unknown(matrix, distance);
    const kith_status status =
        kin_prepare_rows(ctx, matrix, distance, "corpus", KIN_ROWS_CHECKED, &prepared);
    if (status == KITH_E_MEMORY || status == KITH_E_LIMIT) {
        kin_forgive(ctx);
        return KITH_OK;
    }
    KIN_TRY(status);
    *known = (kin_rows_known){.distinct = prepared.groups.count,
                              .equal = prepared.groups.next != NULL,
                              .degenerate = prepared.groups.degenerate > 0,
                              .counted = true};
    kin_prepared_free(ctx, &prepared);
    return KITH_OK;
}

void kin_prepare_rows_plan(kin_layout *plan, int64_t rows, const kin_distance *distance,
                           bool distinguish, kin_rows_known known)
{
    if (kin_metric_get_traits(distance->metric)->transforms) {
        kin_layout_alone(plan, (uint64_t)rows, sizeof(kin_row_transform));
    }
    plan_groups(plan, rows, distinguish, known);
    kin_layout_alone(plan, (uint64_t)(distinguish ? rows : known.distinct), sizeof(uint32_t));
}

void kin_glance_free(kith_ctx *ctx, kin_glance *glance)
{
    kin_free(ctx, glance->lost);
    kin_set_free(ctx, &glance->cast);
    kin_free(ctx, glance->shadow.block);
    memset(glance, 0, sizeof *glance);
}

void kin_prepared_free(kith_ctx *ctx, kin_prepared *prepared)
{
    kin_cover_free(ctx, &prepared->cover);
    kin_glance_free(ctx, &prepared->glance);
    kin_set_free(ctx, &prepared->cast);
    kin_free(ctx, prepared->shadow.block);
    kin_set_free(ctx, &prepared->set);
    kin_frame_stats_free(ctx, &prepared->stats);
    kin_free(ctx, prepared->order);
    kin_groups_free(ctx, &prepared->groups);
    /* The pointer is const for readers; the block is ours. */
    union {
        const kin_row_transform *read;
        kin_row_transform *own;
    } transforms = {prepared->rows.transforms};
    kin_free(ctx, transforms.own);
    memset(prepared, 0, sizeof *prepared);
}

void kin_prepared_tell(kith_ctx *ctx, const kin_prepared *prepared)
{
    ctx->report.seconds_check += prepared->seconds_check;
    ctx->report.seconds_prepare += prepared->seconds_prepare;
}

static void give_prepared(void *ctx, void *prepared)
{
    kin_prepared_free(ctx, prepared);
}

void kin_prepared_hold(kin_hold *hold, kin_prepared *prepared)
{
    kin_hold_take(hold, give_prepared, hold->ctx, prepared);
}

/* ---- What is asked --------------------------------------------------------------------------- */

bool kin_exact_screens(const kin_distance *distance)
{
    return distance->period == NULL &&
           kin_metric_get_traits(distance->metric)->screen != KIN_SCREEN_DIRECT;
}

bool kin_exact_job_screens(const kin_request *request)
{
    return request->pipeline == NULL && !request->compares && kin_exact_screens(&request->distance);
}

void kin_exact_note_pipeline(kith_ctx *ctx, const kin_pipeline *pipeline)
{
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", pipeline->name);
}

void kin_exact_report(kith_ctx *ctx, const kin_prepared *corpus)
{
    const char *screen = "direct";
    if (kin_exact_screens(&corpus->distance)) {
        screen =
            corpus->frame.kernel != NULL ? kin_tile_type_name(corpus->frame.kernel->type) : "none";
    }
    (void)snprintf(ctx->report.screen, sizeof ctx->report.screen, "%s", screen);
    (void)snprintf(ctx->report.isa, sizeof ctx->report.isa, "%s", kin_isa_name(ctx->isa));
}
