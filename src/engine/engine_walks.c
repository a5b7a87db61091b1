/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine_walks.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "exact/exact_type.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "recall/recall.h"

/* What a distance of a walk costs beside one of the exact engine's: at a gate, where lists are kept
 * of what is met; of a row anywhere in memory, with the way there, by the unit that the exact
 * engine uses; and where both compute canonical keys. Measured (notes/descent.md), rounded. */
static const double MET = 4.0;
static const double WALKED_AMX = 160.0;
static const double WALKED_VECTOR = 50.0;
static const double WALKED_GPU = 700.0;
static const double WALKED_DIRECT = 8.0;

/* Ids a row by which the type of rounded rows is tried: one for all searches, so that what is found
 * does not depend on what else is asked. */
enum { USUAL_K = 10 };

static double walked_cost(const kith_walks *w)
{
    if (!kin_exact_screens(&w->distance)) {
        return WALKED_DIRECT;
    }
    if (w->gpu != NULL) {
        return WALKED_GPU;
    }
    return kin_isa_includes(w->distance.isa, KIN_ISA_AMX) ? WALKED_AMX : WALKED_VECTOR;
}

static kith_matrix matrix_of(const kin_walks_asked *asked, const kin_walks_sample *of)
{
    return of == NULL ? asked->queries
                      : kin_recall_gather(&asked->queries, of->rows, of->count, of->copy);
}

/* ---- The processor --------------------------------------------------------------------------- */

static kith_status make_on_cpu(kith_ctx *ctx, const kin_walks_source *source, kith_walks *w)
{
    kith_report *report = &ctx->report;
    const bool screens = kin_exact_screens(&w->distance);
    kin_prepared *points = &w->prepared;
    KIN_TRY(kin_prepare_rows(ctx, &w->points, &w->distance, "points",
                             screens ? 0 : KIN_ROWS_DISTINCT, points));
    report->seconds_check += points->seconds_check;
    report->seconds_prepare += points->seconds_prepare;
    const int64_t start_ns = kin_clock_ns();
    if (screens) {
        KIN_TRY(kin_prepare_corpus(ctx, w->integer, USUAL_K, points));
    }
    KIN_TRY(kin_graph_ground_make(ctx, points, source->graph, &w->ground));
    w->parts = w->ground.links.part_count;
    w->most = w->points.rows;
    report->seconds_prepare += kin_clock_since(start_ns);
    return KITH_OK;
}

static kith_status ask_on_cpu(kin_walks_asked *asked)
{
    kith_report *report = &asked->ctx->report;
    kin_prepared *queries = &asked->prepared;
    KIN_TRY(kin_prepare_rows(asked->ctx, &asked->queries, &asked->walks->distance, "queries",
                             KIN_ROWS_DISTINCT, queries));
    report->seconds_check += queries->seconds_check;
    report->seconds_prepare += queries->seconds_prepare;
    report->distinct_rows = asked->walks->prepared.groups.count;
    return KITH_OK;
}

static kith_status run_on_cpu(const kin_walks_asked *asked, const kin_walks_sample *of,
                              kin_walks_way way, const kith_neighbors *out,
                              kin_walks_effort *effort)
{
    const kith_walks *w = asked->walks;
    const kin_graph_walk walk = {.ground = &w->ground,
                                 .queries = &asked->prepared.rows,
                                 .rows = of != NULL ? of->rows : NULL,
                                 .count = of != NULL ? of->count : asked->queries.rows,
                                 .width = way.width,
                                 .meets = way.meets,
                                 .seed = way.seed};
    const double pairs = (double)walk.count * (double)w->points.rows;
    kin_graph_effort sums;
    KIN_TRY(kin_graph_walk_run(asked->ctx, &walk, out, &sums));
    effort->evaluations = sums.met + sums.walked;
    effort->share = (MET * sums.met + walked_cost(w) * sums.walked) / pairs;
    return KITH_OK;
}

/* A caller's function is asked of the rows themselves, whose addresses it may know. */
static kith_status solve_on_cpu(const kin_walks_asked *asked, const kin_walks_sample *of,
                                const kith_neighbors *out)
{
    const kith_walks *w = asked->walks;
    const kin_request request = {.distance = w->distance, .k = out->k};
    kin_walks_effort effort;
    if (!kin_exact_screens(&w->distance)) {
        const kin_walks_way everywhere = {.width = w->points.rows};
        KIN_TRY(run_on_cpu(asked, of, everywhere, out, &effort));
    } else {
        const kith_matrix queries = matrix_of(asked, of);
        KIN_TRY(kin_exact_search(asked->ctx, &w->prepared, &queries, &request, out));
    }
    if (of == NULL) {
        kin_exact_report(asked->ctx, &w->prepared);
    }
    return KITH_OK;
}

/* ---- A GPU ----------------------------------------------------------------------------------- */

static kith_status make_on_gpu(kith_ctx *ctx, const kin_walks_source *source, kith_walks *w)
{
    const kin_graph_gpu_ground ground = {.points = &w->points,
                                         .graph = source->graph,
                                         .distance = w->distance,
                                         .asked = source->asked,
                                         .k = source->k};
    KIN_TRY(kin_graph_gpu_paths_make(ctx, w->gpu, &ground, &w->paths));
    w->parts = kin_graph_gpu_paths_parts(w->paths);
    w->most = kin_graph_gpu_most_width();
    return KITH_OK;
}

/* Queries are checked where they are asked, but of a sample a message would tell the wrong row. */
static kith_status ask_on_gpu(const kin_walks_asked *asked, bool samples)
{
    if (!samples) {
        return KITH_OK;
    }
    kith_ctx *ctx = asked->ctx;
    const int64_t start_ns = kin_clock_ns();
    KIN_TRY(kin_metric_check(ctx, &asked->queries, asked->walks->distance.metric, "queries"));
    ctx->report.seconds_check += kin_clock_since(start_ns);
    return KITH_OK;
}

static kith_status run_on_gpu(const kin_walks_asked *asked, const kin_walks_sample *of,
                              kin_walks_way way, const kith_neighbors *out,
                              kin_walks_effort *effort)
{
    const kith_walks *w = asked->walks;
    const kith_matrix queries = matrix_of(asked, of);
    const kin_graph_gpu_walks walkers = {.queries = &queries, .width = way.width, .seed = way.seed};
    KIN_TRY(kin_graph_gpu_walk_run(asked->ctx, w->paths, &walkers, out, &effort->evaluations));
    const double pairs = (double)queries.rows * (double)w->points.rows;
    effort->share = walked_cost(w) * effort->evaluations / pairs;
    return KITH_OK;
}

static kith_status solve_on_gpu(const kin_walks_asked *asked, const kin_walks_sample *of,
                                const kith_neighbors *out)
{
    const kith_matrix queries = matrix_of(asked, of);
    return kin_graph_gpu_walk_solve(asked->ctx, asked->walks->paths, &queries, 0, out);
}

/* ---- Either ---------------------------------------------------------------------------------- */

kith_status kin_walks_make(kith_ctx *ctx, kin_gpu *gpu, const kin_walks_source *source,
                           kith_walks **out)
{
    const uint64_t held = atomic_load(&ctx->held_bytes);
    kith_walks *w = NULL;
    *out = NULL;
    KIN_TRY(kin_alloc_zero(ctx, &w, 1, sizeof *w, "walks"));
    w->home = ctx;
    w->gpu = gpu;
    w->points = source->points;
    w->distance = source->distance;
    const kith_matrix asked = {.dtype = source->asked};
    w->integer = kin_frame_is_integer(&w->distance, &w->points, &asked);
    const kith_status status =
        gpu == NULL ? make_on_cpu(ctx, source, w) : make_on_gpu(ctx, source, w);
    if (status != KITH_OK) {
        kith_walks_free(w);
        return status;
    }
    w->bytes = atomic_load(&ctx->held_bytes) - held;
    *out = w;
    return KITH_OK;
}

void kith_walks_free(kith_walks *walks)
{
    if (walks == NULL) {
        return;
    }
    kith_ctx *ctx = walks->home;
    kin_graph_gpu_paths_free(ctx, walks->paths);
    kin_graph_ground_free(ctx, &walks->ground);
    kin_prepared_free(ctx, &walks->prepared);
    kin_free(ctx, walks);
}

kith_status kin_walks_ask(kin_walks_asked *asked, bool samples)
{
    return asked->walks->gpu == NULL ? ask_on_cpu(asked) : ask_on_gpu(asked, samples);
}

void kin_walks_asked_free(kin_walks_asked *asked)
{
    kin_prepared_free(asked->ctx, &asked->prepared);
}

kith_status kin_walks_run(const kin_walks_asked *asked, const kin_walks_sample *of,
                          kin_walks_way way, const kith_neighbors *out, kin_walks_effort *effort)
{
    return asked->walks->gpu == NULL ? run_on_cpu(asked, of, way, out, effort)
                                     : run_on_gpu(asked, of, way, out, effort);
}

kith_status kin_walks_solve(const kin_walks_asked *asked, const kin_walks_sample *of,
                            const kith_neighbors *out)
{
    return asked->walks->gpu == NULL ? solve_on_cpu(asked, of, out) : solve_on_gpu(asked, of, out);
}
