/* SPDX-License-Identifier: Apache-2.0
 * Who is nearest in a meeting, in plain C. Contract: descent_kernel.h. */
#include "base/base_size.h"
#include "descent/descent_kernel.h"

static void clear(uint32_t *order, uint32_t *sample, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        order[i] = UINT32_MAX;
        sample[i] = 0;
    }
}

static void take_row(const uint32_t *costs, int64_t count, uint32_t *order, uint32_t *sample)
{
    for (int64_t j = 0; j < count; j++) {
        if (costs[j] < *order) {
            *order = costs[j];
            *sample = (uint32_t)j;
        }
    }
}

static void offer_row(const uint32_t *costs, int64_t count, int32_t row, uint32_t *order,
                      uint32_t *sample)
{
    for (int64_t j = 0; j < count; j++) {
        if (costs[j] < order[j]) {
            order[j] = costs[j];
            sample[j] = (uint32_t)row;
        }
    }
}

void kin_descent_least_portable(const uint32_t *orders, const uint32_t *back, int64_t stride,
                                int32_t new_count, int32_t count, const kin_descent_least *least)
{
    clear(least->row_order, least->row_sample, count);
    clear(least->new_order, least->new_sample, new_count);
    clear(least->old_order, least->old_sample, new_count);
    for (int32_t i = 0; i < count; i++) {
        const int64_t met = kin_min_i64(i, new_count);
        const bool is_new = i < new_count;
        take_row(orders + i * stride, met, &least->row_order[i], &least->row_sample[i]);
        offer_row(back + i * stride, met, i, is_new ? least->new_order : least->old_order,
                  is_new ? least->new_sample : least->old_sample);
    }
}
