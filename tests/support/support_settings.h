/* SPDX-License-Identifier: Apache-2.0
 * Jobs on made data, as rows of a table, with the processor's answers. */
#ifndef SUPPORT_SETTINGS_H
#define SUPPORT_SETTINGS_H

#include "support/support_compare.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

typedef struct test_setting {
    test_call call;
    kith_dtype dtype;
    test_shape shape;
    kith_metric metric;
    int64_t rows;
    int64_t asked; /* queries; not of graphs */
    int32_t cols;
    int64_t k;
} test_setting;

typedef struct test_setting_data {
    test_rows points;
    test_rows queries;
    test_job job;
    kith_neighbors wanted;
} test_setting_data;

/* The job points into *data. */
void test_setting_make(const test_setting *setting, kith_ctx *cpu, uint64_t seed,
                       test_setting_data *data);
void test_setting_free(test_setting_data *data);

#endif
