/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Queries A of a corpus B and queries B of a corpus A ask for the costs of the same pairs.
 * Both are prepared as corpora; then one of them, the guest, is rounded again in the other's frame
 * and put into the order of its cells, and one screen meets all blocks of the guest with all tiles
 * of the host, both ends collecting as in a graph:
 *
 *      seeds      guest: tiles of the host near its blocks | host: tiles of the guest near its own
 *      stages     blocks x tiles -> lists of both, both tightened (screen_stage_gpu.c)
 *      answers    lists of the guest -> its outputs, lists of the host -> its outputs
 *
 * Host is who has halves where the other has bytes, or else whose units are the larger: what was
 * rounded in them should lose about what it lost in its own. A guest that loses much more (it lies
 * elsewhere) would have columns that every pair passes.
 *
 * Cost. Half the products of two searches. These are what is left where a set is small, where
 * pairs are asked for twice (KITH_NO_SYMMETRY) or by a pipeline, where a team divides the queries,
 * and where not all fits at once. Then, and where the guest loses too much, both sets are prepared
 * again.
 *
 * A graph whose points look for those of other groups is prepared once. Its groups are halved, and
 * the halves; two halves are choices of the prepared points (kin_exact_gpu_corpus_some), which
 * stand in one frame and one order, so that nobody is a guest:
 *
 *      0 1 | 2 3    ->    0 | 1, 2 | 3        each pair of groups once, none with itself
 */
#include "exact/exact_search_gpu.h"

#include "host/host_clock.h"
#include "host/host_threads.h"
#include "kith/kith_papers.h"

#include <math.h>
#include <stdlib.h>

/* How many times what its own units, or the host's, lose of a row a guest may lose. */
static const double MOST_LOST = 4.0;

/* One direction: queries, as a corpus of the other one. */
typedef struct side {
    const kin_exact_gpu_query *query;
    kin_exact_gpu_corpus *corpus;
    kin_screen_gpu_home *homes; /* of its blocks, among the other's tiles; NULL: not known */
    kin_screen_gpu_work work;
    kin_exact_gpu_answers *answers;
} side;

static kith_status make_side(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_query *other,
                             side *own)
{
    const kin_screen_gpu_source source = {.matrix = own->query->queries,
                                          .distance = &own->query->request->distance,
                                          .name = own->query->name,
                                          .place = own->query->place};
    return kin_exact_gpu_corpus_make(ctx, gpu, &source, other->queries->dtype, other->request->k,
                                     &own->corpus);
}

static void free_side(kith_ctx *ctx, side *s)
{
    kin_screen_gpu_work_free(&s->work);
    kin_free(ctx, s->homes);
    kin_exact_gpu_corpus_free(ctx, s->corpus);
}

/* ---- One product ----------------------------------------------------------------------------- */

static double lost_of(const kin_screen_gpu_prepared *prepared)
{
    return prepared->set.worst.lost * prepared->set.frame.scale;
}

static bool is_host(const side *s, const side *other)
{
    const kin_screen_gpu_frame *own = &s->corpus->prepared.set.frame;
    const kin_screen_gpu_frame *theirs = &other->corpus->prepared.set.frame;
    return own->type != theirs->type ? own->type == KIN_SCREEN_GPU_F16
                                     : own->scale >= theirs->scale;
}

/* The guest in the frame and the order of the host. *fits: without losing too much. */
static kith_status seat(const kin_screen_gpu_device *on, side *guest, side *host, bool *fits)
{
    kin_screen_gpu_prepared *own = &guest->corpus->prepared;
    const kin_screen_gpu_prepared *theirs = &host->corpus->prepared;
    const double before = fmax(lost_of(own), lost_of(theirs));
    KIN_TRY(kin_screen_gpu_prepared_frame(on, &theirs->set.frame, own));
    *fits = lost_of(own) <= MOST_LOST * before;
    if (!*fits) {
        return KITH_OK;
    }
    KIN_TRY(kin_screen_gpu_prepared_order(on, theirs, own, &guest->homes));
    if (guest->homes != NULL) {
        KIN_TRY(kin_screen_gpu_order_homes(on, own, theirs, &host->homes));
    }
    return kin_screen_gpu_worst_find(on, &own->set, guest->corpus->worst);
}

/* Lists of own positions among those of `other`. */
static kith_status make_work(const kin_screen_gpu_device *on, side *own, const side *other)
{
    const kin_screen_gpu_prepared *rows = &own->corpus->prepared;
    const kin_screen_gpu_prepared *cols = &other->corpus->prepared;
    const int64_t k = kin_min_i64(own->answers->wanted, cols->groups.count);
    const bool homes = kin_screen_gpu_wants_homes(rows->set.points, cols->set.points, k);
    own->work = (kin_screen_gpu_work){.on = *on,
                                      .rows = rows->set,
                                      .cols = cols->set,
                                      .homes = homes ? own->homes : NULL,
                                      .col_worst = other->corpus->worst};
    if ((own->query->request->flags & KITH_NO_SKIP) != 0) {
        own->work.rows.centres = NULL;
        own->work.cols.centres = NULL;
    }
    return kin_screen_gpu_work_make(&own->work, k, kin_screen_gpu_capacity(k));
}

/* Lists of own positions become answers. */
static kith_status take(side *own, const side *other)
{
    const kin_screen_gpu_prepared *rows = &own->corpus->prepared;
    const kin_screen_gpu_prepared *cols = &other->corpus->prepared;
    own->answers->among = cols->some ? &cols->set : NULL;
    return kin_exact_gpu_answers_take(own->answers, &own->work, &rows->rows, &cols->rows);
}

static kith_status answer(side *own, const side *other, kin_screen_gpu_tally *tally)
{
    kin_exact_gpu_answers *a = own->answers;
    const int64_t rows = other->corpus->points.rows;
    KIN_TRY(kin_exact_gpu_answers_make(a, (own->query->place & KIN_GPU_OUT_ON_DEVICE) != 0, false));
    kith_status status = take(own, other);
    KIN_THEN(status, kin_exact_gpu_answers_finish(a, own->query->out, rows));
    kin_screen_gpu_tally_add(tally, &a->tally);
    kin_exact_gpu_answers_free(a);
    return status;
}

static kith_status screen_both(const kin_screen_gpu_device *on, side *guest, side *host)
{
    const int64_t start = kin_clock_ns();
    KIN_TRY(make_work(on, guest, host));
    KIN_TRY(make_work(on, host, guest));
    KIN_TRY(kin_screen_gpu_work_run_both(&guest->work, &host->work));
    KIN_TRY(kin_gpu_wait(on->ctx, on->gpu));
    on->ctx->report.seconds_screen += kin_clock_since(start);
    return KITH_OK;
}

static kith_status answer_both(const kin_screen_gpu_device *on, side *guest, side *host,
                               kin_screen_gpu_tally *tally)
{
    const kin_groups *groups[] = {&guest->corpus->prepared.groups, &host->corpus->prepared.groups};
    kin_exact_gpu_answers answers[] = {
        kin_exact_gpu_answers_of(on, guest->query, groups[1], groups[0]),
        kin_exact_gpu_answers_of(on, host->query, groups[0], groups[1])};
    guest->answers = &answers[0];
    host->answers = &answers[1];
    KIN_TRY(screen_both(on, guest, host));
    const int64_t start = kin_clock_ns();
    KIN_TRY(answer(guest, host, tally));
    KIN_TRY(answer(host, guest, tally));
    on->ctx->report.seconds_rescore += kin_clock_since(start);
    return KITH_OK;
}

/* Whether both directions are screened, and so large that their lists have seeds. */
static bool is_one_product(const kin_exact_gpu_query *ab, const kin_exact_gpu_query *ba)
{
    const kin_request *request = ab->request;
    const int64_t rows[] = {ab->queries->rows, ba->queries->rows};
    return request->pipeline == NULL && (request->flags & KITH_NO_SYMMETRY) == 0 &&
           kin_min_i64(rows[0], rows[1]) >= KIN_SCREEN_GPU_ORDERED_ROWS &&
           kin_exact_gpu_screens(request, rows[1], rows[0]) &&
           kin_exact_gpu_screens(ba->request, rows[0], rows[1]);
}

/* *done is false, and nothing was written, where that is not the way. */
static kith_status by_one_product(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_query *ab,
                                  const kin_exact_gpu_query *ba, bool *done)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(ctx, gpu);
    side a = {.query = ab};
    side b = {.query = ba};
    kin_screen_gpu_tally tally = {0};
    *done = false;
    kith_status status = make_side(ctx, gpu, ba, &a);
    KIN_THEN(status, make_side(ctx, gpu, ab, &b));
    if (status == KITH_OK && a.corpus->prepared.groups.count > 0 &&
        b.corpus->prepared.groups.count > 0) {
        side *host = is_host(&b, &a) ? &b : &a;
        side *guest = host == &b ? &a : &b;
        status = seat(&on, guest, host, done);
        KIN_THEN(status, *done ? answer_both(&on, guest, host, &tally) : KITH_OK);
        if (status == KITH_OK && *done) {
            kin_exact_gpu_report(ctx, &b.corpus->prepared, &tally,
                                 ab->queries->rows + ba->queries->rows);
        }
    }
    free_side(ctx, &b);
    free_side(ctx, &a);
    return status;
}

/* A search, whose corpus has the other one's name. */
static kith_status search(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_query *other,
                          const kin_exact_gpu_query *query)
{
    const kith_status status = kin_exact_gpu_search(ctx, gpu, other->queries, query);
    kin_failure_shift(ctx, "corpus", other->name, 0);
    return status;
}

/* By one product, or by two searches, which cut what does not fit. */
kith_status kin_exact_gpu_both(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_query *ab,
                               const kin_exact_gpu_query *ba)
{
    const int64_t fewer = kin_min_i64(ab->queries->rows, ba->queries->rows);
    bool done = false;
    if (!kin_exact_gpu_team_searches(gpu, fewer, ab->place) && is_one_product(ab, ba)) {
        const kith_status status = by_one_product(ctx, gpu, ab, ba, &done);
        if (status == KITH_E_DEVICE_MEMORY) {
            kin_exact_gpu_make_room(ctx, gpu);
            done = false;
        } else if (status != KITH_OK || done) {
            return status;
        }
    }
    KIN_TRY(search(ctx, gpu, ab, ba)); /* which checks ab's rows first, as the processor does */
    return search(ctx, gpu, ba, ab);
}

/* ---- Other groups of a graph ----------------------------------------------------------------- */

/* So many points that equal others are points of their own, as each is of its own group; of more
 * that are as far from a point lists would overflow twice. */
enum { MOST_EQUAL = 2048, MOST_GROUPS = 64 };

typedef struct halving {
    kin_screen_gpu_device on;
    kin_exact_gpu_query query;
    const kin_exact_gpu_groups *groups;
    int64_t *before; /* groups + 1: points of the groups below */
    uint8_t *chosen; /* a bit a point */
    kin_exact_gpu_corpus *all;
    kin_exact_gpu_answers answers;
} halving;

/* Where groups [from, to) are halved by their points: `from` where but one has some. */
static int64_t middle_of(const int64_t *before, int64_t from, int64_t to)
{
    const int64_t ends = before[from] + before[to];
    int64_t best = from;
    for (int64_t i = from + 1; i < to; i++) {
        if (llabs(2 * before[i] - ends) < llabs(2 * before[best] - ends)) {
            best = i;
        }
    }
    return best;
}

typedef struct choosing {
    const halving *halving;
    int64_t from;
    int64_t to;
} choosing;

enum { POINTS_A_TASK = 1 << 16 };

static kith_status choose_some(void *arg, int64_t task, int32_t thread)
{
    const choosing *c = arg;
    const halving *h = c->halving;
    const uint32_t *of = h->groups->of_rows;
    const int64_t end = kin_min_i64(h->groups->rows, (task + 1) * POINTS_A_TASK);
    (void)thread;
    for (int64_t first = task * POINTS_A_TASK; first < end; first += 8) {
        unsigned bits = 0;
        for (int64_t i = first; i < kin_min_i64(first + 8, end); i++) {
            bits |= (unsigned)((int64_t)of[i] >= c->from && (int64_t)of[i] < c->to) << (i - first);
        }
        h->chosen[first / 8] = (uint8_t)bits;
    }
    return KITH_OK;
}

/* The points of groups [from, to). */
static kith_status choose(const halving *h, int64_t from, int64_t to, side *s)
{
    choosing c = {.halving = h, .from = from, .to = to};
    KIN_TRY(kin_parallel(h->on.ctx, NULL, kin_ceil_div(h->groups->rows, POINTS_A_TASK), choose_some,
                         &c));
    return kin_exact_gpu_corpus_some(h->on.ctx, h->all, h->chosen, h->before[to] - h->before[from],
                                     &s->corpus);
}

static kith_status meet(halving *h, int64_t from, int64_t middle, int64_t to)
{
    kith_ctx *ctx = h->on.ctx;
    side low = {.query = &h->query, .answers = &h->answers};
    side high = low;
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, choose(h, from, middle, &low), done);
    KIN_TRY_GOTO(status, choose(h, middle, to, &high), done);
    const kin_screen_gpu_prepared *sets[] = {&low.corpus->prepared, &high.corpus->prepared};
    KIN_TRY_GOTO(status, kin_screen_gpu_order_homes(&h->on, sets[1], sets[0], &low.homes), done);
    KIN_TRY_GOTO(status, kin_screen_gpu_order_homes(&h->on, sets[0], sets[1], &high.homes), done);
    KIN_TRY_GOTO(status, screen_both(&h->on, &low, &high), done);
    const int64_t start = kin_clock_ns();
    KIN_TRY_GOTO(status, take(&low, &high), done);
    KIN_TRY_GOTO(status, take(&high, &low), done);
    ctx->report.seconds_rescore += kin_clock_since(start);
done:
    free_side(ctx, &high);
    free_side(ctx, &low);
    return status;
}

static kith_status meet_halves(halving *h, int64_t from, int64_t to)
{
    const int64_t middle = middle_of(h->before, from, to);
    if (middle == from) {
        return KITH_OK;
    }
    KIN_TRY(meet(h, from, middle, to));
    KIN_TRY(meet_halves(h, from, middle));
    return meet_halves(h, middle, to);
}

/* Whether each point finds k in other groups, and these are so few that halving them pays. *two:
 * there are no more. */
static bool groups_suit(const halving *h, bool *two)
{
    const kin_request *request = h->query.request;
    const int64_t rows = h->groups->rows;
    int64_t used = 0;
    for (int64_t i = 0; i < h->groups->groups; i++) {
        const int64_t points = h->before[i + 1] - h->before[i];
        if (rows - points < request->k) {
            return false;
        }
        used += points > 0;
    }
    *two = used == 2;
    return used >= 2 && used <= MOST_GROUPS && (request->flags & KITH_NO_SYMMETRY) == 0 &&
           kin_exact_gpu_screens(request, rows, rows);
}

/* Lists of more than one meeting are merged by the host. */
static kith_status answer_halves(halving *h, bool two)
{
    const kin_groups *groups = &h->all->prepared.groups;
    const bool on_device = (h->query.place & KIN_GPU_OUT_ON_DEVICE) != 0;
    kin_exact_gpu_answers *a = &h->answers;
    *a = kin_exact_gpu_answers_of(&h->on, &h->query, groups, groups);
    KIN_TRY(kin_exact_gpu_answers_make(a, on_device, !two));
    kith_status status = meet_halves(h, 0, h->groups->groups);
    KIN_THEN(status, kin_exact_gpu_answers_finish(a, h->query.out, groups->rows));
    if (status == KITH_OK) {
        kin_exact_gpu_report(h->on.ctx, &h->all->prepared, &a->tally, groups->rows);
    }
    kin_exact_gpu_answers_free(a);
    return status;
}

kith_status kin_exact_gpu_across(kith_ctx *ctx, kin_gpu *gpu, const kin_exact_gpu_picks *picks,
                                 bool *done)
{
    const kin_exact_gpu_groups *groups = picks->grouping->source;
    kin_request request = *picks->query->request;
    halving h = {
        .on = kin_screen_gpu_device_of(ctx, gpu), .query = *picks->query, .groups = groups};
    const kin_screen_gpu_source source = {.matrix = picks->corpus,
                                          .distance = &request.distance,
                                          .name = "points",
                                          .place = picks->place,
                                          .apart = MOST_EQUAL};
    bool two = false;
    *done = false;
    request.exclude = NULL; /* nobody is in another group than its own */
    h.query.queries = picks->corpus;
    h.query.request = &request;
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, h.before, (uint64_t)groups->groups + 1, "points of groups");
    KIN_NEW(&hold, h.chosen, (uint64_t)kin_ceil_div(groups->rows, 8), "points of groups");
    for (int64_t i = 0; i < groups->rows; i++) {
        h.before[groups->of_rows[i] + 1] += 1;
    }
    for (int64_t i = 0; i < groups->groups; i++) {
        h.before[i + 1] += h.before[i];
    }
    if (!groups_suit(&h, &two)) {
        return KITH_OK;
    }
    KIN_TRY(kin_exact_gpu_corpus_make(ctx, gpu, &source, picks->corpus->dtype, request.k, &h.all));
    *done = h.all->prepared.plain;
    const kith_status status = *done ? answer_halves(&h, two) : KITH_OK;
    kin_exact_gpu_corpus_free(ctx, h.all);
    return status;
}
