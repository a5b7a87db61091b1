/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model_predict.h"

#include "base/base_size.h"
#include "host/host_threads.h"
#include "select/select_word.h"

#include <math.h>

/* Neighbours of one task: some milliseconds of work, so that Ctrl-C is heard. */
enum { TASK_SLOTS = 1 << 16 };

typedef struct run {
    const kin_predict_job *job;
    double *weights; /* k for each thread */
    kin_pair *pairs; /* as many: label and place in the list */
} run;

bool kin_predict_weighs(kith_predict_mode mode)
{
    return mode == KITH_PREDICT_WEIGHTED || mode == KITH_PREDICT_WEIGHTED_VOTE;
}

/* The labels of a row in the order of its list, an empty slot left out. */
static int64_t take_labels(const kin_predict_job *job, int64_t row, kin_pair *pairs)
{
    const uint32_t *ids = job->neighbors.ids + row * job->neighbors.k;
    int64_t count = 0;
    for (int64_t i = 0; i < job->neighbors.k; i++) {
        if (ids[i] != KITH_ID_NONE) {
            pairs[count] = (kin_pair){job->labels[ids[i]], (uint32_t)count, 1};
            count++;
        }
    }
    return count;
}

/* 1 / distance; where the reciprocal of any is beyond all doubles, these alone, with a weight of
 * 1. */
static void take_weights(const kin_predict_job *job, int64_t row, double *weights)
{
    const int64_t first = row * job->neighbors.k;
    int64_t count = 0;
    bool exact = false;
    for (int64_t i = 0; i < job->neighbors.k; i++) {
        if (job->neighbors.ids[first + i] != KITH_ID_NONE) {
            weights[count] = 1.0 / kin_predict_distance(&job->neighbors, first + i);
            exact = exact || isinf(weights[count]);
            count++;
        }
    }
    for (int64_t i = 0; exact && i < count; i++) {
        weights[i] = isinf(weights[i]) ? 1.0 : 0.0;
    }
}

static double mean(const kin_pair *pairs, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += pairs[i].key;
    }
    return sum / (double)count;
}

static double mean_by(const kin_pair *pairs, const double *weights, int64_t count, double scale)
{
    double sum = 0.0;
    double whole = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i] * scale * pairs[i].key;
        whole += weights[i] * scale;
    }
    return sum / whole;
}

/* Weights of distances that are nearly nothing may overflow together; a power of two less, they do
 * not, and what vanishes then would not have been seen beside them. */
static double weighted_mean(const kin_pair *pairs, const double *weights, int64_t count)
{
    const double mean = mean_by(pairs, weights, count, 1.0);
    return isfinite(mean) ? mean : mean_by(pairs, weights, count, 0x1p-512);
}

static double median(kin_pair *pairs, int64_t count)
{
    kin_select_sort_pairs(pairs, count);
    const double upper = pairs[count / 2].key;
    return count % 2 != 0 ? upper : (pairs[count / 2 - 1].key + upper) / 2.0;
}

/* weights NULL: one vote each. Sorted by (label, place), so the runs rise, and a run that is only
 * as heavy as the best so far does not displace the smaller label. */
static double vote(kin_pair *pairs, const double *weights, int64_t count)
{
    kin_select_sort_pairs(pairs, count);
    double best = pairs[0].key;
    double most = 0.0;
    for (int64_t i = 0; i < count;) {
        const double label = pairs[i].key;
        double sum = 0.0;
        for (; i < count && pairs[i].key == label; i++) {
            sum += weights != NULL ? weights[pairs[i].id] : 1.0;
        }
        if (sum > most) {
            most = sum;
            best = label;
        }
    }
    return best;
}

static double predict_row(const kin_predict_job *job, int64_t row, kin_pair *pairs, double *weights)
{
    const int64_t count = take_labels(job, row, pairs);
    if (kin_predict_weighs(job->mode)) {
        take_weights(job, row, weights);
    }
    switch (job->mode) {
    case KITH_PREDICT_WEIGHTED:
        return weighted_mean(pairs, weights, count);
    case KITH_PREDICT_MEDIAN:
        return median(pairs, count);
    case KITH_PREDICT_VOTE:
        return vote(pairs, NULL, count);
    case KITH_PREDICT_WEIGHTED_VOTE:
        return vote(pairs, weights, count);
    case KITH_PREDICT_MEAN:
        break;
    }
    return mean(pairs, count);
}

static kith_status predict(void *arg, int64_t row, int32_t thread)
{
    const run *r = arg;
    const int64_t k = r->job->neighbors.k;
    r->job->out[row] = predict_row(r->job, row, r->pairs + thread * k, r->weights + thread * k);
    return KITH_OK;
}

kith_status kin_predict(kith_ctx *ctx, const kin_predict_job *job)
{
    const int64_t k = job->neighbors.k;
    const uint64_t slots = kin_size_mul((uint64_t)ctx->threads, (uint64_t)k);
    run r = {.job = job};
    KIN_HOLD(hold, ctx);
    KIN_NEW(&hold, r.pairs, slots, "labels of a row");
    KIN_NEW(&hold, r.weights, slots, "weights of a row");
    return kin_parallel_rows(ctx, "predict", job->neighbors.rows, kin_max_i64(1, TASK_SLOTS / k),
                             predict, &r);
}
