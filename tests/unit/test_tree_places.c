/* SPDX-License-Identifier: Apache-2.0
 * Haversine by the tree, on every instruction set (support/cases_places.c). */
#include "support/cases.h"

int main(void)
{
    return test_suite_run(&test_suite_places);
}
