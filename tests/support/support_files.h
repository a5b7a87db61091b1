/* SPDX-License-Identifier: Apache-2.0
 * Files for tests, in a folder of their own that is removed at the end. */
#ifndef SUPPORT_FILES_H
#define SUPPORT_FILES_H

#include "kith/kith.h"

typedef struct test_folder {
    kith_ctx *ctx;
    char path[256];
    char names[8][320]; /* what test_path gave out last */
    int next;
} test_folder;

/* cmocka's setup and teardown: *state is a test_folder. */
int test_folder_setup(void **state);
int test_folder_teardown(void **state);

/* FOLDER/name; valid for eight more calls. */
const char *test_path(test_folder *folder, const char *name);
/* Writes a file of these bytes, without any of the library's code. */
const char *test_write(test_folder *folder, const char *name, const void *data, size_t bytes);
/* The whole file, to be freed by the caller. */
unsigned char *test_read(const char *path, size_t *bytes);
/* How many entries the folder has. */
int test_folder_count(const test_folder *folder);

/* The call failed with this status, and what the context says starts with "path: " (path NULL:
 * with anything) and holds the text. */
void test_failed(test_folder *folder, kith_status got, kith_status wanted, const char *path,
                 const char *text);
/* The same for kith_points_open and kith_result_open, by use 'p' or 'r'. */
void test_refused(test_folder *folder, char use, const char *path, kith_status wanted,
                  const char *text);

#endif
