/* SPDX-License-Identifier: Apache-2.0
 * Neighbours under filters, pairs and ground truth on all GPUs at once (cuda:all), in the trials
 * against the oracle that the processor and one GPU pass. Exits with 77 where there are fewer than
 * two. */
#include "support/cases.h"

#include "support/support_engines.h"
#include "support/support_gpu.h"

int main(void)
{
    if (test_gpu_is_absent() || test_gpus_are_few()) {
        return TEST_SKIPPED;
    }
    test_engines_use_gpus();
    return test_suite_run(&test_suite_filter) + test_suite_run(&test_suite_pairs);
}
