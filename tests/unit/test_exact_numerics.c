/* SPDX-License-Identifier: Apache-2.0
 * Data on which wrong engines give wrong answers, on every instruction set here. */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_numerics);
}
