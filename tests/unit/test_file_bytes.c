/* SPDX-License-Identifier: Apache-2.0
 * Files hold what was put into them and nothing else of the process: memory that is filled with one
 * byte or with another before kith gets it makes the same file. */
#include "host/host_cpu.h"
#include "support/support_files.h"
#include "support/support_shapes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 150, COLS = 5, FILLS = 2 };
static const unsigned char fills[FILLS] = {0x11, 0xee};

static void *allocate(void *arg, size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block != NULL) {
        memset(block, *(const unsigned char *)arg, bytes);
    }
    return block;
}

static void release(void *arg, void *block, size_t bytes)
{
    (void)arg;
    (void)bytes;
    free(block);
}

/* False where this processor has no such instructions. */
static bool save(test_folder *folder, const test_rows *rows, const char *isa,
                 kith_index_params params, int fill, char *path, size_t room)
{
    unsigned char byte = fills[fill];
    char name[32];
    kith_index *corpus = NULL;
    kith_ctx *ctx = NULL;
    kith_ctx_params own = kith_ctx_params_default();
    own.isa = isa;
    own.device = "cpu";
    own.allocate = allocate;
    own.release = release;
    own.allocate_arg = &byte;
    (void)snprintf(name, sizeof name, "corpus-%d.kith", fill);
    (void)snprintf(path, room, "%s", test_path(folder, name));
    assert_int_equal(kith_ctx_create(&own, &ctx), KITH_OK);
    const kith_status status = kith_index_create(ctx, &rows->matrix, &params, &corpus);
    if (status == KITH_OK) {
        assert_int_equal(kith_index_save(ctx, corpus, path), KITH_OK);
    }
    assert_true(status == KITH_OK || status == KITH_E_UNSUPPORTED);
    kith_index_free(corpus);
    kith_ctx_free(ctx);
    return status == KITH_OK;
}

static int compare(test_folder *folder, const test_rows *rows, const char *isa,
                   kith_index_params params)
{
    unsigned char *data[FILLS] = {NULL, NULL};
    size_t bytes[FILLS];
    char path[512];
    int saved = 0;
    for (int i = 0; i < FILLS && save(folder, rows, isa, params, i, path, sizeof path); i++) {
        data[i] = test_read(path, &bytes[i]);
        saved += 1;
    }
    if (saved == FILLS) {
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(data[0], data[1], bytes[0]);
    }
    free(data[0]);
    free(data[1]);
    return saved;
}

static void nothing_else(void **state)
{
    test_folder *folder = *state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_CORRELATION};
    static const kith_dtype types[] = {KITH_F32, KITH_U8};
    uint64_t seed = 9;
    int compared = 0;
    for (int t = 0; t < 2; t++) {
        test_rows rows = test_rows_make(types[t], ROWS, COLS, 0);
        test_shape_fill(&rows, SHAPE_COPIES, false, &seed);
        for (int i = 0; i < KIN_ISA_COUNT * 4; i++) {
            kith_index_params params = kith_index_params_default();
            params.metric = i % 4 < 3 ? metrics[i % 4] : KITH_EUCLIDEAN;
            params.method = i % 4 < 3 ? KITH_METHOD_EXACT : KITH_METHOD_TREE;
            compared += compare(folder, &rows, kin_isa_name((kin_isa)(i / 4)), params) / FILLS;
        }
        test_rows_free(&rows);
    }
    assert_true(compared >= 8);
    printf("%d corpora and trees: their files do not depend on what memory held before\n",
           compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_else, test_folder_setup, test_folder_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
