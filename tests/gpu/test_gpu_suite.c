/* SPDX-License-Identifier: Apache-2.0
 * The suites of the processor, on the GPU: numbers, oracle, the same bytes, filters, pairs, truth;
 * real data with KITH_DATA.
 */
#include "support/cases.h"
#include "support/support_engines.h"
#include "support/support_gpu.h"

int main(void)
{
    if (test_gpu_is_absent()) {
        return TEST_SKIPPED;
    }
    test_engines_use_gpu();
    int failed = test_suite_run(&test_suite_numerics);
    failed += test_suite_run(&test_suite_oracle);
    failed += test_suite_run(&test_suite_same_bytes);
    failed += test_suite_run(&test_suite_filter);
    failed += test_suite_run(&test_suite_pairs);
    return failed;
}
