/* SPDX-License-Identifier: Apache-2.0
 * Written whole or not at all, whatever the system does in between. */
#define _GNU_SOURCE
#include "file/file_atomic.h"
#include "support/support_disk.h"
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static kith_status save(test_folder *folder, const char *path, int64_t rows)
{
    static float data[1 << 20];
    for (int i = 0; i < 1 << 20; i++) {
        data[i] = (float)(i % 1000);
    }
    const kith_matrix m = {data, rows, 0, 64, KITH_F32};
    return kith_points_save(folder->ctx, path, &m);
}

static void check(test_folder *folder, const char *path, int64_t rows)
{
    kith_points *points = NULL;
    if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    assert_int_equal(kith_points_matrix(points)->rows, rows);
    const float *values = kith_points_matrix(points)->data;
    for (int64_t i = 0; i < rows * 64; i++) {
        assert_true(values[i] == (float)(i % 1000));
    }
    kith_points_free(points);
}

static void short_and_interrupted(void **state)
{
    test_folder *folder = *state;
    const char *names[] = {"s.fbin", "s.kith"};
    print_message("short writes and EINTR at every second call: the file is right all the same\n");
    for (int i = 0; i < 2; i++) {
        const char *path = test_path(folder, names[i]);
        test_disk_works();
        test_disk.interrupt = 1;
        test_disk.most = 100003;
        assert_int_equal(save(folder, path, 16000), KITH_OK);
        test_disk_works();
        check(folder, path, 16000);
    }
}

static void fails_at_each_call(void **state)
{
    test_folder *folder = *state;
    static const int errors[] = {ENOSPC, EIO};
    const char *names[] = {"f.fbin", "f.kith"};
    print_message("the n-th write or fsync fails: the old file stays, nothing is left behind\n");
    for (int i = 0; i < 4; i++) {
        const char *path = test_path(folder, names[i / 2]);
        test_disk_works();
        assert_int_equal(save(folder, path, 3), KITH_OK);
        const int before = test_folder_count(folder);
        int failures = 0;
        kith_status status = KITH_E_IO;
        while (status != KITH_OK) {
            test_disk.calls = 0;
            test_disk.error = errors[i % 2];
            test_disk.fail_at = failures + 1;
            status = save(folder, path, 16000);
            const int calls = test_disk.calls;
            test_disk_works();
            if (status != KITH_OK) {
                assert_int_equal(status, KITH_E_IO);
                /* The folder's own sync comes when the file is already there. */
                const int late =
                    strstr(kith_ctx_detail(folder->ctx), "folder cannot be synced") != NULL;
                if (failures == 0) {
                    test_failed(folder, status, KITH_E_IO, path,
                                i % 2 == 0 ? "No space left on device (free some space" : "error");
                }
                check(folder, path, late ? 16000 : 3);
                failures += 1;
                assert_true(failures < 100 && calls > 0);
            }
            assert_int_equal(test_folder_count(folder), before);
        }
        assert_true(failures >= 4);
        print_message("  %d places\n", failures);
    }
}

static void file_size_limit(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "l.fbin");
    print_message("the kernel's own refusal (a limit of the file's size):\n");
    test_disk_works();
    assert_int_equal(save(folder, path, 3), KITH_OK);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {1 << 20, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const kith_status status = save(folder, path, 16000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    test_failed(folder, status, KITH_E_IO, path, "File too large");
    check(folder, path, 3);
    assert_int_equal(test_folder_count(folder), 1);
}

static void killed_in_the_middle(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "k.fbin");
    test_disk_works();
    assert_int_equal(save(folder, path, 3), KITH_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kin_writer writer;
        char block[4096] = {0};
        (void)kin_writer_open(folder->ctx, path, &writer);
        for (int i = 0; i < 1000; i++) {
            (void)kin_writer_put(&writer, block, sizeof block);
        }
        (void)kill(getpid(), SIGKILL);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    check(folder, path, 3);
    print_message("kill -9 while writing: the old file stays, %d entries in its folder\n",
                  test_folder_count(folder));
}

/* One of the processes below, which is killed while it replaces the file, or some time before. */
static void replace_for_ever(test_folder *folder, const char *path)
{
    for (int64_t i = 0;; i++) {
        if (save(folder, path, 1 + i % 5) != KITH_OK) {
            _exit(1);
        }
    }
}

static void replaced_by_many(void **state)
{
    enum { PROCESSES = 6, TURNS = 20 };
    test_folder *folder = *state;
    const char *path = test_path(folder, "many.fbin");
    pid_t children[PROCESSES];
    int left = 0;
    test_disk_works();
    test_disk.lazy = 1;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                replace_for_ever(folder, path);
            }
        }
        (void)usleep(20000);
        for (int i = 0; i < PROCESSES; i++) {
            int how = 0;
            assert_int_equal(kill(children[i], SIGKILL), 0);
            assert_int_equal(waitpid(children[i], &how, 0), children[i]);
            assert_true(WIFSIGNALED(how));
        }
        left += test_folder_count(folder) - 1;
        assert_int_equal(save(folder, path, 3), KITH_OK);
        check(folder, path, 3);
        assert_int_equal(test_folder_count(folder), 1);
    }
    print_message("%d processes replace one file and are killed, %d times: none fails, and of what "
                  "they left (%d names) nothing stays\n",
                  (int)PROCESSES, (int)TURNS, left);
}

static void links_and_rights(void **state)
{
    test_folder *folder = *state;
    char target[320];
    (void)snprintf(target, sizeof target, "%s", test_path(folder, "target.fbin"));
    test_disk_works();
    print_message(
        "a link's target is replaced, not the link; rights are kept; a new file has umask's\n");
    assert_int_equal(save(folder, target, 3), KITH_OK);
    struct stat info;
    const mode_t mask = umask(027);
    assert_int_equal(save(folder, test_path(folder, "new.fbin"), 3), KITH_OK);
    (void)umask(mask);
    assert_int_equal(stat(test_path(folder, "new.fbin"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    assert_int_equal(chmod(target, 0604), 0);
    const char *link = test_path(folder, "link.fbin");
    assert_int_equal(symlink("target.fbin", link), 0);
    assert_int_equal(save(folder, link, 5), KITH_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0604);
    check(folder, target, 5);
    const char *loose = test_path(folder, "loose.fbin");
    assert_int_equal(symlink("gone/away.fbin", loose), 0);
    test_failed(folder, save(folder, loose, 3), KITH_E_IO, loose,
                "symbolic link that leads nowhere");
}

static int stop(void *arg, const char *phase, double done, double total)
{
    (void)arg;
    assert_string_equal(phase, "write");
    assert_true(done <= total);
    return 1;
}

static void cancelled(void **state)
{
    test_folder *folder = *state;
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *plain = folder->ctx;
    params.progress = stop;
    test_disk_works();
    print_message("cancelled by the progress function: no file\n");
    assert_int_equal(kith_ctx_create(&params, &folder->ctx), KITH_OK);
    test_failed(folder, save(folder, test_path(folder, "c.fbin"), 16000), KITH_E_CANCELLED, NULL,
                "stopped");
    assert_int_equal(test_folder_count(folder), 0);
    kith_ctx_free(folder->ctx);
    folder->ctx = plain;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(short_and_interrupted),
                                       TEST(fails_at_each_call),
                                       TEST(file_size_limit),
                                       TEST(killed_in_the_middle),
                                       TEST(replaced_by_many),
                                       TEST(links_and_rights),
                                       TEST(cancelled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
