/* SPDX-License-Identifier: Apache-2.0
 * The tester is tested: this program always fails, and ctest must notice (cmake/tests.cmake). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void one_is_not_two(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_is_not_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
