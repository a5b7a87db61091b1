/* SPDX-License-Identifier: Apache-2.0
 * The same bytes on every instruction set, with 1, 2 and 5 threads; real data with KITH_DATA. */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_same_bytes);
}
