/* SPDX-License-Identifier: Apache-2.0
 *
 *   prepare    groups of equal rows, an order in which near ones stand together, rounded rows
 *   control    some rows exactly, where somebody judges
 *   start      lists from the screen, of a relative, from a graph, at random
 *   rounds     until somebody has enough, or too little changes, or there were as many as allowed
 *   end        canonical keys, answers
 *
 * Few points are solved exactly: by the exact engine, or by keys of all groups.
 *
 * Everything that a thread leaves behind is a minimum of numbers that do not depend on threads
 * (graph_word.h), and whatever reads waits until all have written. So the same request gives the
 * same bytes with any number of threads, and this costs nothing: there is no faster way that would
 * not. */
#include "graph/graph.h"

#include "graph/graph_cells.h"
#include "graph/graph_start.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <stdio.h>
#include <string.h>

/* Rounds of crowds: what brings less than ENOUGH new entries a hundred positions is the last. */
enum { MOST_EXPANSIONS = 4, ENOUGH = 10 };

/* A start that settled is the end for whoever asks for no less than this: some thousandths are
 * missing, and rounds for these cost more than the start. */
static const double USUAL_DELTA = 0.001;

typedef struct descending {
    kith_ctx *ctx;
    kin_graph_request request; /* complete */
    const kith_neighbors *out;
    kin_graph_outcome *outcome;
    kin_prepared prepared;
    kin_graph_points points;
    kin_graph_rounds rounds;
    uint32_t *owner; /* by row; where there is a control or a graph to start from */
    uint64_t *aside; /* of a merge as published: farther halves of lists */
    double start_evaluations;
    bool has_near; /* the start: lists have what is near, and chance need not fill them */
    bool by_cells; /* the start: lists have near entries alone, and crowds go on */
    bool settled;  /* the start brought little in the end */
    int64_t began_ns;
} descending;

/* ---- Prepare -------------------------------------------------------------------------------- */

/* Whether rows with equal bytes are at equal distances: a caller's function may look where they
 * lie. */
static bool equals_are_equal(const descending *d)
{
    return d->request.distance.metric != KITH_CUSTOM;
}

static bool is_ordered(const descending *d)
{
    return d->prepared.groups.count > KIN_GRAPH_FEW && equals_are_equal(d);
}

static kith_status prepare_rows(descending *d, const kith_matrix *points)
{
    KIN_TRY(kin_prepare_rows(d->ctx, points, &d->request.distance, "points",
                             equals_are_equal(d) ? 0 : KIN_ROWS_DISTINCT, &d->prepared));
    if (d->request.control == NULL && d->request.init == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_alloc(d->ctx, &d->owner, (uint64_t)points->rows, sizeof *d->owner,
                      "positions of rows"));
    return KITH_OK;
}

/* The finest type has to do for the exact engine, which proves what costs say. Here it has to be
 * fine: otherwise costs are canonical keys, as of metrics that have no screen. */
static kith_status drop_coarse_rows(descending *d)
{
    kin_prepared *prepared = &d->prepared;
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int count = kin_type_ladder(d->ctx->isa, prepared->distance.cols, ladder);
    kin_type_verdict verdict = KIN_TYPE_FINE;
    if (prepared->set.panels != NULL && prepared->frame.bound != KIN_BOUND_INTEGER &&
        prepared->frame.kernel == ladder[count - 1]) {
        KIN_TRY(kin_type_try(d->ctx, prepared, d->request.k + 1, NULL, &verdict));
    }
    if (verdict != KIN_TYPE_FINE) {
        kin_cover_free(d->ctx, &prepared->cover);
        kin_set_free(d->ctx, &prepared->set);
        prepared->frame.kernel = NULL;
        d->request.start =
            d->request.start == KIN_GRAPH_START_SCREEN ? KIN_GRAPH_START_RANDOM : d->request.start;
    }
    return KITH_OK;
}

static kith_status prepare_order(descending *d)
{
    kin_prepared *prepared = &d->prepared;
    if (kin_is_screened(&prepared->distance)) {
        const kith_matrix *points = &prepared->rows.matrix;
        const bool integer = kin_frame_is_integer(&prepared->distance, points, points);
        prepared->by_cost = true;
        return kin_prepare_set(d->ctx, integer, d->request.k + 1, prepared);
    }
    return is_ordered(d) ? kin_order_make(d->ctx, &prepared->rows, &prepared->distance,
                                          prepared->groups.count, false, prepared->order)
                         : KITH_OK;
}

static void note_preparation(descending *d)
{
    kin_prepared_tell(d->ctx, &d->prepared);
    d->ctx->report.distinct_rows = d->prepared.groups.count;
}

/* ---- Judge ---------------------------------------------------------------------------------- */

static kith_status scan_control(descending *d)
{
    const kin_recall_control *control = d->request.control;
    const kin_graph_look all = {
        .prepared = &d->prepared, .request = &d->request, .owner = d->owner};
    double phi = 0.0;
    KIN_TRY(kin_graph_control_look(d->ctx, &all, &phi));
    for (int64_t i = 0; i < control->count; i++) {
        control->kth[i] = control->found[(i + 1) * control->at - 1];
    }
    return KITH_OK;
}

/* The keys of the K-th ids: distances have lost bits that keys have. */
static kith_status keys_of_kth(kith_ctx *ctx, const kin_prepared *prepared,
                               const kin_recall_control *control, const uint32_t *ids)
{
    double *values = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, values, (uint64_t)kin_round_up(prepared->distance.cols, KIN_METRIC_LANES),
            "a query");
    for (int64_t i = 0; i < control->count; i++) {
        const kin_query query =
            kin_metric_load(&prepared->distance, &prepared->rows, control->ids[i], values);
        kin_metric_keys(&prepared->distance, &query, &prepared->rows,
                        &ids[i * control->at + control->at - 1], 1, &control->kth[i]);
    }
    return KITH_OK;
}

static kith_status ask_control(descending *d)
{
    kith_ctx *ctx = d->ctx;
    const kin_recall_control *control = d->request.control;
    const uint64_t count = (uint64_t)control->count;
    const bool own = kin_graph_leaves_own_out(&d->request);
    const kin_request search = {
        .distance = d->request.distance, .k = control->at, .exclude = own ? control->ids : NULL};
    kith_neighbors out = {.rows = control->count, .k = control->at};
    kith_matrix queries;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_rows(&hold, &d->prepared.rows.matrix, control->ids, control->count,
                          "control points", &queries));
    KIN_NEW(&hold, out.ids, kin_size_mul(count, (uint64_t)control->at),
            "neighbours of control points");
    const kith_report before = ctx->report; /* which is the graph's */
    const kith_status status = kin_exact_search(ctx, &d->prepared, &queries, &search, &out);
    ctx->report = before;
    return status == KITH_OK ? keys_of_kth(ctx, &d->prepared, control, out.ids) : status;
}

/* Fills control->kth: by the exact engine's screen, and by a scan of all groups for metrics that
 * have none. */
static kith_status solve_control(descending *d)
{
    if (d->owner != NULL) {
        kin_graph_owners(&d->prepared, d->owner);
    }
    const kin_recall_control *control = d->request.control;
    if (control == NULL || control->kth == NULL) {
        return KITH_OK;
    }
    return control->count == 0 || d->prepared.set.panels == NULL ? scan_control(d) : ask_control(d);
}

/* number: of the round that has ended, KIN_GRAPH_STARTING within the start. lists NULL: the answer
 * is exact. */
static kith_status judge_at(descending *d, int32_t number, const kin_graph_lists *lists,
                            bool *enough)
{
    kin_graph_verdict verdict = KIN_GRAPH_GO_ON;
    kin_graph_round round = {
        .number = number, .updates = d->outcome->updates, .evaluations = d->outcome->evaluations};
    if (d->request.control != NULL) {
        const kin_graph_look look = {.prepared = &d->prepared,
                                     .points = lists != NULL ? &d->points : NULL,
                                     .lists = lists,
                                     .request = &d->request,
                                     .owner = d->owner};
        KIN_TRY(kin_graph_control_look(d->ctx, &look, &round.phi));
    }
    round.seconds = kin_clock_since(d->began_ns);
    if (d->request.judge != NULL) {
        KIN_TRY(d->request.judge(d->request.judge_arg, &round, &verdict));
    }
    *enough = verdict == KIN_GRAPH_STUCK || verdict == KIN_GRAPH_ENOUGH;
    return KITH_OK;
}

static kith_status judge(descending *d, const kin_graph_lists *lists, bool *enough)
{
    return judge_at(d, d->outcome->rounds, lists, enough);
}

/* ---- Few points ------------------------------------------------------------------------------ */

/* keys: that were computed. */
static kith_status write_lists(const descending *d, const kin_graph_points *points,
                               const kin_graph_lists *lists, double *keys)
{
    kin_graph_finish finish;
    const bool leaves_out = kin_graph_leaves_own_out(&d->request);
    KIN_HOLD(hold, d->ctx);
    KIN_TRY(kin_graph_finish_make(&hold, &d->prepared, points, lists, d->request.k + leaves_out,
                                  &finish));
    return kin_graph_finish_write(&finish, d->request.flags, d->out, keys);
}

/* The exact engine groups equal rows only where it screens. */
static kith_status solve_by_keys(descending *d)
{
    KIN_TRY(write_lists(d, NULL, NULL, &d->outcome->evaluations));
    d->ctx->report.exact = KITH_CERTIFIED;
    kin_prepared_report(d->ctx, &d->prepared);
    return KITH_OK;
}

static kith_status solve_exactly(descending *d, const kith_matrix *points)
{
    const int64_t groups = d->prepared.groups.count;
    bool enough = false;
    d->outcome->exact = true;
    d->outcome->evaluations = 0.5 * (double)groups * (double)(groups - 1);
    KIN_TRY(solve_control(d));
    if (kin_is_screened(&d->request.distance)) {
        const kin_request exact = {
            .distance = d->request.distance, .k = d->request.k, .flags = d->request.flags};
        KIN_TRY(kin_exact_graph(d->ctx, points, &exact, d->out));
    } else {
        note_preparation(d);
        KIN_TRY(solve_by_keys(d));
    }
    d->outcome->seconds_start = kin_clock_since(d->began_ns);
    return judge(d, NULL, &enough);
}

/* ---- Start ---------------------------------------------------------------------------------- */

/* Entries of a list that hold an answer. */
static int32_t wanted_of(const descending *d)
{
    return (int32_t)kin_min_i64(d->request.k + 1, d->rounds.lists.length);
}

static kin_graph_starting starting_of(const descending *d, const uint8_t *sides)
{
    return (kin_graph_starting){.points = &d->points,
                                .share = d->request.share,
                                .sides = sides,
                                .wanted = wanted_of(d),
                                .length = d->rounds.lists.length,
                                .words = d->rounds.lists.words};
}

static void measure_lists(const kin_graph_lists *lists)
{
    for (int64_t p = 0; p < lists->points; p++) {
        kin_graph_list_measure(lists, p);
    }
}

/* kin_graph_starting.judge */
static kith_status judge_start(void *arg, bool *enough)
{
    descending *d = arg;
    measure_lists(&d->rounds.lists);
    return judge_at(d, KIN_GRAPH_STARTING, &d->rounds.lists, enough);
}

static kith_status start_by_screen(descending *d)
{
    const kin_graph_lists *lists = &d->rounds.lists;
    kin_graph_starting start = starting_of(d, NULL);
    kin_graph_started started = {0};
    if (d->request.ends_start) {
        start.judge = judge_start;
        start.judge_arg = d;
    }
    KIN_TRY(kin_graph_start_screen(d->ctx, &start, &started));
    d->by_cells = true;
    d->has_near = true;
    d->settled = started.settled;
    measure_lists(lists);
    d->start_evaluations = started.evaluations;
    return KITH_OK;
}

/* Lists of two graphs are joined by what the screen finds on the other side. */
static kith_status start_across(descending *d)
{
    const kin_graph_lists *lists = &d->rounds.lists;
    kin_graph_started started = {0};
    uint8_t *sides = NULL;
    KIN_HOLD(hold, d->ctx);
    KIN_NEW(&hold, sides, (uint64_t)lists->points, "sides");
    kin_graph_sides(&d->prepared, d->request.split, sides);
    const kin_graph_starting start = starting_of(d, sides);
    KIN_TRY(kin_graph_start_across(d->ctx, &start, &started));
    measure_lists(lists);
    d->start_evaluations = started.evaluations;
    /* Lists of both graphs know their own sides already: what near cells add is as good as a start
     * that settled. */
    d->has_near = true;
    d->settled = true;
    return KITH_OK;
}

/* Two graphs as the paper joins them: what is cut off comes back in finish_rounds. */
static kith_status start_ggm(descending *d)
{
    const kin_graph_lists *lists = &d->rounds.lists;
    const uint64_t half = (uint64_t)kin_graph_halves(lists->length);
    KIN_TRY(kin_alloc(d->ctx, &d->aside, kin_size_mul((uint64_t)lists->points, half),
                      sizeof *d->aside, "halves of lists"));
    d->outcome->start = KIN_GRAPH_START_GGM;
    d->rounds.split = d->request.split;
    kin_graph_halves_cut(lists, d->aside);
    return kin_graph_fill_across(&d->rounds, &d->request, d->owner);
}

/* Lists get what is nearest under the relative, with costs of the metric. */
static kith_status start_related(descending *d)
{
    const kith_report before = d->ctx->report;
    kin_graph_outcome outcome = {0};
    kin_graph_relative near = kin_graph_relative_of(&d->request, d->points.count);
    KIN_HOLD(hold, d->ctx);
    KIN_TRY(kin_graph_relative_make(&hold, &d->points, &near));
    const kith_neighbors out = {.rows = near.rows.rows, .k = near.request.k, .ids = near.ids};
    const kith_status status = kin_graph_descend(d->ctx, &near.rows, &near.request, &out, &outcome);
    d->ctx->report = before;
    d->start_evaluations += outcome.evaluations;
    return status == KITH_OK ? kin_graph_fill_ids(&d->rounds, near.ids, (int32_t)near.request.k)
                             : status;
}

static kith_status start(descending *d)
{
    const int64_t start_ns = kin_clock_ns();
    d->outcome->start = d->request.start;
    if (d->request.start == KIN_GRAPH_START_SCREEN && d->points.kernel == NULL) {
        d->has_near = true;
        KIN_TRY(start_related(d));
    } else if (d->request.start == KIN_GRAPH_START_SCREEN) {
        KIN_TRY(start_by_screen(d));
    } else if (d->request.start == KIN_GRAPH_START_GRAPH) {
        KIN_TRY(kin_graph_fill_graph(&d->rounds, &d->request, d->owner));
        if (d->request.ggm != 0) {
            KIN_TRY(start_ggm(d));
        } else if (d->request.split > 0 && kin_graph_has_cells(&d->points) &&
                   d->request.by_chance == 0) {
            KIN_TRY(start_across(d));
        }
    }
    const int32_t length = d->rounds.lists.length;
    const int32_t least = d->has_near ? wanted_of(d) : length;
    const bool near_too = d->request.start != KIN_GRAPH_START_SCREEN && is_ordered(d);
    KIN_TRY(d->aside != NULL ? KITH_OK : kin_graph_fill_random(&d->rounds, least, near_too));
    d->outcome->seconds_start = kin_clock_since(start_ns);
    d->ctx->report.seconds_screen += d->outcome->seconds_start;
    return KITH_OK;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Costs that all workers have computed. */
static double evaluations_of_rounds(const kin_graph_rounds *rounds)
{
    double sum = 0.0;
    for (int32_t t = 0; t < rounds->ctx->threads; t++) {
        sum += rounds->workers[t].matcher.evaluations;
    }
    return sum;
}

static double evaluations_of(const descending *d)
{
    return d->start_evaluations + evaluations_of_rounds(&d->rounds);
}

/* Neighbours of neighbours of crowds, as long as they bring much: a round that looks at all that
 * there is. `crowds`: whether the next round is one again. */
static kith_status expand(descending *d, bool *crowds)
{
    const kin_graph_lists *lists = &d->rounds.lists;
    kin_graph_expanded expanded;
    KIN_TRY(kin_graph_expand_lists(d->ctx, &d->points, lists, wanted_of(d), &expanded));
    d->start_evaluations += expanded.evaluations;
    d->outcome->updates = expanded.updates;
    *crowds =
        d->outcome->rounds < MOST_EXPANSIONS && d->outcome->updates * 100 >= lists->points * ENOUGH;
    measure_lists(lists);
    /* All entries are new to rounds that sample; of an empty place all bits are ones. */
    for (int64_t i = 0; !*crowds && i < lists->points * lists->length; i++) {
        lists->words[i] |= 1;
    }
    return KITH_OK;
}

/* Halves that were put aside come back, and are looked at. Lists of small sets may still be short
 * of an answer. */
static kith_status finish_rounds(descending *d)
{
    bool enough = false;
    if (d->aside == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_graph_halves_join(&d->rounds, d->aside));
    KIN_TRY(kin_graph_fill_random(&d->rounds, wanted_of(d), false));
    d->outcome->evaluations = evaluations_of(d);
    return judge(d, &d->rounds.lists, &enough);
}

static kith_status descend(descending *d)
{
    const int64_t start_ns = kin_clock_ns();
    kin_graph_outcome *outcome = d->outcome;
    const double least = d->request.delta * (double)d->rounds.lists.points * (double)d->request.k;
    bool enough = false;
    bool crowds = d->by_cells;
    outcome->evaluations = evaluations_of(d);
    KIN_TRY(judge(d, &d->rounds.lists, &enough));
    enough |= d->settled && d->request.delta >= USUAL_DELTA;
    while (!enough && outcome->rounds < d->request.rounds) {
        outcome->rounds += 1;
        if (crowds) {
            KIN_TRY(expand(d, &crowds));
        } else {
            KIN_TRY(kin_graph_round_run(&d->rounds, outcome->rounds, &outcome->updates));
        }
        outcome->evaluations = evaluations_of(d);
        KIN_TRY(judge(d, &d->rounds.lists, &enough));
        enough |= (double)outcome->updates <= least;
    }
    KIN_TRY(finish_rounds(d));
    outcome->seconds_rounds = kin_clock_since(start_ns);
    d->ctx->report.seconds_screen += outcome->seconds_rounds;
    return KITH_OK;
}

/* ---- End ------------------------------------------------------------------------------------ */

static kith_status write_answers(descending *d)
{
    const int64_t start_ns = kin_clock_ns();
    double keys = 0.0;
    KIN_TRY(write_lists(d, &d->points, &d->rounds.lists, &keys));
    d->ctx->report.candidates = keys / (double)d->prepared.rows.matrix.rows;
    d->ctx->report.seconds_rescore += kin_clock_since(start_ns);
    kin_prepared_report(d->ctx, &d->prepared);
    if (d->points.kernel == NULL) {
        (void)snprintf(d->ctx->report.screen, sizeof d->ctx->report.screen, "direct");
    }
    return KITH_OK;
}

static kith_status approximate(descending *d)
{
    KIN_TRY(prepare_order(d));
    note_preparation(d);
    KIN_TRY(solve_control(d));
    KIN_TRY(drop_coarse_rows(d));
    KIN_TRY(kin_graph_points_make(d->ctx, &d->prepared, &d->points));
    if (d->request.start == KIN_GRAPH_START_SCREEN && d->points.kernel != NULL &&
        !kin_graph_has_cells(&d->points)) {
        d->request.start = KIN_GRAPH_START_RANDOM;
    }
    KIN_TRY(kin_graph_rounds_make(d->ctx, &d->points, d->request.list, d->request.candidates,
                                  &d->rounds));
    d->rounds.seed = d->request.seed;
    d->rounds.all = d->request.all_updates > 0;
    KIN_TRY(start(d));
    KIN_TRY(descend(d));
    d->ctx->report.exact = KITH_APPROXIMATE;
    return write_answers(d);
}

kith_status kin_graph_descend(kith_ctx *ctx, const kith_matrix *points,
                              const kin_graph_request *request, const kith_neighbors *out,
                              kin_graph_outcome *outcome)
{
    descending d = {.ctx = ctx, .request = *request, .out = out, .outcome = outcome};
    *outcome = (kin_graph_outcome){0};
    KIN_FAIL_IF(points->rows > KIN_GRAPH_MOST_POINTS, ctx, KITH_E_UNSUPPORTED, kin_at(NULL),
                "a descent of %lld points (at most %lld are possible)", (long long)points->rows,
                (long long)KIN_GRAPH_MOST_POINTS);
    d.began_ns = kin_clock_ns();
    d.rounds.ctx = ctx;
    kin_graph_defaults(&d.request, points->rows);
    kith_status status = KITH_OK;
    KIN_TRY_GOTO(status, prepare_rows(&d, points), done);
    status = kin_graph_is_few(&d.request, d.prepared.groups.count) ? solve_exactly(&d, points)
                                                                   : approximate(&d);
done:
    kin_graph_rounds_free(&d.rounds);
    kin_graph_points_free(ctx, &d.points);
    kin_free(ctx, d.aside);
    kin_free(ctx, d.owner);
    kin_prepared_free(ctx, &d.prepared);
    return status;
}
