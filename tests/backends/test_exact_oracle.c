/* SPDX-License-Identifier: Apache-2.0
 * Every metric, type and shape of data against the oracle, on every instruction set here, with 1, 2
 * and 3 threads. */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_oracle);
}
