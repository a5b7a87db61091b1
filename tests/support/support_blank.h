/* SPDX-License-Identifier: Apache-2.0
 * What a device that computes nothing makes of rows: no mean, values of size 1, zeros. For modules
 * without a library (tests/modules), hence all in the header. */
#ifndef SUPPORT_BLANK_H
#define SUPPORT_BLANK_H

#include "fused/fused_kernels.h"

#include <string.h>

static inline void test_blank_measure(const kin_fused_measure *job)
{
    memset(job->mean, 0, (size_t)job->rows.cols * sizeof(double));
    job->largest[0] = 1.0;
    job->largest[1] = (double)job->rows.cols;
}

static inline void test_blank_round(const kin_fused_round *job)
{
    memset(job->rounded, 0, (size_t)job->padded * (size_t)job->frame.row_bytes);
    memset(job->facts, 0, (size_t)job->padded * sizeof *job->facts);
    memset(job->half, 0, (size_t)job->padded * sizeof *job->half);
}

#endif
