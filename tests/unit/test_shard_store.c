/* SPDX-License-Identifier: Apache-2.0
 * A shard's file by itself: what a group leaves of its keys, and a disk that spoils what it is
 * given. */
#include "file/file_checksum.h"
#include "shard/shard_folder.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 40000, K = 7, ENTRIES = ROWS * K };

typedef struct lists {
    uint32_t ids[ENTRIES];
    double keys[ENTRIES];
    unsigned char shared[ROWS];
} lists;

static void root(const void *arg, const double *keys, int64_t count, float *distances)
{
    (void)arg;
    for (int64_t i = 0; i < count; i++) {
        distances[i] = (float)sqrt(keys[i]);
    }
}

static lists *make_lists(int every)
{
    lists *l = malloc(sizeof *l);
    assert_non_null(l);
    for (int i = 0; i < ENTRIES; i++) {
        l->ids[i] = i % 11 == 10 ? KITH_ID_NONE : (uint32_t)(i % ROWS);
        l->keys[i] = i + 1.0 / 3.0;
    }
    for (int i = 0; i < ROWS; i++) {
        l->shared[i] = every > 0 && i % every == 0;
    }
    return l;
}

static void begin(test_folder *folder, const int64_t *sizes, kin_shard_folder *work)
{
    const kin_shard_shape shape = {"a job\n", KITH_EUCLIDEAN, 1, ROWS, sizes, K, false};
    assert_int_equal(kin_ctx_begin(folder->ctx), KITH_OK);
    assert_int_equal(kin_shard_folder_open(folder->ctx, test_path(folder, "work"), false, work),
                     KITH_OK);
    assert_int_equal(kin_shard_folder_begin(work, &shape, true), KITH_OK);
}

static void store(test_folder *folder, kin_shard_folder *work, lists *l, bool brief)
{
    const kin_shard_lists tables = {.ids = l->ids, .keys = l->keys};
    const kin_shard_brief how = {.shared = l->shared, .convert = root};
    kin_shard_mark_done(work, (kin_shard_step){0, 0});
    assert_int_equal(kin_shard_store(folder->ctx, work, 0, 0, &tables, brief ? &how : NULL),
                     KITH_OK);
}

static void check_view(const kin_shard_view *view, const lists *l, int64_t shared)
{
    int64_t next = 0;
    assert_memory_equal(view->ids, l->ids, sizeof l->ids);
    for (int64_t i = 0; i < ENTRIES; i++) {
        assert_true(view->distances[i] == (float)sqrt(l->keys[i]));
    }
    for (int64_t i = 0; i < ROWS; i++) {
        if (l->shared[i] != 0) {
            assert_memory_equal(view->keys + next * K, l->keys + i * K, K * sizeof *l->keys);
            next += 1;
        }
    }
    assert_int_equal(next, shared);
}

static void what_a_group_leaves(void **state)
{
    test_folder *folder = *state;
    const int64_t sizes[1] = {ROWS};
    print_message("distances of all rows, keys of none, of some or of all; other keys than the "
                  "groups have: refused\n");
    for (int every = 0; every < 4; every++) {
        kin_shard_folder work;
        kin_shard_view view;
        const int64_t shared = every > 0 ? (ROWS + every - 1) / every : 0;
        lists *l = make_lists(every);
        begin(folder, sizes, &work);
        store(folder, &work, l, true);
        assert_int_equal(work.bytes_written, ENTRIES * 8 + shared * K * 8);
        assert_int_equal(kin_shard_view_open(folder->ctx, &work, 0, shared, &view), KITH_OK);
        check_view(&view, l, shared);
        kin_shard_view_close(&view);
        assert_int_equal(kin_shard_view_open(folder->ctx, &work, 0, shared + 1, &view),
                         KITH_E_FORMAT);
        print_message("  %s\n", folder->ctx->failure.detail);
        kin_shard_view_close(&view);
        kin_shard_folder_empty(&work);
        kin_shard_folder_close(&work);
        free(l);
    }
}

static void spoil(test_folder *folder, const kin_shard_folder *work)
{
    char name[64];
    char text[KIN_SHARD_NAME_BYTES];
    size_t bytes = 0;
    kin_shard_name_print((kin_shard_name){0, work->versions[0]}, text);
    (void)snprintf(name, sizeof name, "work/%s", text);
    unsigned char *data = test_read(test_path(folder, name), &bytes);
    data[bytes / 2] ^= 1;
    (void)test_write(folder, name, data, bytes);
    free(data);
}

static void a_disk_that_spoils(void **state)
{
    test_folder *folder = *state;
    kin_shard_folder work;
    lists *l = make_lists(0);
    lists *read = make_lists(0);
    const kin_shard_lists into = {.ids = read->ids, .keys = read->keys};
    print_message("a file that is damaged is made again; damaged again, it ends the job\n");
    begin(folder, NULL, &work);
    for (int i = 0; i < 2; i++) {
        store(folder, &work, l, false);
        assert_int_equal(kin_shard_load(folder->ctx, &work, 0, &into), KITH_OK);
        spoil(folder, &work);
        assert_int_equal(kin_shard_load(folder->ctx, &work, 0, &into), KITH_E_FORMAT);
        kin_forgive(folder->ctx);
        assert_int_equal(kin_shard_lose(&work, 0, "damaged"), i == 0 ? KITH_OK : KITH_E_IO);
        assert_false(kin_shard_is_done(&work, (kin_shard_step){0, 0}));
    }
    print_message("  %s\n", folder->ctx->failure.detail);
    assert_non_null(
        strstr(folder->ctx->failure.detail, "shard-00000.000000.kith: was damaged again"));
    assert_non_null(strstr(folder->ctx->failure.detail, "another disk"));
    kin_shard_folder_empty(&work);
    kin_shard_folder_close(&work);
    free(read);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_group_leaves, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_spoils, test_folder_setup,
                                        test_folder_teardown)};
    return cmocka_run_group_tests_name("shard_store", tests, NULL, NULL);
}
