/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ground truth is asked for, checked once; and one that stands held against its certificate:
 * files by their checksums, points by their fingerprints, and some queries computed anew by
 * canonical distances to all rows, in a way that has nothing in common with how they were found but
 * the definition of a distance. */
#include "api/api_check.h"
#include "file/file_numpy.h"
#include "shard/shard_run.h"
#include "shard/shard_truth.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const int64_t MOST_ROWS = (int64_t)UINT32_MAX - 1;
enum { USUAL_SAMPLE = 10 };

/* ---- What it is asked for, checked once ------------------------------------------------------ */

static kith_status check_corpus(kin_truth *t, const kith_matrix *corpus)
{
    t->alike = true;
    for (int32_t i = 0; i < t->count; i++) {
        kith_matrix *own = &t->corpus[i];
        t->report.matrix = i;
        KIN_TRY(kin_check_matrix(t->ctx, &corpus[i], "corpus", own));
        KIN_REFUSE_IF(own->cols != t->corpus[0].cols, t->ctx, "corpus",
                      "has %lld columns in matrix %d, %lld before (give points of one dimension)",
                      (long long)own->cols, (int)i, (long long)t->corpus[0].cols);
        t->alike &= own->dtype == t->corpus[0].dtype;
        t->rows += own->rows;
    }
    t->alike &= t->rows <= MOST_ROWS;
    t->report.matrix = 0;
    return KITH_OK;
}

static kith_status check_k(const kin_truth *t)
{
    const long long most = (long long)kin_min_i64(t->rows, INT32_MAX);
    KIN_ALLOW_IF(t->ranged || (t->k >= 1 && t->k <= most), t->ctx, "k",
                 "is %lld, must be 1 to %lld (the corpus has no more rows)", (long long)t->k, most);
}

static kith_status check_filter(kin_truth *t)
{
    kin_filter_job like = {.queries = t->queries};
    like.corpus.rows = t->rows;
    if (t->params.filter == NULL) {
        return KITH_OK;
    }
    KIN_TRY(kin_api_take_filter(t->ctx, t->params.filter, false, &like));
    KIN_REFUSE_IF(like.filter.rule == KITH_RULE_EACH, t->ctx, "rule",
                  "is each, and a truth has one list a query (use same or other)");
    t->filters = true;
    t->filter = like.filter;
    t->filter_sum = kin_filter_sum(&t->filter, t->rows, t->queries.rows);
    return KITH_OK;
}

kith_status kin_truth_begin(kin_truth *t, const kith_matrix *corpus, int32_t count,
                            const kith_matrix *queries)
{
    kith_ctx *ctx = t->ctx;
    t->count = count;
    t->k = t->params.k;
    KIN_REFUSE_IF(corpus == NULL || count < 1, ctx, "corpus", "has %d matrices (give at least one)",
                  (int)count);
    KIN_TRY(kin_alloc(ctx, &t->corpus, (uint64_t)count, sizeof *t->corpus, "the corpus' files"));
    KIN_TRY(check_corpus(t, corpus));
    KIN_TRY(kin_check_matrix(ctx, queries, "queries", &t->queries));
    KIN_TRY(kin_check_cols(ctx, &t->corpus[0], "the corpus", &t->queries, "queries"));
    KIN_TRY(kin_check_metric(ctx, t->params.metric, NULL, NULL, t->queries.cols, &t->distance));
    t->metric = t->distance.metric;
    t->distance.metric = kin_metric_of_keys(t->metric);
    KIN_TRY(kin_truth_check_radius(t));
    KIN_TRY(check_k(t));
    KIN_TRY(check_filter(t));
    t->report.queries = t->queries.rows;
    t->report.rows = t->rows;
    t->report.files = count;
    t->report.k = t->k;
    t->report.metric = t->metric;
    t->report.radius = t->params.radius;
    t->report.within = t->ranged;
    return kin_fingerprint_make(ctx, &t->queries, &t->asked);
}

/* ---- Points of the files that the certificate names ------------------------------------------ */

typedef struct opened {
    kith_ctx *ctx;
    kith_points **points; /* the queries' last */
    kith_matrix *matrices;
    int32_t count;
    bool mapped; /* all of the corpus is */
} opened;

static kith_status open_points(opened *o, const kin_certified_points *of, const char *what,
                               int32_t at)
{
    KIN_REFUSE_IF(of->name == NULL, o->ctx, what,
                  "is of no file, says the certificate (give the points again)");
    const kith_points_params params = kith_points_params_default();
    KIN_TRY(kin_points_open(o->ctx, of->name, &params, &o->points[at]));
    o->matrices[at] = o->points[at]->matrix;
    return KITH_OK;
}

static kith_status open_all(opened *o, const kin_certificate *c)
{
    const uint64_t count = (uint64_t)c->count + 1;
    KIN_TRY(kin_alloc_zero(o->ctx, &o->points, count, sizeof(void *), "files"));
    KIN_TRY(kin_alloc(o->ctx, &o->matrices, count, sizeof *o->matrices, "files"));
    o->count = c->count;
    o->mapped = true;
    for (int32_t i = 0; i < c->count; i++) {
        KIN_TRY(open_points(o, &c->corpus[i], "corpus", i));
        o->mapped &= o->points[i]->source.mapped != 0;
    }
    return open_points(o, &c->queries, "queries", c->count);
}

static void close_all(void *owner, void *files)
{
    (void)owner;
    opened *o = files;
    for (int32_t i = 0; o->points != NULL && i <= o->count; i++) {
        kith_points_free(o->points[i]);
    }
    kin_free(o->ctx, o->points);
    kin_free(o->ctx, o->matrices);
}

/* ---- Checksums ------------------------------------------------------------------------------- */

static kith_status check_file(kith_ctx *ctx, const char *path, const kin_certified_file *said)
{
    kin_certified_file now = {.name = path};
    KIN_TRY(kin_certified_measure(ctx, &now));
    KIN_PASS_IF(now.bytes == said->bytes && now.checksum == said->checksum, ctx, KITH_E_DATA,
                kin_at_file(path),
                "has %" PRIu64 " bytes and the checksum %016" PRIx64
                ", its certificate says %" PRIu64 " and %016" PRIx64
                " (it was changed: make the truth again)",
                now.bytes, now.checksum, said->bytes, said->checksum);
}

static kith_status check_points(kin_truth *t, const kith_matrix *points, const char *what,
                                const kin_certified_points *said)
{
    char texts[2][KIN_FINGERPRINT_TEXT];
    kith_fingerprint now;
    KIN_TRY(kin_fingerprint_make(t->ctx, points, &now));
    KIN_PASS_IF(kin_fingerprint_equal(&now, &said->points), t->ctx, KITH_E_DATA,
                said->name != NULL ? kin_at_file(said->name) : kin_at(what),
                "is %s, the certificate says %s (give the points that the truth is of)",
                kin_fingerprint_print(&now, texts[0]),
                kin_fingerprint_print(&said->points, texts[1]));
}

static kith_status check_all(kin_truth *t, const kin_certificate *c)
{
    KIN_TRY(check_file(t->ctx, t->params.path, &c->output));
    KIN_TRY(c->ties.name != NULL ? check_file(t->ctx, c->ties.name, &c->ties) : KITH_OK);
    KIN_FAIL_IF(t->count != c->count, t->ctx, KITH_E_DATA, kin_at("corpus"),
                "has %d files, the certificate says %d (give those that the truth is of)",
                (int)t->count, (int)c->count);
    KIN_TRY(check_points(t, &t->queries, "queries", &c->queries));
    for (int32_t i = 0; i < t->count; i++) {
        KIN_TRY(check_points(t, &t->corpus[i], "corpus", &c->corpus[i]));
    }
    KIN_PASS_IF(
        c->filters == t->filters && c->filter == t->filter_sum && c->rule == t->filter.rule, t->ctx,
        KITH_E_DATA, kin_at("filter"),
        "is not the one of the certificate (give the filter that the truth was made under%s)",
        c->filters ? "" : ", none");
}

/* ---- Some queries anew ----------------------------------------------------------------------- */

typedef struct sampled {
    kin_truth *truth;
    int64_t count;
    uint32_t *queries; /* rising */
    uint64_t *ids;     /* count x k; KITH_ID64_NONE: not yet */
    double *keys;
    int64_t *ties;
} sampled;

/* By rising ids: one that is as near as the last comes behind it, and is a tie of it. */
static void insert(const sampled *s, int64_t query, uint64_t id, double key)
{
    const int64_t k = s->truth->k;
    uint64_t *ids = s->ids + query * k;
    double *keys = s->keys + query * k;
    const double last = keys[k - 1];
    const bool was_full = ids[k - 1] != KITH_ID64_NONE;
    int64_t at = k - 1;
    if (was_full && key >= last) {
        s->ties[query] += key == last;
        return;
    }
    for (; at > 0 && (ids[at - 1] == KITH_ID64_NONE || keys[at - 1] > key); at--) {
        ids[at] = ids[at - 1];
        keys[at] = keys[at - 1];
    }
    ids[at] = id;
    keys[at] = key;
    if (ids[k - 1] == KITH_ID64_NONE || (was_full && keys[k - 1] == last)) {
        return; /* not full yet; or the one that was pushed out is still a tie */
    }
    s->ties[query] = 0;
    for (int64_t i = 0; i < k; i++) {
        s->ties[query] += keys[i] == keys[k - 1];
    }
}

static void hear(void *arg, int64_t query, int64_t first, const double *keys, int64_t count)
{
    const sampled *s = arg;
    const kin_truth *t = s->truth;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = first + i;
        if (!t->filters || kin_truth_allows(&t->filter, s->queries[query], row)) {
            insert(s, query, t->params.first_id + (uint64_t)row, keys[i]);
        }
    }
}

/* ---- What the files say ---------------------------------------------------------------------- */

/* ids, or ids64; distances may be NULL. */
typedef struct told {
    const uint32_t *ids;
    const unsigned char *ids64;
    const float *distances;
    const double *wide; /* ids and distances of .hdf5, in place of those */
    const double *wide_distances;
    kith_points *sets[2];
    kith_result *result;
    kin_map map;
    kith_points *ties;
    const double *counts; /* of ties; NULL: they were not written */
} told;

static kith_status fail_shape(const kin_truth *t, const char *path)
{
    return kin_fail_at(t->ctx, KITH_E_DATA, kin_at_file(path),
                       "is not %lld x %lld (it is no truth of these queries)",
                       (long long)t->queries.rows, (long long)t->k);
}

static kith_status open_npy(const kin_truth *t, told *f)
{
    const char *path = t->params.path;
    kin_npy npy;
    KIN_TRY(kin_map_open(t->ctx, path, true, &f->map));
    KIN_TRY(kin_npy_parse(t->ctx, path, f->map.data, f->map.bytes, &npy));
    f->ids64 = npy.data;
    return npy.kind == 'i' && npy.item_bytes == sizeof(int64_t) && !npy.big_endian &&
                   !npy.fortran_order && npy.axes == 2 &&
                   npy.shape[0] == (uint64_t)t->queries.rows && npy.shape[1] == (uint64_t)t->k
               ? KITH_OK
               : fail_shape(t, path);
}

/* A .knn by another name, as a runbook's files have. */
static kith_status open_knn(const kin_truth *t, told *f)
{
    const uint64_t entries = (uint64_t)t->queries.rows * (uint64_t)t->k;
    uint32_t header[2] = {0};
    KIN_TRY(kin_map_open(t->ctx, t->params.path, true, &f->map));
    if (f->map.bytes != sizeof header + entries * 8) {
        return fail_shape(t, t->params.path);
    }
    memcpy(header, f->map.data, sizeof header);
    f->ids = (const uint32_t *)(const void *)((const char *)f->map.data + sizeof header);
    f->distances = (const float *)(const void *)(f->ids + entries);
    return header[0] == t->queries.rows && header[1] == t->k ? KITH_OK
                                                             : fail_shape(t, t->params.path);
}

static kith_status open_lists(const kin_truth *t, told *f)
{
    KIN_TRY(kin_result_open(t->ctx, t->params.path, &f->result));
    const kith_neighbors *lists = &f->result->neighbors;
    f->ids = lists->ids;
    f->distances = lists->distances;
    return lists->rows == t->queries.rows && lists->k == t->k ? KITH_OK
                                                              : fail_shape(t, t->params.path);
}

/* Numbers of a file, so many of each query. */
static kith_status open_numbers(const kin_truth *t, const char *path, int64_t cols,
                                kith_points **points, const double **out)
{
    kith_points_params params = kith_points_params_default();
    params.use = KITH_USE_COLUMN;
    KIN_TRY(kin_points_open(t->ctx, path, &params, points));
    const kith_matrix *m = &(*points)->matrix;
    *out = m->data;
    return m->rows == t->queries.rows && m->cols == cols ? KITH_OK : fail_shape(t, path);
}

/* The same of a dataset of the file. */
static kith_status open_set(const kin_truth *t, const char *name, kith_points **set,
                            const double **out)
{
    char *full = NULL;
    KIN_HOLD(hold, t->ctx);
    KIN_TRY(kin_alloc_text(t->ctx, &full, "a file's path", "%s:%s", t->params.path, name));
    kin_hold_block(&hold, full);
    return open_numbers(t, full, t->k, set, out);
}

static void close_told(told *f)
{
    kith_points_free(f->ties);
    kith_points_free(f->sets[0]);
    kith_points_free(f->sets[1]);
    kith_result_free(f->result);
    kin_map_close(&f->map);
}

static uint64_t id_of(const told *f, int64_t at)
{
    uint64_t id = 0;
    if (f->wide != NULL) {
        return f->wide[at] < 0.0 ? KITH_ID64_NONE : (uint64_t)f->wide[at];
    }
    if (f->ids64 != NULL) {
        memcpy(&id, f->ids64 + at * (int64_t)sizeof id, sizeof id);
        return id;
    }
    return f->ids[at] == KITH_ID_NONE ? KITH_ID64_NONE : f->ids[at];
}

/* As the file has it, or, where that has none, the true one. */
static double distance_of(const told *f, int64_t at, double distance)
{
    return f->wide_distances != NULL ? f->wide_distances[at]
           : f->distances != NULL    ? (double)f->distances[at]
                                     : distance;
}

static kith_status hold_query(const sampled *s, const told *f, int64_t at)
{
    const kin_truth *t = s->truth;
    const int64_t query = s->queries[at];
    for (int64_t j = 0; j < t->k; j++) {
        const uint64_t id = id_of(f, query * t->k + j);
        const uint64_t true_id = s->ids[at * t->k + j];
        const double exact = kin_truth_distance(t, true_id, s->keys[at * t->k + j]);
        const double distance = f->wide != NULL ? exact : (double)(float)exact;
        const double said = distance_of(f, query * t->k + j, distance);
        KIN_FAIL_IF(id != true_id, t->ctx, KITH_E_DATA, kin_at_file_cell(t->params.path, query, j),
                    "neighbour %" PRId64 " of query %" PRId64 " is %" PRId64
                    ", computed anew it is %" PRId64 " (make the truth again)",
                    j, query, (int64_t)id, (int64_t)true_id);
        KIN_FAIL_IF(said != distance, t->ctx, KITH_E_DATA,
                    kin_at_file_cell(t->params.path, query, j),
                    "distance %" PRId64 " of query %" PRId64
                    " is %.9g, computed anew it is %.9g (make the truth again)",
                    j, query, said, distance);
    }
    KIN_PASS_IF(f->counts == NULL || f->counts[query] == (double)s->ties[at], t->ctx, KITH_E_DATA,
                kin_at_file_cell(t->params.ties_path, query, 0),
                "has %.0f ties of query %" PRId64 ", computed anew they are %" PRId64
                " (make the truth again)",
                f->counts[query], query, s->ties[at]);
}

static kith_status hold_all(const sampled *s, const kin_certificate *c)
{
    const kin_truth *t = s->truth;
    told f = {0};
    const bool is_knn = c->format == KITH_FORMAT_KNN && !c->ids64 && !c->hdf5;
    kith_status status = c->ids64  ? open_npy(t, &f)
                         : c->hdf5 ? open_set(t, "neighbors", &f.sets[0], &f.wide)
                         : is_knn  ? open_knn(t, &f)
                                   : open_lists(t, &f);
    KIN_THEN(status, c->hdf5 ? open_set(t, "distances", &f.sets[1], &f.wide_distances) : KITH_OK);
    KIN_THEN(status, t->params.ties_path != NULL
                         ? open_numbers(t, t->params.ties_path, 1, &f.ties, &f.counts)
                         : KITH_OK);
    for (int64_t i = 0; i < s->count && status == KITH_OK; i++) {
        status = hold_query(s, &f, i);
    }
    close_told(&f);
    return status;
}

/* What the certificate counts, where all queries are computed anew. */
static kith_status hold_counts(const sampled *s, const kin_certificate *c)
{
    kin_truth all = *s->truth;
    all.ids = s->ids;
    all.keys = s->keys;
    all.ties = s->ties;
    all.report = (kith_truth_report){.struct_size = sizeof all.report};
    if (s->count < all.queries.rows) {
        return KITH_OK;
    }
    kin_truth_count(&all);
    const kith_truth_report *now = &all.report;
    KIN_PASS_IF(now->full == c->counts.full && now->tied == c->counts.tied &&
                    now->most_ties == c->counts.most_ties &&
                    now->tied_beyond == c->counts.tied_beyond,
                all.ctx, KITH_E_DATA, kin_at_file(all.params.path),
                "has %" PRId64 " queries with ties beyond the list, its certificate says %" PRId64
                ", or another number there is wrong (make the truth again)",
                now->tied, c->counts.tied);
}

static kith_status check_sample(kin_truth *t, const kin_certificate *c)
{
    const int64_t wanted = t->params.sample == 0 ? USUAL_SAMPLE : t->params.sample;
    sampled s = {.truth = t, .count = kin_min_i64(wanted, t->queries.rows)};
    KIN_HOLD(hold, t->ctx);
    if (s.count < 1) {
        return KITH_OK;
    }
    t->report.sample = s.count;
    if (t->ranged) {
        return kin_truth_hold_ranges(t, s.count);
    }
    const uint64_t entries = kin_size_mul((uint64_t)s.count, (uint64_t)t->k);
    const char *what = "queries to compute anew";
    KIN_NEW(&hold, s.queries, (uint64_t)s.count, what);
    KIN_NEW(&hold, s.ids, entries, what);
    KIN_NEW(&hold, s.keys, entries, what);
    KIN_NEW_ZERO(&hold, s.ties, (uint64_t)s.count, what);
    for (int64_t i = 0; i < s.count * t->k; i++) {
        s.ids[i] = KITH_ID64_NONE;
        s.keys[i] = INFINITY;
    }
    kin_recall_draw(t->queries.rows, s.count, t->params.seed, s.queries);
    KIN_TRY(kin_truth_compare_all(t, s.queries, s.count, hear, &s));
    KIN_TRY(hold_all(&s, c));
    return hold_counts(&s, c);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void take_certificate(kin_truth *t, const kin_certificate *c)
{
    t->params.metric = c->metric;
    t->params.k = c->k;
    t->params.first_id = c->first_id;
    t->params.ties_path = c->ties.name;
    t->report = c->counts;
    t->report.struct_size = sizeof t->report;
    t->params.flags = c->ranged ? (uint32_t)KITH_WITHIN_RADIUS : 0;
    t->params.radius = c->radius;
}

static kith_status verify(kin_truth *t, const kin_certificate *c, const kith_matrix *corpus,
                          int32_t count, const kith_matrix *queries)
{
    take_certificate(t, c);
    KIN_TRY(kin_truth_begin(t, corpus, count, queries));
    KIN_TRY(check_all(t, c));
    return check_sample(t, c);
}

static void give_certificate(void *ctx, void *certificate)
{
    kin_certificate_free(ctx, certificate);
}

kith_status kin_truth_verify(kin_truth *t, const kith_matrix *corpus, int32_t count,
                             const kith_matrix *queries)
{
    kin_certificate c = {.count = 0};
    opened files = {.ctx = t->ctx};
    char *path = NULL;
    KIN_HOLD(hold, t->ctx);
    kin_hold_take(&hold, give_certificate, t->ctx, &c);
    kin_hold_take(&hold, close_all, NULL, &files);
    KIN_REFUSE_IF(t->params.path == NULL, t->ctx, "path",
                  "is NULL (say which truth is to be verified)");
    KIN_TRY(kin_certificate_path(t->ctx, t->params.path, &path));
    kin_hold_block(&hold, path);
    KIN_FAIL_IF(access(path, F_OK) != 0, t->ctx, KITH_E_IO, kin_at_file(t->params.path),
                "has no certificate, %s (give a file that kith truth has written)", path);
    KIN_TRY(kin_certificate_open(t->ctx, path, &c));
    if (count != 0) {
        return verify(t, &c, corpus, count, queries);
    }
    KIN_TRY(open_all(&files, &c));
    t->params.mapped = files.mapped;
    return verify(t, &c, files.matrices, c.count, &files.matrices[c.count]);
}
