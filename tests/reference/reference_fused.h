/* SPDX-License-Identifier: Apache-2.0
 * What bodies of the exact engine's jobs share. */
#ifndef REFERENCE_FUSED_H
#define REFERENCE_FUSED_H

#include "metric/metric_canonical.h"
#include "metric/metric_value.h"
#include "reference/reference.h"

#include <stdbool.h>

enum { REFERENCE_INVALID = 1 /* cudaErrorInvalidValue */ };

/* All launches, in the order of the table. */
#define REFERENCE_FUSED_LAUNCHES(X) \
    X(check)                        \
    X(transform)                    \
    X(group)                        \
    X(measure)                      \
    X(round)                        \
    X(cover)                        \
    X(sort)                         \
    X(screen)                       \
    X(kth)                          \
    X(gather)                       \
    X(tighten)                      \
    X(arrange)                      \
    X(plan)                         \
    X(pack)                         \
    X(accept)                       \
    X(rescore)                      \
    X(write)                        \
    X(keys)                         \
    X(best)                         \
    X(hits)                         \
    X(within)

#define REFERENCE_ENTRY(name) \
    int reference_fused_##name(kin_gpu_stream *stream, const kin_fused_##name *job);
REFERENCE_FUSED_LAUNCHES(REFERENCE_ENTRY)
#undef REFERENCE_ENTRY

/* The launch of a job whose body is fused_NAME(job). */
#define REFERENCE_FUSED(NAME)                                                       \
    static void NAME##_body(const void *job)                                        \
    {                                                                               \
        fused_##NAME(job);                                                          \
    }                                                                               \
    int reference_fused_##NAME(kin_gpu_stream *stream, const kin_fused_##NAME *job) \
    {                                                                               \
        return reference_later(stream, NAME##_body, job, sizeof *job);              \
    }

static inline const char *row_of(const kin_fused_rows *rows, int64_t row)
{
    return (const char *)rows->data + row * rows->stride_bytes;
}

static inline const kin_row_transform *transform_of(const kin_fused_rows *rows, int64_t row)
{
    return rows->transforms != NULL ? &rows->transforms[row] : NULL;
}

/* A component as keys see it. */
static inline double value_of(const kin_fused_rows *rows, int64_t row, int32_t col)
{
    const double x = kin_value(rows->dtype, row_of(rows, row), col);
    const kin_row_transform *transform = transform_of(rows, row);
    return transform != NULL ? kin_row_apply(transform, x) : x;
}

/* A component of a rounded row. */
static inline float rounded_of(const kin_fused_set *set, int64_t position, int32_t col)
{
    const char *row = (const char *)set->rounded + position * set->frame.row_bytes;
    return (float)kin_value(set->frame.type == KIN_FUSED_F16 ? KITH_F16 : KITH_I8, row, col);
}

static inline kin_bound_row bounds_of(const kin_fused_set *set, int64_t position)
{
    const kin_fused_facts *facts = &set->facts[position];
    return (kin_bound_row){(double)facts->norm, (double)facts->lost};
}

static inline int64_t tiles_of(const kin_fused_set *set)
{
    return (set->points + KIN_FUSED_TILE - 1) / KIN_FUSED_TILE;
}

#endif
