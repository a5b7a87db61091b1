/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the screen, and of what is prepared for it, for the device of support_fake_gpu.h, in
 * plain C: euclidean, inner product and manhattan, F32 and U8. Lists keep the best of all that met;
 * balls are so large that only plans without radii skip anything. */
#ifndef SUPPORT_FAKE_SCREEN_H
#define SUPPORT_FAKE_SCREEN_H

#include "fused/fused_kernels.h"

#include <stdbool.h>

typedef struct test_fake_plan_counts {
    int64_t near_pairs; /* of tiles, that plans let through; and that they skipped */
    int64_t far_pairs;
    int32_t loose;      /* screens since lists were tightened, */
    int32_t most_loose; /* and the most there ever were */
    float lost;         /* to be set: how far rounding moves a row */
} test_fake_plan_counts;
extern test_fake_plan_counts test_fake_plans;

/* Adds the kernels, and forgets the counts. */
void test_fake_screen_into(kin_fused_kernels *kernels);

/* A value of a row as given. */
double test_fake_value(const kin_fused_rows *rows, int64_t row, int32_t col);
/* Of rows i and j a plain sum, which is a screen's cost; its order; the metric's own key. */
double test_fake_cost(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j);
uint32_t test_fake_order(bool integer, double cost);
/* What rounding by `lost` leaves of a cost: a step. */
double test_fake_blurred(double cost);
double test_fake_key(const kin_fused_rows *a, int64_t i, const kin_fused_rows *b, int64_t j);
/* Of the distance between centres of tiles. */
double test_fake_square(const kin_fused_set *a, int64_t i, const kin_fused_set *b, int64_t j);

#endif
