/* SPDX-License-Identifier: Apache-2.0
 * kNN models: one number out of the labels of a row's neighbours. Knows nothing of how they were
 * found. This file is short because a model is one function.
 *
 * CONTRACT. What api/ has checked: ids are below the number of labels or KITH_ID_NONE, labels are
 * finite, and for weights distances are no NaN and not negative; every row has a neighbour that
 * counts. Sums run in the order of the list, one rounding an operation, in double, whatever the
 * number of threads; only a vote sums label by label, each in the order of the list. */
#ifndef KIN_MODEL_PREDICT_H
#define KIN_MODEL_PREDICT_H

#include "base/base_ctx.h"

typedef struct kin_predict_job {
    kith_neighbors neighbors;
    const double *labels;
    kith_predict_mode mode;
    double *out; /* one for each row */
} kin_predict_job;

/* Whether the mode weighs by distances. */
bool kin_predict_weighs(kith_predict_mode mode);

/* The distance of one slot: the double where there is one. */
static inline double kin_predict_distance(const kith_neighbors *neighbors, int64_t slot)
{
    return neighbors->distances64 != NULL ? neighbors->distances64[slot]
                                          : (double)neighbors->distances[slot];
}

kith_status kin_predict(kith_ctx *ctx, const kin_predict_job *job);

#endif
