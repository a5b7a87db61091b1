/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_round.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <string.h>

/* Consecutive positions are near each other (exact_order.h): what a task reads, it reads often. */
enum { POINTS_A_PASS = 1024, POINTS_A_TASK = 128, SIDES = 2, KINDS = 2 };

/* ---- Memory --------------------------------------------------------------------------------- */

/* Words of a thread: a list's offers and the list, or the nearest of a meeting: to each sample a
 * NEW one, to each NEW sample an OLD one. */
static uint64_t words_of(int32_t length, int32_t candidates)
{
    const uint64_t merge = (uint64_t)length + (uint64_t)kin_descent_lists_slots(length);
    const uint64_t meet = (uint64_t)candidates * SIDES * (KINDS + 1);
    /* A start writes a list, draws for it, and the next list (descent_fill.c). */
    return kin_size_add(merge > meet ? merge : meet, 2 * (uint64_t)length);
}

static kith_status make_worker(kin_descent_rounds *rounds, int32_t candidates,
                               kin_descent_worker *worker)
{
    kith_ctx *ctx = rounds->ctx;
    const int32_t length = rounds->lists.length;
    const int32_t most = candidates * SIDES;
    KIN_TRY(kin_descent_matcher_make(ctx, rounds->points, most, most, &worker->matcher));
    KIN_TRY(kin_descent_seen_make(ctx, candidates, &worker->seen));
    for (int i = 0; i < 2; i++) {
        KIN_TRY(kin_alloc(ctx, &worker->meetings[i].positions, (uint64_t)most * KINDS,
                          sizeof(uint32_t), "samples"));
    }
    KIN_TRY(kin_alloc(ctx, &worker->worst, (uint64_t)most * KINDS, sizeof(uint32_t), "samples"));
    KIN_TRY(kin_alloc(ctx, &worker->words, words_of(length, candidates), sizeof(uint64_t),
                      "offers of a meeting"));
    return kin_alloc(ctx, &worker->orders, 2 * (uint64_t)length, sizeof(uint32_t),
                     "costs of a list");
}

static void free_worker(kith_ctx *ctx, kin_descent_worker *worker)
{
    kin_free(ctx, worker->orders);
    kin_free(ctx, worker->worst);
    kin_free(ctx, worker->words);
    for (int i = 0; i < 2; i++) {
        kin_free(ctx, worker->meetings[i].positions);
    }
    kin_descent_seen_free(ctx, &worker->seen);
    kin_descent_matcher_free(ctx, &worker->matcher);
}

kith_status kin_descent_rounds_make(kith_ctx *ctx, const kin_descent_points *points, int32_t length,
                                    int32_t candidates, kin_descent_rounds *rounds)
{
    *rounds = (kin_descent_rounds){.ctx = ctx, .points = points};
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, kin_descent_lists_make(ctx, points->count, length, &rounds->lists), done);
    KIN_TRY_GOTO(status, kin_descent_samples_make(ctx, points->count, candidates, &rounds->samples),
                 done);
    KIN_TRY_GOTO(status,
                 kin_alloc_zero(ctx, &rounds->workers, (uint64_t)ctx->threads,
                                sizeof *rounds->workers, "threads"),
                 done);
    for (int32_t t = 0; t < ctx->threads; t++) {
        KIN_TRY_GOTO(status, make_worker(rounds, candidates, &rounds->workers[t]), done);
    }
done:
    if (status != KITH_OK) {
        kin_descent_rounds_free(rounds);
    }
    return status;
}

void kin_descent_rounds_free(kin_descent_rounds *rounds)
{
    kith_ctx *ctx = rounds->ctx;
    for (int32_t t = 0; rounds->workers != NULL && t < ctx->threads; t++) {
        free_worker(ctx, &rounds->workers[t]);
    }
    kin_free(ctx, rounds->workers);
    kin_descent_samples_free(ctx, &rounds->samples);
    kin_descent_lists_free(ctx, &rounds->lists);
    rounds->workers = NULL;
}

uint64_t kin_descent_rounds_bytes(const kin_frame *frame, int32_t cols, int64_t points,
                                  int32_t length, int32_t candidates, int32_t threads)
{
    const int32_t most = candidates * SIDES;
    uint64_t a_thread = kin_descent_matcher_bytes(frame, cols, most, most);
    a_thread = kin_size_add(a_thread, sizeof(kin_descent_worker));
    a_thread = kin_size_add(a_thread, kin_descent_seen_bytes(candidates));
    a_thread = kin_size_add(a_thread, 3 * (uint64_t)most * KINDS * sizeof(uint32_t));
    a_thread = kin_size_add(a_thread, words_of(length, candidates) * sizeof(uint64_t));
    a_thread = kin_size_add(a_thread, 2 * (uint64_t)length * sizeof(uint32_t));
    return kin_size_add(kin_descent_samples_bytes(points, candidates),
                        kin_size_mul((uint64_t)threads, a_thread));
}

double kin_descent_rounds_evaluations(const kin_descent_rounds *rounds)
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
    const kin_descent_rounds *r = arg;
    const int64_t first = task * POINTS_A_PASS;
    kin_descent_samples_clear(&r->samples, first,
                              kin_min_i64(first + POINTS_A_PASS, r->lists.points));
    return KITH_OK;
}

static kith_status tell(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const kin_descent_rounds *r = arg;
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_PASS, r->lists.points);
    for (int64_t p = task * POINTS_A_PASS; p < last; p++) {
        kin_descent_samples_tell(&r->samples, &r->lists, (uint32_t)p, r->salt);
    }
    return KITH_OK;
}

/* ---- Second pass: meetings ------------------------------------------------------------------- */

kith_status kin_descent_check_orders(const kin_descent_rounds *rounds, const uint32_t *orders,
                                     int64_t count)
{
    const uint32_t least = kin_descent_order_of_float(-INFINITY);
    const uint32_t most = kin_descent_order_of_float(INFINITY);
    for (int64_t i = 0; i < count; i++) {
        if (orders[i] < least || orders[i] > most) {
            return kin_fail_at(rounds->ctx, KITH_E_DATA, kin_at("custom"),
                               "gave NaN for two points (a distance must be a number)");
        }
    }
    return KITH_OK;
}

static kith_status check_meeting(const kin_descent_rounds *r, const kin_descent_matcher *matcher,
                                 const kin_descent_meeting *m)
{
    if (r->points->prepared->distance.metric != KITH_CUSTOM) {
        return KITH_OK;
    }
    for (int32_t i = 1; i < m->new_count + m->old_count; i++) {
        const int64_t met = i < m->new_count ? i : m->new_count;
        KIN_TRY(kin_descent_check_orders(r, matcher->orders + i * matcher->stride, met));
        KIN_TRY(kin_descent_check_orders(r, matcher->back + i * matcher->stride, met));
    }
    return KITH_OK;
}

/* The paper's section 4.3: the nearest NEW that each sample met, and the nearest OLD that each NEW
 * one met. */
static void offer_nearest(const kin_descent_rounds *r, kin_descent_worker *w,
                          const kin_descent_meeting *m)
{
    const int32_t count = m->new_count + m->old_count;
    uint64_t *nearest_old = w->words + count;
    kin_descent_match_least(&w->matcher, m->positions, m->new_count, m->old_count, w->words,
                            nearest_old);
    for (int32_t i = 0; i < count; i++) {
        kin_descent_list_offer(&r->lists, m->positions[i], w->words[i], r->salt);
    }
    for (int32_t i = 0; i < m->new_count; i++) {
        kin_descent_list_offer(&r->lists, m->positions[i], nearest_old[i], r->salt);
    }
}

/* Every pair to both, as before that section. Most are too far for both lists. */
static void offer_all(const kin_descent_rounds *r, kin_descent_worker *w,
                      const kin_descent_meeting *m)
{
    const kin_descent_matcher *matcher = &w->matcher;
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
                kin_descent_list_offer(&r->lists, who[i], kin_descent_word(orders[j], who[j], 1),
                                       r->salt);
            }
            if (back[j] < worst[j]) {
                kin_descent_list_offer(&r->lists, who[j], kin_descent_word(back[j], who[i], 1),
                                       r->salt);
            }
        }
    }
}

static void gather(const kin_descent_rounds *r, kin_descent_worker *w, int64_t position)
{
    kin_descent_meeting *m = &w->meetings[position & 1];
    kin_descent_samples_meet(&r->samples, &r->lists, (uint32_t)position, r->salt, &w->seen, m);
    kin_descent_prefetch(r->points, m->positions, m->new_count + m->old_count);
}

static kith_status meet(void *arg, int64_t task, int32_t thread)
{
    const kin_descent_rounds *r = arg;
    kin_descent_worker *w = &r->workers[thread];
    const int64_t first = task * POINTS_A_TASK;
    const int64_t last = kin_min_i64(first + POINTS_A_TASK, r->lists.points);
    gather(r, w, first);
    for (int64_t p = first; p < last; p++) {
        const kin_descent_meeting *m = &w->meetings[p & 1];
        if (p + 1 < last) {
            gather(r, w, p + 1);
        }
        if (m->new_count + m->old_count < 2 || m->new_count == 0) {
            continue;
        }
        kin_descent_match(&w->matcher, m->positions, m->new_count, m->old_count);
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

static kith_status merge(void *arg, int64_t task, int32_t thread)
{
    const kin_descent_rounds *r = arg;
    kin_descent_worker *w = &r->workers[thread];
    const int64_t last = kin_min_i64((task + 1) * POINTS_A_PASS, r->lists.points);
    for (int64_t p = task * POINTS_A_PASS; p < last; p++) {
        w->updates += kin_descent_list_merge(&r->lists, p, r->samples.most, w->words);
    }
    return KITH_OK;
}

kith_status kin_descent_round_run(kin_descent_rounds *rounds, int32_t number, int64_t *updates)
{
    kith_ctx *ctx = rounds->ctx;
    const int64_t points = rounds->lists.points;
    const int64_t passes = kin_ceil_div(points, POINTS_A_PASS);
    rounds->salt = kin_descent_mix(rounds->seed ^ kin_descent_mix((uint64_t)number));
    for (int32_t t = 0; t < ctx->threads; t++) {
        rounds->workers[t].updates = 0;
    }
    KIN_TRY(kin_parallel(ctx, "descend", passes, clear, rounds));
    KIN_TRY(kin_parallel(ctx, "descend", passes, tell, rounds));
    KIN_TRY(kin_parallel(ctx, "descend", kin_ceil_div(points, POINTS_A_TASK), meet, rounds));
    KIN_TRY(kin_parallel(ctx, "descend", passes, merge, rounds));
    *updates = 0;
    for (int32_t t = 0; t < ctx->threads; t++) {
        *updates += rounds->workers[t].updates;
    }
    return KITH_OK;
}
