/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph_lists.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <string.h>

/* Consecutive positions are near each other (exact_prepare.h): what a task reads, it reads often.
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

double kin_graph_rounds_evaluations(const kin_graph_rounds *rounds)
{
    double sum = 0.0;
    for (int32_t t = 0; t < rounds->ctx->threads; t++) {
        sum += rounds->workers[t].matcher.evaluations;
    }
    return sum;
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

static kith_status check_meeting(const kin_graph_rounds *r, const kin_graph_join *matcher,
                                 const kin_graph_joined *m)
{
    if (r->points->prepared->distance.metric != KITH_CUSTOM) {
        return KITH_OK;
    }
    for (int32_t i = 1; i < m->new_count + m->old_count; i++) {
        const int64_t met = i < m->new_count ? i : m->new_count;
        KIN_TRY(kin_graph_check_orders(r, matcher->orders + i * matcher->stride, met));
        KIN_TRY(kin_graph_check_orders(r, matcher->back + i * matcher->stride, met));
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
