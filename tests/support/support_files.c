/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

int test_folder_setup(void **state)
{
    test_folder *folder = calloc(1, sizeof *folder);
    assert_non_null(folder);
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder->path, sizeof folder->path, "%s/kith-test-XXXXXX",
                   base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder->path));
    assert_int_equal(kith_ctx_create(NULL, &folder->ctx), KITH_OK);
    *state = folder;
    return 0;
}

static void each_entry(const test_folder *folder, int *count, int remove_them)
{
    DIR *dir = opendir(folder->path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        *count += 1;
        if (remove_them) {
            char path[1024];
            (void)snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
            (void)remove(path);
        }
    }
    (void)closedir(dir);
}

int test_folder_teardown(void **state)
{
    test_folder *folder = *state;
    int count = 0;
    each_entry(folder, &count, 1);
    (void)rmdir(folder->path);
    kith_ctx_free(folder->ctx);
    free(folder);
    return 0;
}

int test_folder_count(const test_folder *folder)
{
    int count = 0;
    each_entry(folder, &count, 0);
    return count;
}

const char *test_path(test_folder *folder, const char *name)
{
    char *path = folder->names[folder->next++ % 8];
    (void)snprintf(path, sizeof folder->names[0], "%.200s/%.100s", folder->path, name);
    return path;
}

const char *test_write(test_folder *folder, const char *name, const void *data, size_t bytes)
{
    const char *path = test_path(folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

unsigned char *test_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    (void)fclose(file);
    return data;
}

void test_failed(test_folder *folder, kith_status got, kith_status wanted, const char *path,
                 const char *text)
{
    const char *detail = kith_ctx_detail(folder->ctx);
    const size_t length = path != NULL ? strlen(path) : 0;
    const int starts = path == NULL || (strncmp(detail, path, length) == 0 &&
                                        strncmp(detail + length, ": ", 2) == 0);
    if (got != wanted || !starts || strstr(detail, text) == NULL || strchr(detail, '\n') != NULL) {
        fail_msg("wanted %s '%s: ... %s', got %s '%s'", kith_status_name(wanted),
                 path != NULL ? path : "", text, kith_status_name(got), detail);
    }
    print_message("  %s\n", path != NULL ? detail + length + 2 : detail);
}

void test_refused(test_folder *folder, char use, const char *path, kith_status wanted,
                  const char *text)
{
    kith_points *points = (kith_points *)folder;
    kith_result *result = (kith_result *)folder;
    if (use == 'p') {
        const kith_status status = kith_points_open(folder->ctx, path, NULL, &points);
        assert_null(points);
        test_failed(folder, status, wanted, path, text);
    } else {
        const kith_status status = kith_result_open(folder->ctx, path, &result);
        assert_null(result);
        test_failed(folder, status, wanted, path, text);
    }
}
