/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { POINTS = KIN_POINTS_IN | KIN_POINTS_OUT, ALL = POINTS | KIN_RESULT };

static const kin_format_traits format_table[KIN_FORMAT_COUNT] = {
    [KIN_FORMAT_NONE] = {"", NULL, 0, {'\0', 0}},
    [KIN_FORMAT_FVECS] = {"fvecs", NULL, POINTS, {'f', 4}},
    [KIN_FORMAT_BVECS] = {"bvecs", NULL, POINTS, {'u', 1}},
    [KIN_FORMAT_IVECS] = {"ivecs", NULL, ALL, {'i', 4}},
    [KIN_FORMAT_FBIN] = {"fbin", NULL, POINTS, {'f', 4}},
    [KIN_FORMAT_U8BIN] = {"u8bin", NULL, POINTS, {'u', 1}},
    [KIN_FORMAT_I8BIN] = {"i8bin", NULL, POINTS, {'i', 1}},
    [KIN_FORMAT_IBIN] = {"ibin", NULL, ALL, {'i', 4}},
    [KIN_FORMAT_NPY] = {"npy", NULL, POINTS, {'\0', 0}},
    [KIN_FORMAT_HDF5] = {"hdf5", "h5", KIN_POINTS_IN, {'\0', 0}},
    [KIN_FORMAT_CSV] = {"csv", NULL, POINTS, {'f', 8}},
    [KIN_FORMAT_TSV] = {"tsv", NULL, POINTS, {'f', 8}},
    [KIN_FORMAT_KITH] = {"kith", NULL, ALL, {'\0', 0}},
    [KIN_FORMAT_NPZ] = {"npz", NULL, KIN_RESULT, {'\0', 0}},
    [KIN_FORMAT_KNN] = {"knn", NULL, KIN_RESULT, {'\0', 0}},
};

const kin_format_traits *kin_format_get_traits(kin_format format)
{
    return &format_table[format];
}

static bool ends_in(const char *path, size_t length, const char *extension)
{
    const size_t bytes = extension != NULL ? strlen(extension) : 0;
    return bytes > 0 && length > bytes + 1 && path[length - bytes - 1] == '.' &&
           strncasecmp(path + length - bytes, extension, bytes) == 0;
}

const char *kin_format_dataset(const char *path)
{
    const kin_format_traits *hdf5 = &format_table[KIN_FORMAT_HDF5];
    for (const char *at = strchr(path, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const size_t length = (size_t)(at - path);
        if (ends_in(path, length, hdf5->name) || ends_in(path, length, hdf5->extension)) {
            return at;
        }
    }
    return NULL;
}

kin_format kin_format_of(const char *path, unsigned uses)
{
    if ((uses & KIN_POINTS_IN) != 0 && kin_format_dataset(path) != NULL) {
        return KIN_FORMAT_HDF5;
    }
    const size_t length = strlen(path);
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].uses & uses) != 0 &&
            (ends_in(path, length, format_table[i].name) ||
             ends_in(path, length, format_table[i].extension))) {
            return (kin_format)i;
        }
    }
    return KIN_FORMAT_NONE;
}

static const char *use_name(unsigned uses)
{
    if (uses == KIN_POINTS_IN) {
        return "points that kith reads";
    }
    if (uses == KIN_POINTS_OUT) {
        return "points that kith writes";
    }
    return uses == KIN_RESULT ? "neighbours" : "a file that kith knows";
}

kith_status kin_format_find(kith_ctx *ctx, const char *path, unsigned uses, kin_format *format)
{
    *format = kin_format_of(path, uses);
    if (*format != KIN_FORMAT_NONE) {
        return KITH_OK;
    }
    if ((uses & KIN_POINTS_IN) != 0 && access(path, F_OK) != 0) {
        return kin_fail_at(ctx, KITH_E_IO, kin_at_file(path),
                           "cannot be opened: %s (check the path)", strerror(errno));
    }
    char known[256] = "";
    size_t used = 0;
    for (int i = 1; i < KIN_FORMAT_COUNT; i++) {
        if ((format_table[i].uses & uses) != 0) {
            used +=
                (size_t)snprintf(known + used, sizeof known - used, " .%s", format_table[i].name);
        }
    }
    return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                       "the extension is not one of %s (there are:%s)", use_name(uses), known);
}
