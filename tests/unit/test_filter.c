/* SPDX-License-Identifier: Apache-2.0
 * Neighbours under a filter, on the processor; with threads of their own. */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_filter);
}
