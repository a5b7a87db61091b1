/* SPDX-License-Identifier: Apache-2.0
 * Bytes that several threads bring to a file whose places were reserved, and lost. */
#include "base/base_ctx.h"
#include "file/file_atomic.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

static void make_ctx(test_folder *folder)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = 4;
    kith_ctx_free(folder->ctx);
    assert_int_equal(kith_ctx_create(&params, &folder->ctx), KITH_OK);
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
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
    make_ctx(folder);
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

/* Somebody cuts the file; full: and what it lost is not to be had again. */
static kith_status write_cut(test_folder *folder, const char *path, const unsigned char *data,
                             bool full)
{
    kin_writer writer;
    struct rlimit before;
    assert_int_equal(kin_writer_open(folder->ctx, path, &writer), KITH_OK);
    assert_int_equal(kin_writer_skip(&writer, BYTES), KITH_OK);
    assert_int_equal(kin_writer_reserve(&writer, BYTES), KITH_OK);
    assert_int_equal(ftruncate(writer.file, BYTES / 2), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit less = before;
    less.rlim_cur = full ? BYTES / 2 : less.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    const kith_status status = kin_writer_patch_wide(&writer, 0, data, BYTES);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    return kin_writer_close(&writer, status);
}

static void lost_places(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "cut");
    unsigned char *expected = make_bytes();
    size_t bytes = 0;
    make_ctx(folder);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(write_cut(folder, path, expected, true), KITH_E_IO);
    assert_int_equal(test_folder_count(folder), 0);
    assert_int_equal(write_cut(folder, path, expected, false), KITH_OK);
    unsigned char *found = test_read(path, &bytes);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(found, expected, BYTES);
    free(found);
    free(expected);
    print_message("a file that is cut while it is written: no signal, all bytes or an error\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bytes, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(lost_places, test_folder_setup, test_folder_teardown)};
    return cmocka_run_group_tests_name("file_reserve", tests, NULL, NULL);
}
