/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_walks.h"

#include "api/api_sample.h"
#include "base/base_try.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"

/* What a distance of a walk costs beside one of the exact engine's: at a gate, where lists are kept
 * of what is met; of a row anywhere in memory, with the way there, by the unit that the exact
 * engine uses; and where both compute canonical keys. Measured (docs/nn-descent.md) and rounded. */
static const double MET = 4.0;
static const double WALKED_AMX = 160.0;
static const double WALKED_VECTOR = 50.0;
static const double WALKED_GPU = 700.0;
static const double WALKED_DIRECT = 8.0;

static double walked_cost(const kin_walks *w)
{
    if (!kin_exact_screens(&w->distance)) {
        return WALKED_DIRECT;
    }
    if (w->gpu != NULL) {
        return WALKED_GPU;
    }
    return kin_isa_includes(w->ctx->isa, KIN_ISA_AMX) ? WALKED_AMX : WALKED_VECTOR;
}

static kith_matrix asked_of(const kin_walks *w, const kin_walks_sample *of)
{
    return of == NULL ? w->queries : kin_sample_gather(&w->queries, of->rows, of->count, of->copy);
}

/* ---- The processor --------------------------------------------------------------------------- */

static kith_status make_on_cpu(kin_walks *w)
{
    kith_report *report = &w->ctx->report;
    const bool screens = kin_exact_screens(&w->distance);
    const bool integer = kin_frame_is_integer(&w->distance, &w->points, &w->queries);
    kin_prepared *points = &w->prepared_points;
    kin_prepared *queries = &w->prepared_queries;
    KIN_TRY(kin_prepare_rows(w->ctx, &w->points, &w->distance, "points", !screens, false, points));
    KIN_TRY(kin_prepare_rows(w->ctx, &w->queries, &w->distance, "queries", true, false, queries));
    const double before = points->seconds_prepare + queries->seconds_prepare;
    const int64_t start_ns = kin_clock_ns();
    if (screens) {
        KIN_TRY(kin_prepare_corpus(w->ctx, integer, w->k, points));
    }
    KIN_TRY(kin_descent_ground_make(w->ctx, points, w->graph, &w->ground));
    w->parts = w->ground.links.part_count;
    w->most = w->points.rows;
    report->seconds_check = points->seconds_check + queries->seconds_check;
    report->seconds_prepare = before + kin_clock_since(start_ns);
    report->distinct_rows = points->groups.count;
    return KITH_OK;
}

static kith_status run_on_cpu(const kin_walks *w, const kin_walks_sample *of, int64_t width,
                              uint64_t seed, const kith_neighbors *out, kin_walks_effort *effort)
{
    const kin_descent_walk walk = {.ground = &w->ground,
                                   .queries = &w->prepared_queries.rows,
                                   .rows = of != NULL ? of->rows : NULL,
                                   .count = of != NULL ? of->count : w->queries.rows,
                                   .width = width,
                                   .seed = seed};
    const double pairs = (double)walk.count * (double)w->points.rows;
    kin_descent_effort sums;
    KIN_TRY(kin_descent_walk_run(w->ctx, &walk, out, &sums));
    effort->evaluations = sums.met + sums.walked;
    effort->share = (MET * sums.met + walked_cost(w) * sums.walked) / pairs;
    return KITH_OK;
}

/* A caller's function is asked of the rows themselves, whose addresses it may know. */
static kith_status solve_on_cpu(kin_walks *w, const kin_walks_sample *of, const kith_neighbors *out)
{
    const kin_request request = {.distance = w->distance, .k = out->k};
    const bool screens = kin_exact_screens(&w->distance);
    kin_walks_effort effort;
    if (!screens) {
        KIN_TRY(run_on_cpu(w, of, w->points.rows, 0, out, &effort));
    } else {
        const kith_matrix asked = asked_of(w, of);
        KIN_TRY(kin_exact_search(w->ctx, &w->prepared_points, &asked, &request, out));
    }
    if (of == NULL) {
        kin_exact_report(w->ctx, &w->prepared_points);
    }
    return KITH_OK;
}

/* ---- A GPU ----------------------------------------------------------------------------------- */

/* Queries are checked where they are asked, but of a sample a message would tell the wrong row. */
static kith_status make_on_gpu(kin_walks *w)
{
    const kin_cascade_ground ground = {.points = &w->points,
                                       .graph = w->graph,
                                       .distance = w->distance,
                                       .asked = w->queries.dtype,
                                       .k = w->k};
    KIN_TRY(kin_cascade_paths_make(w->ctx, w->gpu, &ground, &w->paths));
    w->parts = kin_cascade_paths_parts(w->paths);
    w->most = kin_cascade_most_width();
    if (!w->samples) {
        return KITH_OK;
    }
    const int64_t start_ns = kin_clock_ns();
    KIN_TRY(kin_metric_check(w->ctx, &w->queries, w->distance.metric, "queries"));
    w->ctx->report.seconds_check += kin_clock_since(start_ns);
    return KITH_OK;
}

static kith_status run_on_gpu(const kin_walks *w, const kin_walks_sample *of, int64_t width,
                              uint64_t seed, const kith_neighbors *out, kin_walks_effort *effort)
{
    const kith_matrix asked = asked_of(w, of);
    const kin_cascade_walkers walkers = {.queries = &asked, .width = width, .seed = seed};
    KIN_TRY(kin_cascade_walk_run(w->ctx, w->paths, &walkers, out, &effort->evaluations));
    const double pairs = (double)asked.rows * (double)w->points.rows;
    effort->share = walked_cost(w) * effort->evaluations / pairs;
    return KITH_OK;
}

static kith_status solve_on_gpu(const kin_walks *w, const kin_walks_sample *of,
                                const kith_neighbors *out)
{
    const kith_matrix asked = asked_of(w, of);
    return kin_cascade_walk_solve(w->ctx, w->paths, &asked, 0, out);
}

/* ---- Either ---------------------------------------------------------------------------------- */

kith_status kin_walks_make(kin_walks *walks)
{
    return walks->gpu == NULL ? make_on_cpu(walks) : make_on_gpu(walks);
}

void kin_walks_free(kin_walks *walks)
{
    kin_cascade_paths_free(walks->ctx, walks->paths);
    kin_descent_ground_free(walks->ctx, &walks->ground);
    kin_prepared_free(walks->ctx, &walks->prepared_queries);
    kin_prepared_free(walks->ctx, &walks->prepared_points);
}

kith_status kin_walks_run(kin_walks *walks, const kin_walks_sample *of, int64_t width,
                          uint64_t seed, const kith_neighbors *out, kin_walks_effort *effort)
{
    return walks->gpu == NULL ? run_on_cpu(walks, of, width, seed, out, effort)
                              : run_on_gpu(walks, of, width, seed, out, effort);
}

kith_status kin_walks_solve(kin_walks *walks, const kin_walks_sample *of, const kith_neighbors *out)
{
    return walks->gpu == NULL ? solve_on_cpu(walks, of, out) : solve_on_gpu(walks, of, out);
}
