/* SPDX-License-Identifier: Apache-2.0 */
#include "descent/descent_walk.h"

#include "base/base_mem.h"
#include "base/base_random.h"
#include "base/base_size.h"
#include "base/base_try.h"
#include "host/host_threads.h"

#include <math.h>

/* Rows whose keys are computed together; queries of a task; ids of rows that a walk has met and
 * remembers, to forget them one by one. */
enum { TOGETHER = 256, QUERIES_A_TASK = 4, REMEMBERED = 1 << 15 };
/* Random entries of a walk of this width, in roots of the rows, and for each of these so many may
 * be parts of the graph; wider ones have more in proportion. */
enum { NARROW = 64, ROOTS = 2, PARTS = 2 };

typedef struct candidate {
    double key;
    uint32_t id;
    bool looked; /* at its links */
} candidate;

typedef struct walker {
    double *values; /* the query */
    kin_query query;
    int64_t row;
    candidate *pool; /* ascending by (key, id) */
    int64_t count;
    int64_t limit; /* of count */
    int64_t next;  /* nobody before it has links to be looked at */
    uint64_t *met; /* a bit for each point */
    uint32_t *remembered;
    int64_t remembered_count; /* beyond REMEMBERED: all bits must be cleared */
    uint32_t ids[TOGETHER];   /* that wait for their keys */
    double keys[TOGETHER];
    int32_t waiting;
    double evaluations;
} walker;

typedef struct walking {
    kith_ctx *ctx;
    const kin_descent_walk *walk;
    const kith_neighbors *out;
    uint32_t *entries;
    int64_t entry_count;
    walker *walkers; /* by thread */
} walking;

static bool walks(const kin_descent_walk *walk)
{
    return walk->width < walk->links->rows;
}

/* ---- Entries -------------------------------------------------------------------------------- */

kin_descent_entries kin_descent_count_entries(int64_t rows, int64_t part_count, int64_t width)
{
    const double wide = fmax(1.0, (double)width / NARROW);
    const double some = ceil(ROOTS * sqrt((double)rows) * wide);
    return (kin_descent_entries){.parts = (int64_t)fmin(some * PARTS, (double)part_count),
                                 .random = (int64_t)fmin(some, (double)rows)};
}

void kin_descent_draw_entries(const kin_descent_entries *entries, int64_t rows,
                              const uint32_t *parts, uint64_t seed, uint32_t *ids)
{
    for (int64_t i = 0; i < entries->parts + entries->random; i++) {
        ids[i] = i < entries->parts ? parts[i] : (uint32_t)kin_random_below(&seed, (uint64_t)rows);
    }
}

static kith_status choose_entries(walking *w)
{
    const kin_descent_links *links = w->walk->links;
    const kin_descent_entries entries =
        kin_descent_count_entries(links->rows, links->part_count, w->walk->width);
    w->entry_count = entries.parts + entries.random;
    KIN_TRY(kin_alloc(w->ctx, &w->entries, (uint64_t)w->entry_count, sizeof *w->entries,
                      "entries of walks"));
    kin_descent_draw_entries(&entries, links->rows, links->parts, w->walk->seed, w->entries);
    return KITH_OK;
}

/* ---- The pool ------------------------------------------------------------------------------- */

static bool precedes(double key, uint32_t id, const candidate *other)
{
    return key < other->key || (key == other->key && id < other->id);
}

static void insert(walker *w, double key, uint32_t id)
{
    int64_t low = 0;
    int64_t high = w->count;
    if (w->count == w->limit) {
        if (!precedes(key, id, &w->pool[w->count - 1])) {
            return;
        }
        w->count -= 1;
        high = w->count;
    }
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (precedes(key, id, &w->pool[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    memmove(w->pool + low + 1, w->pool + low, (size_t)(w->count - low) * sizeof *w->pool);
    w->pool[low] = (candidate){key, id, false};
    w->count += 1;
    w->next = kin_min_i64(w->next, low);
}

static kith_status complain(const walking *w, const walker *one, uint32_t id)
{
    return kin_fail(w->ctx, KITH_E_DATA,
                    "the caller's distance of query %lld and point %lu is NaN (a distance must be "
                    "a number)",
                    (long long)one->row, (unsigned long)id);
}

/* Keys of those that wait, and into the pool. */
static kith_status evaluate(const walking *w, walker *one)
{
    kin_metric_keys(w->walk->distance, &one->query, w->walk->points, one->ids, 0, one->waiting,
                    one->keys);
    for (int32_t i = 0; i < one->waiting; i++) {
        if (one->keys[i] != one->keys[i]) {
            return complain(w, one, one->ids[i]);
        }
        insert(one, one->keys[i], one->ids[i]);
    }
    one->evaluations += one->waiting;
    one->waiting = 0;
    return KITH_OK;
}

/* ---- A walk --------------------------------------------------------------------------------- */

static void forget(const walking *w, walker *one)
{
    const uint64_t words = ((uint64_t)w->walk->links->rows + 63) / 64;
    if (one->remembered_count > REMEMBERED) {
        memset(one->met, 0, (size_t)words * sizeof *one->met);
    } else {
        for (int64_t i = 0; i < one->remembered_count; i++) {
            one->met[one->remembered[i] / 64] = 0;
        }
    }
    one->remembered_count = 0;
}

/* Each row once. */
static kith_status meet(const walking *w, walker *one, const uint32_t *ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t *word = &one->met[ids[i] / 64];
        const uint64_t bit = (uint64_t)1 << ids[i] % 64;
        if ((*word & bit) != 0) {
            continue;
        }
        *word |= bit;
        if (one->remembered_count < REMEMBERED) {
            one->remembered[one->remembered_count] = ids[i];
        }
        one->remembered_count += one->remembered_count <= REMEMBERED;
        one->ids[one->waiting++] = ids[i];
        if (one->waiting == TOGETHER) {
            KIN_TRY(evaluate(w, one));
        }
    }
    return evaluate(w, one);
}

static kith_status go(const walking *w, walker *one)
{
    const kin_descent_links *links = w->walk->links;
    kith_status status = meet(w, one, w->entries, w->entry_count);
    while (status == KITH_OK && one->next < one->count) {
        candidate *nearest = &one->pool[one->next];
        if (nearest->looked) {
            one->next += 1;
            continue;
        }
        nearest->looked = true;
        status = meet(w, one, links->ids + (int64_t)nearest->id * links->most,
                      links->counts[nearest->id]);
    }
    forget(w, one);
    return status;
}

static kith_status look_at_all(const walking *w, walker *one)
{
    one->count = 0;
    one->limit = w->out->k;
    for (int64_t row = 0; row < w->walk->links->rows; row++) {
        one->ids[one->waiting++] = (uint32_t)row;
        if (one->waiting == TOGETHER) {
            KIN_TRY(evaluate(w, one));
        }
    }
    return evaluate(w, one);
}

static void write_row(const walking *w, const walker *one, int64_t at)
{
    const kith_neighbors *out = w->out;
    for (int64_t i = 0; i < out->k; i++) {
        const int64_t slot = at * out->k + i;
        const double distance = kin_metric_distance(w->walk->distance->metric, one->pool[i].key);
        if (out->ids != NULL) {
            out->ids[slot] = one->pool[i].id;
        }
        if (out->distances != NULL) {
            out->distances[slot] = (float)distance;
        }
        if (out->distances64 != NULL) {
            out->distances64[slot] = distance;
        }
    }
}

static kith_status answer_queries(void *arg, int64_t task, int32_t thread)
{
    const walking *w = arg;
    walker *one = &w->walkers[thread];
    const kin_descent_walk *walk = w->walk;
    const int64_t last = kin_min_i64((task + 1) * QUERIES_A_TASK, walk->count);
    for (int64_t i = task * QUERIES_A_TASK; i < last; i++) {
        one->row = walk->rows != NULL ? (int64_t)walk->rows[i] : i;
        one->query = kin_metric_load(walk->distance, walk->queries, one->row, one->values);
        one->count = 0;
        one->next = 0;
        one->waiting = 0;
        one->limit = walk->width;
        if (walks(walk)) {
            KIN_TRY(go(w, one));
        }
        if (one->count < w->out->k) {
            KIN_TRY(look_at_all(w, one));
        }
        write_row(w, one, i);
    }
    return KITH_OK;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static kith_status make_walkers(walking *w)
{
    const uint64_t rows = (uint64_t)w->walk->links->rows;
    const int64_t pool = walks(w->walk) ? w->walk->width : w->out->k;
    KIN_TRY(kin_alloc_zero(w->ctx, &w->walkers, (uint64_t)w->ctx->threads, sizeof *w->walkers,
                           "threads"));
    for (int32_t t = 0; t < w->ctx->threads; t++) {
        walker *one = &w->walkers[t];
        KIN_TRY(kin_alloc(w->ctx, &one->values,
                          (uint64_t)kin_round_up(w->walk->distance->cols, KIN_METRIC_LANES),
                          sizeof *one->values, "a query"));
        KIN_TRY(kin_alloc(w->ctx, &one->pool, (uint64_t)pool, sizeof *one->pool, "candidates"));
        KIN_TRY(kin_alloc_zero(w->ctx, &one->met, (rows + 63) / 64, sizeof *one->met, "a walk"));
        KIN_TRY(kin_alloc(w->ctx, &one->remembered, REMEMBERED, sizeof *one->remembered, "a walk"));
    }
    return KITH_OK;
}

static void free_walkers(walking *w)
{
    for (int32_t t = 0; w->walkers != NULL && t < w->ctx->threads; t++) {
        walker *one = &w->walkers[t];
        kin_free(w->ctx, one->remembered);
        kin_free(w->ctx, one->met);
        kin_free(w->ctx, one->pool);
        kin_free(w->ctx, one->values);
    }
    kin_free(w->ctx, w->walkers);
}

kith_status kin_descent_walk_run(kith_ctx *ctx, const kin_descent_walk *walk,
                                 const kith_neighbors *out, double *evaluations)
{
    walking w = {.ctx = ctx, .walk = walk, .out = out};
    kith_status status = KITH_OK;
    *evaluations = 0.0;
    KIN_TRY_GOTO(status, choose_entries(&w), done);
    KIN_TRY_GOTO(status, make_walkers(&w), done);
    status =
        kin_parallel(ctx, "search", kin_ceil_div(walk->count, QUERIES_A_TASK), answer_queries, &w);
    for (int32_t t = 0; t < ctx->threads; t++) {
        *evaluations += w.walkers[t].evaluations;
    }
done:
    free_walkers(&w);
    kin_free(ctx, w.entries);
    return status;
}
