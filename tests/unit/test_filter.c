/* SPDX-License-Identifier: Apache-2.0
 * Neighbours under a filter, pairs and ground truth, on the processor; with threads of their own.
 */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_filter) + test_suite_run(&test_suite_pairs);
}
