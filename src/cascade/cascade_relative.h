/* SPDX-License-Identifier: Apache-2.0
 * The start of metrics whose near points no screen finds (descent/descent_relative.h has the
 * processor's). Each has a relative, the Euclidean distance of other rows, and near under one is
 * mostly near under the other:
 *
 *   chi2                     |sqrt a - sqrt b|
 *   jaccard                  of the patterns, zeros and ones, each of length 1
 *   manhattan, chebyshev     of the rows as they are
 *   inner_product            of rows of length 1; and who is long is near to everybody, so that the
 *                            longest rows are looked at by all
 *   kl                       the same of sqrt a
 *
 * Two graphs that are made one have their own start, but of these two metrics all look at the
 * longest rows of both, too: neither graph knows those of the other. */
#ifndef KIN_CASCADE_CASCADE_RELATIVE_H
#define KIN_CASCADE_CASCADE_RELATIVE_H

#include "cascade/cascade_run.h"

/* A graph by rows, in device memory. */
typedef struct kin_cascade_found {
    uint32_t *ids; /* rows x k; NULL: none */
    int64_t k;
    uint32_t *of; /* what ids count: rows by number; NULL: rows themselves */
    int64_t of_count;
} kin_cascade_found;

typedef struct kin_cascade_relatives {
    kin_cascade_found near;  /* under the relative */
    kin_cascade_found among; /* the longest rows */
    double evaluations;
} kin_cascade_relatives;

/* Whether the request, without zeros, begins so. */
bool kin_cascade_is_related(const kin_descent_request *request);
/* relatives: zero; freed by its owner, also after an error. Nothing is found where nothing is
 * wanted. The report is left as it was. Not in lockstep with others: each GPU for itself. */
kith_status kin_cascade_relatives_make(kin_cascade_run *run, kin_cascade_relatives *relatives);
void kin_cascade_relatives_free(const kin_cascade_run *run, kin_cascade_relatives *relatives);
/* What was found comes into run->graph, nearest first, all NEW (cascade_given.c). */
kith_status kin_cascade_take_found(kin_cascade_run *run, const kin_cascade_found *found);

/* Device memory beside points and graph. others: what the rest of the start takes. */
uint64_t kin_cascade_relatives_bytes(const kith_matrix *points, const kin_descent_request *request,
                                     uint64_t others);

#endif
