/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file/file_part.h"

#include "base/base_mem.h"
#include "base/base_try.h"
#include "file/file_container_layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static_assert(sizeof(kin_part) == 16, "a part in a file has no padding");
static_assert(sizeof(kin_part_entry) == 24, "an entry of an index has no padding");

int64_t kin_part_unit(int64_t k)
{
    const int64_t entries = KIN_PART_ALIGNMENT / (int64_t)sizeof(uint32_t);
    const int64_t twos = k & -k; /* a power of 2, as entries is one */
    return twos < entries ? entries / twos : 1;
}

/* Zeros behind byte `end`, so that what follows them is aligned. */
static uint64_t space_behind(uint64_t end)
{
    const uint64_t start = kin_layout_align(end);
    return (KIN_PART_ALIGNMENT - start % KIN_PART_ALIGNMENT) % KIN_PART_ALIGNMENT;
}

int32_t kin_part_arrange(const kin_part *part, kin_section sections[KIN_PART_SECTIONS])
{
    const kin_section ids = sections[0];
    const kin_section distances = sections[1];
    const uint64_t begin = kin_layout_align(kin_layout_table_end(KIN_PART_SECTIONS));
    sections[0] = (kin_section){.tag = KIN_TAG_PART, .data = part, .bytes = sizeof *part};
    sections[1] = (kin_section){.tag = "before ids", .bytes = space_behind(begin + sizeof *part)};
    sections[2] = ids;
    sections[3] = (kin_section){.tag = "before distance", .bytes = space_behind(ids.bytes)};
    sections[4] = distances;
    return KIN_PART_SECTIONS;
}

kith_status kin_part_read(kith_ctx *ctx, const kin_container *container, kin_part *part)
{
    const void *data = NULL;
    KIN_TRY(kin_container_table(ctx, container, KIN_TAG_PART, 1, sizeof *part, &data));
    memcpy(part, data, sizeof *part);
    if (part->first < 0 || part->number < 0 || part->count > KITH_PARTS_MAX ||
        part->number >= part->count) {
        return kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(kin_container_path(container)),
                           "is part %d of %d (it is damaged: make it again)", (int)part->number + 1,
                           (int)part->count);
    }
    return KITH_OK;
}

kith_status kin_part_home(kith_ctx *ctx, const char *path, char **home)
{
    struct stat info;
    char *real = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(path, NULL) : NULL;
    const char *from = real != NULL ? real : path;
    const size_t bytes = strlen(from) + 1;
    const kith_status status = kin_alloc(ctx, home, bytes, 1, "a file's path");
    if (status == KITH_OK) {
        memcpy(*home, from, bytes);
    }
    free(real);
    return status;
}

kith_status kin_part_path(kith_ctx *ctx, const char *home, const char *name, int name_bytes,
                          const kin_part *part, char **path)
{
    const char *slash = strrchr(home, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - home) + 1;
    const size_t room = (size_t)folder + (size_t)name_bytes + 64;
    KIN_TRY(kin_alloc(ctx, path, room, 1, "a file's path"));
    (void)snprintf(*path, room, "%.*s%.*s-%05d-of-%05d.kith", folder, home, name_bytes, name,
                   (int)part->number, (int)part->count);
    return KITH_OK;
}
