/* SPDX-License-Identifier: Apache-2.0
 * Contract: metric.h. The body that a reader should read and every machine can run: one component
 * at a time, in the order of the definition. Without -mfma the compiler calls the C library's
 * fma(), which is slow and right. Inlined everywhere (KIN_HD): a sanitizer has enough to do with
 * it. */
#include "host/host_cpu.h"
#define KIN_WRAP_DTYPES KIN_EACH_DTYPE
#include "metric/metric_whole.h"

KIN_HD void keys_body(const kin_keys_job *job, kith_metric metric, kith_dtype dtype, bool wraps)
{
    for (int64_t i = 0; i < job->count; i++) {
        const int64_t row = kin_keys_row(job, i);
        const char *data = job->data + row * job->stride_bytes;
        const kin_row_transform *transform = job->transforms ? &job->transforms[row] : NULL;
        if (transform != NULL && transform->degenerate != 0) {
            job->keys[i] = KIN_DEGENERATE_KEY;
            continue;
        }
        double lane[KIN_METRIC_LANES] = {0};
        double second[KIN_METRIC_LANES] = {0};
        for (int32_t col = 0; col < job->cols; col++) {
            const int j = col % KIN_METRIC_LANES;
            const double x = kin_value(dtype, data, col);
            const double c = transform != NULL ? kin_row_apply(transform, x) : x;
            const double q =
                wraps ? kin_wrap(job->query[col], c, job->period[col]) : job->query[col];
            kin_step(metric, &lane[j], &second[j], q, wraps ? 0 : c, job->power);
        }
        const bool is_max = metric == KITH_CHEBYSHEV;
        const double sum = is_max ? kin_lanes_max(lane) : kin_lanes_sum(lane);
        job->keys[i] = kin_key(metric, sum, kin_lanes_sum(second), job->cols);
        if (metric == KITH_MINKOWSKI) {
            job->keys[i] = kin_root(job->keys[i], job->power);
        }
    }
}

KIN_HD void expand_body(const char *row, int32_t cols, const kin_row_transform *transform,
                        double *values, kith_dtype dtype)
{
    for (int32_t i = 0; i < cols; i++) {
        const double x = kin_value(dtype, row, i);
        values[i] = transform != NULL ? kin_row_apply(transform, x) : x;
    }
    for (int32_t i = cols; i % KIN_METRIC_LANES != 0; i++) {
        values[i] = 0;
    }
}

/* Smallest and largest value of a row. */
KIN_HD kin_row_range range_of(const char *row, int32_t cols, kith_dtype dtype)
{
    kin_row_range r = {kin_value(dtype, row, 0), kin_value(dtype, row, 0)};
    for (int32_t i = 1; i < cols; i++) {
        const double x = kin_value(dtype, row, i);
        r.min = x < r.min ? x : r.min;
        r.max = x > r.max ? x : r.max;
    }
    return r;
}

KIN_HD kin_row_transform transform_body(const char *row, int32_t cols, bool centred,
                                        kith_dtype dtype)
{
    kin_row_transform t = kin_row_begin(range_of(row, cols, dtype), centred, dtype);
    if (t.degenerate != 0) {
        return t;
    }
    if (centred) {
        double lane[KIN_METRIC_LANES] = {0};
        for (int32_t i = 0; i < cols; i++) {
            const int j = i % KIN_METRIC_LANES;
            lane[j] = kin_add(lane[j], kin_mul(kin_value(dtype, row, i), t.scale));
        }
        t.shift = kin_row_shift(kin_lanes_sum(lane), cols);
    }
    double lane[KIN_METRIC_LANES] = {0};
    for (int32_t i = 0; i < cols; i++) {
        const int j = i % KIN_METRIC_LANES;
        const double y = kin_row_centre(&t, kin_value(dtype, row, i));
        lane[j] = kin_fma(y, y, lane[j]);
    }
    t.gain = kin_row_gain(kin_lanes_sum(lane));
    return t;
}

KIN_METRIC_TABLE(kin_metric_table_portable)

const kin_metric_table *kin_metric_pick(kin_isa isa)
{
    static const void *const tables[KIN_ISA_COUNT] = KIN_BODIES(kin_metric_table);
    return kin_isa_pick(isa, tables);
}
