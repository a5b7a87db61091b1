/* SPDX-License-Identifier: Apache-2.0
 * Which GPUs each rank of kith-mpi gets: of all, of a list, of those that can be used, by any
 * number of ranks; what is no list is left to who reads it. The GPUs are reference
 * devices (tests/reference). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../cli_mpi/mpi_device.h"
#include "support/support_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 5 };

static int start(void **state)
{
    (void)state;
    test_reference_use(GPUS);
    return setenv("KITH_REFERENCE_BYTES", "1073741824", 1);
}

/* "name xSHARERS" of each rank. */
static void is_divided(const char *given, int ranks, const char *expected)
{
    char text[1024] = "";
    for (int rank = 0; rank < ranks; rank++) {
        mpi_device own;
        mpi_device_divide(given, rank, ranks, &own);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s x%d",
                       rank > 0 ? " | " : "", own.name, own.sharers);
    }
    assert_string_equal(text, expected);
}

static void gpus_are_divided(void **state)
{
    (void)state;
    is_divided("cuda", 2, "cuda:0 x1 | cuda:1 x1");
    is_divided(NULL, 2, "cuda:0 x1 | cuda:1 x1");
    is_divided("auto", 7,
               "cuda:0 x2 | cuda:1 x2 | cuda:2 x1 | cuda:3 x1 | cuda:4 x1 | cuda:0 x2 | cuda:1 x2");
    is_divided("cuda:all", 1, "cuda:0,1,2,3,4 x1");
    is_divided("cuda:all", 2, "cuda:0,1 x1 | cuda:2,3,4 x1");
    is_divided("cuda:all", 6,
               "cuda:0 x2 | cuda:1 x1 | cuda:2 x1 | cuda:3 x1 | cuda:4 x1 | cuda:0 x2");
    is_divided("cuda:4,0,9", 2, "cuda:4 x1 | cuda:0,9 x1");
    is_divided("cuda:3", 3, "cuda:3 x3 | cuda:3 x3 | cuda:3 x3");
    is_divided("cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 1,
               "cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 x1");
    printf("%d GPUs and lists of them are divided evenly\n", GPUS);
}

static void others_are_left(void **state)
{
    static const char *const words[] = {"cpu",      "gpu",      "cuda:",   "cuda:x",
                                        "cuda:1,",  "cuda:1,1", "cuda:-1", "cuda:0,1024",
                                        "cuda:1;2", "cuda: 1"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        is_divided(words[i], 1, " x0");
    }
    printf("what is no list of GPUs stands as it was given\n");
}

/* A GPU that is not there says nothing. */
static void memory_is_divided(void **state)
{
    mpi_device own;
    (void)state;
    mpi_device_divide("cuda:1", 0, 1, &own);
    const uint64_t whole = mpi_device_share(&own);
    mpi_device_divide("cuda:1", 2, 3, &own);
    assert_true(whole > (512 << 20) && whole < (1024 << 20));
    assert_int_equal(mpi_device_share(&own), whole / 3);
    mpi_device_divide("cuda:all", 1, 2, &own);
    assert_int_equal(mpi_device_share(&own), whole);
    mpi_device_divide("cuda:0,7", 0, 1, &own);
    assert_int_equal(mpi_device_share(&own), 0);
    mpi_device_divide("cpu", 0, 1, &own);
    assert_int_equal(mpi_device_share(&own), 0);
    printf("three ranks of one GPU may take a third of its memory each\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_divided),
        cmocka_unit_test(others_are_left),
        cmocka_unit_test(memory_is_divided),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
