/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ground truth leaves on disk. While it is at work: PATH.partial, a container of the lists
 * and of how far they came, written whole, and that is true whoever wrote it: two processes at the
 * same job need no lock. At the end: the truth, the ties, the certificate; the state goes last. */
#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_hdf5.h"
#include "file/file_numpy.h"
#include "file/file_stream.h"
#include "shard/shard_truth.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 192, ENDS_BYTES = 1 << 16, SECTIONS = 7, NUMBER_BYTES = 40 };
static const char TAG_JOB[] = "truth job";
static const char TAG_PROGRESS[] = "truth progress";
static const char TAG_SUMS[] = "truth sums";
static const char TAG_KEYS[] = "truth keys";
static const char TAG_TIES[] = "truth ties";

static kith_status partial_path(const kin_truth *t, kin_hold *hold, char **path)
{
    KIN_TRY(kin_alloc_text(t->ctx, path, "a file's path", "%s.partial", t->params.path));
    kin_hold_block(hold, *path);
    return KITH_OK;
}

/* ---- Which job ------------------------------------------------------------------------------- */

/* Of the first rows and the last ones: who goes on does not read all again. */
static kith_status sum_ends(kith_ctx *ctx, const kith_matrix *points, uint64_t *ends)
{
    const int64_t fit = kin_max_i64(1, ENDS_BYTES / points->stride_bytes);
    kith_matrix some = *points;
    some.rows = kin_min_i64(fit, points->rows);
    kin_fingerprint_sum sum;
    kin_fingerprint_begin(&sum, points);
    sum.rows_left = 2 * some.rows;
    KIN_TRY(kin_fingerprint_add(ctx, &sum, &some));
    some = kin_matrix_part(points, points->rows - some.rows, some.rows);
    KIN_TRY(kin_fingerprint_add(ctx, &sum, &some));
    *ends = kin_fingerprint_end(&sum);
    return KITH_OK;
}

/* "k 10" or "radius 20". */
static void print_extent(const kin_truth *t, char text[NUMBER_BYTES])
{
    char number[NUMBER_BYTES / 2 + 8];
    if (!t->ranged) {
        (void)snprintf(text, NUMBER_BYTES, "k %" PRId64, t->k);
        return;
    }
    KIN_C_NUMBERS();
    (void)kin_number_print(number, sizeof number, t->params.radius, false);
    (void)snprintf(text, NUMBER_BYTES, "radius %s", number);
}

kith_status kin_truth_describe(kin_truth *t, char **text)
{
    char extent[NUMBER_BYTES];
    const char *more = t->params.job != NULL ? t->params.job : "";
    const size_t room = ((size_t)t->count + 4) * LINE_BYTES + strlen(more);
    char points[KIN_FINGERPRINT_TEXT];
    KIN_TRY(kin_alloc(t->ctx, text, room, 1, "a job's lines"));
    print_extent(t, extent);
    int used = snprintf(*text, room,
                        "kith %s, truth %s, %s, first id %" PRIu64 "\nqueries %s\n"
                        "filter %d, rule %d, %016" PRIx64 "\n%s",
                        kith_version(), extent, kith_metric_name(t->metric), t->params.first_id,
                        kin_fingerprint_print(&t->asked, points), t->filters, (int)t->filter.rule,
                        t->filter_sum, more);
    for (int32_t i = 0; i < t->count; i++) {
        const kith_matrix *m = &t->corpus[i];
        uint64_t ends = 0;
        KIN_TRY(sum_ends(t->ctx, m, &ends));
        used += snprintf(*text + used, room - (size_t)used,
                         "matrix %" PRId32 " %" PRId64 " x %" PRId32 " %s, ends %016" PRIx64 "\n",
                         i, m->rows, m->cols, kith_dtype_name(m->dtype), ends);
    }
    return KITH_OK;
}

/* ---- The state ------------------------------------------------------------------------------- */

static uint64_t entries_of(const kin_truth *t)
{
    return t->ranged ? (uint64_t)t->offsets[t->queries.rows]
                     : (uint64_t)t->queries.rows * (uint64_t)t->k;
}

static kith_status write_state(const kin_truth *t, const kin_journal *job, const char *path)
{
    const uint64_t entries = entries_of(t);
    const kin_container_header header = {.kind = KITH_KIND_RESULT,
                                         .metric = t->metric,
                                         .rows = t->queries.rows,
                                         .k = t->k,
                                         .recall = -1.0};
    const kin_section sections[SECTIONS] = {
        {.tag = TAG_JOB, .data = job->head, .bytes = job->head_bytes},
        {.tag = TAG_PROGRESS, .data = &t->progress, .bytes = sizeof t->progress},
        {.tag = TAG_SUMS, .data = t->sums, .bytes = (uint64_t)t->count * sizeof *t->sums},
        {.tag = KIN_TAG_IDS, .data = t->ids, .bytes = entries * sizeof *t->ids},
        {.tag = TAG_KEYS, .data = t->keys, .bytes = entries * sizeof *t->keys},
        {.tag = TAG_TIES, .data = t->ties, .bytes = (uint64_t)t->queries.rows * sizeof *t->ties},
        {.tag = KIN_TAG_OFFSETS,
         .data = t->offsets,
         .bytes = ((uint64_t)t->queries.rows + 1) * sizeof *t->offsets}};
    return kin_container_write(t->ctx, path, &header, sections,
                               t->ranged ? SECTIONS : SECTIONS - 1);
}

kith_status kin_truth_store(const kin_truth *t, const char *text)
{
    char *path = NULL;
    kin_journal job = {.file = -1};
    KIN_HOLD(hold, t->ctx);
    if (t->params.path == NULL) {
        return KITH_OK;
    }
    KIN_TRY(partial_path(t, &hold, &path));
    kin_journal_hold(&hold, &job);
    KIN_TRY(kin_journal_init(t->ctx, t->params.path, text, &job));
    return write_state(t, &job, path);
}

static kith_status check_job(const kin_truth *t, const kin_container *c, const kin_journal *job)
{
    const char *path = c->path;
    char theirs[KIN_JOURNAL_EXCERPT];
    char ours[KIN_JOURNAL_EXCERPT];
    const void *text = NULL;
    uint64_t bytes = 0;
    KIN_TRY(kin_container_section(t->ctx, c, TAG_JOB, &text, &bytes));
    switch (kin_journal_judge(job, text, bytes, theirs, ours)) {
    case KIN_JOURNAL_SAME:
        return KITH_OK;
    case KIN_JOURNAL_OTHER:
        return kin_fail_at(t->ctx, KITH_E_ARGUMENT, kin_at_file(path),
                           "is of another job, it says '%s', this one '%s' (to begin anew add "
                           "--restart, or remove it)",
                           theirs, ours);
    default:
        return kin_fail_at(
            t->ctx, KITH_E_FORMAT, kin_at_file(path),
            "is no unfinished truth, or damaged (to begin anew add --restart, or remove it)");
    }
}

typedef struct stored {
    const char *tag;
    void *data;
    uint64_t bytes;
} stored;

/* How long lists of a radius are, and room for them. */
static kith_status read_offsets(kin_truth *t, const kin_container *c)
{
    const void *data = NULL;
    const uint64_t count = (uint64_t)t->queries.rows + 1;
    KIN_TRY(kin_container_table(t->ctx, c, KIN_TAG_OFFSETS, count, sizeof *t->offsets, &data));
    memcpy(t->offsets, data, (size_t)count * sizeof *t->offsets);
    KIN_TRY(kin_truth_check_offsets(t, c->path));
    return kin_truth_reserve(t);
}

static kith_status read_state(kin_truth *t, const kin_container *c, const kin_journal *job)
{
    KIN_TRY(check_job(t, c, job));
    KIN_TRY(t->ranged ? read_offsets(t, c) : KITH_OK);
    const uint64_t entries = entries_of(t);
    const stored all[] = {{TAG_PROGRESS, &t->progress, sizeof t->progress},
                          {TAG_SUMS, t->sums, (uint64_t)t->count * sizeof *t->sums},
                          {KIN_TAG_IDS, t->ids, entries * sizeof *t->ids},
                          {TAG_KEYS, t->keys, entries * sizeof *t->keys},
                          {TAG_TIES, t->ties, (uint64_t)t->queries.rows * sizeof *t->ties}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const void *data = NULL;
        KIN_TRY(kin_container_table(t->ctx, c, all[i].tag, 1, all[i].bytes, &data));
        memcpy(all[i].data, data, (size_t)all[i].bytes);
    }
    const kin_truth_progress *p = &t->progress;
    const bool within = p->matrix >= 0 && p->matrix <= t->count && p->row >= 0 && p->first >= 0 &&
                        p->first <= t->rows &&
                        (p->matrix == t->count ? p->row == 0 : p->row < t->corpus[p->matrix].rows);
    t->report.resumed = p->first;
    KIN_SOUND_IF(within, t->ctx, c->path,
                 "says more rows than there are (to begin anew add --restart, or remove it)");
}

kith_status kin_truth_resume(kin_truth *t, const char *text)
{
    char *path = NULL;
    kin_journal job = {.file = -1};
    kin_container *container = NULL;
    KIN_HOLD(hold, t->ctx);
    if (t->params.path == NULL || t->params.restart != 0) {
        return KITH_OK;
    }
    KIN_TRY(partial_path(t, &hold, &path));
    if (access(path, F_OK) != 0) {
        return KITH_OK;
    }
    kin_journal_hold(&hold, &job);
    KIN_TRY(kin_journal_init(t->ctx, t->params.path, text, &job));
    KIN_TRY(kin_container_hold(&hold, path, false, &container));
    return read_state(t, container, &job);
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool is_npy(const char *path)
{
    return kin_format_of(path, KITH_FILE_POINTS_OUT) == KIN_FORMAT_NPY;
}

/* Lists within a radius have ids of 32 bits, in .range of 31. */
static kith_status check_range_path(const kin_truth *t)
{
    const char *path = t->params.path;
    const bool is_range = path != NULL && kin_truth_is_range(path);
    const uint64_t end = t->params.first_id + (uint64_t)t->rows;
    const uint64_t most = is_range ? (uint64_t)INT32_MAX + 1 : (uint64_t)UINT32_MAX;
    KIN_FAIL_IF(path != NULL && !is_range &&
                    kin_format_of(path, KITH_FILE_RANGES_OUT) != KIN_FORMAT_KITH,
                t->ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "is no file of a truth within a radius (give .range or .kith)");
    KIN_REFUSE_IF(
        t->params.format != KITH_FORMAT_AUTO && t->params.format != KITH_FORMAT_KITH, t->ctx,
        "format",
        "is %d, and lists within a radius are .range or .kith, by their name (leave it 0)",
        (int)t->params.format);
    KIN_PASS_IF(end <= most, t->ctx, KITH_E_ARGUMENT,
                path != NULL ? kin_at_file(path) : kin_at("ranges"),
                "has ids below %" PRIu64 ", the corpus' ids end at %" PRIu64 " (give fewer rows)",
                most, end);
}

/* ann-benchmarks' file. */
static bool is_hdf5(const char *path)
{
    return kin_format_dataset(path) == NULL &&
           kin_format_of(path, KITH_FILE_POINTS_IN) == KIN_FORMAT_HDF5;
}

/* Written as its ending says, and not as one of kith_format. */
static bool has_own_writer(const kin_truth *t)
{
    return t->params.format == KITH_FORMAT_AUTO &&
           (is_npy(t->params.path) || is_hdf5(t->params.path));
}

kith_status kin_truth_check_path(const kin_truth *t)
{
    const char *path = t->params.path;
    kith_format format = t->params.format;
    const uint64_t end = t->params.first_id + (uint64_t)t->rows;
    KIN_REFUSE_IF(path == NULL && t->params.ties_path != NULL, t->ctx, "ties_path",
                  "is set, and path is NULL (give both, or take the ties as an array)");
    if (t->ranged) {
        return check_range_path(t);
    }
    if (path == NULL || has_own_writer(t)) {
        return KITH_OK;
    }
    KIN_TRY(kin_result_choose(t->ctx, path, &format));
    KIN_FAIL_IF(kin_result_is_text(format) || format == KITH_FORMAT_CSR, t->ctx, KITH_E_ARGUMENT,
                kin_at_file(path),
                "is no file of a truth (give .knn, .ivecs, .ibin, .npz, .kith, .npy or .hdf5)");
    const bool has_sign =
        format == KITH_FORMAT_NPZ || format == KITH_FORMAT_IVECS || format == KITH_FORMAT_IBIN;
    const uint64_t most = has_sign ? (uint64_t)INT32_MAX + 1 : (uint64_t)UINT32_MAX;
    KIN_PASS_IF(end <= most, t->ctx, KITH_E_ARGUMENT, kin_at_file(path),
                "has ids below %" PRIu64 ", the corpus' ids end at %" PRIu64
                " (write .npy, whose ids have 64 bits)",
                most, end);
}

void kin_truth_hand_over(const kin_truth *t)
{
    const int64_t entries = (int64_t)entries_of(t);
    for (int64_t i = 0; t->params.distances != NULL && i < entries; i++) {
        t->params.distances[i] = kin_truth_distance(t, t->ids[i], t->keys[i]);
    }
    if (t->params.ids != NULL) {
        memcpy(t->params.ids, t->ids, (size_t)entries * sizeof *t->ids);
    }
    if (t->params.ties != NULL) {
        memcpy(t->params.ties, t->ties, (size_t)t->queries.rows * sizeof *t->ties);
    }
}

/* int64: an empty slot, all bits of which are set, is -1. */
static kith_status save_npy(const kin_truth *t)
{
    char head[KIN_NPY_HEADER_MAX];
    kin_writer writer;
    const uint64_t bytes = kin_npy_header(head, "<i8", 2, t->queries.rows, t->k);
    KIN_TRY(kin_writer_open(t->ctx, t->params.path, &writer));
    kith_status status = kin_writer_put(&writer, head, bytes);
    KIN_THEN(status, kin_writer_put(&writer, t->ids, entries_of(t) * sizeof *t->ids));
    return kin_writer_close(&writer, status);
}

/* FILE.hdf5:train and FILE.hdf5:test of one file: what ann-benchmarks has in one with the truth. */
static bool is_benchmark(const kin_truth *t)
{
    const char *const *names = t->params.names;
    if (names == NULL || t->count != 1 || names[0] == NULL || names[1] == NULL) {
        return false;
    }
    const char *train = kin_format_dataset(names[0]);
    const char *test = kin_format_dataset(names[1]);
    return train != NULL && test != NULL && strcmp(train, ":train") == 0 &&
           strcmp(test, ":test") == 0 && train - names[0] == test - names[1] &&
           memcmp(names[0], names[1], (size_t)(train - names[0])) == 0;
}

static kin_hdf5_set set_of(const char *name, const kith_matrix *m)
{
    return (kin_hdf5_set){.name = name,
                          .data = m->data,
                          .rows = m->rows,
                          .cols = m->cols,
                          .stride = m->stride_bytes,
                          .item = kin_item_of(m->dtype)};
}

static kith_status put_hdf5(const kin_truth *t, const double *distances)
{
    const int64_t queries = t->queries.rows;
    const int64_t stride = t->k * (int64_t)sizeof *distances;
    const bool bits = t->metric == KITH_HAMMING || t->metric == KITH_JACCARD;
    const kin_hdf5_about about = {
        .distance = t->metric == KITH_COSINE ? "angular" : kith_metric_name(t->metric),
        .point_type = bits ? "bit" : "float",
        .dimension = t->queries.cols};
    const kin_hdf5_set sets[KIN_HDF5_SETS] = {
        {"distances", distances, queries, t->k, stride, {'f', 8}},
        {"neighbors", t->ids, queries, t->k, stride, {'i', 8}},
        set_of("test", &t->queries),
        set_of("train", &t->corpus[0])};
    return kin_hdf5_save(t->ctx, t->params.path, &about, sets, is_benchmark(t) ? 4 : 2);
}

/* int64 ids, -1 in empty slots, and float64 distances. */
static kith_status save_hdf5(const kin_truth *t)
{
    const int64_t entries = (int64_t)entries_of(t);
    double *distances = NULL;
    KIN_HOLD(hold, t->ctx);
    KIN_NEW(&hold, distances, (uint64_t)entries, "distances");
    for (int64_t i = 0; i < entries; i++) {
        distances[i] = kin_truth_distance(t, t->ids[i], t->keys[i]);
    }
    return put_hdf5(t, distances);
}

/* As kith_search would be saved of all rows as one matrix. */
static kith_result_meta meta_of(const kin_truth *t)
{
    kith_result_meta meta = kith_result_meta_default();
    meta.kind = t->ranged ? KITH_KIND_RANGES : KITH_KIND_RESULT;
    meta.metric = t->metric;
    meta.corpus_rows = (int64_t)t->params.first_id + t->rows;
    if (t->alike && t->params.first_id == 0) {
        meta.points = (kith_fingerprint){
            .rows = t->rows,
            .cols = t->corpus[0].cols,
            .dtype = t->corpus[0].dtype,
            .checksum = t->count == 1 ? t->sums[0] : kin_fingerprint_end(&t->progress.whole)};
        meta.exact = t->filters ? KITH_EXACTNESS_UNKNOWN : KITH_CERTIFIED;
    }
    return meta;
}

static kith_status save_lists(const kin_truth *t)
{
    const int64_t entries = (int64_t)entries_of(t);
    const kith_result_meta meta = meta_of(t);
    if (t->ranged) {
        return kin_truth_save_ranges(t, &meta);
    }
    kith_neighbors table = {.rows = t->queries.rows, .k = t->k};
    KIN_HOLD(hold, t->ctx);
    KIN_NEW(&hold, table.ids, (uint64_t)entries, "ids");
    KIN_NEW(&hold, table.distances, (uint64_t)entries, "distances");
    for (int64_t i = 0; i < entries; i++) {
        table.ids[i] = (uint32_t)t->ids[i]; /* KITH_ID64_NONE becomes KITH_ID_NONE */
        table.distances[i] = (float)kin_truth_distance(t, t->ids[i], t->keys[i]);
    }
    return kin_result_save(t->ctx, t->params.path, t->params.format, &table, &meta);
}

static kith_status save_ties(const kin_truth *t)
{
    const char *path = t->params.ties_path;
    const int64_t rows = t->queries.rows;
    double *numbers = NULL;
    KIN_HOLD(hold, t->ctx);
    if (path == NULL) {
        return KITH_OK;
    }
    KIN_NEW(&hold, numbers, (uint64_t)rows, "ties");
    for (int64_t i = 0; i < rows; i++) {
        numbers[i] = (double)t->ties[i];
    }
    const kith_matrix column = {.data = numbers,
                                .rows = rows,
                                .cols = 1,
                                .stride_bytes = sizeof *numbers,
                                .dtype = KITH_F64};
    return is_npy(path) ? kin_points_save_vector(t->ctx, path, &column)
                        : kin_points_save(t->ctx, path, &column);
}

static kith_status certify(const kin_truth *t, kin_certificate *c)
{
    const kith_truth_params *params = &t->params;
    (void)snprintf(c->library, sizeof c->library, "%s", kith_version());
    c->metric = t->metric;
    c->k = t->k;
    c->first_id = params->first_id;
    c->filters = t->filters;
    c->rule = t->filter.rule;
    c->filter = t->filter_sum;
    c->queries.name = params->names != NULL ? params->names[t->count] : NULL;
    c->queries.points = t->asked;
    for (int32_t i = 0; i < t->count; i++) {
        const kith_matrix *m = &t->corpus[i];
        c->corpus[i] = (kin_certified_points){
            .name = params->names != NULL ? params->names[i] : NULL,
            .points = {
                .rows = m->rows, .cols = m->cols, .dtype = m->dtype, .checksum = t->sums[i]}};
    }
    c->ids64 = has_own_writer(t) && is_npy(params->path);
    c->hdf5 = has_own_writer(t) && !c->ids64;
    c->format = params->format;
    if (t->ranged) {
        c->format = kin_truth_is_range(params->path) ? KITH_FORMAT_AUTO : KITH_FORMAT_KITH;
    } else if (!has_own_writer(t)) {
        KIN_TRY(kin_result_choose(t->ctx, params->path, &c->format));
    }
    c->output.name = params->path;
    c->ties.name = params->ties_path;
    KIN_TRY(kin_certified_measure(t->ctx, &c->output));
    KIN_TRY(c->ties.name != NULL ? kin_certified_measure(t->ctx, &c->ties) : KITH_OK);
    c->ranged = t->ranged;
    c->radius = params->radius;
    c->counts = t->report;
    return KITH_OK;
}

static kith_status save_certificate(const kin_truth *t)
{
    kin_certificate certificate = {.count = t->count};
    char *path = NULL;
    KIN_HOLD(hold, t->ctx);
    KIN_TRY(kin_certificate_path(t->ctx, t->params.path, &path));
    kin_hold_block(&hold, path);
    KIN_NEW(&hold, certificate.corpus, (uint64_t)t->count, "a certificate");
    KIN_TRY(certify(t, &certificate));
    return kin_certificate_save(t->ctx, path, &certificate);
}

kith_status kin_truth_save(const kin_truth *t)
{
    if (t->params.path == NULL) {
        return KITH_OK;
    }
    const bool own = has_own_writer(t);
    KIN_TRY(!own ? save_lists(t) : is_npy(t->params.path) ? save_npy(t) : save_hdf5(t));
    KIN_TRY(save_ties(t));
    return save_certificate(t);
}

kith_status kin_truth_clean(const kin_truth *t)
{
    char *path = NULL;
    KIN_HOLD(hold, t->ctx);
    if (t->params.path != NULL) {
        KIN_TRY(partial_path(t, &hold, &path));
        (void)unlink(path);
    }
    return KITH_OK;
}
