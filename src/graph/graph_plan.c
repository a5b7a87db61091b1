/* SPDX-License-Identifier: Apache-2.0
 * What a request leaves open, and what it will hold. */
#include "graph/graph.h"

#include "graph/graph_cells.h"
#include "graph/graph_start.h"

#include <math.h>

/* ---- Defaults ------------------------------------------------------------------------------- */

enum {
    LEAST_LIST = 32,
    LIST_STEP = 8, /* a line of memory */
    LEAST_CANDIDATES = 12,
    MOST_CANDIDATES = 64,
    MOST_ROUNDS = 30
};
static const double DELTA = 0.001;

/* Of all pairs, what the start may look at: so many points for each point. It ends where little is
 * new. */
static const double POINTS_IN_CELLS = 40000.0;
/* Where two graphs are made one their own lists lead on. */
static const double POINTS_ACROSS_CELLS = 20000.0;
static const double MOST_SHARE = 0.5;
static const double LEAST_SHARE = 0.0005;

void kin_graph_defaults(kin_graph_request *request, int64_t rows)
{
    if (request->list == 0) {
        const int64_t wished = kin_max_i64(LEAST_LIST, request->k + 1 + request->k / 4);
        request->list = (int32_t)kin_round_up(wished, LIST_STEP);
    }
    if (request->candidates == 0) {
        const int64_t wished = kin_max_i64(LEAST_CANDIDATES, request->k / 2);
        request->candidates = (int32_t)kin_min_i64(wished, MOST_CANDIDATES);
    }
    if (request->rounds == 0) {
        request->rounds = MOST_ROUNDS;
    }
    if (request->delta == 0.0) {
        request->delta = DELTA;
    }
    if (request->all_updates == 0) {
        request->all_updates = -1;
    }
    if (request->share == 0.0) {
        const double points = request->split > 0 ? POINTS_ACROSS_CELLS : POINTS_IN_CELLS;
        const double share = points / (double)kin_max_i64(rows, 1);
        request->share = fmin(MOST_SHARE, fmax(LEAST_SHARE, share));
    }
    if (request->start == KIN_GRAPH_START_AUTO) {
        const bool near =
            kin_is_screened(&request->distance) || kin_graph_has_relative(request->distance.metric);
        request->start = near ? KIN_GRAPH_START_SCREEN : KIN_GRAPH_START_RANDOM;
    }
}

/* ---- Few points ----------------------------------------------------------------------------- */

enum { LISTS = 32 };

bool kin_graph_is_few(const kin_graph_request *request, int64_t distinct)
{
    return distinct <= KIN_GRAPH_FEW || distinct <= (int64_t)request->list * LISTS ||
           (kin_is_screened(&request->distance) &&
            (request->share >= 1.0 || kin_type_settled(distinct, request->k + 1)));
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Blocks are padded and carry their size (base_mem.h). */
enum { SLACK_JOB = 16384, SLACK_THREAD = 8192 };

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A descent of so many distinct rows. */
typedef struct planning {
    const kith_matrix *points;
    const kin_graph_request *request;
    kin_rows_known known;
    int32_t threads;
    bool cheapest;
} planning;

/* Cells, and crowds that follow. */
static void plan_start(kin_layout *plan, const planning *p, const kin_frame *frame)
{
    const kin_graph_request *request = p->request;
    const int64_t n = p->known.distinct;
    const kin_distance *distance = &request->distance;
    if (frame == NULL || distance->cols > KIN_GRAPH_CENTRE_COLS ||
        (request->start != KIN_GRAPH_START_SCREEN && request->split == 0)) {
        return;
    }
    const kin_graph_start_size size = {.frame = frame,
                                       .points = n,
                                       .share = request->share,
                                       .length = request->list,
                                       .threads = p->threads,
                                       .cheapest = p->cheapest};
    const uint64_t before = kin_layout_mark(plan);
    kin_graph_expand_lists_plan(plan, frame, n, request->list, p->threads);
    kin_graph_start_plan(plan, &size);
    kin_layout_back(plan, before);
}

/* What that takes, beside the descent itself. */
static uint64_t relative_bytes(const kin_graph_relative *near, int32_t threads)
{
    const uint64_t cols = (uint64_t)near->rows.cols;
    const uint64_t a_row = cols * sizeof(float) + (uint64_t)near->request.k * sizeof(uint32_t);
    const uint64_t a_thread = (cols + KIN_METRIC_LANES + 1) * sizeof(double);
    return kin_size_add(kin_size_mul((uint64_t)near->rows.rows, a_row),
                        kin_size_mul((uint64_t)threads, a_thread));
}

/* A start from another descent. */
static uint64_t related_bytes(const planning *p)
{
    const kin_graph_relative near = kin_graph_relative_of(p->request, p->known.distinct);
    const kin_rows_known known = kin_prepare_unknown(&near.rows, &near.request.distance);
    return kin_size_add(relative_bytes(&near, p->threads),
                        kin_graph_bytes(&near.rows, &near.request, known, p->threads, p->cheapest));
}

/* Beside what is prepared, in one type (NULL: a direct metric). */
static uint64_t graph_bytes(const planning *p, const kin_frame *frame)
{
    const kin_graph_request *request = p->request;
    const int64_t n = p->known.distinct;
    kin_prepared prepared = {.groups = {.count = n}};
    kin_graph_points shape = kin_graph_points_shape(frame, &request->distance, &prepared);
    shape.count = n;
    kin_layout plan = {.block = NULL};
    kin_layout_alone(&plan, 1, kin_graph_points_bytes(frame, n));
    kin_graph_rounds_plan(&plan, &shape, request->list, request->candidates, p->threads);
    if (request->control != NULL || request->init != NULL) {
        kin_layout_alone(&plan, (uint64_t)p->points->rows, sizeof(uint32_t)); /* owners */
    }
    if (request->split > 0) {
        kin_layout_alone(&plan, (uint64_t)n, (uint64_t)request->list * sizeof(uint64_t) + 1);
    }
    const uint64_t kept = kin_layout_mark(&plan);
    const bool related = frame == NULL && request->start == KIN_GRAPH_START_SCREEN &&
                         kin_graph_has_relative(request->distance.metric);
    if (related) {
        kin_layout_alone(&plan, 1, related_bytes(p));
    } else {
        plan_start(&plan, p, frame);
    }
    kin_layout_back(&plan, kept);
    kin_graph_finish_plan(&plan, &shape, request->list, request->k + 1, p->threads);
    return kin_size_add(plan.peak, SLACK_JOB + SLACK_THREAD * (uint64_t)p->threads);
}

/* In the type that takes most, or least. */
static uint64_t descent_bytes(const planning *p)
{
    const kin_distance *distance = &p->request->distance;
    if (!kin_is_screened(distance)) {
        return graph_bytes(p, NULL);
    }
    if (kin_frame_is_integer(distance, p->points, p->points)) {
        const kin_frame frame =
            kin_frame_make(distance, kin_type_integer(distance->isa), true, NULL);
        return graph_bytes(p, &frame);
    }
    const kin_frame_stats stats = {.largest = 1.0, .largest_norm = 1.0};
    const kin_tile_kernel *ladder[KIN_TYPE_LADDER];
    const int count = kin_type_ladder(distance->isa, distance->cols, ladder);
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        const kin_frame frame = kin_frame_make(distance, ladder[i], false, &stats);
        const uint64_t own = graph_bytes(p, &frame);
        bytes = i == 0 || (p->cheapest ? own < bytes : own > bytes) ? own : bytes;
    }
    return bytes;
}

/* Few distinct rows are solved exactly, beside what says that they are few; without a screen by a
 * scan, which has no lists. */
static uint64_t few_bytes(const planning *p, const kin_plan *exact)
{
    const kin_distance *distance = &p->request->distance;
    kin_prepared prepared = {.groups = {.count = p->known.distinct}};
    const kin_graph_points shape = kin_graph_points_shape(NULL, distance, &prepared);
    kin_layout rows = {.block = NULL};
    kin_prepare_rows_plan(&rows, p->points->rows, distance, distance->metric == KITH_CUSTOM,
                          p->known);
    if (p->request->control != NULL || p->request->init != NULL) {
        kin_layout_alone(&rows, (uint64_t)p->points->rows, sizeof(uint32_t)); /* owners */
    }
    if (kin_is_screened(distance)) {
        return kin_size_add(rows.peak, p->cheapest ? exact->least_bytes : exact->peak_bytes);
    }
    kin_graph_finish_plan(&rows, &shape, 0, p->request->k + 1, p->threads);
    return rows.peak;
}

/* Beside what is prepared, while kth is solved. */
static uint64_t control_bytes(const kith_matrix *points, const kin_graph_request *request,
                              kin_rows_known known, int32_t threads)
{
    const kin_recall_control *control = request->control;
    if (control == NULL || control->count == 0) {
        return 0;
    }
    const uint64_t count = (uint64_t)control->count;
    const uint64_t a_row = (uint64_t)points->cols * (uint64_t)kith_dtype_bytes(points->dtype) +
                           (uint64_t)control->at * sizeof(uint32_t) + sizeof(double);
    kith_matrix queries = *points;
    queries.rows = control->count;
    const kin_request search = {
        .distance = request->distance, .k = control->at, .exclude = control->ids};
    const kin_plan plan = kin_plan_exact(points, &queries, &search, known, threads);
    return kin_size_add(kin_size_mul(count, a_row), plan.screens ? plan.peak_bytes : 0);
}

uint64_t kin_graph_bytes(const kith_matrix *points, const kin_graph_request *request,
                         kin_rows_known known, int32_t threads, bool cheapest)
{
    kin_graph_request filled = *request;
    kin_graph_defaults(&filled, points->rows);
    const planning p = {points, &filled, known, threads, cheapest};
    const kin_request search = {.distance = request->distance, .k = request->k};
    const kin_plan exact = kin_plan_exact(points, NULL, &search, known, threads);
    kin_rows_known floats = known;
    floats.bytes = false; /* a descent takes rows as they are */
    const kin_plan descends = kin_plan_exact(points, NULL, &search, floats, threads);
    const bool few = kin_graph_is_few(&filled, known.distinct);
    uint64_t bytes = control_bytes(points, &filled, known, threads);
    if (few) {
        return max_u64(bytes, few_bytes(&p, &exact));
    }
    const uint64_t prepared = cheapest ? descends.least_prepared_bytes : descends.prepared_bytes;
    const uint64_t many = kin_size_add(prepared, descent_bytes(&p));
    if (known.counted) {
        return max_u64(bytes, many);
    }
    /* They may yet be few. */
    const uint64_t fewer = few_bytes(&p, &exact);
    return max_u64(bytes, cheapest == (fewer < many) ? fewer : many);
}
