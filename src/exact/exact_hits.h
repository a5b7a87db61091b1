/* SPDX-License-Identifier: Apache-2.0
 * Neighbours within a radius, as they are found, and the table that is made of them. */
#ifndef KIN_EXACT_HITS_H
#define KIN_EXACT_HITS_H

#include "exact/exact_bound.h"
#include "exact/exact_prepare.h"
#include "metric/metric_functions.h"

typedef struct kin_radius_request {
    kin_distance distance;
    double radius;
    const double *radii;  /* by query; NULL: radius for all */
    bool leaves_self_out; /* query i is row own_row + i of the corpus, and not its own neighbour */
    bool later_alone;     /* it is, and has the rows behind it within one radius for all */
    int64_t own_row;
    bool count_only;
    int64_t most; /* more neighbours that are kept end the job with KITH_E_LIMIT; 0: any number */
} kin_radius_request;

static inline double kin_radius_of(const kin_radius_request *request, int64_t query)
{
    return request->radii != NULL ? request->radii[query] : request->radius;
}

static inline bool kin_radius_leaves(const kin_radius_request *request, int64_t query, int64_t id)
{
    return request->leaves_self_out && id == request->own_row + query;
}

/* Ids below this are no neighbours of the query. */
static inline int64_t kin_radius_least(const kin_radius_request *request, int64_t query)
{
    return request->later_alone ? request->own_row + query + 1 : 0;
}

/* A key that no pair within the radius is above. */
static inline double kin_radius_key(kith_metric metric, double radius)
{
    if (metric == KITH_INNER_PRODUCT) {
        return -radius;
    }
    if (metric == KITH_HAVERSINE) {
        return kin_half_sine_squared(radius < KIN_PI ? radius : KIN_PI) * KIN_BOUND_WIDEN;
    }
    return metric == KITH_EUCLIDEAN ? radius * radius * KIN_BOUND_WIDEN : radius;
}

/* Keeps its context: the blocks are its. */
struct kith_ranges {
    kith_ctx *ctx;
    kith_lists lists;
    struct kin_gpu *gpu; /* whose memory the lists are, in these blocks; NULL: the host's */
    void *blocks[2];
};
/* For tables that are made in stripes: room for the lists of the first `rows` rows, whose offsets
 * are known, and for those of the others as many entries a row. *room: entries that there is room
 * for.
 */
kith_status kin_ranges_grow(kith_ctx *ctx, kith_ranges *ranges, int64_t *room, int64_t rows);
/* Gives the lists back. */
void kin_ranges_clear(kith_ctx *ctx, kith_ranges *ranges);
/* Tables of rows that stand behind one another become one. *ranges is all zero before, and on
 * failure. */
kith_status kin_ranges_join(kith_ctx *ctx, const kith_ranges *parts, int32_t count,
                            kith_ranges *ranges);

/* The failure of a job that found more than its most. */
kith_status kin_hits_too_many(kith_ctx *ctx, const kin_radius_request *request);

typedef struct kin_hit_chunk kin_hit_chunk;

typedef struct kin_hits {
    kith_ctx *ctx;
    const kin_radius_request *request;
    const kin_groups *groups; /* of the corpus: a hit is a group, by its first */
    const kin_rows *queries;
    atomic_int_fast64_t *counts; /* by query: ids within reach, degenerate rows apart */
    atomic_int_fast64_t found;   /* those of full chunks, where the request has a most */
    kin_hit_chunk **chunks;      /* by thread */
} kin_hits;

kith_status kin_hits_make(kith_ctx *ctx, const kin_radius_request *request,
                          const kin_groups *groups, const kin_rows *queries, kin_hits *hits);
void kin_hits_free(kin_hits *hits);

/* A group at this key from the query; passed over when that is beyond the query's radius. Each pair
 * is offered once. Thread-safe for different threads. */
kith_status kin_hits_offer(kin_hits *hits, int32_t thread, uint32_t query, uint32_t first,
                           double key);

/* After the last offer: degenerate rows join, groups become ids, rows are sorted by (key, id).
 * *ranges is all zero before; what it got stays its own when this fails. */
kith_status kin_hits_finish(kin_hits *hits, kith_ranges *ranges);

#endif
