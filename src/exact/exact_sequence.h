/* SPDX-License-Identifier: Apache-2.0
 * A sequence of 0 .. count - 1, i -> i * step mod count, in which each comes once and any piece is
 * spread over all: near things have near numbers, and a piece is then a sample. */
#ifndef KIN_EXACT_EXACT_SEQUENCE_H
#define KIN_EXACT_EXACT_SEQUENCE_H

#include "metric/metric_arith.h"

#include <stdint.h>

KIN_HD int64_t kin_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For count >= 1. Near the golden section, whose multiples spread best. */
KIN_HD int64_t kin_sequence_step(int64_t count)
{
    const int64_t golden = (int64_t)((double)count * 0.6180339887498949);
    for (int64_t away = 0;; away++) {
        if (kin_common_divisor(golden + away, count) == 1) {
            return golden + away;
        }
        if (away < golden && kin_common_divisor(golden - away, count) == 1) {
            return golden - away;
        }
    }
}

#endif
