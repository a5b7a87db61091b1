/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_corpora.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_corpus(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strstr(name, "labels") == NULL && strstr(name, "_query") == NULL &&
           (strcmp(dot, ".fbin") == 0 || strcmp(dot, ".u8bin") == 0 || strcmp(dot, ".i8bin") == 0);
}

void test_need_corpora(void)
{
    const char *folder = getenv("KITH_DATA");
    if (folder == NULL || folder[0] == '\0') {
        printf("real data: skipped, KITH_DATA is not set\n");
        skip();
    }
}

void test_each_corpus(void (*fn)(const char *path, const char *name, void *arg), void *arg)
{
    const char *folder = getenv("KITH_DATA");
    assert_non_null(folder);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (is_corpus(entry->d_name)) {
            char path[1024];
            (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            fn(path, entry->d_name, arg);
        }
    }
    (void)closedir(dir);
}
