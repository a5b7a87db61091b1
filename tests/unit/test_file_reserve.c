/* SPDX-License-Identifier: Apache-2.0
 * Bytes that several threads bring to a file whose places were reserved. */
#include "base/base_ctx.h"
#include "file/file_atomic.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 11 << 20 };

static unsigned char *make_bytes(void)
{
    unsigned char *data = malloc(BYTES);
    assert_non_null(data);
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = (unsigned char)(i * 2654435761u >> 20);
    }
    return data;
}

/* A head, then a gap that is filled last, a tail. */
static bool write_file(test_folder *folder, const char *path, uint64_t skew, bool reserves)
{
    kin_writer writer;
    unsigned char *data = make_bytes();
    const uint64_t gap = BYTES - 2 * skew;
    assert_int_equal(kin_writer_open(folder->ctx, path, &writer), KITH_OK);
    assert_int_equal(kin_writer_put(&writer, data, skew), KITH_OK);
    assert_int_equal(kin_writer_skip(&writer, gap), KITH_OK);
    assert_int_equal(kin_writer_put(&writer, data + skew + gap, skew), KITH_OK);
    if (reserves) {
        assert_int_equal(kin_writer_sync(&writer), KITH_OK);
        assert_int_equal(kin_writer_reserve(&writer, BYTES), KITH_OK);
    }
    const bool wide = writer.reserved;
    assert_int_equal(kin_writer_patch_wide(&writer, skew, data + skew, gap), KITH_OK);
    kin_writer_urge(&writer, skew, gap);
    assert_int_equal(kin_writer_close(&writer, KITH_OK), KITH_OK);
    free(data);
    return wide;
}

static void same_bytes(void **state)
{
    test_folder *folder = *state;
    const uint64_t skews[] = {0, 1, 4096, 4097, 123457};
    unsigned char *expected = make_bytes();
    int wide = 0;
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = 4;
    kith_ctx_free(folder->ctx);
    assert_int_equal(kith_ctx_create(&params, &folder->ctx), KITH_OK);
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    for (size_t i = 0; i < 10; i++) {
        const char *path = test_path(folder, "file");
        size_t bytes = 0;
        wide += write_file(folder, path, skews[i / 2], i % 2 == 1);
        unsigned char *found = test_read(path, &bytes);
        assert_int_equal(bytes, BYTES);
        assert_memory_equal(found, expected, BYTES);
        free(found);
    }
    print_message("bytes at any offset, reserved or not: as they were given; %d of 5 files through "
                  "a mapping\n",
                  wide);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bytes, test_folder_setup, test_folder_teardown)};
    return cmocka_run_group_tests_name("file_reserve", tests, NULL, NULL);
}
