/* SPDX-License-Identifier: Apache-2.0
 * What a merge of two graphs as published (Wang, Zhao, Zeng 2021, section 5.1, algorithm 3) has
 * besides any descent. Contract: graph_lists.h.
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
#include "base/base_size.h"
#include "base/base_try.h"
#include "graph/graph_lists.h"
#include "host/host_threads.h"

#include <string.h>

enum { POINTS_A_TASK = 1024 };

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
    return kin_parallel_rows(rounds->ctx, "descend", rounds->lists.points, POINTS_A_TASK,
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
    if (r->points->prepared->distance.metric != KITH_CUSTOM) {
        return KITH_OK;
    }
    for (int32_t i = 0; i < b->rows; i++) {
        KIN_TRY(kin_graph_check_orders(r, matcher->orders + i * matcher->stride, b->cols));
        KIN_TRY(kin_graph_check_orders(r, matcher->back + i * matcher->stride, b->cols));
    }
    return KITH_OK;
}

static void offer_all(const kin_graph_rounds *r, kin_graph_thread *w, const sides *s,
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

static void offer_nearest(const kin_graph_rounds *r, const sides *s, const uint64_t *words,
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
            offer_all(rounds, worker, &s, &blocks[i]);
        } else {
            note_nearest(worker, &s, &blocks[i], to_new, to_old);
        }
    }
    if (!rounds->all) {
        offer_nearest(rounds, &s, to_new, count);
        offer_nearest(rounds, &s, to_old, new_count);
    }
    return KITH_OK;
}
