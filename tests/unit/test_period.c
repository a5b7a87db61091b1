/* SPDX-License-Identifier: Apache-2.0
 * Periodic boxes, on every instruction set (support/cases_period.c). */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_period);
}
