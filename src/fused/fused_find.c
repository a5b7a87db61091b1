/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A radius is a reach that is known from the start and never tightened, so one screen of all
 * columns decides, and what it keeps has only to be collected. How many that is nobody knows
 * before:
 *
 *      rows, some blocks at a time   lists of about twice what rows had so far
 *        all counts                  counted beyond the lists' room: exact for every row
 *        rows that fit               canonical keys, to the host
 *      rows that did not             a set of their own, sorted by count: lists of about that room
 *      lists beyond the memory       columns in parts: no list is longer than its part
 *
 * So a row is screened twice, at the very most three times, and always ends. Answers may be as
 * large as the product of both sizes: only the host holds them.
 *
 * Cost. A graph whose lists all fit is screened as n x n / 2 pairs, both ends collecting, once a
 * sample has told how long lists are; else one-sided, as searches are. Rows that are screened again
 * are a set without balls: nothing is skipped for them.
 */
#include "fused/fused_find.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"
#include "select/select_pairs.h"

enum {
    PILOT_BLOCKS = 8,
    SAMPLE_SHARE = 16, /* one row in so many of a graph is counted first */
    MOST_SAMPLE = 2048,
    LEAST_GRAPH = 4096, /* points: fewer are not worth a sample */
    LEAST_CAPACITY = 64,
    SPARE_SHARE = 64,
    FIRST_CAPACITY = 1024
};
static const uint64_t MOST_MEMORY = UINT64_C(4) << 30;
static const uint64_t LEAST_MEMORY = 1u << 20;

uint64_t kin_fused_finder_memory(const kin_fused_device *on)
{
    const uint64_t half = kin_gpu_room(on->gpu) / 2;
    const uint64_t some = half < MOST_MEMORY ? half : MOST_MEMORY;
    return some > LEAST_MEMORY ? some : LEAST_MEMORY;
}

/* Rows with lists of `wanted` places, or, where that is beyond the memory, with all columns in
 * parts that lists can hold. */
static kith_status run_rows(kin_fused_finder *f, const kin_fused_finding *what,
                            const kin_fused_set *rows, int64_t wanted, kin_fused_rest *again)
{
    const int64_t columns = what->cols.points;
    const int64_t most = kin_fused_list_words(f) / rows->padded;
    kin_fused_part p = {.rows = rows, .count = columns, .again = again};
    if (wanted <= most || columns <= most) {
        p.capacity = kin_min_i64(wanted, kin_round_up(columns, 8));
        return kin_fused_collect(f, what, p);
    }
    const int64_t fit = kin_max_i64(most / KIN_FUSED_BLOCK, 1) * KIN_FUSED_BLOCK;
    p.again = NULL;
    for (p.first = 0; p.first < columns; p.first += fit) {
        p.count = kin_min_i64(fit, columns - p.first);
        p.capacity = kin_round_up(p.count, 8);
        KIN_TRY(kin_fused_collect(f, what, p));
    }
    return KITH_OK;
}

/* ---- Rows that lost candidates -------------------------------------------------------------- */

/* A set of these rows, rounded again. */
static kith_status choose_rows(const kin_fused_finder *f, const kin_fused_finding *what,
                               const uint32_t *ids, int64_t count, kin_fused_chosen *c)
{
    const kin_fused_device *on = &f->on;
    *c = kin_fused_chosen_of(&what->rows.frame, count);
    c->set.worst = what->rows.worst;
    KIN_TRY(kin_fused_chosen_make(on, c));
    KIN_TRY(kin_gpu_upload(on->ctx, on->gpu, c->ids, ids, (uint64_t)count * sizeof *ids));
    return kin_fused_chosen_round(on, what->row_matrix, c);
}

/* Rows of words[0 .. count). */
static kith_status run_chosen(kin_fused_finder *f, const kin_fused_finding *what,
                              const uint64_t *words, int64_t count, int64_t wanted,
                              kin_fused_rest *again)
{
    kith_ctx *ctx = f->on.ctx;
    uint32_t *ids = NULL;
    kin_fused_chosen c = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_alloc(ctx, &ids, (uint64_t)count, sizeof *ids, "rows to screen again"),
                 done);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)words[i];
    }
    KIN_TRY_GOTO(status, choose_rows(f, what, ids, count, &c), done);
    status = run_rows(f, what, &c.set, wanted, again);
done:
    kin_gpu_free(f->on.gpu, c.block);
    kin_free(ctx, ids);
    return status;
}

/* Rows with the largest numbers first; whole: lists of all columns. */
static kith_status run_again(kin_fused_finder *f, const kin_fused_finding *what,
                             const kin_fused_rest *lost, bool whole, kin_fused_rest *again)
{
    kin_select_sort_words(lost->words, lost->count);
    f->tally.reruns += (double)lost->count;
    for (int64_t left = lost->count; left > 0;) {
        const int64_t counted = (int64_t)(lost->words[left - 1] >> 32);
        const int64_t wanted =
            whole ? kin_round_up(what->cols.points, 8)
                  : kin_round_up(counted + counted / SPARE_SHARE + LEAST_CAPACITY, 8);
        const int64_t blocks = kin_fused_list_words(f) / wanted / KIN_FUSED_BLOCK;
        const int64_t count = kin_min_i64(left, kin_max_i64(blocks, 1) * KIN_FUSED_BLOCK);
        KIN_TRY(run_chosen(f, what, lost->words + left - count, count, wanted, again));
        left -= count;
    }
    return KITH_OK;
}

/* Until no row has lost candidates. Costs of floats depend in their last bits on which end is the
 * row, so a number that was counted from the other end may be a little less than the row's own. */
static kith_status run_rest(kin_fused_finder *f, const kin_fused_finding *what,
                            kin_fused_rest *lost)
{
    for (bool whole = false; lost->count > 0; whole = true) {
        kin_fused_rest next = {.room = lost->count};
        KIN_TRY(kin_alloc(f->on.ctx, &next.words, (uint64_t)next.room, sizeof *next.words,
                          "rows to screen again"));
        const kith_status status = run_again(f, what, lost, whole, &next);
        kin_free(f->on.ctx, lost->words);
        *lost = next;
        KIN_TRY(status);
    }
    return KITH_OK;
}

/* ---- All rows ------------------------------------------------------------------------------- */

/* Twice what rows had so far, and at least a little. */
static int64_t capacity_of(const kin_fused_finder *f)
{
    if (f->expected < 0.0) {
        return FIRST_CAPACITY;
    }
    return kin_round_up((int64_t)(2.0 * f->expected) + LEAST_CAPACITY, 8);
}

static int64_t rows_at_once(const kin_fused_finder *f, int64_t capacity)
{
    const int64_t blocks = kin_fused_list_words(f) / capacity / KIN_FUSED_BLOCK;
    const int64_t most = f->expected < 0.0 ? kin_min_i64(blocks, PILOT_BLOCKS) : blocks;
    return kin_max_i64(most, 1) * KIN_FUSED_BLOCK;
}

/* All rows of a graph at once, and those that lost candidates; other sets: positions first .. first
 * + count - 1. */
static kith_status run_stripe(kin_fused_finder *f, const kin_fused_finding *what, int64_t first,
                              int64_t count, int64_t capacity, bool both)
{
    const kin_fused_set rows = kin_fused_set_part(&what->rows, first, count);
    const double before = f->candidates;
    kin_fused_rest again = {.room = count};
    const kin_fused_part all = {.rows = &rows,
                                .count = what->cols.points,
                                .capacity = capacity,
                                .both = true,
                                .again = &again};
    kith_status status = KITH_OK;
    KIN_TRY(kin_alloc(f->on.ctx, &again.words, (uint64_t)count, sizeof *again.words,
                      "rows to screen again"));
    KIN_TRY_GOTO(
        status, both ? kin_fused_collect(f, what, all) : run_rows(f, what, &rows, capacity, &again),
        done);
    f->expected = (f->candidates - before) / (double)count;
    status = run_rest(f, what, &again);
done:
    kin_free(f->on.ctx, again.words);
    return status;
}

/* The same once more with less, as long as nothing was offered. */
static bool yields(kin_fused_finder *f, kith_status status, int64_t before)
{
    if (status != KITH_E_DEVICE_MEMORY || f->offered != before || f->memory <= LEAST_MEMORY) {
        return false;
    }
    kin_forgive(f->on.ctx);
    kin_gpu_trim(f->on.gpu);
    f->memory = f->memory / 2 > LEAST_MEMORY ? f->memory / 2 : LEAST_MEMORY;
    return true;
}

/* How many candidates rows of a graph have: a spread sample is counted. */
static kith_status count_sample(kin_fused_finder *f, const kin_fused_finding *what)
{
    const kin_fused_device *on = &f->on;
    const int64_t points = what->rows.points;
    const int64_t count =
        kin_max_i64(KIN_FUSED_BLOCK, kin_min_i64(points / SAMPLE_SHARE, MOST_SAMPLE));
    const double before = f->candidates;
    uint32_t *ids = NULL;
    kin_fused_chosen c = {0};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_alloc(on->ctx, &ids, (uint64_t)points, sizeof *ids, "ids of a graph"),
                 done);
    KIN_TRY_GOTO(
        status,
        kin_gpu_download(on->ctx, on->gpu, ids, what->rows.ids, (uint64_t)points * sizeof *ids),
        done);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = ids[points * i / count];
    }
    KIN_TRY_GOTO(status, choose_rows(f, what, ids, count, &c), done);
    const kin_fused_part all = {.rows = &c.set,
                                .count = what->cols.points,
                                .capacity = LEAST_CAPACITY,
                                .counts_alone = true};
    KIN_TRY_GOTO(status, kin_fused_collect(f, what, all), done);
    f->expected = (f->candidates - before) / (double)count;
done:
    kin_gpu_free(on->gpu, c.block);
    kin_free(on->ctx, ids);
    return status;
}

/* Both ends of each pair at once, where the lists of all rows fit. */
static kith_status find_both(kin_fused_finder *f, const kin_fused_finding *what, bool *found)
{
    const int64_t rows = what->rows.points;
    *found = false;
    if (rows < LEAST_GRAPH) {
        return KITH_OK;
    }
    KIN_TRY(count_sample(f, what));
    const int64_t capacity = capacity_of(f);
    if (capacity > kin_fused_list_words(f) / what->rows.padded) {
        return KITH_OK;
    }
    KIN_TRY(run_stripe(f, what, 0, rows, capacity, true));
    *found = true;
    return KITH_OK;
}

kith_status kin_fused_find(kin_fused_finder *f, const kin_fused_finding *what)
{
    const int64_t rows = what->rows.points;
    if (what->cols.points == 0) {
        return KITH_OK;
    }
    if (what->graph) {
        const int64_t before = f->offered;
        bool found = false;
        const kith_status status = find_both(f, what, &found);
        if (found || (status != KITH_OK && !yields(f, status, before))) {
            return status;
        }
    }
    for (int64_t first = 0; first < rows;) {
        const int64_t before = f->offered;
        const int64_t capacity = capacity_of(f);
        const int64_t count = kin_min_i64(rows_at_once(f, capacity), rows - first);
        const kith_status status = run_stripe(f, what, first, count, capacity, false);
        if (yields(f, status, before)) {
            continue;
        }
        KIN_TRY(status);
        first += count;
        KIN_TRY(kin_progress(f->on.ctx, "screen", (double)first, (double)rows));
    }
    return KITH_OK;
}
