/* SPDX-License-Identifier: Apache-2.0
 * Recall: how much of the truth a result has found.
 *
 * A found neighbour counts when it is at most as far as the true K-th, so that a tie is no miss. It
 * does not count when its slot is empty or NaN, or when its id stands before it in the same row: no
 * list gets better by saying a thing twice.
 */
#include "api/api_check.h"
#include "file/file_checksum.h"
#include "host/host_threads.h"

enum { USUAL_AT = 10, USUAL_SAMPLE = 1000 };

/* The first K of a row, both sides in the precision that both have. */
typedef struct row_pair {
    const uint32_t *found_ids;
    const uint32_t *true_ids;
    const double *found;
    const double *truth;
} row_pair;

/* Sums over rows, and room for one row. */
typedef struct tally {
    kith_metric metric;
    int64_t at;
    kin_recall_sums hits; /* shares of K */
    double equal;
    double ratios;
    int64_t ratio_rows;
    double *found;
    double *truth;
    uint64_t *words; /* 2 K */
} tally;

static kith_status tally_make(kin_hold *hold, kith_metric metric, int64_t at, tally *t)
{
    *t = (tally){.metric = metric, .at = at};
    KIN_NEW(hold, t->found, (uint64_t)at, "distances of a row");
    KIN_NEW(hold, t->truth, (uint64_t)at, "distances of a row");
    KIN_NEW(hold, t->words, 2 * (uint64_t)at, "ids of a row");
    return KITH_OK;
}

/* (id, slot) of the slots that are filled, by id, each id once: of equal ids the first slot. */
static int64_t distinct_ids(const uint32_t *ids, const double *distances, int64_t at,
                            uint64_t *words)
{
    int64_t count = 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < at; i++) {
        if (ids[i] != KITH_ID_NONE && distances[i] == distances[i]) {
            words[count++] = (uint64_t)ids[i] << 32 | (uint64_t)i;
        }
    }
    kin_select_sort_words(words, count);
    for (int64_t i = 0; i < count; i++) {
        if (kept == 0 || words[kept - 1] >> 32 != words[i] >> 32) {
            words[kept++] = words[i];
        }
    }
    return kept;
}

static int64_t common_ids(const uint64_t *a, int64_t a_count, const uint64_t *b, int64_t b_count)
{
    int64_t common = 0;
    for (int64_t i = 0, j = 0; i < a_count && j < b_count;) {
        const uint64_t left = a[i] >> 32;
        const uint64_t right = b[j] >> 32;
        common += left == right;
        i += left <= right;
        j += right <= left;
    }
    return common;
}

static void tally_row(tally *t, const row_pair *row)
{
    uint64_t *found = t->words;
    uint64_t *wanted = t->words + t->at;
    const double last = row->truth[t->at - 1];
    const int64_t count = distinct_ids(row->found_ids, row->found, t->at, found);
    const int64_t true_count = distinct_ids(row->true_ids, row->truth, t->at, wanted);
    int64_t hits = 0;
    double farthest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double distance = row->found[found[i] & UINT32_MAX];
        hits += kin_metric_within(t->metric, distance, last);
        if (i == 0 || !kin_metric_within(t->metric, distance, farthest)) {
            farthest = distance;
        }
    }
    kin_recall_add(&t->hits, (double)hits / (double)t->at);
    t->equal += (double)common_ids(found, count, wanted, true_count) / (double)t->at;
    const double ratio = farthest / last; /* where both lists have a last */
    if (count == t->at && last != 0.0 && ratio - ratio == 0.0) {
        t->ratios += ratio;
        t->ratio_rows += 1;
    }
}

/* all: no row was left out, so nothing is uncertain. */
static void tally_end(const tally *t, bool all, kith_recall *out)
{
    *out =
        (kith_recall){.equal_ids = t->equal / (double)t->hits.rows,
                      .distance_ratio = t->ratio_rows > 0 ? t->ratios / (double)t->ratio_rows : 1.0,
                      .at = t->at};
    kin_recall_interval(&t->hits, all, out);
}

static kith_status choose_at(kith_ctx *ctx, int64_t at, int64_t most, int64_t *chosen)
{
    *chosen = at == 0 ? kin_min_i64(USUAL_AT, most) : at;
    KIN_ALLOW_IF(at >= 0 && *chosen <= most, ctx, "at",
                 "is %lld, must be 1 to %lld (the neighbours that a row has)", (long long)at,
                 (long long)most);
}

/* ---- Against the truth ---------------------------------------------------------------------- */

static kith_status check_distances(kith_ctx *ctx, const kith_neighbors *neighbors, const char *name)
{
    KIN_TRY(kin_check_neighbors(ctx, neighbors, name));
    KIN_ALLOW_IF(neighbors->distances != NULL || neighbors->distances64 != NULL, ctx, name,
                 "has no distances (give distances, or distances64)");
}

/* Doubles where both sides have them; else both as float32, since a double that was rounded cannot
 * be compared with one that was not. */
static void take_distances(const kith_neighbors *from, int64_t row, int64_t at, bool wide,
                           double *to)
{
    const int64_t first = row * from->k;
    for (int64_t i = 0; i < at; i++) {
        to[i] = wide                      ? from->distances64[first + i]
                : from->distances != NULL ? (double)from->distances[first + i]
                                          : (double)(float)from->distances64[first + i];
    }
}

static kith_status measure_rows(kith_ctx *ctx, const kith_neighbors *found,
                                const kith_neighbors *truth, tally *t)
{
    const bool wide = found->distances64 != NULL && truth->distances64 != NULL;
    for (int64_t row = 0; row < found->rows; row++) {
        take_distances(found, row, t->at, wide, t->found);
        take_distances(truth, row, t->at, wide, t->truth);
        const row_pair pair = {found->ids + row * found->k, truth->ids + row * truth->k, t->found,
                               t->truth};
        tally_row(t, &pair);
        KIN_TRY(kin_progress(ctx, "recall", (double)row, (double)found->rows));
    }
    return KITH_OK;
}

/* Distances of two metrics, or to the rows of two corpora, say nothing about each other. */
static kith_status check_both(kith_ctx *ctx, const kith_neighbors *found,
                              const kith_neighbors *truth, kith_metric metric)
{
    char texts[2][KIN_FINGERPRINT_TEXT];
    KIN_TRY(kin_fingerprint_check(ctx, found, "found", NULL, metric));
    KIN_TRY(kin_fingerprint_check(ctx, truth, "truth", NULL, metric));
    KIN_ALLOW_IF(found->meta == NULL || truth->meta == NULL || found->meta->points.rows == 0 ||
                     truth->meta->points.rows == 0 ||
                     kin_fingerprint_equal(&found->meta->points, &truth->meta->points),
                 ctx, "found", "was made of points %s, truth of %s (compare results of one corpus)",
                 kin_fingerprint_print(&found->meta->points, texts[0]),
                 kin_fingerprint_print(&truth->meta->points, texts[1]));
}

static kith_status measure(kith_ctx *ctx, const kith_neighbors *found, const kith_neighbors *truth,
                           kith_metric metric, int64_t at, kith_recall *out)
{
    KIN_TRY(check_distances(ctx, found, "found"));
    KIN_TRY(check_distances(ctx, truth, "truth"));
    KIN_REFUSE_IF(out == NULL, ctx, "out", "is NULL (give room for the recall)");
    KIN_REFUSE_IF(found->rows != truth->rows, ctx, "found",
                  "has %lld rows and truth has %lld (both must have the same)",
                  (long long)found->rows, (long long)truth->rows);
    KIN_REFUSE_IF(metric != KITH_METRIC_DEFAULT && !kin_metric_is(metric), ctx, "metric",
                  "is %d, which is no metric (use one of kith_metric)", (int)metric);
    metric = metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : metric;
    KIN_TRY(check_both(ctx, found, truth, metric));
    KIN_TRY(choose_at(ctx, at, kin_min_i64(found->k, truth->k), &at));
    tally t;
    KIN_HOLD(hold, ctx);
    KIN_TRY(tally_make(&hold, metric, at, &t));
    KIN_TRY(measure_rows(ctx, found, truth, &t));
    tally_end(&t, true, out);
    return KITH_OK;
}

kith_status kith_recall_measure(kith_ctx *ctx, const kith_neighbors *found,
                                const kith_neighbors *truth, kith_metric metric, int64_t at,
                                kith_recall *out)
{
    KIN_CALL(ctx, measure(ctx, found, truth, metric, at, out));
}

/* ---- From a sample -------------------------------------------------------------------------- */

/* The sampled rows, rising, with a copy of their points and their true neighbours. */
typedef struct sampling {
    kith_matrix all;
    kin_distance distance;
    const kith_neighbors *graph;
    uint32_t *found; /* what it says of a row */
    int64_t at;
    uint64_t seed;
    uint32_t *rows;
    int64_t count;
    kith_matrix points;
    kith_neighbors truth;
    double *query;
} sampling;

static kith_status sampling_make(kin_hold *hold, sampling *s)
{
    const kith_matrix *points = &s->all;
    const uint64_t n = (uint64_t)s->count;
    const uint64_t entries = kin_size_mul(n, (uint64_t)s->at);
    s->truth = (kith_neighbors){.rows = s->count, .k = s->at};
    KIN_NEW(hold, s->rows, n, "sample rows");
    KIN_NEW(hold, s->truth.ids, entries, "neighbours of the sample");
    KIN_NEW(hold, s->truth.distances64, entries, "neighbours of the sample");
    KIN_NEW(hold, s->found, (uint64_t)s->at, "neighbours of a row");
    KIN_NEW(hold, s->query, (uint64_t)points->cols + KIN_METRIC_LANES, "a query");
    kin_recall_draw(points->rows, s->count, s->seed, s->rows);
    return kin_hold_rows(hold, points, s->rows, s->count, "sample points", &s->points);
}

/* What the graph says of a sampled row, with canonical distances. A point is no neighbour of
 * itself: its own id is left out; empty slots become NaN, which counts as a miss. */
static void take_found(const kin_prepared *points, const sampling *s, int64_t i, tally *t)
{
    const kin_distance *distance = &points->distance;
    const uint32_t own = s->rows[i];
    const uint32_t *ids = s->graph->ids + own * s->graph->k;
    const kin_query query = kin_metric_load(distance, &points->rows, own, s->query);
    for (int64_t slot = 0, j = 0; slot < t->at; j++) {
        const uint32_t id = j < s->graph->k ? ids[j] : KITH_ID_NONE;
        double key = 0.0;
        if (id == own) {
            continue;
        }
        if (id != KITH_ID_NONE) {
            kin_metric_keys(distance, &query, &points->rows, &id, 1, &key);
        }
        s->found[slot] = id;
        t->found[slot++] =
            id != KITH_ID_NONE ? kin_metric_distance(distance->metric, key) : (double)NAN;
    }
}

static kith_status solve(kith_ctx *ctx, kin_prepared *points, const sampling *s, tally *t)
{
    const kin_request request = {.distance = points->distance, .k = t->at, .exclude = s->rows};
    if (kin_is_screened(&points->distance)) {
        const bool integer =
            kin_frame_is_integer(&points->distance, &points->rows.matrix, &s->points);
        KIN_TRY(kin_prepare_corpus(ctx, integer, t->at + 1, points));
    }
    KIN_TRY(kin_exact_search(ctx, points, &s->points, &request, &s->truth));
    for (int64_t i = 0; i < s->count; i++) {
        take_found(points, s, i, t);
        const row_pair pair = {s->found, s->truth.ids + i * t->at, t->found,
                               s->truth.distances64 + i * t->at};
        tally_row(t, &pair);
    }
    return KITH_OK;
}

static kith_status solve_sample(kith_ctx *ctx, sampling *s, kith_recall *out)
{
    tally t = {0};
    kin_prepared prepared = {0};
    const int flags = kin_is_screened(&s->distance) ? 0 : KIN_ROWS_DISTINCT;
    KIN_HOLD(hold, ctx);
    kin_prepared_hold(&hold, &prepared);
    KIN_TRY(tally_make(&hold, s->distance.metric, s->at, &t));
    KIN_TRY(sampling_make(&hold, s));
    KIN_TRY(kin_prepare_rows(ctx, &s->all, &s->distance, "points", flags, &prepared));
    KIN_TRY(solve(ctx, &prepared, s, &t));
    tally_end(&t, s->count == s->all.rows, out);
    return KITH_OK;
}

/* Lists that name their own rows have one neighbour less. */
static bool names_itself(const kith_neighbors *graph)
{
    const uint32_t *ids = graph->ids;
    for (int64_t row = 0; row < graph->rows; row++, ids += graph->k) {
        for (int64_t i = 0; i < graph->k; i++) {
            if (ids[i] == (uint32_t)row) {
                return true;
            }
        }
    }
    return false;
}

static kith_status estimate(kith_ctx *ctx, const kith_matrix *points, const kith_neighbors *graph,
                            const kith_recall_params *given, kith_recall *out)
{
    kith_recall_params params = kith_recall_params_default();
    sampling s = {.graph = graph};
    KIN_TRY(kin_take_params(ctx, KIN_GROWS(kith_recall_params, at), given, &params));
    KIN_TRY(kin_check_matrix(ctx, points, "points", &s.all));
    KIN_TRY(kin_check_metric(ctx, params.metric, NULL, NULL, s.all.cols, &s.distance));
    KIN_TRY(kin_check_graph(ctx, graph, s.all.rows));
    KIN_TRY(kin_fingerprint_check(ctx, graph, "graph", &s.all, s.distance.metric));
    KIN_REFUSE_IF(out == NULL, ctx, "out", "is NULL (give room for the recall)");
    KIN_REFUSE_IF(params.sample < 0, ctx, "sample", "is %lld, must be at least 1 (or 0: %d)",
                  (long long)params.sample, (int)USUAL_SAMPLE);
    const bool own = names_itself(graph);
    KIN_REFUSE_IF(s.all.rows < 2, ctx, "points",
                  "has 1 row, which has no neighbours (give at least 2)");
    KIN_REFUSE_IF(own && graph->k == 1, ctx, "graph",
                  "names rows as their own nearest, and no others (give longer lists)");
    KIN_TRY(choose_at(ctx, params.at, kin_min_i64(graph->k - own, s.all.rows - 1), &s.at));
    s.count = kin_min_i64(params.sample == 0 ? USUAL_SAMPLE : params.sample, s.all.rows);
    s.seed = params.seed;
    KIN_TRY(solve_sample(ctx, &s, out));
    out->own_rows = own;
    return KITH_OK;
}

kith_status kith_recall_estimate(kith_ctx *ctx, const kith_matrix *points,
                                 const kith_neighbors *graph, const kith_recall_params *params,
                                 kith_recall *out)
{
    KIN_CALL(ctx, estimate(ctx, points, graph, params, out));
}
