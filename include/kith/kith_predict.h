/* SPDX-License-Identifier: Apache-2.0
 *
 * The course of kith.h goes on: prediction. kith.h includes this file, nobody else needs to. */
#include "kith/kith.h" /* before the guard: headers behind this one need its types */

#ifndef KITH_KITH_PREDICT_H
#define KITH_KITH_PREDICT_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 11. Prediction ------------------------------------------------------------------------- */

/* kNN models: each point of a catalogue has a label, and a row of neighbours, however they were
 * found, makes one number of the labels of those in it. */
typedef enum kith_predict_mode {
    KITH_PREDICT_MEAN = 0,
    KITH_PREDICT_WEIGHTED = 1,     /* mean with weights 1 / distance; where neighbours are at 0 (so
                                      near that 1 / distance is infinite), the mean of these */
    KITH_PREDICT_MEDIAN = 2,       /* of an even number: the mean of the two in the middle */
    KITH_PREDICT_VOTE = 3,         /* the label that most have; of several the smallest */
    KITH_PREDICT_WEIGHTED_VOTE = 4 /* the same by the sum of the weights above */
} kith_predict_mode;

typedef struct kith_predict_params {
    uint32_t struct_size; /* set by kith_predict_params_default() */
    kith_predict_mode mode;
} kith_predict_params;

static inline kith_predict_params kith_predict_params_default(void)
{
    kith_predict_params params;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    return params;
}

/* out[i] from the labels of row i of neighbors; out: neighbors.rows numbers, caller-owned, overlaps
 * nothing. labels: one finite number for each point that an id may name; for a vote whole numbers
 * of at most 2^53 in magnitude. Empty slots (KITH_ID_NONE) are left out. Weights come from
 * distances64, or where that is NULL from distances; no mode else reads them.
 * The same bytes with any number of threads: sums are doubles, added in the order of the list, one
 * rounding an operation (weight, product, sum; one division at the end); those of a vote label by
 * label. A sum beyond the range of doubles is infinite, as IEEE has it.
 * Cost: label_count + rows * k, median and votes rows * k log k; memory: k a thread. On the
 * processor, whatever the device. Returns KITH_E_ARGUMENT (an id that has no label, weights without
 * distances), E_DATA (names the label that is not finite or no whole number, the distance that is
 * NaN or negative, the row in which nobody is left), E_MEMORY, E_LIMIT, E_CANCELLED; out then holds
 * nothing of use. */
KITH_API kith_status kith_predict(kith_ctx *ctx, const kith_neighbors *neighbors,
                                  const double *labels, int64_t label_count,
                                  const kith_predict_params *params, double *out);

#ifdef __cplusplus
}
#endif

#endif
