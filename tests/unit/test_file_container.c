/* SPDX-License-Identifier: Apache-2.0
 * The .kith container: what is put in comes out, aligned, and damage is noticed. */
#include "file/file_checksum.h"
#include "file/file_container.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

static const kin_container_header header = {.kind = KITH_KIND_EXACT_INDEX,
                                            .dtype = KITH_F32,
                                            .metric = KITH_CORRELATION,
                                            .exact = KITH_CERTIFIED,
                                            .rows = 3,
                                            .cols = 5,
                                            .k = 7,
                                            .corpus_rows = 11,
                                            .recall = -1.0,
                                            .recall_at = 13,
                                            .points = {11, 2, KITH_U8, 77}};

static const char *write_sample(test_folder *folder, kin_section sections[4], float data[3 * 8])
{
    static const kith_matrix strided = {NULL, 3, 32, 5, KITH_F32};
    static kith_matrix matrix;
    matrix = strided;
    matrix.data = data;
    for (int i = 0; i < 24; i++) {
        data[i] = (float)i;
    }
    sections[0] = (kin_section){.tag = KIN_TAG_POINTS, .matrix = &matrix};
    sections[1] = (kin_section){.tag = "text", .data = "abc", .bytes = 3};
    sections[2] = (kin_section){.tag = "nothing", .data = "", .bytes = 0};
    sections[3] = (kin_section){.tag = "a_tag_of_fifte", .data = data, .bytes = 96};
    const char *path = test_path(folder, "c.kith");
    assert_int_equal(kin_container_write(folder->ctx, path, &header, sections, 4), KITH_OK);
    return path;
}

static void sections_come_back(void **state)
{
    test_folder *folder = *state;
    kin_section sections[4];
    float data[24];
    kin_container *c = NULL;
    const void *bytes = NULL;
    uint64_t count = 0;
    print_message("sections come back at multiples of 64 bytes, a strided matrix contiguous:\n");
    const char *path = write_sample(folder, sections, data);
    assert_int_equal(kin_container_open(folder->ctx, path, true, &c), KITH_OK);
    assert_memory_equal(&c->header, &header, sizeof header);
    assert_int_equal(kin_container_section(folder->ctx, c, KIN_TAG_POINTS, &bytes, &count),
                     KITH_OK);
    assert_int_equal(count, 60);
    assert_int_equal((uintptr_t)bytes % 64, 0);
    for (int row = 0; row < 3; row++) {
        assert_memory_equal((const char *)bytes + (ptrdiff_t)20 * row, data + (ptrdiff_t)8 * row,
                            20);
    }
    assert_int_equal(kin_container_section(folder->ctx, c, "text", &bytes, &count), KITH_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(kin_container_section(folder->ctx, c, "nothing", &bytes, &count), KITH_OK);
    assert_int_equal(count, 0);
    assert_int_equal(kin_container_table(folder->ctx, c, "a_tag_of_fifte", 4, 24, &bytes), KITH_OK);
    assert_memory_equal(bytes, data, 96);
    assert_true(kin_container_has(c, "text"));
    assert_false(kin_container_has(c, "texts"));
    test_failed(folder, kin_container_table(folder->ctx, c, "text", 2, 2, &bytes), KITH_E_FORMAT,
                path, "its section 'text' has 3 bytes, its header announces 4");
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    test_failed(folder, kin_container_section(folder->ctx, c, "absent", &bytes, &count),
                KITH_E_FORMAT, path, "has no section 'absent'");
    kin_container_close(c);
    kin_container_close(NULL);
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    assert_int_equal(
        kin_container_write(folder->ctx, path, &header, sections, KIN_SECTIONS_MAX + 1),
        KITH_E_INTERNAL);
}

/* Every section is read, and the first failure given back. */
static kith_status read_all(kith_ctx *ctx, const char *path)
{
    static const char *const tags[] = {KIN_TAG_POINTS, "text", "nothing", "a_tag_of_fifte"};
    kin_container *c = NULL;
    kith_status status = kin_container_open(ctx, path, true, &c);
    for (int i = 0; i < 4 && status == KITH_OK; i++) {
        const void *bytes = NULL;
        uint64_t count = 0;
        status = kin_container_section(ctx, c, tags[i], &bytes, &count);
    }
    kin_container_close(c);
    return status;
}

static void damage_is_noticed(void **state)
{
    test_folder *folder = *state;
    kin_section sections[4];
    float data[24];
    size_t bytes = 0;
    unsigned char *file = test_read(write_sample(folder, sections, data), &bytes);
    print_message("each bit of %zu bytes turned, each length cut, one byte more: always noticed\n",
                  bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const char *path = test_write(folder, "d.kith", file, bytes);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(read_all(folder->ctx, path), KITH_E_FORMAT);
    }
    for (size_t length = 0; length <= bytes; length++) {
        const char *path = test_write(folder, "d.kith", file, length);
        assert_int_equal(read_all(folder->ctx, path), length == bytes ? KITH_OK : KITH_E_FORMAT);
    }
    file[bytes] = 0;
    assert_int_equal(read_all(folder->ctx, test_write(folder, "d.kith", file, bytes + 1)),
                     KITH_E_FORMAT);
    file[8] = 2;
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    const char *path = test_write(folder, "d.kith", file, bytes);
    test_failed(folder, read_all(folder->ctx, path), KITH_E_FORMAT, path,
                "is .kith of format 2, this library reads format 1");
    free(file);
}

static void checksum_is_of_the_bytes(void **state)
{
    (void)state;
    unsigned char data[200];
    for (int i = 0; i < 200; i++) {
        data[i] = (unsigned char)(i * 7);
    }
    print_message("the checksum does not depend on how the bytes arrive, and has not changed:\n");
    for (uint64_t length = 0; length <= 200; length++) {
        const uint64_t whole = kin_checksum_of(data, length);
        for (uint64_t step = 1; step < 70; step += 13) {
            kin_checksum sum;
            kin_checksum_begin(&sum);
            for (uint64_t at = 0; at < length; at += step) {
                kin_checksum_add(&sum, data + at, at + step < length ? step : length - at);
            }
            assert_true(kin_checksum_end(&sum) == whole);
        }
        assert_true(length == 0 || kin_checksum_of(data, length - 1) != whole);
    }
    /* Files of format 1 stay readable only as long as these two hold. */
    assert_int_equal(kin_checksum_of("", 0), 0x7efec6920b1514f8u);
    assert_int_equal(kin_checksum_of(data, 200), 0x04e5e8c901439d28u);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(sections_come_back), TEST(damage_is_noticed),
                                       cmocka_unit_test(checksum_is_of_the_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
