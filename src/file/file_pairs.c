/* SPDX-License-Identifier: Apache-2.0
 *
 * How many pairs there are is known at the end: .npy gets a header of a number with all the digits
 * that there can be, which is as long as the one that takes its place. */
#include "file/file_result.h"

#include "base/base_try.h"
#include "file/file_npy.h"
#include "file/file_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

static const char descr[] = "[('i','<u4'),('j','<u4'),('distance','<f8')]";

typedef struct item {
    uint32_t i;
    uint32_t j;
    double distance;
} item;
_Static_assert(sizeof(item) == 16, "what descr says");

static kith_status find_kind(kith_ctx *ctx, const char *path, kin_pairs_file *file)
{
    const char *ending = strrchr(path, '.');
    if (strcmp(path, "-") == 0 || (ending != NULL && strcasecmp(ending, ".csv") == 0)) {
        file->separator = ',';
    } else if (ending != NULL && strcasecmp(ending, ".tsv") == 0) {
        file->separator = '\t';
    } else if (ending == NULL || strcasecmp(ending, ".npy") != 0) {
        return kin_fail_at(ctx, KITH_E_ARGUMENT, kin_at_file(path),
                           "pairs are written as .npy, .csv or .tsv (give one of these "
                           "extensions)");
    }
    return KITH_OK;
}

static kith_status put_head(kin_pairs_file *file)
{
    char head[KIN_NPY_HEADER_MAX];
    if (file->separator == 0) {
        file->head_bytes = kin_npy_header(head, descr, 1, INT64_MAX, 0);
        return kin_writer_put(&file->writer, head, file->head_bytes);
    }
    return kin_writer_print(&file->writer, "i%cj%cdistance\n", file->separator, file->separator);
}

kith_status kin_pairs_file_open(kith_ctx *ctx, const char *path, kin_pairs_file *file)
{
    *file = (kin_pairs_file){.count = 0};
    KIN_TRY(find_kind(ctx, path, file));
    KIN_TRY(file->separator != 0 ? kin_writer_open_text(ctx, path, &file->writer)
                                 : kin_writer_open(ctx, path, &file->writer));
    const kith_status status = put_head(file);
    return status == KITH_OK ? KITH_OK : kin_writer_close(&file->writer, status);
}

static kith_status put_line(kin_pairs_file *file, item one)
{
    char text[64];
    const int ids = snprintf(text, sizeof text, "%" PRIu32 "%c%" PRIu32 "%c", one.i,
                             file->separator, one.j, file->separator);
    int length =
        ids + kin_number_print(text + ids, sizeof text - (size_t)ids - 1, one.distance, false);
    text[length++] = '\n';
    return kin_writer_put(&file->writer, text, (uint64_t)length);
}

kith_status kin_pairs_file_put(kin_pairs_file *file, const kith_pairs *pairs,
                               const double *distances)
{
    const kin_number_locale locale = kin_number_enter();
    kith_status status = KITH_OK;
    for (int64_t p = 0; p < pairs->count && status == KITH_OK; p++) {
        const item one = {pairs->query_ids[p], pairs->corpus_ids[p], distances[p]};
        status = file->separator != 0 ? put_line(file, one)
                                      : kin_writer_put(&file->writer, &one, sizeof one);
    }
    file->count += pairs->count;
    kin_number_leave(locale);
    return status;
}

kith_status kin_pairs_file_close(kin_pairs_file *file, kith_status status)
{
    char head[KIN_NPY_HEADER_MAX];
    if (status == KITH_OK && file->separator == 0) {
        const uint64_t bytes = kin_npy_header(head, descr, 1, file->count, 0);
        kin_assert(bytes == file->head_bytes);
        status = kin_writer_patch(&file->writer, 0, head, bytes);
    }
    return kin_writer_close(&file->writer, status);
}
