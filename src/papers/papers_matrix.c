/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The distances of a batch of queries to a chunk of the corpus are written as a matrix, and
 * any method of selection takes the k first of each row: what the papers do, and what the fused
 * engine is compared with.
 *
 *                  corpus: a chunk
 *      queries   [ tile | tile | tile | ... ]   -> select -> k a row  \
 *      a batch   [      |      |      | ... ]   -> select -> k a row   merged with the chunks
 *                                                                     /  before, then written
 *
 * Costs. Of metrics with a matrix product the matrix holds costs in fp32. Rows are transformed,
 * shifted by the mean, scaled by a power of two and rounded to fp32: p of a row; let S be
 * |p(query)| and the largest |p| of the corpus. The cost is |p(point)|^2 - 2 p(query).p(point), for
 * an inner product without the first term. In units of the frame, and but for what all points of a
 * row share, cost and canonical key then differ by at most
 *
 *      error = loss (2 S + loss)  +  (40 2^-24 + cols 2^-52) (S + loss)^2  +  underflow
 *
 *      loss        what rounding to p took from the query and from any point at most, measured
 *      40 2^-24    twice a product, sums of KIN_PROJECT_STEP = 64 in fp32: 64.1 S^2 / 2; the cost
 *                  in fp32: 1.1 S^2; squares, known to a relative 2^-30
 *      cols        sums in double, of products and of the key
 *      underflow   of the key: (cols + 9) 2^-1074 in its own units
 *
 * The k-th smallest cost of a row, which a method of selection finds, says that the k-th key is at
 * most that cost + error; a point of such a key has a cost of at most that cost + 2 error. All that
 * are within this reach get their canonical keys, and the first of them by (key, id) are the
 * answer, whatever was rounded. Points that are degenerate, or drawn in from afar (what was cut off
 * is no small loss), have a cost that is not a number: selection puts it last, and no reach leaves
 * it out. The error of a query of that kind is infinite, so all points are within its reach.
 *
 * Other metrics have no costs: canonical keys of all pairs, as without a pipeline (exact_direct.c).
 *
 * Cost. A product and four bytes a pair, written and read once or twice. Nothing is discarded
 * beforehand and no pair of a graph serves both ends; that is what the fused engine gains.
 *
 * Memory. MATRIX_BYTES of costs, whatever the corpus; lists of k a query of the batch, which
 * shrinks where k is large. The whole corpus once more, in fp32.
 */
#include "papers/papers.h"

#include "host/host_clock.h"
#include "host/host_threads.h"

#include <math.h>

static const int64_t MATRIX_BYTES = 64 << 20;
enum {
    LEAST_BATCH = 16,         /* queries: fewer would read the corpus too often */
    GROUP = 16,               /* queries that meet a tile together */
    PIECE_PRODUCTS = 1 << 25, /* of a task: some hundredths of a second */
    ROWS_A_TASK = 16,         /* of merging and writing */
    USUAL_SAMPLE = 8,         /* of threshold_heap, times k */
    PANEL = KIN_PROJECT_AXES, /* rows of the corpus that a product meets together */
    FOUND = 1024              /* candidates that are rescored together */
};

/* What is computed at a time. */
typedef struct shape {
    int64_t batch; /* queries */
    int64_t chunk; /* rows of the corpus */
} shape;

/* Of a rounded row, or the largest of some; NaN where costs say nothing of it. */
typedef struct extent {
    double norm;
    double loss;
} extent;

typedef struct worker {
    KIN_APART double *queries; /* a group of them, expanded */
    kin_answer answer;
    float *rounded; /* a group of queries, or a row of the corpus */
    extent extent;  /* of the rows that it rounded */
    int64_t candidates;
} worker;

typedef struct matrix {
    kith_ctx *ctx;
    const kin_rows *corpus;
    const kin_rows *queries;
    const kin_request *request;
    const kith_neighbors *out;
    kin_groups distinct; /* each row of the corpus stands for itself */
    bool graph;
    int64_t wanted;
    int64_t wide;   /* doubles of an expanded query */
    int64_t piece;  /* rows that a task computes */
    int64_t pieces; /* of the present chunk */
    shape shape;
    /* The present batch and chunk. */
    int64_t query0;
    int64_t query_count;
    int64_t row0;
    int64_t columns;
    int64_t picked;   /* places that were selected from each row */
    int64_t kept;     /* of the chunks before */
    float *costs;     /* batch x columns */
    kin_pair *merged; /* batch x wanted; NULL where one chunk is all */
    worker *workers;
    int32_t threads;
    kin_frame_stats stats;
    double inverse; /* 1 / the scale of the frame */
    const kin_round_ops *ops;
    int64_t padded; /* floats of a rounded row */
    float *panels;  /* the corpus: PANEL rows interleaved */
    double *norms;  /* |p|^2 of its rows, 0 for products; NaN: always rescored */
    extent extent;  /* of them */
    bool squares;   /* are part of a cost */
    float *kth;     /* cost of each query of the batch */
} matrix;

/* ---- Sizes ---------------------------------------------------------------------------------- */

static shape shape_of(int64_t rows, int64_t queries, int64_t wanted)
{
    const int64_t cells = MATRIX_BYTES / (int64_t)sizeof(float);
    const int64_t a_list = (int64_t)(sizeof(double) + sizeof(uint32_t) + sizeof(kin_pair));
    const int64_t lists = kin_max_i64(1, MATRIX_BYTES / (wanted * a_list));
    const int64_t batch = kin_min_i64(kin_min_i64(queries, lists),
                                      kin_max_i64(LEAST_BATCH, cells / kin_max_i64(rows, PANEL)));
    const int64_t chunk = cells / batch / PANEL * PANEL; /* one panel at least */
    return (shape){.batch = batch, .chunk = kin_min_i64(rows, chunk)};
}

/* What selection takes at most. A method: three times the words of a row, a thread. Few long rows
 * are cut, and what the cuts give waits for being merged. */
static uint64_t select_bytes(shape s, int64_t wanted, int32_t threads)
{
    enum { METHOD = 1 << 16, FEW = 4 /* rows a thread */, LONG = 1 << 17, WAITING = 1 << 26 };
    const uint64_t row = kin_size_mul((uint64_t)s.chunk, 2 * sizeof(uint64_t));
    const uint64_t list = kin_size_mul((uint64_t)wanted, 2 * sizeof(uint64_t));
    const uint64_t a_thread = kin_size_add(kin_size_add(3 * row, list), METHOD);
    const uint64_t cuts = kin_size_mul(row, (uint64_t)s.batch);
    const bool cut = s.batch < (int64_t)threads * FEW && s.chunk > LONG;
    return kin_size_add(kin_size_mul(a_thread, (uint64_t)threads),
                        !cut             ? 0
                        : cuts < WAITING ? cuts
                                         : kin_size_add(row, WAITING));
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* A row into fp32, zeros behind it. */
static extent round_row(const matrix *m, const kin_rows *rows, int64_t row, worker *w, float *out)
{
    const kin_query loaded = kin_metric_load(&m->request->distance, rows, row, w->queries);
    const kin_round_input in = {w->queries, m->stats.mean, m->inverse, m->wide};
    memset(out + m->wide, 0, (size_t)(m->padded - m->wide) * sizeof *out);
    const kin_round_sums sums = m->ops->to_f32(&in, out);
    if (loaded.degenerate || sums.cut_sq != 0) {
        return (extent){(double)NAN, (double)NAN};
    }
    /* Squares of a loss vanish below 2^-500. */
    return (extent){sqrt(sums.stored_sq), 1.0001 * sqrt(sums.lost_sq) + 0x1p-500};
}

static kith_status round_panel(void *arg, int64_t task, int32_t thread)
{
    const matrix *m = arg;
    worker *w = &m->workers[thread];
    float *panel = m->panels + task * PANEL * m->padded;
    const int64_t count = kin_min_i64(PANEL, m->corpus->matrix.rows - task * PANEL);
    memset(panel, 0, (size_t)(PANEL * m->padded) * sizeof *panel);
    for (int64_t r = 0; r < count; r++) {
        const extent row = round_row(m, m->corpus, task * PANEL + r, w, w->rounded);
        for (int64_t i = 0; i < m->padded; i++) {
            panel[i * PANEL + r] = w->rounded[i];
        }
        m->norms[task * PANEL + r] = row.norm * (m->squares ? row.norm : 0.0);
        w->extent = (extent){fmax(w->extent.norm, row.norm), fmax(w->extent.loss, row.loss)};
    }
    return KITH_OK;
}

static kith_status round_corpus(matrix *m)
{
    const kin_distance *distance = &m->request->distance;
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_frame_measure(m->ctx, distance, m->corpus, &m->stats));
    m->inverse = 1.0 / kin_frame_scale(KIN_TILE_F32, distance->cols, &m->stats);
    m->squares = kin_metric_get_traits(distance->metric)->screen == KIN_SCREEN_DISTANCE;
    m->ops = kin_round_get(m->ctx->isa);
    KIN_TRY(kin_parallel(m->ctx, "prepare", kin_ceil_div(m->corpus->matrix.rows, PANEL),
                         round_panel, m));
    for (int32_t t = 0; t < m->threads; t++) {
        const extent *e = &m->workers[t].extent;
        m->extent = (extent){fmax(m->extent.norm, e->norm), fmax(m->extent.loss, e->loss)};
    }
    m->ctx->report.seconds_prepare += kin_clock_since(start);
    return KITH_OK;
}

/* The head of this file. NaN, as infinity, leaves all points within reach. */
static double error_of(const matrix *m, extent query)
{
    const double cols = m->request->distance.cols;
    const double sum = query.norm + m->extent.norm;
    const double loss = query.loss + m->extent.loss;
    return loss * (2 * sum + loss) + (40 * 0x1p-24 + cols * 0x1p-52) * (sum + loss) * (sum + loss) +
           (cols + 9) * 0x1p-1074 * m->inverse * m->inverse;
}

/* KIN_PROJECT_ROWS queries of a group to a panel of the corpus. */
static void write_costs(const matrix *m, int64_t row, int64_t at, const float *rounded)
{
    double products[KIN_PROJECT_ROWS * PANEL];
    const double *norms = m->norms + m->row0 + at;
    m->ops->project(rounded, m->panels + (m->row0 + at) * m->padded, m->padded, PANEL, products);
    const int64_t rows = kin_min_i64(KIN_PROJECT_ROWS, m->query_count - row);
    const int64_t columns = kin_min_i64(PANEL, m->columns - at);
    for (int64_t r = 0; r < rows; r++) {
        float costs[PANEL]; /* a place that overlaps no other, for the compiler's vectors */
        for (int64_t c = 0; c < PANEL; c++) {
            costs[c] = (float)(norms[c] - 2 * products[r * PANEL + c]);
        }
        memcpy(m->costs + (row + r) * m->columns + at, costs, (size_t)columns * sizeof *costs);
    }
}

/* ---- Costs to an answer ---------------------------------------------------------------------- */

static void sort_found(const matrix *m, kin_answer *found)
{
    kin_select_sort_pairs(found->list, found->count);
    found->count = kin_min_i64(found->count, m->wanted);
}

/* Canonical keys of candidates join what was found, which is cut before it overflows. */
static void rescore(const matrix *m, worker *w, const kin_query *query, const uint32_t *ids,
                    int64_t count)
{
    double keys[FOUND];
    kin_metric_keys(&m->request->distance, query, m->corpus, ids, count, keys);
    if (w->answer.count + count > w->answer.wanted) {
        sort_found(m, &w->answer);
    }
    for (int64_t i = 0; i < count; i++) {
        w->answer.list[w->answer.count++] = (kin_pair){keys[i], ids[i], 1};
    }
    w->candidates += count;
}

/* The list of a row: what the chunks before gave, and all of this one within reach. */
static void gather_row(const matrix *m, int64_t row, worker *w)
{
    const int64_t id = m->query0 + row;
    const double error = error_of(m, round_row(m, m->queries, id, w, w->rounded));
    const kin_query query = kin_metric_load(&m->request->distance, m->queries, id, w->queries);
    const float *costs = m->costs + row * m->columns;
    const float reach = nextafterf((float)(m->kth[row] + 2 * error), INFINITY);
    uint32_t ids[FOUND];
    int64_t count = 0;
    w->answer.count = 0;
    if (m->merged != NULL) {
        w->answer.count = m->kept;
        memcpy(w->answer.list, m->merged + row * m->wanted,
               (size_t)m->kept * sizeof *w->answer.list);
    }
    for (int64_t c = 0; c < m->columns; c++) {
        ids[count] = (uint32_t)(m->row0 + c);
        count += !(costs[c] > reach); /* what is not a number is within */
        if (count == FOUND) {
            rescore(m, w, &query, ids, count);
            count = 0;
        }
    }
    rescore(m, w, &query, ids, count);
    sort_found(m, &w->answer);
}

/* A group of queries and a piece of the chunk, panel by panel. */
static kith_status fill_piece(void *arg, int64_t task, int32_t thread)
{
    const matrix *m = arg;
    worker *w = &m->workers[thread];
    const int64_t first = task / m->pieces * GROUP;
    const int64_t count = kin_min_i64(GROUP, m->query_count - first);
    const int64_t begin = task % m->pieces * m->piece;
    const int64_t end = kin_min_i64(m->columns, begin + m->piece);
    for (int64_t q = 0; q < count; q++) {
        (void)round_row(m, m->queries, m->query0 + first + q, w, w->rounded + q * m->padded);
    }
    for (int64_t at = begin; at < end; at += PANEL) {
        for (int64_t q = 0; q < count; q += KIN_PROJECT_ROWS) {
            write_costs(m, first + q, at, w->rounded + q * m->padded);
        }
    }
    return KITH_OK;
}

static kith_status fill(matrix *m)
{
    const int64_t start = kin_clock_ns();
    m->pieces = kin_ceil_div(m->columns, m->piece);
    const kith_status status = kin_parallel(
        m->ctx, "screen", kin_ceil_div(m->query_count, GROUP) * m->pieces, fill_piece, m);
    m->ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

/* ---- Selection ------------------------------------------------------------------------------- */

static kith_status select_rows(matrix *m)
{
    const int64_t start = kin_clock_ns();
    m->picked = kin_min_i64(m->wanted, m->columns);
    const kin_select_job job = {.values = (const char *)m->costs,
                                .stride_bytes = m->columns * (int64_t)sizeof *m->costs,
                                .rows = m->query_count,
                                .cols = m->columns,
                                .k = m->picked,
                                .dtype = KIN_SELECT_F32,
                                .method = m->request->select,
                                .sample = USUAL_SAMPLE,
                                .out_kth = m->kth};
    const kith_status status = kin_select_host(m->ctx, &job);
    m->ctx->report.seconds_select += kin_clock_since(start);
    return status;
}

/* After the last chunk lists are written, before it they are kept. */
static kith_status take_row(void *arg, int64_t row, int32_t thread)
{
    const matrix *m = arg;
    kin_answer *answer = &m->workers[thread].answer;
    gather_row(m, row, &m->workers[thread]);
    if (m->row0 + m->columns == m->corpus->matrix.rows) {
        /* every row of the corpus was a candidate, so there are enough */
        const int64_t query = m->query0 + row;
        (void)kin_answer_write(answer, kin_request_left_out(m->request, m->graph, query), m->out,
                               query);
    } else {
        memcpy(m->merged + row * m->wanted, answer->list,
               (size_t)answer->count * sizeof *answer->list);
    }
    return KITH_OK;
}

static kith_status take(matrix *m)
{
    const int64_t start = kin_clock_ns();
    KIN_TRY(kin_parallel_rows(m->ctx, "rescore", m->query_count, ROWS_A_TASK, take_row, m));
    m->kept = kin_min_i64(m->wanted, m->kept + m->picked);
    m->ctx->report.seconds_rescore += kin_clock_since(start);
    return KITH_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static kith_status solve_batch(matrix *m)
{
    const int64_t rows = m->corpus->matrix.rows;
    m->kept = 0;
    for (m->row0 = 0; m->row0 < rows; m->row0 += m->columns) {
        m->columns = kin_min_i64(m->shape.chunk, rows - m->row0);
        KIN_TRY(fill(m));
        KIN_TRY(select_rows(m));
        KIN_TRY(take(m));
    }
    return KITH_OK;
}

static void name_room(kin_layout *layout, void *job)
{
    matrix *m = job;
    const uint64_t batch = (uint64_t)m->shape.batch;
    const uint64_t places = kin_size_mul(batch, (uint64_t)m->wanted);
    const uint64_t padded = (uint64_t)m->padded;
    const uint64_t rows = (uint64_t)kin_round_up(m->corpus->matrix.rows, PANEL);
    m->costs =
        kin_layout_array(layout, kin_size_mul(batch, (uint64_t)m->shape.chunk), sizeof *m->costs);
    m->panels = kin_layout_array(layout, kin_size_mul(rows, padded), sizeof *m->panels);
    m->norms = kin_layout_zeros(layout, rows, sizeof *m->norms);
    m->kth = kin_layout_array(layout, batch, sizeof *m->kth);
    if (m->shape.chunk < m->corpus->matrix.rows) {
        m->merged = kin_layout_array(layout, places, sizeof *m->merged);
    }
    m->workers = kin_layout_zeros(layout, (uint64_t)m->threads, sizeof *m->workers);
    for (int32_t t = 0; t < m->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(m->workers, t, &spare);
        w->queries = kin_layout_array(layout, (uint64_t)(GROUP * m->wide), sizeof *w->queries);
        w->answer = (kin_answer){.groups = &m->distinct,
                                 .metric = m->request->distance.metric,
                                 .wanted = 2 * m->wanted + FOUND};
        kin_answer_name(layout, &w->answer);
        w->rounded = kin_layout_array(layout, GROUP * padded, sizeof *w->rounded);
    }
}

/* All but the context and the answer. */
static matrix matrix_of(const kin_prepared *corpus, const kin_prepared *queries,
                        const kin_request *request, int32_t threads)
{
    const kith_matrix *points = &corpus->rows.matrix;
    matrix m = {.corpus = &corpus->rows,
                .queries = &queries->rows,
                .request = request,
                .distinct = {.rows = points->rows},
                .graph = corpus == queries,
                .wide = kin_round_up(points->cols, KIN_METRIC_LANES),
                .padded = kin_round_up(points->cols, KIN_PROJECT_STEP),
                .threads = threads};
    m.wanted = kin_request_ids(request, m.graph, points->rows);
    m.piece = kin_round_up(PIECE_PRODUCTS / (GROUP * points->cols) + 1, PANEL);
    m.shape = shape_of(points->rows, queries->rows.matrix.rows, m.wanted);
    return m;
}

void kin_papers_matrix_plan(kin_layout *plan, const kin_prepared *corpus,
                            const kin_prepared *queries, const kin_request *request,
                            int32_t threads)
{
    if (!kin_is_screened(&request->distance)) {
        kin_direct_plan(plan, corpus, queries, request, threads);
        return;
    }
    matrix m = matrix_of(corpus, queries, request, threads);
    kin_frame_measure_plan(plan, request->distance.cols, threads);
    kin_layout_block(plan, name_room, &m);
    kin_layout_alone(plan, select_bytes(m.shape, m.wanted, threads), 1);
}

static void report(kith_ctx *ctx, const kin_prepared *corpus, const kin_request *request)
{
    kin_prepared_report(ctx, corpus);
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.distinct_rows = corpus->groups.count;
    kin_exact_note_pipeline(ctx, request->pipeline);
}

kith_status kin_papers_matrix_run(kith_ctx *ctx, const kin_prepared *corpus,
                                  const kin_prepared *queries, const kin_request *request,
                                  const kith_neighbors *out)
{
    const int64_t count = queries->rows.matrix.rows;
    if (!kin_is_screened(&request->distance)) {
        return kin_direct_run(ctx, corpus, queries, request, out);
    }
    matrix m = matrix_of(corpus, queries, request, ctx->threads);
    m.ctx = ctx;
    m.out = out;
    KIN_HOLD(hold, ctx);
    KIN_TRY(kin_hold_layout(&hold, name_room, &m, "a matrix of distances"));
    kith_status status = round_corpus(&m);
    for (m.query0 = 0; status == KITH_OK && m.query0 < count; m.query0 += m.shape.batch) {
        m.query_count = kin_min_i64(m.shape.batch, count - m.query0);
        status = solve_batch(&m);
    }
    double candidates = 0;
    for (int32_t t = 0; t < m.threads; t++) {
        candidates += (double)m.workers[t].candidates;
    }
    kin_frame_stats_free(ctx, &m.stats);
    report(ctx, corpus, request);
    ctx->report.candidates = candidates / (double)count;
    return status;
}
