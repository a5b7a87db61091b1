/* SPDX-License-Identifier: Apache-2.0
 * Pairs within their limits, in plain C. Contract: descent_kernel.h. */
#include "descent/descent_kernel.h"

int64_t kin_descent_hits_portable(const uint32_t *orders, int64_t stride, int64_t rows,
                                  int64_t cols, const uint32_t *row_limits,
                                  const uint32_t *col_limits, uint32_t *hits)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const uint32_t limit = row_limits[i] > col_limits[j] ? row_limits[i] : col_limits[j];
            hits[count] = (uint32_t)i << 16 | (uint32_t)j;
            count += orders[i * stride + j] <= limit;
        }
    }
    return count;
}
