/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_start.h"

#include "host/host_threads.h"

#include <string.h>

/* Consecutive positions are near each other (screen_prepare.h): what a task reads, it reads often.
 */
enum { POINTS_A_PASS = 1024, POINTS_A_TASK = 128, SIDES = 2, KINDS = 2 };

/* ---- Memory --------------------------------------------------------------------------------- */

/* Words of a thread: a list's offers and the list, or the nearest of a meeting: to each sample a
 * NEW one, to each NEW sample an OLD one. */
static uint64_t words_of(int32_t length, int32_t candidates)
{
    const uint64_t merge = (uint64_t)length + (uint64_t)kin_graph_lists_slots(length);
    const uint64_t meet = (uint64_t)candidates * SIDES * (KINDS + 1);
    /* A start writes a list, draws for it, and the next list (graph_fill.c). */
    return kin_size_add(merge > meet ? merge : meet, 2 * (uint64_t)length);
}

static void name_worker(kin_layout *layout, const kin_graph_rounds *rounds, kin_graph_thread *w)
{
    const int32_t most = rounds->candidates * SIDES;
    const uint64_t met = (uint64_t)most * KINDS;
    const uint64_t words = words_of(rounds->length, rounds->candidates);
    kin_graph_join_name(layout, rounds->points, most, most, &w->matcher);
    kin_graph_seen_name(layout, rounds->candidates, &w->seen);
    for (int i = 0; i < 2; i++) {
        w->meetings[i].positions = kin_layout_array(layout, met, sizeof(uint32_t));
    }
    w->across = kin_layout_array(layout, met, sizeof *w->across);
    w->worst = kin_layout_array(layout, met, sizeof *w->worst);
    w->words = kin_layout_array(layout, words, sizeof *w->words);
    w->orders = kin_layout_array(layout, 2 * (uint64_t)rounds->length, sizeof *w->orders);
}

static void name_arrays(kin_layout *layout, void *job)
{
    kin_graph_rounds *r = job;
    const int64_t points = r->points->count;
    kin_graph_lists_name(layout, points, r->length, &r->lists);
    kin_graph_samples_name(layout, points, r->candidates, &r->samples);
    r->workers = kin_layout_zeros(layout, (uint64_t)r->threads, sizeof *r->workers);
    for (int32_t t = 0; t < r->threads; t++) {
        kin_graph_thread spare;
        name_worker(layout, r, kin_layout_item(r->workers, t, &spare));
    }
}

kith_status kin_graph_rounds_make(kith_ctx *ctx, const kin_graph_points *points, int32_t length,
                                  int32_t candidates, kin_graph_rounds *rounds)
{
    *rounds = (kin_graph_rounds){.ctx = ctx,
                                 .points = points,
                                 .length = length,
                                 .candidates = candidates,
                                 .threads = ctx->threads};
    KIN_TRY(kin_layout_make(ctx, name_arrays, rounds, "lists of the graph", &rounds->block));
    kin_graph_lists_clear(&rounds->lists);
    return KITH_OK;
}

void kin_graph_rounds_free(kin_graph_rounds *rounds)
{
    kin_free(rounds->ctx, rounds->block);
    rounds->workers = NULL;
    rounds->block = NULL;
}

void kin_graph_rounds_plan(kin_layout *plan, const kin_graph_points *points, int32_t length,
                           int32_t candidates, int32_t threads)
{
    kin_graph_rounds rounds = {
        .points = points, .length = length, .candidates = candidates, .threads = threads};
    kin_layout_block(plan, name_arrays, &rounds);
}

/* ---- First pass: reverse edges --------------------------------------------------------------- */

static kith_status clear(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_graph_rounds *r = arg;
    const int64_t first = task * POINTS_A_PASS;
    kin_graph_samples_clear(&r->samples, first,
                            kin_min_i64(first + POINTS_A_PASS, r->lists.points));
    return KITH_OK;
}

static kith_status tell(void *arg, int64_t p, int32_t thread)
{
    (void)thread;
    const kin_graph_rounds *r = arg;
    kin_graph_samples_tell(&r->samples, &r->lists, (uint32_t)p, r->salt);
    return KITH_OK;
}

/* ---- Second pass: meetings ------------------------------------------------------------------- */

static bool is_custom(const kin_graph_rounds *r)
{
    return r->points->prepared->distance.metric == KITH_CUSTOM;
}

/* Costs of row i to `met` of the columns, both ways. */
static kith_status check_row(const kin_graph_rounds *r, const kin_graph_join *matcher, int32_t i,
                             int32_t met)
{
    KIN_TRY(kin_graph_check_orders(r, matcher->orders + i * matcher->stride, met));
    return kin_graph_check_orders(r, matcher->back + i * matcher->stride, met);
}

static kith_status check_meeting(const kin_graph_rounds *r, const kin_graph_join *matcher,
                                 const kin_graph_joined *m)
{
    for (int32_t i = 1; is_custom(r) && i < m->new_count + m->old_count; i++) {
        KIN_TRY(check_row(r, matcher, i, i < m->new_count ? i : m->new_count));
    }
    return KITH_OK;
}

/* The paper's section 4.3: the nearest NEW that each sample met, and the nearest OLD that each NEW
 * one met. */
static void offer_nearest(const kin_graph_rounds *r, kin_graph_thread *w, const kin_graph_joined *m)
{
    const int32_t count = m->new_count + m->old_count;
    uint64_t *nearest_old = w->words + count;
    kin_graph_join_least(&w->matcher, m->positions, m->new_count, m->old_count, w->words,
                         nearest_old);
    for (int32_t i = 0; i < count; i++) {
        kin_graph_list_offer(&r->lists, m->positions[i], w->words[i], r->salt);
    }
    for (int32_t i = 0; i < m->new_count; i++) {
        kin_graph_list_offer(&r->lists, m->positions[i], nearest_old[i], r->salt);
    }
}

/* Every pair to both, as before that section. Most are too far for both lists. */
static void offer_all(const kin_graph_rounds *r, kin_graph_thread *w, const kin_graph_joined *m)
{
    const kin_graph_join *matcher = &w->matcher;
    const int32_t count = m->new_count + m->old_count;
    const uint32_t *who = m->positions;
    uint32_t *worst = w->worst;
    for (int32_t i = 0; i < count; i++) {
        worst[i] = r->lists.worst[who[i]];
    }
    for (int32_t i = 1; i < count; i++) {
        const uint32_t *orders = matcher->orders + i * matcher->stride;
        const uint32_t *back = matcher->back + i * matcher->stride;
        const int32_t met = i < m->new_count ? i : m->new_count;
        for (int32_t j = 0; j < met; j++) {
            if (orders[j] < worst[i]) {
                kin_graph_list_offer(&r->lists, who[i], kin_graph_word(orders[j], who[j], 1),
                                     r->salt);
            }
            if (back[j] < worst[j]) {
                kin_graph_list_offer(&r->lists, who[j], kin_graph_word(back[j], who[i], 1),
                                     r->salt);
            }
        }
    }
}

static void gather(const kin_graph_rounds *r, kin_graph_thread *w, int64_t position)
{
    kin_graph_joined *m = &w->meetings[position & 1];
    kin_graph_samples_meet(&r->samples, &r->lists, (uint32_t)position, r->salt, &w->seen, m);
    kin_graph_prefetch(r->points, m->positions, m->new_count + m->old_count);
}

static kith_status meet(void *arg, int64_t task, int32_t thread)
{
    const kin_graph_rounds *r = arg;
    kin_graph_thread *w = &r->workers[thread];
    const int64_t first = task * POINTS_A_TASK;
    const int64_t last = kin_min_i64(first + POINTS_A_TASK, r->lists.points);
    gather(r, w, first);
    for (int64_t p = first; p < last; p++) {
        const kin_graph_joined *m = &w->meetings[p & 1];
        if (p + 1 < last) {
            gather(r, w, p + 1);
        }
        if (m->new_count + m->old_count < 2 || m->new_count == 0) {
            continue;
        }
        if (r->split > 0) {
            KIN_TRY(kin_graph_meet_across(r, w, m));
            continue;
        }
        kin_graph_join_run(&w->matcher, m->positions, m->new_count, m->old_count);
        KIN_TRY(check_meeting(r, &w->matcher, m));
        if (r->all) {
            offer_all(r, w, m);
        } else {
            offer_nearest(r, w, m);
        }
    }
    return KITH_OK;
}

/* ---- Third pass: lists ----------------------------------------------------------------------- */

static kith_status merge(void *arg, int64_t p, int32_t thread)
{
    const kin_graph_rounds *r = arg;
    kin_graph_thread *w = &r->workers[thread];
    w->updates += kin_graph_list_merge(&r->lists, p, r->samples.most, w->words);
    return KITH_OK;
}

kith_status kin_graph_round_run(kin_graph_rounds *rounds, int32_t number, int64_t *updates)
{
    kith_ctx *ctx = rounds->ctx;
    const int64_t points = rounds->lists.points;
    const int64_t passes = kin_ceil_div(points, POINTS_A_PASS);
    rounds->salt = kin_graph_mix(rounds->seed ^ kin_graph_mix((uint64_t)number));
    for (int32_t t = 0; t < ctx->threads; t++) {
        rounds->workers[t].updates = 0;
    }
    KIN_TRY(kin_parallel(ctx, "descend", passes, clear, rounds));
    KIN_TRY(kin_parallel_rows(ctx, "descend", points, POINTS_A_PASS, tell, rounds));
    KIN_TRY(kin_parallel(ctx, "descend", kin_ceil_div(points, POINTS_A_TASK), meet, rounds));
    KIN_TRY(kin_parallel_rows(ctx, "descend", points, POINTS_A_PASS, merge, rounds));
    *updates = 0;
    for (int32_t t = 0; t < ctx->threads; t++) {
        *updates += rounds->workers[t].updates;
    }
    return KITH_OK;
}

/* ---- Rounds of a merge as published ---------------------------------------------------------- */

/* What a merge of two graphs as published (Wang, Zhao, Zeng 2021, section 5.1, algorithm 3) has
 * besides any descent. Contract: graph_start.h.
 *
 *      list         a b c d e f        of one graph, ascending
 *      cut          a b c . . .        d e f are put aside
 *      filled       a b c x y z        NEW, drawn from the other set (graph_fill.c)
 *      rounds       samples of different sets meet
 *      join         the nearest of the list and of d e f
 *
 * Both graphs are finished, so that pairs of one set have nothing to tell. Of a meeting's samples,
 * A of the set below the split and B of the other, two blocks of all pairs are left:
 *
 *                    NEW A    NEW B
 *          NEW B      all
 *          OLD B      all
 *          OLD A                all
 *
 * It stands in this room and not in papers, since it changes a round from within. */

/* ---- Halves --------------------------------------------------------------------------------- */

void kin_graph_halves_cut(const kin_graph_lists *lists, uint64_t *aside)
{
    const int32_t half = kin_graph_halves(lists->length);
    for (int64_t p = 0; p < lists->points; p++) {
        uint64_t *list = kin_graph_list(lists, p);
        uint64_t *to = aside + p * half;
        const int32_t count = kin_graph_list_count(lists, p);
        const int32_t kept = count - count / 2;
        memset(to, 0xff, (size_t)half * sizeof *to);
        memcpy(to, list + kept, (size_t)(count - kept) * sizeof *to);
        memset(list + kept, 0xff, (size_t)(count - kept) * sizeof *list);
        kin_graph_list_measure(lists, p);
    }
}

typedef struct joining {
    const kin_graph_rounds *rounds;
    uint64_t *aside;
} joining;

static kith_status join_halves(void *arg, int64_t p, int32_t thread)
{
    const joining *j = arg;
    const kin_graph_lists *lists = &j->rounds->lists;
    const int32_t half = kin_graph_halves(lists->length);
    uint64_t *words = j->aside + p * half;
    int32_t count = 0;
    while (count < half && words[count] != KIN_GRAPH_EMPTY) {
        count += 1;
    }
    (void)kin_graph_list_join(lists, p, words, count, j->rounds->workers[thread].words);
    return KITH_OK;
}

kith_status kin_graph_halves_join(kin_graph_rounds *rounds, uint64_t *aside)
{
    joining j = {rounds, aside};
    return kin_parallel_rows(rounds->ctx, "descend", rounds->lists.points, POINTS_A_PASS,
                             join_halves, &j);
}

/* ---- Meetings ------------------------------------------------------------------------------- */

/* Samples by set: NEW A, NEW B, OLD B, OLD A. */
typedef struct sides {
    const uint32_t *samples;
    int32_t new_a;
    int32_t new_b;
    int32_t old_b;
    int32_t old_a;
} sides;

static int32_t take_side(const kin_graph_rounds *r, const uint32_t *from, int32_t count, bool below,
                         uint32_t *to)
{
    int32_t taken = 0;
    for (int32_t i = 0; i < count; i++) {
        if (((int64_t)r->points->ids[from[i]] < r->split) == below) {
            to[taken++] = from[i];
        }
    }
    return taken;
}

static sides divide(const kin_graph_rounds *r, const kin_graph_joined *m, uint32_t *room)
{
    const uint32_t *olds = m->positions + m->new_count;
    sides s = {.samples = room};
    s.new_a = take_side(r, m->positions, m->new_count, true, room);
    s.new_b = m->new_count - s.new_a;
    (void)take_side(r, m->positions, m->new_count, false, room + s.new_a);
    s.old_b = take_side(r, olds, m->old_count, false, room + m->new_count);
    s.old_a = m->old_count - s.old_b;
    (void)take_side(r, olds, m->old_count, true, room + m->new_count + s.old_b);
    return s;
}

/* Rows and columns that have met, by their places in sides.samples. */
typedef struct block {
    int32_t row0;
    int32_t rows;
    int32_t col0;
    int32_t cols;
} block;

static kith_status compare(const kin_graph_rounds *r, kin_graph_thread *w, const sides *s,
                           const block *b)
{
    kin_graph_join *matcher = &w->matcher;
    kin_graph_join_between(matcher, s->samples + b->row0, b->rows, s->samples + b->col0, b->cols);
    for (int32_t i = 0; is_custom(r) && i < b->rows; i++) {
        KIN_TRY(check_row(r, matcher, i, b->cols));
    }
    return KITH_OK;
}

static void offer_block(const kin_graph_rounds *r, kin_graph_thread *w, const sides *s,
                        const block *b)
{
    const kin_graph_join *matcher = &w->matcher;
    const uint32_t *rows = s->samples + b->row0;
    const uint32_t *cols = s->samples + b->col0;
    for (int32_t i = 0; i < b->rows; i++) {
        const uint32_t *orders = matcher->orders + i * matcher->stride;
        const uint32_t *back = matcher->back + i * matcher->stride;
        for (int32_t j = 0; j < b->cols; j++) {
            kin_graph_list_offer(&r->lists, rows[i], kin_graph_word(orders[j], cols[j], 1),
                                 r->salt);
            kin_graph_list_offer(&r->lists, cols[j], kin_graph_word(back[j], rows[i], 1), r->salt);
        }
    }
}

static void take_least(uint64_t *least, uint64_t word)
{
    *least = word < *least ? word : *least;
}

/* The paper's section 4.3: the nearest NEW to each sample, the nearest OLD to each NEW one. Columns
 * are all NEW; to_new and to_old by place. */
static void note_nearest(const kin_graph_thread *w, const sides *s, const block *b,
                         uint64_t *to_new, uint64_t *to_old)
{
    const kin_graph_join *matcher = &w->matcher;
    const int32_t new_count = s->new_a + s->new_b;
    for (int32_t i = 0; i < b->rows; i++) {
        const int32_t row = b->row0 + i;
        const uint32_t *orders = matcher->orders + i * matcher->stride;
        const uint32_t *back = matcher->back + i * matcher->stride;
        uint64_t *of_cols = row < new_count ? to_new : to_old;
        for (int32_t j = 0; j < b->cols; j++) {
            const int32_t col = b->col0 + j;
            take_least(&to_new[row], kin_graph_word(orders[j], s->samples[col], 1));
            take_least(&of_cols[col], kin_graph_word(back[j], s->samples[row], 1));
        }
    }
}

static void offer_words(const kin_graph_rounds *r, const sides *s, const uint64_t *words,
                        int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        if (words[i] != KIN_GRAPH_EMPTY) {
            kin_graph_list_offer(&r->lists, s->samples[i], words[i], r->salt);
        }
    }
}

kith_status kin_graph_meet_across(const kin_graph_rounds *rounds, kin_graph_thread *worker,
                                  const kin_graph_joined *meeting)
{
    const sides s = divide(rounds, meeting, worker->across);
    const int32_t new_count = meeting->new_count;
    const int32_t count = new_count + meeting->old_count;
    const block blocks[] = {{s.new_a, s.new_b + s.old_b, 0, s.new_a},
                            {new_count + s.old_b, s.old_a, s.new_a, s.new_b}};
    uint64_t *to_new = worker->words;
    uint64_t *to_old = worker->words + count;
    memset(to_new, 0xff, (size_t)(count + new_count) * sizeof *to_new);
    for (int i = 0; i < 2; i++) {
        KIN_TRY(compare(rounds, worker, &s, &blocks[i]));
        if (rounds->all) {
            offer_block(rounds, worker, &s, &blocks[i]);
        } else {
            note_nearest(worker, &s, &blocks[i], to_new, to_old);
        }
    }
    if (!rounds->all) {
        offer_words(rounds, &s, to_new, count);
        offer_words(rounds, &s, to_old, new_count);
    }
    return KITH_OK;
}
