/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The distances of a batch of queries to a chunk of the corpus are written as a matrix, and
 * any method of selection takes the k first of each row: what the papers do, and what the fused
 * engine is compared with. The matrix holds canonical keys in double, so every method gives the
 * bytes of the contract by construction, for every metric and every k.
 *
 *                  corpus: a chunk
 *      queries   [ tile | tile | tile | ... ]   -> select -> k a row  \
 *      a batch   [      |      |      | ... ]   -> select -> k a row   merged with the chunks
 *                                                                     /  before, then written
 *
 * A tile of corpus rows stays in the second-level cache while a group of queries meets it.
 *
 * Cost. One canonical key a pair, written and read once: 16 bytes. Nothing is discarded beforehand
 * and no pair of a graph serves both ends; that is what the fused engine gains.
 *
 * Memory. MATRIX_BYTES of keys, whatever the corpus; lists of k a query of the batch, which shrinks
 * where k is large.
 */
#include "papers/papers.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "exact/exact_answer.h"
#include "host/host_clock.h"
#include "host/host_threads.h"
#include "select/select.h"

static const int64_t MATRIX_BYTES = 64 << 20;
enum {
    LEAST_BATCH = 16,         /* queries: fewer would read the corpus too often */
    GROUP = 16,               /* queries that meet a tile together */
    TILE_BYTES = 128 << 10,   /* of corpus rows */
    LEAST_TILE = 8,           /* rows */
    PIECE_PRODUCTS = 1 << 25, /* of a task: some hundredths of a second */
    ROWS_A_TASK = 16,         /* of merging and writing */
    USUAL_SAMPLE = 8          /* of threshold_heap, times k */
};

/* What is computed at a time. */
typedef struct shape {
    int64_t batch; /* queries */
    int64_t chunk; /* rows of the corpus */
} shape;

typedef struct worker {
    double *queries; /* a group of them, expanded */
    kin_answer answer;
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
    int64_t group;  /* queries */
    int64_t tile;   /* rows */
    int64_t piece;  /* rows that a task computes */
    int64_t pieces; /* of the present chunk */
    shape shape;
    /* The present batch and chunk. */
    int64_t query0;
    int64_t query_count;
    int64_t row0;
    int64_t columns;
    int64_t picked; /* places that were selected from each row */
    int64_t kept;   /* of the chunks before */
    double *keys;   /* batch x columns */
    double *best_keys;
    uint32_t *best_ids; /* batch x picked, ids counted from row0 */
    kin_pair *merged;   /* batch x wanted; NULL where one chunk is all */
    worker *workers;
    int32_t threads;
    void *block;
} matrix;

/* ---- Sizes ---------------------------------------------------------------------------------- */

static shape shape_of(int64_t rows, int64_t queries, int64_t wanted)
{
    const int64_t cells = MATRIX_BYTES / (int64_t)sizeof(double);
    const int64_t a_list = (int64_t)(sizeof(double) + sizeof(uint32_t) + sizeof(kin_pair));
    const int64_t lists = kin_max_i64(1, MATRIX_BYTES / (wanted * a_list));
    const int64_t batch =
        kin_min_i64(kin_min_i64(queries, lists), kin_max_i64(LEAST_BATCH, cells / rows));
    return (shape){.batch = batch, .chunk = kin_min_i64(rows, cells / batch)};
}

static int64_t wide_of(int32_t cols)
{
    return kin_round_up(cols, KIN_METRIC_LANES);
}

static int64_t group_of(int32_t cols)
{
    const int64_t fit = TILE_BYTES / (wide_of(cols) * (int64_t)sizeof(double));
    return kin_max_i64(1, kin_min_i64(GROUP, fit));
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

/* ---- The matrix ------------------------------------------------------------------------------ */

/* Only a caller's own function can give one. */
static kith_status check_numbers(const matrix *m, const double *keys, int64_t row, int64_t first,
                                 int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        KIN_FAIL_IF(keys[i] != keys[i], m->ctx, KITH_E_DATA, kin_at("custom"),
                    "gave NaN for query %lld and point %lld (a distance must be a number)",
                    (long long)row, (long long)(first + i));
    }
    return KITH_OK;
}

/* A group of queries and a piece of the chunk, tile by tile. */
static kith_status fill_piece(void *arg, int64_t task, int32_t thread)
{
    const matrix *m = arg;
    const kin_distance *distance = &m->request->distance;
    const int64_t first = task / m->pieces * m->group;
    const int64_t count = kin_min_i64(m->group, m->query_count - first);
    const int64_t begin = task % m->pieces * m->piece;
    const int64_t end = kin_min_i64(m->columns, begin + m->piece);
    kin_query queries[GROUP];
    for (int64_t q = 0; q < count; q++) {
        queries[q] = kin_metric_load(distance, m->queries, m->query0 + first + q,
                                     m->workers[thread].queries + q * m->wide);
    }
    for (int64_t at = begin; at < end; at += m->tile) {
        const int64_t tile = kin_min_i64(m->tile, end - at);
        for (int64_t q = 0; q < count; q++) {
            double *keys = m->keys + (first + q) * m->columns + at;
            kin_metric_keys_run(distance, &queries[q], m->corpus, m->row0 + at, tile, keys);
            if (distance->metric == KITH_CUSTOM) {
                KIN_TRY(check_numbers(m, keys, m->query0 + first + q, m->row0 + at, tile));
            }
        }
    }
    return KITH_OK;
}

static kith_status fill(matrix *m)
{
    const int64_t start = kin_clock_ns();
    m->pieces = kin_ceil_div(m->columns, m->piece);
    const kith_status status = kin_parallel(
        m->ctx, "screen", kin_ceil_div(m->query_count, m->group) * m->pieces, fill_piece, m);
    m->ctx->report.seconds_screen += kin_clock_since(start);
    return status;
}

/* ---- Selection ------------------------------------------------------------------------------- */

static kith_status select_rows(matrix *m)
{
    const int64_t start = kin_clock_ns();
    m->picked = kin_min_i64(m->wanted, m->columns);
    const kin_select_job job = {.values = (const char *)m->keys,
                                .stride_bytes = m->columns * (int64_t)sizeof *m->keys,
                                .rows = m->query_count,
                                .cols = m->columns,
                                .k = m->picked,
                                .dtype = KIN_SELECT_F64,
                                .method = m->request->select,
                                .sample = USUAL_SAMPLE,
                                .sorted = true,
                                .out_values = m->best_keys,
                                .out_ids = m->best_ids};
    const kith_status status = kin_select_host(m->ctx, &job);
    m->ctx->report.seconds_select += kin_clock_since(start);
    return status;
}

/* The list of a row: what the chunks before gave, and what this one gives, in one order. */
static void merge_row(const matrix *m, int64_t row, kin_answer *answer)
{
    const kin_pair *before = m->merged != NULL ? m->merged + row * m->wanted : NULL;
    const double *keys = m->best_keys + row * m->picked;
    const uint32_t *ids = m->best_ids + row * m->picked;
    const int64_t kept = m->merged != NULL ? m->kept : 0;
    const int64_t count = kin_min_i64(m->wanted, kept + m->picked);
    int64_t i = 0;
    int64_t j = 0;
    for (int64_t at = 0; at < count; at++) {
        /* Ids of later chunks are larger: at equal keys the list before comes first. */
        if (i < kept && (j == m->picked || before[i].key <= keys[j])) {
            answer->list[at] = before[i++];
        } else {
            answer->list[at] = (kin_pair){keys[j], (uint32_t)m->row0 + ids[j], 1};
            j += 1;
        }
    }
    answer->count = count;
}

static uint32_t left_out(const matrix *m, int64_t row)
{
    if (m->graph) {
        return (m->request->flags & KITH_INCLUDE_SELF) != 0 ? KITH_ID_NONE : (uint32_t)row;
    }
    return m->request->exclude != NULL ? m->request->exclude[row] : KITH_ID_NONE;
}

/* After the last chunk lists are written, before it they are kept. */
static kith_status take_rows(void *arg, int64_t task, int32_t thread)
{
    const matrix *m = arg;
    kin_answer *answer = &m->workers[thread].answer;
    const bool last = m->row0 + m->columns == m->corpus->matrix.rows;
    const int64_t end = kin_min_i64(m->query_count, (task + 1) * ROWS_A_TASK);
    for (int64_t row = task * ROWS_A_TASK; row < end; row++) {
        merge_row(m, row, answer);
        if (last) { /* every row of the corpus was a candidate, so there are enough */
            (void)kin_answer_write(answer, left_out(m, m->query0 + row), m->out, m->query0 + row);
        } else {
            memcpy(m->merged + row * m->wanted, answer->list,
                   (size_t)answer->count * sizeof *answer->list);
        }
    }
    return KITH_OK;
}

static kith_status take(matrix *m)
{
    const int64_t start = kin_clock_ns();
    KIN_TRY(
        kin_parallel(m->ctx, "rescore", kin_ceil_div(m->query_count, ROWS_A_TASK), take_rows, m));
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
    m->keys =
        kin_layout_array(layout, kin_size_mul(batch, (uint64_t)m->shape.chunk), sizeof *m->keys);
    m->best_keys = kin_layout_array(layout, places, sizeof *m->best_keys);
    m->best_ids = kin_layout_array(layout, places, sizeof *m->best_ids);
    if (m->shape.chunk < m->corpus->matrix.rows) {
        m->merged = kin_layout_array(layout, places, sizeof *m->merged);
    }
    m->workers = kin_layout_zeros(layout, (uint64_t)m->threads, sizeof *m->workers);
    for (int32_t t = 0; t < m->threads; t++) {
        worker spare;
        worker *w = kin_layout_item(m->workers, t, &spare);
        w->queries = kin_layout_array(layout, (uint64_t)(m->group * m->wide), sizeof *w->queries);
        w->answer = (kin_answer){
            .groups = &m->distinct, .metric = m->request->distance.metric, .wanted = m->wanted};
        kin_answer_name(layout, &w->answer);
    }
}

/* All but the context and the answer. */
static matrix matrix_of(const kin_prepared *corpus, const kin_prepared *queries,
                        const kin_request *request, int32_t threads)
{
    const kith_matrix *points = &corpus->rows.matrix;
    const int64_t row_bytes = (int64_t)points->cols * kith_dtype_bytes(points->dtype);
    matrix m = {.corpus = &corpus->rows,
                .queries = &queries->rows,
                .request = request,
                .distinct = {.rows = points->rows},
                .graph = corpus == queries,
                .wide = wide_of(points->cols),
                .group = group_of(points->cols),
                .tile = kin_max_i64(LEAST_TILE, TILE_BYTES / row_bytes),
                .threads = threads};
    const bool leaves_out =
        m.graph ? (request->flags & KITH_INCLUDE_SELF) == 0 : request->exclude != NULL;
    m.wanted = kin_min_i64(request->k + (leaves_out ? 1 : 0), points->rows);
    m.piece = kin_max_i64(m.tile, PIECE_PRODUCTS / (m.group * points->cols));
    m.shape = shape_of(points->rows, queries->rows.matrix.rows, m.wanted);
    return m;
}

void kin_papers_matrix_plan(kin_layout *plan, const kin_prepared *corpus,
                            const kin_prepared *queries, const kin_request *request,
                            int32_t threads)
{
    matrix m = matrix_of(corpus, queries, request, threads);
    kin_layout_block(plan, name_room, &m);
    kin_layout_alone(plan, select_bytes(m.shape, m.wanted, threads), 1);
}

static void report(kith_ctx *ctx, const kin_prepared *corpus, const kin_request *request)
{
    kin_exact_report(ctx, corpus);
    ctx->report.exact = KITH_CERTIFIED;
    ctx->report.candidates = (double)corpus->rows.matrix.rows;
    ctx->report.distinct_rows = corpus->groups.count;
    kin_exact_note_pipeline(ctx, request->pipeline);
}

kith_status kin_papers_matrix_run(kith_ctx *ctx, const kin_prepared *corpus,
                                  const kin_prepared *queries, const kin_request *request,
                                  const kith_neighbors *out)
{
    const int64_t count = queries->rows.matrix.rows;
    matrix m = matrix_of(corpus, queries, request, ctx->threads);
    m.ctx = ctx;
    m.out = out;
    kith_status status = kin_layout_make(ctx, name_room, &m, "a matrix of distances", &m.block);
    for (m.query0 = 0; status == KITH_OK && m.query0 < count; m.query0 += m.shape.batch) {
        m.query_count = kin_min_i64(m.shape.batch, count - m.query0);
        status = solve_batch(&m);
    }
    kin_free(ctx, m.block);
    report(ctx, corpus, request);
    return status;
}
