/* SPDX-License-Identifier: Apache-2.0
 * Installed modules have a folder of their own, with the library's binary interface in its name:
 * they are no libraries to link with, and two libkith of different interfaces can be installed
 * together. */
#define _GNU_SOURCE
#include "host/host_beside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool kin_host_beside(const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"", KIN_MODULE_FOLDER "/"};
    static const char here;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const int stem = slash != NULL ? (int)(slash - info.dli_fname) + 1 : 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && slash != NULL; i++) {
        const int length = snprintf(path, size, "%.*s%s%s", stem, info.dli_fname, folders[i], name);
        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}
