/* SPDX-License-Identifier: Apache-2.0
 * What bodies of the exact engine's jobs share. */
#ifndef REFERENCE_SCREEN_H
#define REFERENCE_SCREEN_H

#include "metric/metric_arith.h"
#include "metric/metric_canonical.h"
#include "reference/reference.h"

#include <stdbool.h>

enum { REFERENCE_INVALID = 1 /* cudaErrorInvalidValue */ };

/* All launches. */
#define REFERENCE_ENTRY(name) \
    int reference_screen_##name(kin_gpu_stream *stream, const kin_screen_gpu_##name *job);
KIN_SCREEN_GPU_LAUNCHES(REFERENCE_ENTRY)
#undef REFERENCE_ENTRY

/* The launch of a job whose body is body_NAME(job). */
#define REFERENCE_SCREEN(NAME)                                                            \
    static void NAME##_body(const void *job)                                              \
    {                                                                                     \
        body_##NAME(job);                                                                 \
    }                                                                                     \
    int reference_screen_##NAME(kin_gpu_stream *stream, const kin_screen_gpu_##NAME *job) \
    {                                                                                     \
        return reference_later(stream, NAME##_body, job, sizeof *job);                    \
    }

static inline const char *row_of(const kin_screen_gpu_rows *rows, int64_t row)
{
    return (const char *)rows->data + row * rows->stride_bytes;
}

static inline const kin_row_transform *transform_of(const kin_screen_gpu_rows *rows, int64_t row)
{
    return rows->transforms != NULL ? &rows->transforms[row] : NULL;
}

/* A component as keys see it. */
static inline double value_of(const kin_screen_gpu_rows *rows, int64_t row, int32_t col)
{
    const double x = kin_value(rows->dtype, row_of(rows, row), col);
    const kin_row_transform *transform = transform_of(rows, row);
    return transform != NULL ? kin_row_apply(transform, x) : x;
}

/* A component of a rounded row. */
static inline float rounded_of(const kin_screen_gpu_set *set, int64_t position, int32_t col)
{
    const char *row = (const char *)set->rounded + position * set->frame.row_bytes;
    return (float)kin_value(set->frame.type == KIN_SCREEN_GPU_F16 ? KITH_F16 : KITH_I8, row, col);
}

static inline kin_bound_row bounds_of(const kin_screen_gpu_set *set, int64_t position)
{
    const kin_screen_gpu_facts *facts = &set->facts[position];
    return (kin_bound_row){(double)facts->norm, (double)facts->lost};
}

/* ---- Costs: screen_cost.cuh and screen_list.cuh ---------------------------------------------- */

static inline uint32_t order_of(kin_screen_gpu_type type, kin_screen_gpu_word cost)
{
    return type == KIN_SCREEN_GPU_S8 ? kin_graph_order_of_int(cost.i)
                                     : kin_graph_order_of_float(cost.f + 0.0F);
}

static inline double cost_of(kin_screen_gpu_type type, uint32_t order)
{
    kin_screen_gpu_word word = {.u = order ^ 0x80000000u};
    if (type == KIN_SCREEN_GPU_S8) {
        return (double)word.i;
    }
    word.u = (order & 0x80000000u) != 0 ? word.u : ~order;
    return (double)word.f;
}

/* Whether a column of this cost can be of use to a row of this reach. */
static inline bool is_within(const kin_screen_gpu_frame *frame, double reach, double cost,
                             kin_bound_row own, kin_bound_row other)
{
    return !(cost > kin_bound_limit(frame->bound, reach, frame->kappa, own, other));
}

/* The reach that a pair of this order proves; one that is not a number proves nothing. */
static inline double proven_by(const kin_screen_gpu_frame *frame, uint32_t order, kin_bound_row own,
                               kin_bound_row other)
{
    const double reach = kin_bound_reach_of_cost(frame->bound, cost_of(frame->type, order),
                                                 frame->kappa, frame->scale, own, other);
    return isnan(reach) ? (double)INFINITY : reach;
}

/* Beyond the capacity an entry is counted, not stored. */
static inline void push(const kin_screen_gpu_lists *lists, int64_t row, uint64_t word)
{
    const int32_t at = lists->counts[row]++;
    if (at < lists->capacity) {
        lists->words[row * lists->capacity + at] = word;
    }
}

#endif
