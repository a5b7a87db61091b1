/* SPDX-License-Identifier: Apache-2.0
 * Neighbours under a filter against the oracle, filtered by hand, to the last bit: bitmaps, groups
 * and both, searches and graphs, of every metric and type, with empty lists, equal rows, ties, a
 * radius that is a distance, excluded ids; any number of threads. And mistakes. */
#include "support/cases.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "host/host_cpu.h"
#include "kith/kith_papers.h"
#include "oracle/plain_knn.h"
#include "support/support_answers.h"
#include "support/support_engines.h"
#include "support/support_keys.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 23;
enum { MANY = 1600 };
static int64_t true_walks;
static int64_t exact_walks;

static int64_t below(int64_t n)
{
    return (int64_t)kin_random_below(&seed, (uint64_t)n);
}

typedef struct job {
    kith_metric metric;
    test_rows corpus;
    test_rows queries; /* of a graph unused */
    bool graph;
    kith_search_params params;
    kith_filter filter;
    int64_t *groups;
    int64_t *query_groups;
    uint8_t *allow;
    uint32_t *exclude;
    int64_t numbers; /* different ones of groups, */
    int64_t *number; /* rising */
} job;

static const kith_matrix *queries_of(const job *j)
{
    return j->graph ? &j->corpus.matrix : &j->queries.matrix;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

/* ---- By hand -------------------------------------------------------------------------------- */

static bool may_find(const job *j, int64_t query, int64_t row, int64_t list)
{
    const kith_filter *f = &j->filter;
    const int64_t *asked = j->graph ? f->groups : f->query_groups;
    const uint8_t *bits = f->allow != NULL ? f->allow + query * f->allow_stride_bytes : NULL;
    if (bits != NULL && (bits[row / 8] >> row % 8 & 1) == 0) {
        return false;
    }
    if (j->graph ? row == query && (j->params.flags & KITH_INCLUDE_SELF) == 0
                 : j->exclude != NULL && j->exclude[query] == row) {
        return false;
    }
    return f->rule == KITH_RULE_SAME    ? f->groups[row] == asked[query]
           : f->rule == KITH_RULE_OTHER ? f->groups[row] != asked[query]
           : f->rule == KITH_RULE_EACH  ? f->groups[row] == j->number[list]
                                        : true;
}

typedef struct entry {
    double key;
    uint32_t id;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->id > y->id) - (x->id < y->id);
}

static bool is_within(const job *j, double distance)
{
    return (j->params.flags & KITH_WITHIN_RADIUS) == 0 ||
           (j->metric == KITH_INNER_PRODUCT ? distance >= j->params.radius
                                            : distance <= j->params.radius);
}

/* All rows by (key, id) of a query: the oracle says so, or where there are many, what the library
 * finds without a filter. */
static void sort_rows(const job *j, const kith_neighbors *all, int64_t query, double *keys,
                      entry *sorted)
{
    const int64_t rows = j->corpus.matrix.rows;
    if (all == NULL) {
        oracle_keys(j->metric, queries_of(j), query, &j->corpus.matrix, keys);
    }
    for (int64_t i = 0; i < rows; i++) {
        sorted[i] = all == NULL
                        ? (entry){keys[i], (uint32_t)i}
                        : (entry){all->distances64[query * rows + i], all->ids[query * rows + i]};
    }
    if (all == NULL) {
        qsort(sorted, (size_t)rows, sizeof *sorted, compare_entries);
    }
}

static kith_neighbors by_hand(const job *j, int64_t lists, const kith_neighbors *all)
{
    const int64_t rows = j->corpus.matrix.rows;
    const int64_t k = j->params.k;
    const double nothing = j->metric == KITH_INNER_PRODUCT ? -INFINITY : INFINITY;
    kith_neighbors out = test_answer_make(queries_of(j)->rows, k * lists);
    double *keys = malloc((size_t)rows * sizeof *keys);
    entry *sorted = malloc((size_t)rows * sizeof *sorted);
    assert_non_null(keys);
    assert_non_null(sorted);
    for (int64_t list = 0; list < out.rows * lists; list++) {
        const int64_t query = list / lists;
        int64_t count = 0;
        if (list % lists == 0) {
            sort_rows(j, all, query, keys, sorted);
        }
        for (int64_t i = 0; i < rows && count < k; i++) {
            const double distance =
                all != NULL ? sorted[i].key : oracle_distance(j->metric, sorted[i].key);
            if (may_find(j, query, sorted[i].id, list % lists) && is_within(j, distance)) {
                out.ids[list * k + count] = sorted[i].id;
                out.distances64[list * k + count++] = distance;
            }
        }
        for (; count < k; count++) {
            out.ids[list * k + count] = KITH_ID_NONE;
            out.distances64[list * k + count] = nothing;
        }
    }
    for (int64_t i = 0; i < out.rows * out.k; i++) {
        out.distances[i] = (float)out.distances64[i];
    }
    free(sorted);
    free(keys);
    return out;
}

/* Every row of the corpus for each query, in order. */
static kith_neighbors find_all(kith_ctx *ctx, const job *j)
{
    kith_search_params params = kith_search_params_default();
    params.metric = j->metric;
    params.k = j->corpus.matrix.rows;
    params.method = KITH_METHOD_EXACT;
    kith_neighbors all = test_answer_make(queries_of(j)->rows, params.k);
    assert_int_equal(kith_search(ctx, &j->corpus.matrix, queries_of(j), &params, &all, NULL),
                     KITH_OK);
    return all;
}

/* ---- Jobs ----------------------------------------------------------------------------------- */

/* Numbers of groups: some rows stand in runs, some groups have one row, or none. */
static int64_t *draw_groups(int64_t rows, int64_t groups, bool large)
{
    int64_t *numbers = malloc((size_t)rows * sizeof *numbers);
    assert_non_null(numbers);
    const bool runs = below(3) == 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t drawn = runs ? i * groups / rows : below(groups);
        const int64_t number = below(40) == 0 ? groups + below(4) : drawn;
        numbers[i] = large ? number * INT64_C(1000000007) : number;
    }
    return numbers;
}

static uint8_t *draw_bitmaps(const job *j, int64_t stride, int64_t count)
{
    const int64_t rows = j->corpus.matrix.rows;
    const int64_t bytes = stride != 0 ? stride * count : (rows + 7) / 8;
    uint8_t *allow = calloc(1, (size_t)bytes);
    assert_non_null(allow);
    for (int64_t q = 0; q < (stride != 0 ? count : 1); q++) {
        static const int64_t shares[] = {0, 1, 5, 30, 60, 100};
        const int64_t percent = shares[below(6)];
        const bool half = below(8) == 0; /* a bitmap that goes with the rows */
        for (int64_t row = 0; row < rows; row++) {
            const bool yes = half ? row < rows / 2 : below(100) < percent;
            allow[q * stride + row / 8] |= (uint8_t)((yes ? 1 : 0) << row % 8);
        }
    }
    return allow;
}

static void find_numbers(job *j)
{
    const int64_t rows = j->corpus.matrix.rows;
    j->number = malloc((size_t)rows * sizeof *j->number);
    assert_non_null(j->number);
    memcpy(j->number, j->groups, (size_t)rows * sizeof *j->number);
    qsort(j->number, (size_t)rows, sizeof *j->number, compare_numbers);
    for (int64_t i = 0; i < rows; i++) {
        if (i == 0 || j->number[i] != j->number[j->numbers - 1]) {
            j->number[j->numbers++] = j->number[i];
        }
    }
}

static void draw_filter(job *j)
{
    const int64_t rows = j->corpus.matrix.rows;
    const int64_t queries = queries_of(j)->rows;
    j->filter = kith_filter_default();
    const int64_t few = rows < MANY / 2 ? 6 : 4;
    j->filter.rule = (kith_rule)below(4);
    const bool each = j->filter.rule == KITH_RULE_EACH;
    const int64_t groups = 1 + below(below(3) == 0 && !(each && rows >= MANY / 2) ? rows : few);
    const bool large = below(4) == 0;
    if (j->filter.rule != KITH_RULE_NONE) {
        j->filter.groups = j->groups = draw_groups(rows, groups, large);
        find_numbers(j);
    }
    if (!j->graph && (j->filter.rule == KITH_RULE_SAME || j->filter.rule == KITH_RULE_OTHER)) {
        j->filter.query_groups = j->query_groups = draw_groups(queries, groups + 2, large);
    }
    const int64_t kind = j->filter.rule == KITH_RULE_NONE ? 1 + below(2) : below(5);
    if (kind == 1 || kind == 2) {
        const int64_t stride = kind == 1 ? 0 : (rows + 7) / 8 + below(3);
        j->filter.allow = j->allow = draw_bitmaps(j, stride, queries);
        j->filter.allow_stride_bytes = stride;
    }
}

static void draw_params(job *j, bool tree)
{
    const int64_t rows = j->corpus.matrix.rows;
    const int64_t queries = queries_of(j)->rows;
    const int64_t most = rows - 1;
    j->params = kith_search_params_default();
    j->params.metric = j->metric;
    j->params.k = 1 + below(below(6) == 0 ? most : most < 12 ? most : 12);
    j->params.method = tree ? KITH_METHOD_TREE : KITH_METHOD_AUTO;
    if (j->graph && below(3) == 0) {
        j->params.flags |= KITH_INCLUDE_SELF;
    }
    if (!j->graph && below(3) == 0) {
        j->exclude = malloc((size_t)queries * sizeof *j->exclude);
        assert_non_null(j->exclude);
        for (int64_t i = 0; i < queries; i++) {
            j->exclude[i] = below(3) == 0 ? KITH_ID_NONE : (uint32_t)below(rows);
        }
        j->params.exclude = j->exclude;
    }
    if (below(4) == 0) { /* a radius that is a distance, to the last bit */
        const double key =
            oracle_key(j->metric, queries_of(j), below(queries), &j->corpus.matrix, below(rows));
        j->params.flags |= KITH_WITHIN_RADIUS;
        j->params.radius = oracle_distance(j->metric, key);
    }
}

static bool has_tree(kith_metric metric)
{
    return metric == KITH_EUCLIDEAN || metric == KITH_SQEUCLIDEAN || metric == KITH_MANHATTAN ||
           metric == KITH_CHEBYSHEV;
}

/* Many rows: mostly metrics that are screened, and so many columns that engines are called. */
static job draw_job(int64_t most_rows)
{
    const bool many = most_rows >= MANY;
    const bool screened = many && below(4) != 0;
    job j = {.metric = (kith_metric)(1 + below(screened ? KITH_CORRELATION : KITH_CUSTOM - 1)),
             .graph = below(2) == 0};
    if (!screened && below(12) == 0) {
        j.metric = TEST_MINKOWSKI_3;
    }
    const int64_t rows = 2 + (many ? most_rows / 2 + below(most_rows / 2) : below(most_rows));
    const int32_t cols = (int32_t)(many && below(3) != 0 ? 20 + below(40) : 1 + below(12));
    const kith_dtype dtype = (kith_dtype)(KITH_F32 + below(KITH_I8 - KITH_F32 + 1));
    const kith_dtype other = below(3) == 0 ? (kith_dtype)(KITH_F32 + below(3)) : dtype;
    const bool nonnegative = j.metric == KITH_CHI2 || j.metric == KITH_KL;
    const test_shape shapes[] = {SHAPE_GAUSS,  SHAPE_CLUSTERS, SHAPE_GRID,  SHAPE_EQUAL,
                                 SHAPE_SPARSE, SHAPE_COPIES,   SHAPE_NORMS, SHAPE_LINE};
    const test_shape shape = shapes[below(8)];
    j.corpus = test_rows_make(dtype, rows, cols, below(2) * 16);
    test_shape_fill(&j.corpus, shape, nonnegative, &seed);
    if (!j.graph) {
        j.queries = test_rows_make(other, 1 + below(most_rows * 2 / 3), cols, 0);
        test_shape_fill(&j.queries, shape, nonnegative, &seed);
    }
    draw_params(&j, has_tree(j.metric) && below(4) == 0);
    draw_filter(&j);
    return j;
}

static void free_job(job *j)
{
    free(j->number);
    free(j->exclude);
    free(j->allow);
    free(j->query_groups);
    free(j->groups);
    if (!j->graph) {
        test_rows_free(&j->queries);
    }
    test_rows_free(&j->corpus);
}

static kith_status solve(kith_ctx *ctx, const job *j, const kith_neighbors *out,
                         kith_report *report)
{
    return j->graph
               ? kith_graph(ctx, &j->corpus.matrix, &j->params, out, report)
               : kith_search(ctx, &j->corpus.matrix, &j->queries.matrix, &j->params, out, report);
}

static void check_plan(kith_ctx *ctx, const job *j, const kith_report *report)
{
    kith_plan plan = {.struct_size = sizeof plan};
    const int64_t entries =
        queries_of(j)->rows * j->params.k * (j->filter.rule == KITH_RULE_EACH ? j->numbers : 1);
    assert_int_equal(kith_plan_search(ctx, &j->corpus.matrix, j->graph ? NULL : queries_of(j),
                                      &j->params, &plan),
                     KITH_OK);
    assert_int_equal(plan.result_bytes, entries * 8);
    if (j->filter.allow_stride_bytes == 0) {
        assert_true(report->peak_bytes <= plan.peak_bytes);
    }
}

/* An index says the same. */
static void check_index(kith_ctx *ctx, const job *j, const kith_neighbors *truth)
{
    kith_neighbors out = test_answer_make(truth->rows, truth->k);
    kith_index_params made = kith_index_params_default();
    kith_index *index = NULL;
    made.metric = j->metric;
    made.method = j->params.method;
    assert_int_equal(kith_index_create(ctx, &j->corpus.matrix, &made, &index), KITH_OK);
    assert_int_equal(kith_index_search(ctx, index, &j->queries.matrix, &j->params, &out, NULL),
                     KITH_OK);
    assert_true(test_answers_equal(&out, truth));
    kith_index_free(index);
    test_answer_free(&out);
}

/* What walks found: of what a query may find as many as there are, at their own distances, in
 * order, none nearer than the truth. */
static void check_found(const job *j, const kith_neighbors *truth, const kith_neighbors *out)
{
    const int64_t k = out->k;
    double *keys = malloc((size_t)j->corpus.matrix.rows * sizeof *keys);
    assert_non_null(keys);
    for (int64_t i = 0; i < out->rows * k; i++) {
        const uint32_t id = out->ids[i];
        if (i % k == 0) {
            oracle_keys(j->metric, &j->queries.matrix, i / k, &j->corpus.matrix, keys);
        }
        assert_int_equal(id == KITH_ID_NONE, truth->ids[i] == KITH_ID_NONE);
        if (id == KITH_ID_NONE) {
            assert_true(out->distances64[i] == truth->distances64[i]);
            continue;
        }
        assert_true(may_find(j, i / k, id, 0));
        assert_true(out->distances64[i] == oracle_distance(j->metric, keys[id]));
        assert_true(out->distances[i] == (float)out->distances64[i]);
        assert_true(keys[id] >= keys[truth->ids[i]]);
        if (i % k != 0) {
            const entry before = {keys[out->ids[i - 1]], out->ids[i - 1]};
            const entry here = {keys[id], id};
            assert_true(compare_entries(&before, &here) < 0);
        }
    }
    free(keys);
}

/* Walks under the filter: as wide as there are points, or by rule each, the bytes of the truth;
 * else what they found, the same by another context, and measured as what it is. */
static void check_walks(kith_ctx *ctx, kith_ctx *other, const job *j, const kith_neighbors *truth)
{
    kith_neighbors out = test_answer_make(truth->rows, truth->k);
    kith_neighbors again = test_answer_make(truth->rows, truth->k);
    kith_index_params made = kith_index_params_default();
    kith_walk_params walk = kith_walk_params_default();
    kith_walk_report told = {.struct_size = sizeof told};
    kith_search_params params = j->params;
    kith_index *index = NULL;
    made.metric = j->metric;
    made.method = KITH_METHOD_GRAPH;
    made.k = 1 + below(6);
    params.method = KITH_METHOD_GRAPH;
    params.walk = &walk;
    params.walk_report = &told;
    walk.sample = truth->rows;
    walk.width = below(4) == 0 ? j->corpus.matrix.rows
                               : kin_min_i64(params.k + below(3), j->corpus.matrix.rows);
    assert_int_equal(kith_index_create(ctx, &j->corpus.matrix, &made, &index), KITH_OK);
    assert_int_equal(kith_index_search(ctx, index, &j->queries.matrix, &params, &out, NULL),
                     KITH_OK);
    if (told.exact == 1) {
        assert_true(test_answers_equal(&out, truth));
        exact_walks += 1;
    } else {
        check_found(j, truth, &out);
        double sum = 0.0;
        int64_t rows = 0;
        const int64_t at = kin_min_i64(10, truth->k);
        for (int64_t row = 0; row < truth->rows; row++) {
            int64_t count = 0;
            int64_t hits = 0;
            while (count < at && truth->ids[row * truth->k + count] != KITH_ID_NONE) {
                count += 1;
            }
            for (int64_t i = 0; i < count; i++) {
                const double last = truth->distances64[row * truth->k + count - 1];
                const double found = out.distances64[row * truth->k + i];
                hits += j->metric == KITH_INNER_PRODUCT ? found >= last : found <= last;
            }
            sum += count > 0 ? (double)hits / (double)count : 0.0;
            rows += count > 0;
        }
        assert_int_equal(told.recall.rows, rows);
        assert_true(rows == 0 || fabs(told.recall.recall - sum / (double)rows) < 1e-12);
        true_walks += 1;
    }
    assert_int_equal(kith_index_search(other, index, &j->queries.matrix, &params, &again, NULL),
                     KITH_OK);
    assert_true(test_answers_equal(&out, &again));
    kith_index_free(index);
    test_answer_free(&again);
    test_answer_free(&out);
}

/* Lists within a radius, from points or from an index of them. */
static kith_ranges *find_ranges(kith_ctx *ctx, const job *j, const kith_radius_params *params,
                                bool of_index)
{
    kith_ranges *found = NULL;
    if (of_index) {
        kith_index_params made = kith_index_params_default();
        kith_index *index = NULL;
        made.metric = j->metric;
        assert_int_equal(kith_index_create(ctx, &j->corpus.matrix, &made, &index), KITH_OK);
        assert_int_equal(kith_index_radius(ctx, index, queries_of(j), params, &found), KITH_OK);
        kith_index_free(index);
    } else {
        assert_int_equal(
            kith_radius(ctx, &j->corpus.matrix, j->graph ? NULL : queries_of(j), params, &found),
            KITH_OK);
    }
    return found;
}

/* What is within a radius, which is a distance that occurs, of rows that may be found. */
static void check_radius(kith_ctx *ctx, const job *given, double radius)
{
    job j = *given;
    kith_radius_params params = kith_radius_params_default();
    j.exclude = NULL;
    params.metric = j.metric;
    params.radius = radius;
    params.flags = j.params.flags & KITH_INCLUDE_SELF;
    const bool of_index = !j.graph && below(2) == 0;
    kith_ranges *all = find_ranges(ctx, &j, &params, of_index);
    params.filter = &j.filter;
    kith_ranges *some = find_ranges(ctx, &j, &params, of_index);
    params.count_only = 1;
    kith_ranges *counts = find_ranges(ctx, &j, &params, of_index);
    const kith_lists *a = kith_ranges_lists(all);
    const kith_lists *s = kith_ranges_lists(some);
    int64_t at = 0;
    for (int64_t row = 0; row < a->rows; row++) {
        for (int64_t i = a->offsets[row]; i < a->offsets[row + 1]; i++) {
            if (may_find(&j, row, a->ids[i], 0)) {
                assert_int_equal(s->ids[at], a->ids[i]);
                assert_memory_equal(&s->distances[at], &a->distances[i], sizeof *s->distances);
                assert_memory_equal(&s->distances64[at], &a->distances64[i],
                                    sizeof *s->distances64);
                at++;
            }
        }
        assert_int_equal(s->offsets[row + 1], at);
    }
    assert_memory_equal(kith_ranges_lists(counts)->offsets, s->offsets,
                        (size_t)(s->rows + 1) * sizeof *s->offsets);
    assert_null(kith_ranges_lists(counts)->ids);
    kith_ranges_free(counts);
    kith_ranges_free(some);
    kith_ranges_free(all);
}

static void check(kith_ctx *ctx, kith_ctx *other, const job *j, int64_t trial)
{
    const int64_t lists = j->filter.rule == KITH_RULE_EACH ? j->numbers : 1;
    kith_neighbors all = {0};
    const bool many = j->corpus.matrix.rows * queries_of(j)->rows > MANY;
    if (many) {
        all = find_all(ctx, j);
    }
    kith_neighbors truth = by_hand(j, lists, many ? &all : NULL);
    kith_neighbors out = test_answer_make(truth.rows, truth.k);
    kith_neighbors part = out;
    kith_report report = {.struct_size = sizeof report};
    if (below(4) == 0) { /* what nobody wants need not be there */
        part.ids = below(2) == 0 ? NULL : part.ids;
        part.distances64 = NULL;
    }
    const kith_status status = solve(ctx, j, &part, &report);
    if (status != KITH_OK) {
        print_message("trial %lld: %s\n", (long long)trial, kith_ctx_detail(ctx));
    }
    assert_int_equal(status, KITH_OK);
    assert_int_equal(report.exact, KITH_CERTIFIED);
    if (!test_engines_are_gpu()) {
        check_plan(ctx, j, &report);
    }
    const size_t entries = (size_t)(truth.rows * truth.k);
    const bool right =
        (part.ids == NULL || memcmp(out.ids, truth.ids, entries * sizeof *out.ids) == 0) &&
        memcmp(out.distances, truth.distances, entries * sizeof *out.distances) == 0 &&
        (part.distances64 == NULL ||
         memcmp(out.distances64, truth.distances64, entries * sizeof *out.distances64) == 0);
    if (!right) {
        print_message("trial %lld: %s, %s, rule %d, bitmaps %d/%lld, %lld rows, k %lld, flags %x\n",
                      (long long)trial, kith_metric_name(j->metric), j->graph ? "graph" : "search",
                      (int)j->filter.rule, j->allow != NULL,
                      (long long)j->filter.allow_stride_bytes, (long long)j->corpus.matrix.rows,
                      (long long)j->params.k, (unsigned)j->params.flags);
    }
    assert_true(right);
    const bool kept = !test_engines_are_gpu() || j->params.method == KITH_METHOD_AUTO;
    if (kept && !j->graph && j->metric != KITH_CUSTOM && below(3) == 0) {
        check_index(ctx, j, &truth);
    }
    if (!test_engines_are_gpu() && !j->graph && j->metric != KITH_CUSTOM && below(2) == 0 &&
        (j->params.flags & KITH_WITHIN_RADIUS) == 0) {
        check_walks(ctx, other, j, &truth);
    }
    const double some = truth.distances64[below((int64_t)entries)];
    if (j->filter.rule != KITH_RULE_EACH && j->metric != KITH_CUSTOM && isfinite(some) &&
        below(3) == 0) {
        check_radius(ctx, j, some);
    }
    test_answer_free(&out);
    test_answer_free(&truth);
    if (many) {
        test_answer_free(&all);
    }
}

static void run_trials(int64_t count, int64_t most_rows)
{
    kith_ctx *ctxs[] = {test_engine_best_ctx(1), test_engine_best_ctx(3)};
    for (int64_t trial = 0; trial < count; trial++) {
        job j = draw_job(most_rows);
        j.params.filter = &j.filter;
        const int64_t one = below(2);
        check(ctxs[one], ctxs[1 - one], &j, trial);
        free_job(&j);
    }
    print_message("%lld trials of up to %lld rows are what filtering by hand gives\n",
                  (long long)count, (long long)most_rows);
    print_message("%lld of them walked, and %lld of walks were answered exactly\n",
                  (long long)true_walks, (long long)exact_walks);
    kith_ctx_free(ctxs[0]);
    kith_ctx_free(ctxs[1]);
}

/* Groups are compared pair by pair. */
static void test_small(void **state)
{
    (void)state;
    const bool all = test_is_whole_build() || test_engines_are_gpu();
    run_trials(test_is_slow_build() ? 500 : all ? 10000 : 2500, 30);
}

/* Groups, and halves of them, are jobs of an engine. */
static void test_large(void **state)
{
    (void)state;
    run_trials(test_is_slow_build() ? 2 : 50, MANY);
}

/* ---- Mistakes ------------------------------------------------------------------------------- */

static void refuses(kith_ctx *ctx, const job *j, int64_t k, kith_status wanted, const char *word)
{
    kith_neighbors out = test_answer_make(queries_of(j)->rows, k);
    const kith_status status = solve(ctx, j, &out, NULL);
    print_message("  %s\n", kith_ctx_detail(ctx));
    assert_int_equal(status, wanted);
    assert_non_null(strstr(kith_ctx_detail(ctx), word));
    test_answer_free(&out);
}

static void test_mistakes(void **state)
{
    (void)state;
    kith_ctx *ctx = test_engine_best_ctx(1);
    int64_t groups[10] = {0, 0, 1, 1, 1, 2, 2, 2, 2, 2};
    const uint8_t bits[2] = {0xff, 0x03};
    job j = {.metric = KITH_EUCLIDEAN, .graph = true};
    j.corpus = test_rows_make(KITH_F32, 10, 3, 0);
    test_shape_fill(&j.corpus, SHAPE_GAUSS, false, &seed);
    job s = j;
    s.graph = false;
    s.queries = j.corpus;
    job *const jobs[] = {&j, &s};
    for (int i = 0; i < 2; i++) {
        jobs[i]->params = kith_search_params_default();
        jobs[i]->params.k = 3;
        jobs[i]->filter = kith_filter_default();
        jobs[i]->params.filter = &jobs[i]->filter;
    }
    j.filter.groups = groups;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "without a rule");
    j.filter.rule = (kith_rule)4;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "rule");
    j.filter.rule = KITH_RULE_SAME;
    j.filter.query_groups = groups;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "query_groups");
    j.filter.query_groups = NULL;
    groups[7] = -1;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "groups[7]");
    groups[7] = 2;
    j.params.method = KITH_METHOD_DESCENT;
    refuses(ctx, &j, 3, KITH_E_UNSUPPORTED, "method");
    j.params.method = KITH_METHOD_AUTO;
    j.params.pipeline = KITH_PIPELINE_MATRIX;
    refuses(ctx, &j, 3, KITH_E_UNSUPPORTED, "pipeline");
    j.params.pipeline = KITH_PIPELINE_FUSED;
    j.params.tree_height = 1;
    refuses(ctx, &j, 3, KITH_E_UNSUPPORTED, "tree_height");
    j.params.tree_height = 0;
    j.params.k = 10;
    refuses(ctx, &j, 10, KITH_E_ARGUMENT, "k");
    j.params.k = 3;
    j.filter.rule = KITH_RULE_EACH;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "must be 9");
    j.filter.groups = NULL;
    refuses(ctx, &j, 3, KITH_E_ARGUMENT, "groups");
    s.filter.rule = KITH_RULE_OTHER;
    s.filter.groups = groups;
    refuses(ctx, &s, 3, KITH_E_ARGUMENT, "query_groups");
    s.filter = kith_filter_default();
    s.filter.allow_stride_bytes = 2;
    refuses(ctx, &s, 3, KITH_E_ARGUMENT, "allow_stride_bytes");
    s.filter.allow = bits;
    s.filter.allow_stride_bytes = 1;
    refuses(ctx, &s, 3, KITH_E_ARGUMENT, "allow_stride_bytes");
    s.filter.allow_stride_bytes = 0;
    s.filter.struct_size = 0;
    refuses(ctx, &s, 3, KITH_E_ARGUMENT, "filter was not made");
    s.filter = kith_filter_default();
    s.filter.allow = bits;
    test_rows_set(&s.corpus, 4, 1, (double)NAN);
    refuses(ctx, &s, 3, KITH_E_DATA, "corpus[4, 1]"); /* of the rows as they are given */
    kith_radius_params within = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    s.filter.rule = KITH_RULE_EACH;
    s.filter.groups = groups;
    within.filter = &s.filter;
    assert_int_equal(kith_radius(ctx, &j.corpus.matrix, &j.corpus.matrix, &within, &ranges),
                     KITH_E_ARGUMENT);
    assert_non_null(strstr(kith_ctx_detail(ctx), "rule is each"));
    assert_null(ranges);
    kith_neighbors ab = test_answer_make(10, 3);
    test_rows_set(&s.corpus, 4, 1, 0.0);
    assert_int_equal(kith_knn_both(ctx, &s.corpus.matrix, &s.corpus.matrix, &s.params, &ab, &ab),
                     KITH_E_UNSUPPORTED);
    assert_non_null(strstr(kith_ctx_detail(ctx), "filter"));
    test_answer_free(&ab);
    test_rows_free(&j.corpus);
    kith_ctx_free(ctx);
}

/* A caller's own function is told of rows as they are given, and so is its error. */
static double give_nan(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)cols;
    return point == arg ? (double)NAN : (double)*(const float *)query - *(const float *)point;
}

static void test_custom(void **state)
{
    (void)state;
    kith_ctx *ctx = test_ctx(kin_cpu_best(), 2);
    enum { ROWS = 700 };
    int64_t groups[ROWS];
    job j = {
        .graph = true, .params = kith_search_params_default(), .filter = kith_filter_default()};
    j.corpus = test_rows_make(KITH_F32, ROWS, 2, 0);
    test_shape_fill(&j.corpus, SHAPE_GAUSS, false, &seed);
    for (int64_t i = 0; i < ROWS; i++) {
        groups[i] = i % 2;
    }
    j.params.k = 3;
    j.params.metric = KITH_CUSTOM;
    j.params.custom = give_nan;
    j.params.filter = &j.filter;
    j.filter.rule = KITH_RULE_OTHER;
    j.filter.groups = groups;
    kith_neighbors out = test_answer_make(ROWS, 3);
    assert_int_equal(solve(ctx, &j, &out, NULL), KITH_OK);
    j.params.custom_arg =
        (char *)(uintptr_t)j.corpus.matrix.data + 613 * j.corpus.matrix.stride_bytes;
    assert_int_equal(solve(ctx, &j, &out, NULL), KITH_E_DATA);
    assert_non_null(strstr(kith_ctx_detail(ctx), "point 613"));
    print_message("  %s\n", kith_ctx_detail(ctx));
    test_answer_free(&out);
    test_rows_free(&j.corpus);
    kith_ctx_free(ctx);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_small),
    cmocka_unit_test(test_large),
    cmocka_unit_test(test_custom),
    cmocka_unit_test(test_mistakes),
};

const test_suite test_suite_filter = {"filters", tests, sizeof tests / sizeof tests[0]};
