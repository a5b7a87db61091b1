/* SPDX-License-Identifier: Apache-2.0
 * The k nearest within a radius: whatever engine found the k nearest, what is beyond is cut off by
 * the canonical distance. An engine may leave out what is beyond (the tree does): its slots are
 * empty from the start. */
#ifndef KIN_API_LIMIT_H
#define KIN_API_LIMIT_H

#include "exact/exact_search.h"

typedef struct kin_limit {
    kith_ctx *ctx;
    kith_metric metric;
    double radius;      /* 0: none, and nothing is done */
    kith_neighbors out; /* what an engine writes: the caller's table, and float64 distances */
    double *own;        /* those, where the caller has none */
} kin_limit;

/* out: in host memory. */
kith_status kin_limit_begin(kith_ctx *ctx, const kin_request *request, const kith_neighbors *out,
                            kin_limit *limit);
/* Cuts where status is KITH_OK, and hands it on. */
kith_status kin_limit_end(kin_limit *limit, kith_status status);
/* KITH_E_UNSUPPORTED where there is a radius and `why` it cannot be. */
kith_status kin_limit_refuse(kith_ctx *ctx, const kin_request *request, const char *why);
/* Most that kin_limit_begin takes. */
uint64_t kin_limit_bytes(double radius, int64_t rows, int64_t k);

#endif
