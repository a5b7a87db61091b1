/* SPDX-License-Identifier: Apache-2.0
 * The reference device's launches of papers_kernels.h. */
#include "reference/reference.h"

static void sample(const kin_papers_sample *job)
{
    for (int64_t row = 0; row < job->rows; row++) {
        for (int64_t j = 0; j < job->columns; j++) {
            const int64_t from = row * job->pitch + j * job->count / job->columns;
            const int64_t to = row * job->columns + j;
            job->sample[to] = job->matrix[from];
        }
    }
}

REFERENCE_LAUNCH(sample, kin_papers_sample)

const kin_papers_kernels reference_papers = {.sample = sample_launch,
                                             .buffers = &reference_buffers};
