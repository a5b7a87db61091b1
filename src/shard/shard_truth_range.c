/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. The truth of a radius: all rows within it, of each query. A part's lists are found by
 * kith_radius and put behind those so far, by key, the old ones first where keys are equal: ids of
 * a part are above all before it, so that this is the order (key, id) of one search of all rows.
 *
 * The radius. Euclidean lists are kept by squares, two of which may have one root. The radius of
 * squares is the largest one whose root is within the caller's, so nothing is won or lost by it.
 *
 * Verification. Rows of a query come by rising ids, so that its list, sorted by id, is walked
 * beside them: each row within the radius must be the next one there, with its distance. */
#include "api/api_check.h"
#include "file/file_open.h"
#include "host/host_threads.h"
#include "shard/shard_truth.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { QUERIES_A_TASK = 64 };

/* ---- The job --------------------------------------------------------------------------------- */

static double square_of(double radius)
{
    double square = radius * radius;
    while (sqrt(square) > radius) {
        square = nextafter(square, 0.0);
    }
    for (double next = nextafter(square, INFINITY); next > square && sqrt(next) <= radius;) {
        square = next;
        next = nextafter(square, INFINITY);
    }
    return square;
}

/* The greatest key of haversine whose angle is within the radius: angles never fall as keys rise.
 * Halving ends where no double lies between. */
static double key_of_angle(double radius)
{
    double low = 0.0;
    double high = 1.0;
    if (radius < 0.0 || kin_haversine_angle(high) <= radius) {
        return radius < 0.0 ? -1.0 : high;
    }
    for (double middle = 0.5; middle > low && middle < high; middle = low + (high - low) / 2) {
        if (kin_haversine_angle(middle) <= radius) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The radius in the metric that parts are searched by. */
static double reach_of(kith_metric metric, double radius)
{
    return metric == KITH_EUCLIDEAN   ? square_of(radius)
           : metric == KITH_HAVERSINE ? key_of_angle(radius)
                                      : radius;
}

kith_status kin_truth_check_radius(kin_truth *t)
{
    const kith_truth_params *p = &t->params;
    kith_ctx *ctx = t->ctx;
    KIN_TRY(kin_check_flags(ctx, p->flags, KITH_WITHIN_RADIUS, "a truth"));
    t->ranged = (p->flags & KITH_WITHIN_RADIUS) != 0;
    if (!t->ranged) {
        KIN_REFUSE_IF(p->radius != 0.0, ctx, "radius",
                      "is %g without KITH_WITHIN_RADIUS in flags (set both or none)", p->radius);
        KIN_ALLOW_IF(p->ranges == NULL, ctx, "ranges",
                     "is set without KITH_WITHIN_RADIUS in flags (take ids and distances)");
    }
    KIN_TRY(kin_check_radius(ctx, t->metric, p->radius));
    KIN_REFUSE_IF(isinf(p->radius), ctx, "radius", "is %g, must be finite (all rows are no truth)",
                  p->radius);
    KIN_REFUSE_IF(p->k != 0, ctx, "k",
                  "is %" PRId64 ", with KITH_WITHIN_RADIUS it must be 0 (give one of both)", p->k);
    KIN_REFUSE_IF(p->ids != NULL || p->distances != NULL || p->ties != NULL || p->ties_path != NULL,
                  ctx, "flags",
                  "have KITH_WITHIN_RADIUS, whose lists are of different lengths and have no ties "
                  "(take ranges, leave ids, distances, ties and ties_path NULL)");
    t->reach = reach_of(t->metric, p->radius);
    return KITH_OK;
}

bool kin_truth_is_range(const char *path)
{
    return kin_format_of(path, KITH_FILE_RANGES_OUT) == KIN_FORMAT_RANGE;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void name_lists(kin_layout *layout, void *arg)
{
    kin_truth *t = arg;
    const uint64_t entries = (uint64_t)t->offsets[t->queries.rows];
    t->ids = kin_layout_array(layout, entries, sizeof *t->ids);
    t->keys = kin_layout_array(layout, entries, sizeof *t->keys);
}

kith_status kin_truth_reserve(kin_truth *t)
{
    kin_free(t->ctx, t->lists);
    t->lists = NULL;
    return kin_layout_make(t->ctx, name_lists, t, "the lists of a truth", &t->lists);
}

typedef struct taking {
    const kin_truth *before;
    kin_truth *after;
    const kith_lists *found;
    uint64_t base; /* the id of the part's first row */
} taking;

static double key_of(const taking *t, int64_t at)
{
    const double distance = t->found->distances64[at];
    return kin_truth_negates(t->after) ? -distance : distance;
}

static kith_status merge(void *arg, int64_t query, int32_t thread)
{
    const taking *t = arg;
    const kin_truth *before = t->before;
    (void)thread;
    int64_t i = before->offsets[query];
    int64_t j = t->found->offsets[query];
    const int64_t found = t->found->offsets[query + 1];
    for (int64_t at = t->after->offsets[query]; at < t->after->offsets[query + 1]; at++) {
        const bool has = i < before->offsets[query + 1];
        const bool mine = j == found || (has && before->keys[i] <= key_of(t, j));
        t->after->ids[at] = mine ? before->ids[i] : t->base + t->found->ids[j];
        t->after->keys[at] = mine ? before->keys[i] : key_of(t, j);
        i += mine;
        j += !mine;
    }
    return KITH_OK;
}

static kith_status check_entries(const kin_truth *t, int64_t entries)
{
    KIN_PASS_IF(t->params.path == NULL || !kin_truth_is_range(t->params.path) ||
                    entries <= INT32_MAX,
                t->ctx, KITH_E_DATA, kin_at_file(t->params.path),
                "%" PRId64 " rows are within the radius so far, the format has room for %d (write "
                ".kith, or give a smaller radius)",
                entries, INT32_MAX);
}

kith_status kin_truth_take_ranges(kin_truth *t, const kin_truth_part *part)
{
    const kith_lists *found = kith_ranges_lists(part->ranges);
    const int64_t queries = t->queries.rows;
    kin_truth before = *t;
    taking taken = {.before = &before,
                    .after = t,
                    .found = found,
                    .base = t->params.first_id + (uint64_t)part->first};
    KIN_TRY(check_entries(t, t->offsets[queries] + found->offsets[queries]));
    KIN_HOLD(hold, t->ctx);
    KIN_NEW(&hold, before.offsets, (uint64_t)queries + 1, "offsets of lists");
    memcpy(before.offsets, t->offsets, ((size_t)queries + 1) * sizeof *before.offsets);
    for (int64_t i = 0; i <= queries; i++) {
        t->offsets[i] += found->offsets[i];
    }
    kin_hold_block(&hold, before.lists);
    t->lists = NULL;
    KIN_TRY(kin_truth_reserve(t));
    return kin_parallel_rows(t->ctx, NULL, queries, QUERIES_A_TASK, merge, &taken);
}

void kin_truth_count_ranges(kin_truth *t)
{
    t->report.found = t->offsets[t->queries.rows];
    t->report.most_found = 0;
    for (int64_t i = 0; i < t->queries.rows; i++) {
        t->report.most_found = kin_max_i64(t->report.most_found, t->offsets[i + 1] - t->offsets[i]);
    }
}

kith_status kin_truth_check_offsets(const kin_truth *t, const char *path)
{
    bool rise = t->offsets[0] == 0;
    for (int64_t i = 0; i < t->queries.rows; i++) {
        rise = rise && t->offsets[i + 1] >= t->offsets[i] &&
               t->offsets[i + 1] - t->offsets[i] <= t->rows;
    }
    KIN_SOUND_IF(rise, t->ctx, path,
                 "has lists that are none (to begin anew add --restart, or remove it)");
}

/* ---- What the caller gets -------------------------------------------------------------------- */

static kith_status fill(const kin_truth *t, kith_lists *lists)
{
    const int64_t entries = t->offsets[t->queries.rows];
    const uint64_t offsets = (uint64_t)t->queries.rows + 1;
    kith_ctx *ctx = t->ctx;
    lists->rows = t->queries.rows;
    KIN_TRY(kin_alloc(ctx, &lists->offsets, offsets, sizeof *lists->offsets, "ranges"));
    KIN_TRY(kin_alloc(ctx, &lists->ids, (uint64_t)entries, sizeof *lists->ids, "ranges"));
    KIN_TRY(
        kin_alloc(ctx, &lists->distances, (uint64_t)entries, sizeof *lists->distances, "ranges"));
    KIN_TRY(kin_alloc(ctx, &lists->distances64, (uint64_t)entries, sizeof *lists->distances64,
                      "ranges"));
    memcpy(lists->offsets, t->offsets, (size_t)offsets * sizeof *lists->offsets);
    for (int64_t i = 0; i < entries; i++) {
        lists->ids[i] = (uint32_t)t->ids[i];
        lists->distances64[i] = kin_truth_distance(t, t->ids[i], t->keys[i]);
        lists->distances[i] = (float)lists->distances64[i];
    }
    return KITH_OK;
}

kith_status kin_truth_make_ranges(const kin_truth *t, kith_ranges **out)
{
    kith_ranges *ranges = NULL;
    *out = NULL;
    KIN_TRY(kin_ranges_make(t->ctx, &ranges));
    return kin_ranges_end(ranges, fill(t, &ranges->lists), out);
}

kith_status kin_truth_save_ranges(const kin_truth *t, const kith_result_meta *meta)
{
    kith_ranges *ranges = NULL;
    KIN_TRY(kin_truth_make_ranges(t, &ranges));
    const kith_status status =
        kin_ranges_save(t->ctx, t->params.path, kith_ranges_lists(ranges), meta);
    kith_ranges_free(ranges);
    return status;
}

/* ---- Verification ---------------------------------------------------------------------------- */

/* What stands in the file, .range or .kith. */
typedef struct stored {
    kin_input input;
    kin_container *container;
    int64_t rows;
    int64_t *own; /* offsets that had to be added up */
    const int64_t *offsets;
    const uint32_t *ids;
    const float *distances;
} stored;

typedef struct entry {
    uint32_t id;
    int64_t at; /* in the file */
} entry;

typedef struct held {
    kin_truth *truth;
    int64_t count;
    uint32_t *queries; /* that are computed anew, rising */
    int64_t *starts;   /* count + 1, of entries and keys */
    int64_t *walked;   /* how many entries were met */
    int64_t *wrong;    /* a row that is told otherwise; -1: none */
    entry *entries;    /* of each query by rising id */
    double *keys;      /* as the file orders them */
    stored file;
} held;

static kith_status open_range(const kin_truth *t, stored *file)
{
    kin_range_table table;
    KIN_TRY(kin_input_map(t->ctx, t->params.path, &file->input));
    KIN_TRY(kin_range_parse(t->ctx, t->params.path, &file->input, &table));
    KIN_TRY(kin_alloc(t->ctx, &file->own, (uint64_t)table.rows + 1, sizeof *file->own, "offsets"));
    file->own[0] = 0;
    for (int64_t i = 0; i < table.rows; i++) {
        file->own[i + 1] = file->own[i] + table.counts[i];
    }
    file->rows = table.rows;
    file->offsets = file->own;
    file->ids = table.ids;
    file->distances = table.distances;
    return KITH_OK;
}

/* Its checksum is the certificate's: what stands in it is what kith has written. */
static kith_status open_kith(const kin_truth *t, stored *file)
{
    const void *data = NULL;
    KIN_TRY(kin_container_open(t->ctx, t->params.path, false, &file->container));
    file->rows = file->container->header.rows;
    KIN_TRY(kin_container_table(t->ctx, file->container, KIN_TAG_OFFSETS,
                                (uint64_t)kin_max_i64(file->rows, 0) + 1, sizeof(int64_t), &data));
    file->offsets = data;
    const uint64_t entries = (uint64_t)file->offsets[file->rows];
    KIN_TRY(kin_container_table(t->ctx, file->container, KIN_TAG_IDS, entries, 4, &data));
    file->ids = data;
    KIN_TRY(kin_container_table(t->ctx, file->container, KIN_TAG_DISTANCES, entries, 4, &data));
    file->distances = data;
    return KITH_OK;
}

static kith_status open_stored(const kin_truth *t, stored *file)
{
    KIN_TRY(kin_truth_is_range(t->params.path) ? open_range(t, file) : open_kith(t, file));
    KIN_PASS_IF(file->rows == t->queries.rows, t->ctx, KITH_E_DATA, kin_at_file(t->params.path),
                "has %" PRId64 " lists, not %" PRId64 " (it is no truth of these queries)",
                file->rows, t->queries.rows);
}

static void close_stored(void *ctx, void *of)
{
    stored *file = of;
    kin_free(ctx, file->own);
    kin_container_close(file->container);
    kin_input_close(ctx, &file->input);
}

static int by_id(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static void sort_entries(held *h)
{
    for (int64_t i = 0; i < h->count; i++) {
        const int64_t from = h->file.offsets[h->queries[i]];
        const int64_t count = h->starts[i + 1] - h->starts[i];
        entry *entries = h->entries + h->starts[i];
        h->wrong[i] = -1;
        for (int64_t j = 0; j < count; j++) {
            entries[j] = (entry){h->file.ids[from + j], from + j};
        }
        if (count > 0) {
            qsort(entries, (size_t)count, sizeof *entries, by_id);
        }
    }
}

static void meet(const held *h, int64_t query, int64_t row, double key)
{
    const kin_truth *t = h->truth;
    const uint64_t id = t->params.first_id + (uint64_t)row;
    const double distance = kin_truth_distance(t, id, key);
    if (!kin_metric_within(t->metric, distance, t->params.radius) ||
        (t->filters && !kin_truth_allows(&t->filter, h->queries[query], row))) {
        return;
    }
    const int64_t at = h->starts[query] + h->walked[query];
    const bool left = at < h->starts[query + 1];
    if (!left || h->entries[at].id != id ||
        h->file.distances[h->entries[at].at] != (float)distance) {
        const bool other = left && h->entries[at].id < id;
        h->wrong[query] = other ? (int64_t)h->entries[at].id : (int64_t)id;
        return;
    }
    h->keys[h->starts[query] + h->entries[at].at - h->file.offsets[h->queries[query]]] = key;
    h->walked[query] += 1;
}

static void hear(void *arg, int64_t query, int64_t first, const double *keys, int64_t count)
{
    const held *h = arg;
    for (int64_t i = 0; i < count && h->wrong[query] < 0; i++) {
        meet(h, query, first + i, keys[i]);
    }
}

/* Every entry was met, and they stand by key, then id. */
static kith_status check_query(const held *h, int64_t query)
{
    const kin_truth *t = h->truth;
    const int64_t count = h->starts[query + 1] - h->starts[query];
    const double *keys = h->keys + h->starts[query];
    const uint32_t *ids = h->file.ids + h->file.offsets[h->queries[query]];
    int64_t wrong = h->wrong[query];
    if (wrong < 0 && h->walked[query] < count) {
        wrong = h->entries[h->starts[query] + h->walked[query]].id;
    }
    for (int64_t i = 1; i < count && wrong < 0; i++) {
        if (keys[i] < keys[i - 1] || (keys[i] == keys[i - 1] && ids[i] < ids[i - 1])) {
            wrong = ids[i];
        }
    }
    KIN_PASS_IF(
        wrong < 0, t->ctx, KITH_E_DATA, kin_at_file_cell(t->params.path, h->queries[query], 0),
        "the list of query %" PRIu32 " is another one, computed anew: it differs at row %" PRId64
        " (make the truth again)",
        h->queries[query], wrong);
}

static kith_status compare_lists(held *h)
{
    kin_truth *t = h->truth;
    KIN_HOLD(hold, t->ctx);
    for (int64_t i = 0; i < h->count; i++) {
        const int64_t *at = h->file.offsets + h->queries[i];
        h->starts[i + 1] = h->starts[i] + at[1] - at[0];
    }
    KIN_NEW(&hold, h->entries, (uint64_t)h->starts[h->count], "lists to compare");
    KIN_NEW(&hold, h->keys, (uint64_t)h->starts[h->count], "lists to compare");
    sort_entries(h);
    KIN_TRY(kin_truth_compare_all(t, h->queries, h->count, hear, h));
    for (int64_t i = 0; i < h->count; i++) {
        KIN_TRY(check_query(h, i));
    }
    return KITH_OK;
}

static kith_status check_found(const kin_truth *t, int64_t entries)
{
    KIN_PASS_IF(entries == t->report.found, t->ctx, KITH_E_DATA, kin_at_file(t->params.path),
                "has %" PRId64 " entries, its certificate says %" PRId64 " (make the truth again)",
                entries, t->report.found);
}

kith_status kin_truth_hold_ranges(kin_truth *t, int64_t sample)
{
    const uint64_t count = (uint64_t)sample;
    const char *what = "queries to compute anew";
    held h = {.truth = t, .count = sample};
    KIN_HOLD(hold, t->ctx);
    kin_hold_take(&hold, close_stored, t->ctx, &h.file);
    KIN_TRY(open_stored(t, &h.file));
    KIN_TRY(check_found(t, h.file.offsets[t->queries.rows]));
    KIN_NEW(&hold, h.queries, count, what);
    KIN_NEW_ZERO(&hold, h.starts, count + 1, what);
    KIN_NEW_ZERO(&hold, h.walked, count, what);
    KIN_NEW(&hold, h.wrong, count, what);
    kin_recall_draw(t->queries.rows, h.count, t->params.seed, h.queries);
    return compare_lists(&h);
}
