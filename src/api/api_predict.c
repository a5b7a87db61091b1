/* SPDX-License-Identifier: Apache-2.0
 * kNN models: labels and neighbours looked at once, then one call of the room. */
#include "engine/engine_call.h"
#include "model/model_predict.h"

#include <math.h>

/* Below it every whole number is a double of its own. */
static const double whole_labels = 9007199254740992.0;

static const char *const names[] = {
    [KITH_PREDICT_MEAN] = "mean",
    [KITH_PREDICT_WEIGHTED] = "weighted",
    [KITH_PREDICT_MEDIAN] = "median",
    [KITH_PREDICT_VOTE] = "vote",
    [KITH_PREDICT_WEIGHTED_VOTE] = "weighted_vote",
};
enum { MODES = sizeof names / sizeof names[0] };

static bool is_mode(kith_predict_mode mode)
{
    return (int)mode >= 0 && (int)mode < MODES;
}

static kith_status check_params(kith_ctx *ctx, const kith_predict_params *params)
{
    KIN_REFUSE_IF(params == NULL || params->struct_size < sizeof *params, ctx, "params",
                  "is NULL or was not made by kith_predict_params_default()");
    KIN_ALLOW_IF(is_mode(params->mode), ctx, "mode",
                 "is %d, which is no kith_predict_mode (use one of those)", (int)params->mode);
}

/* Whether its labels are classes. */
static bool is_vote(kith_predict_mode mode)
{
    return mode == KITH_PREDICT_VOTE || mode == KITH_PREDICT_WEIGHTED_VOTE;
}

static kith_status check_labels(kith_ctx *ctx, const double *labels, int64_t count,
                                kith_predict_mode mode)
{
    KIN_REFUSE_IF(labels == NULL || count < 1, ctx, "labels", "%s (give one for each point)",
                  labels == NULL ? "is NULL" : "are none");
    const bool votes = is_vote(mode);
    for (int64_t i = 0; i < count; i++) {
        const double label = labels[i];
        KIN_FAIL_IF(!isfinite(label), ctx, KITH_E_DATA, kin_at_row("labels", i),
                    "is %s (leave out points without label)", isnan(label) ? "NaN" : "infinite");
        KIN_FAIL_IF(votes && (fabs(label) > whole_labels || label != floor(label)), ctx,
                    KITH_E_DATA, kin_at_row("labels", i),
                    "is %.17g, a vote is among whole numbers of at most 2^53 (number the classes)",
                    label);
    }
    return KITH_OK;
}

static kith_status check_neighbors(kith_ctx *ctx, const kith_neighbors *neighbors,
                                   kith_predict_mode mode)
{
    KIN_FAIL_IF(neighbors == NULL || neighbors->ids == NULL, ctx, KITH_E_ARGUMENT,
                kin_at_member("neighbors", neighbors == NULL ? NULL : "ids"),
                "is NULL (give neighbours with their ids)");
    KIN_REFUSE_IF(neighbors->rows < 0 || neighbors->k < 1 || neighbors->k > UINT32_MAX, ctx,
                  "neighbors", "is %lld x %lld, must be at least 0 x 1, k below 2^32",
                  (long long)neighbors->rows, (long long)neighbors->k);
    KIN_ALLOW_IF(
        !kin_predict_weighs(mode) || neighbors->distances != NULL || neighbors->distances64 != NULL,
        ctx, "neighbors",
        "has no distances, mode %s weighs by them (give distances64 or distances)", names[mode]);
}

/* Whether one slot may count, and whether it does: *counts. */
static kith_status check_slot(kith_ctx *ctx, const kin_predict_job *job, int64_t labels,
                              int64_t slot, bool *counts)
{
    const kith_neighbors *neighbors = &job->neighbors;
    const long long row = (long long)(slot / neighbors->k);
    const long long col = (long long)(slot % neighbors->k);
    const uint32_t id = neighbors->ids[slot];
    *counts = id != KITH_ID_NONE;
    KIN_FAIL_IF(*counts && (int64_t)id >= labels, ctx, KITH_E_ARGUMENT,
                kin_at_cell("neighbors", row, col),
                "is id %lu, must be below %lld, the number of labels (give a label for each row of "
                "the corpus)",
                (unsigned long)id, (long long)labels);
    if (*counts && kin_predict_weighs(job->mode)) {
        const double distance = kin_predict_distance(neighbors, slot);
        KIN_FAIL_IF(!(distance >= 0.0), ctx, KITH_E_DATA, kin_at_cell("neighbors", row, col),
                    "has the distance %g, and weights divide by it (take a metric whose distances "
                    "are not negative)",
                    distance);
        *counts = isfinite(distance);
    }
    return KITH_OK;
}

/* In the order of the table, so that of several mistakes the same one is told. */
static kith_status check_slots(kith_ctx *ctx, const kin_predict_job *job, int64_t labels)
{
    const kith_neighbors *neighbors = &job->neighbors;
    for (int64_t row = 0; row < neighbors->rows; row++) {
        bool any = false;
        for (int64_t i = 0; i < neighbors->k; i++) {
            bool counts = false;
            KIN_TRY(check_slot(ctx, job, labels, row * neighbors->k + i, &counts));
            any = any || counts;
        }
        KIN_FAIL_IF(!any, ctx, KITH_E_DATA, kin_at_row("neighbors", row),
                    "has no neighbour at a finite distance (leave it out)");
    }
    return KITH_OK;
}

static kith_status predict(kith_ctx *ctx, const kith_neighbors *neighbors, const double *labels,
                           int64_t label_count, const kith_predict_params *params, double *out)
{
    KIN_TRY(check_params(ctx, params));
    KIN_TRY(check_neighbors(ctx, neighbors, params->mode));
    KIN_TRY(check_labels(ctx, labels, label_count, params->mode));
    KIN_REFUSE_IF(out == NULL && neighbors->rows > 0, ctx, "out",
                  "is NULL (give room for one number a row)");
    const kin_predict_job job = {
        .neighbors = *neighbors, .labels = labels, .mode = params->mode, .out = out};
    KIN_TRY(check_slots(ctx, &job, label_count));
    return kin_predict(ctx, &job);
}

kith_status kith_predict(kith_ctx *ctx, const kith_neighbors *neighbors, const double *labels,
                         int64_t label_count, const kith_predict_params *params, double *out)
{
    KIN_CALL(ctx, predict(ctx, neighbors, labels, label_count, params, out));
}
