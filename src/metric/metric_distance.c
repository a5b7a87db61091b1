/* SPDX-License-Identifier: Apache-2.0
 * The verbs of metric.h: a query is loaded, keys are computed by the body that fits the machine,
 * and a key becomes the distance that the user sees. */
#include "metric/metric.h"

#include "metric/metric_canonical.h"
#include "metric/metric_table.h"

static const char *row_of(const kith_matrix *matrix, int64_t row)
{
    return (const char *)matrix->data + row * matrix->stride_bytes;
}

kin_query kin_metric_load(const kin_distance *distance, const kin_rows *rows, int64_t row,
                          double *values)
{
    const kin_row_transform *transform = rows->transforms ? &rows->transforms[row] : NULL;
    const kin_query query = {
        .values = values,
        .raw = row_of(&rows->matrix, row),
        .degenerate = transform != NULL && transform->degenerate != 0,
    };
    if (distance->metric != KITH_CUSTOM) {
        const kin_metric_table *table = kin_metric_pick(distance->isa);
        table->expand[rows->matrix.dtype](query.raw, distance->cols, transform, values);
    }
    return query;
}

static void custom_keys(const kin_distance *distance, const kin_query *query,
                        const kin_keys_job *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        const char *point = job->data + kin_keys_row(job, i) * job->stride_bytes;
        const double value =
            distance->custom(distance->custom_arg, query->raw, point, distance->cols);
        job->keys[i] = kin_add(value, 0.0);
    }
}

void kin_metric_keys(const kin_distance *distance, const kin_query *query, const kin_rows *corpus,
                     const uint32_t *ids, int64_t first, int64_t count, double *keys)
{
    const kin_keys_job job = {
        .query = query->values,
        .data = corpus->matrix.data,
        .stride_bytes = corpus->matrix.stride_bytes,
        .transforms = corpus->transforms,
        .ids = ids,
        .first = first,
        .count = count,
        .keys = keys,
        .cols = distance->cols,
    };
    if (distance->metric == KITH_CUSTOM) {
        custom_keys(distance, query, &job);
    } else if (query->degenerate) {
        for (int64_t i = 0; i < count; i++) {
            keys[i] = KIN_DEGENERATE_KEY;
        }
    } else {
        const bool root = distance->metric == KITH_EUCLIDEAN;
        const kith_metric metric = root ? KITH_SQEUCLIDEAN : distance->metric;
        kin_metric_pick(distance->isa)->keys[metric][corpus->matrix.dtype](&job);
    }
}

double kin_metric_distance(kith_metric metric, double key)
{
    switch (metric) {
    case KITH_EUCLIDEAN:
        return kin_sqrt(key);
    case KITH_INNER_PRODUCT:
        return kin_add(-key, 0.0);
    default:
        return key;
    }
}

bool kin_metric_within(kith_metric metric, double distance, double radius)
{
    return metric == KITH_INNER_PRODUCT ? distance >= radius : distance <= radius;
}
