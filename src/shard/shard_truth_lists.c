/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Parts come by rising rows, so that every id of a part is above all ids of the lists: a
 * merge of two lists by key, the old one first where keys are equal, is the order (key, id).
 *
 * Ties. Let t be the key of the k-th of all rows so far. How many rows have the key t?
 *
 *     rows before   as many as were counted, where t has not changed; else t has fallen, so that
 * all that have it were among the k: they stand in the list the part      those among what was
 * found there, where that goes beyond t, or is all that the part has; else, rarely, there may be
 * more of them: they are counted pair by pair
 *
 * Why it is right. Rows nearer than the k-th are fewer than k, so all of them stand in every list
 * of k that has seen them; and keys are canonical, so that equal ones are equal bits wherever they
 * were computed. */
#include "base/base_mem.h"

#include "base/base_size.h"
#include "host/host_threads.h"
#include "recall/recall.h"
#include "screen/screen_prepare.h"
#include "shard/shard_run.h"
#include "shard/shard_truth.h"

#include <math.h>

enum { ROWS_A_TASK = 64, ROWS_AT_A_TIME = 1 << 18 };

/* k entries beside the lists. */
typedef struct entries {
    uint64_t *ids;
    double *keys;
} entries;

typedef struct taking {
    kin_truth *truth;
    const kin_truth_part *part;
    uint64_t *ids; /* k a thread */
    double *keys;
    uint8_t *open; /* by query: the part may have more ties than were found */
} taking;

void kin_truth_clear(const kin_truth *truth)
{
    for (int64_t i = 0; i < truth->queries.rows * truth->k; i++) {
        truth->ids[i] = KITH_ID64_NONE;
        truth->keys[i] = INFINITY;
    }
    memset(truth->ties, 0, (size_t)truth->queries.rows * sizeof *truth->ties);
}

/* Entries of a list that there are; those that are not stand behind. */
static int64_t found_of(const kin_truth_part *part, int64_t query)
{
    const uint32_t *ids = part->found.ids + query * part->wide;
    int64_t count = part->wide;
    while (count > 0 && ids[count - 1] == KITH_ID_NONE) {
        count--;
    }
    return count;
}

static double key_of(const taking *t, int64_t at)
{
    const double distance = t->part->found.distances64[at];
    return kin_truth_negates(t->truth) ? -distance : distance;
}

/* The first k of the list and of what was found, beside both. */
static void merge(const taking *t, int64_t query, int64_t found, const entries *room)
{
    const int64_t k = t->truth->k;
    const int64_t from = query * t->part->wide;
    const uint64_t base = t->truth->params.first_id + (uint64_t)t->part->first;
    const uint64_t *own_ids = t->truth->ids + query * k;
    const double *own_keys = t->truth->keys + query * k;
    int64_t i = 0;
    int64_t j = 0;
    for (int64_t at = 0; at < k; at++) {
        /* An empty slot is not before what was found, were that infinitely far, too. */
        const bool has = own_ids[i] != KITH_ID64_NONE;
        const bool mine = j == found || (has && own_keys[i] <= key_of(t, from + j));
        room->ids[at] = mine ? own_ids[i] : base + t->part->found.ids[from + j];
        room->keys[at] = mine ? own_keys[i] : key_of(t, from + j);
        i += mine;
        j += !mine;
    }
}

/* Of the list as it was: entries as near as `key`, which is not above its last one. */
static int64_t count_listed(const kin_truth *truth, int64_t query, double key)
{
    int64_t equal = 0;
    for (int64_t i = query * truth->k; i < (query + 1) * truth->k; i++) {
        equal += truth->ids[i] != KITH_ID64_NONE && truth->keys[i] == key;
    }
    return equal;
}

static int64_t count_found(const taking *t, int64_t query, int64_t found, double key)
{
    const int64_t from = query * t->part->wide;
    int64_t equal = 0;
    for (int64_t i = found; i-- > 0 && key_of(t, from + i) >= key;) {
        equal += key_of(t, from + i) == key;
    }
    return equal;
}

static kith_status take_query(void *arg, int64_t query, int32_t thread)
{
    const taking *t = arg;
    kin_truth *truth = t->truth;
    const kin_truth_part *part = t->part;
    const int64_t k = truth->k;
    const entries room = {t->ids + thread * k, t->keys + thread * k};
    const int64_t found = found_of(part, query);
    const int64_t last = query * k + k - 1;
    merge(t, query, found, &room);
    if (room.ids[k - 1] != KITH_ID64_NONE) {
        const double now = room.keys[k - 1];
        const bool stays = truth->ids[last] != KITH_ID64_NONE && truth->keys[last] == now;
        const int64_t before = stays ? truth->ties[query] : count_listed(truth, query, now);
        truth->ties[query] = before + count_found(t, query, found, now);
        t->open[query] = found == part->wide && part->wide < part->rows.rows &&
                         key_of(t, query * part->wide + found - 1) == now;
    }
    memcpy(truth->ids + query * k, room.ids, (size_t)k * sizeof *room.ids);
    memcpy(truth->keys + query * k, room.keys, (size_t)k * sizeof *room.keys);
    return KITH_OK;
}

/* ---- Pair by pair ---------------------------------------------------------------------------- */

/* Nothing but canonical keys, one pair after another: what ground truth is counted and verified by.
 */

enum { CHUNK = 512 };

typedef struct comparing {
    const kin_distance *distance;
    kin_prepared rows;
    kin_prepared queries;
    kin_truth_hear *hear;
    void *arg;
    int64_t base;   /* row of the whole corpus that rows begin with */
    uint64_t width; /* doubles of a query */
    double *values; /* a query for each thread, and a chunk of keys */
    double *keys;
} comparing;

static kith_status compare_query(void *arg, int64_t query, int32_t thread)
{
    const comparing *c = arg;
    double *keys = c->keys + (int64_t)thread * CHUNK;
    const int64_t rows = c->rows.rows.matrix.rows;
    const kin_query loaded = kin_metric_load(c->distance, &c->queries.rows, query,
                                             c->values + (uint64_t)thread * c->width);
    for (int64_t first = 0; first < rows; first += CHUNK) {
        const int64_t count = kin_min_i64(CHUNK, rows - first);
        kin_metric_keys_run(c->distance, &loaded, &c->rows.rows, first, count, keys);
        c->hear(c->arg, query, c->base + first, keys, count);
    }
    return KITH_OK;
}

/* Canonical keys of some queries and all rows, which begin with row `base` of the corpus, by rising
 * rows. */
static kith_status compare(const kin_truth *t, const kith_matrix *rows, int64_t base,
                           const kith_matrix *queries, kin_truth_hear *hear, void *arg)
{
    const uint64_t threads = (uint64_t)t->ctx->threads;
    comparing c = {.distance = &t->distance,
                   .hear = hear,
                   .arg = arg,
                   .base = base,
                   .width = (uint64_t)kin_round_up(t->distance.cols, KIN_METRIC_LANES)};
    KIN_HOLD(hold, t->ctx);
    kin_prepared_hold(&hold, &c.rows);
    kin_prepared_hold(&hold, &c.queries);
    KIN_TRY(kin_prepare_rows(t->ctx, rows, c.distance, "corpus", KIN_ROWS_DISTINCT, &c.rows));
    KIN_TRY(
        kin_prepare_rows(t->ctx, queries, c.distance, "queries", KIN_ROWS_DISTINCT, &c.queries));
    KIN_NEW(&hold, c.values, threads * c.width, "keys of queries");
    KIN_NEW(&hold, c.keys, threads * CHUNK, "keys of queries");
    return kin_parallel(t->ctx, "compare", queries->rows, compare_query, &c);
}

/* ---- Ties beyond what was found -------------------------------------------------------------- */

typedef struct counting {
    const taking *taking;
    const uint32_t *queries; /* that are open */
    int64_t *counts;
} counting;

static void count_keys(void *arg, int64_t query, int64_t first, const double *keys, int64_t count)
{
    const counting *c = arg;
    const kin_truth *truth = c->taking->truth;
    const int64_t id = c->queries[query];
    const double key = truth->keys[id * truth->k + truth->k - 1];
    for (int64_t i = 0; i < count; i++) {
        c->counts[query] +=
            keys[i] == key && (!truth->filters || kin_truth_allows(&truth->filter, id, first + i));
    }
}

static kith_status count_open(const taking *t, const uint32_t *open, int64_t count)
{
    kin_truth *truth = t->truth;
    counting c = {.taking = t, .queries = open};
    kith_matrix asked;
    KIN_HOLD(hold, truth->ctx);
    KIN_TRY(kin_hold_rows(&hold, &truth->queries, open, count, "queries with ties", &asked));
    KIN_NEW_ZERO(&hold, c.counts, (uint64_t)count, "ties");
    KIN_TRY(compare(truth, &t->part->rows, t->part->first, &asked, count_keys, &c));
    for (int64_t i = 0; i < count; i++) {
        const int64_t query = open[i];
        const double key = truth->keys[query * truth->k + truth->k - 1];
        truth->ties[query] += c.counts[i] - count_found(t, query, t->part->wide, key);
    }
    return KITH_OK;
}

static kith_status count_beyond(const taking *t)
{
    kin_truth *truth = t->truth;
    uint32_t *open = NULL;
    int64_t count = 0;
    KIN_HOLD(hold, truth->ctx);
    KIN_NEW(&hold, open, (uint64_t)truth->queries.rows, "queries with ties");
    for (int64_t i = 0; i < truth->queries.rows; i++) {
        open[count] = (uint32_t)i;
        count += t->open[i];
    }
    truth->report.recounted += count;
    return count > 0 ? count_open(t, open, count) : KITH_OK;
}

kith_status kin_truth_take(kin_truth *truth, const kin_truth_part *part)
{
    kith_ctx *ctx = truth->ctx;
    const uint64_t room = (uint64_t)ctx->threads * (uint64_t)truth->k;
    taking t = {.truth = truth, .part = part};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, t.ids, room, "lists of threads");
    KIN_NEW(&hold, t.keys, room, "lists of threads");
    KIN_NEW_ZERO(&hold, t.open, (uint64_t)truth->queries.rows, "lists of threads");
    KIN_TRY(kin_parallel_rows(ctx, NULL, truth->queries.rows, ROWS_A_TASK, take_query, &t));
    return count_beyond(&t);
}

void kin_truth_count(kin_truth *t)
{
    kith_truth_report *told = &t->report;
    for (int64_t i = 0; i < t->queries.rows; i++) {
        const double *keys = t->keys + i * t->k;
        const int64_t ties = t->ties[i];
        int64_t listed = 0;
        for (int64_t j = t->k; ties > 0 && j-- > 0 && keys[j] == keys[t->k - 1];) {
            listed++;
        }
        told->full += ties > 0;
        told->tied += ties > listed;
        told->tied_beyond += ties - listed;
        told->most_ties = kin_max_i64(told->most_ties, ties);
    }
}

/* ---- The whole corpus ------------------------------------------------------------------------ */

kith_status kin_truth_compare_all(kin_truth *t, const uint32_t *queries, int64_t count,
                                  kin_truth_hear *hear, void *arg)
{
    kith_matrix asked;
    int64_t base = 0;
    KIN_HOLD(hold, t->ctx);
    KIN_TRY(kin_hold_rows(&hold, &t->queries, queries, count, "queries to compute anew", &asked));
    for (int32_t i = 0; i < t->count; i++) {
        const kith_matrix *matrix = &t->corpus[i];
        for (int64_t row = 0; row < matrix->rows; row += ROWS_AT_A_TIME) {
            const kith_matrix rows =
                kin_matrix_part(matrix, row, kin_min_i64(ROWS_AT_A_TIME, matrix->rows - row));
            KIN_TRY(compare(t, &rows, base, &asked, hear, arg));
            base += rows.rows;
            if (t->params.mapped != 0) {
                kin_shard_return_rows(matrix, row, rows.rows);
            }
        }
    }
    return KITH_OK;
}

bool kin_truth_allows(const kith_filter *filter, int64_t query, int64_t row)
{
    const uint8_t *allow = filter->allow;
    const bool allowed =
        allow == NULL || (allow[query * filter->allow_stride_bytes + row / 8] >> row % 8 & 1) != 0;
    return allowed && (filter->rule == KITH_RULE_NONE ||
                       (filter->query_groups[query] == filter->groups[row]) ==
                           (filter->rule == KITH_RULE_SAME));
}
