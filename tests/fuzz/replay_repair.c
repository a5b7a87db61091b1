/* SPDX-License-Identifier: Apache-2.0
 * Makes the checksums of a damaged file right again, as far as its own tables can be followed. */
#include "replay_repair.h"

#include "file/file_container.h"

#include <zlib.h>

static uint64_t load(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static void repair_kith(uint8_t *file, size_t bytes)
{
    kin_layout_header header;
    kin_layout_entry table[KIN_SECTIONS_MAX];
    if (bytes < sizeof header) {
        return;
    }
    memcpy(&header, file, sizeof header);
    if (header.section_count > KIN_SECTIONS_MAX ||
        kin_layout_table_end(header.section_count) > bytes) {
        return;
    }
    memcpy(table, file + sizeof header, header.section_count * sizeof table[0]);
    for (uint32_t i = 0; i < header.section_count; i++) {
        if (table[i].offset <= bytes && table[i].bytes <= bytes - table[i].offset) {
            table[i].checksum = kin_checksum_of(file + table[i].offset, table[i].bytes);
        }
    }
    header.file_bytes = bytes;
    header.checksum = kin_layout_checksum(&header, table);
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, table, header.section_count * sizeof table[0]);
}

/* One entry of the central directory: the checksum of what it points to, if that is in the file. */
static void repair_member(uint8_t *file, size_t bytes, uint8_t *entry)
{
    const uint64_t offset = load(entry + 42, 4);
    const uint64_t size = load(entry + 24, 4);
    if (offset + 30 > bytes) {
        return;
    }
    const uint64_t start = offset + 30 + load(file + offset + 26, 2) + load(file + offset + 28, 2);
    if (start <= bytes && size <= bytes - start) {
        const uint32_t crc = (uint32_t)crc32_z(0, file + start, (size_t)size);
        memcpy(entry + 16, &crc, sizeof crc);
    }
}

static void repair_npz(uint8_t *file, size_t bytes)
{
    for (size_t at = 0; at + 46 <= bytes; at++) {
        if (load(file + at, 4) == 0x02014b50u) {
            repair_member(file, bytes, file + at);
        }
    }
}

void fuzz_repair(const char *extension, uint8_t *file, size_t bytes)
{
    if (strcmp(extension, "kith") == 0) {
        repair_kith(file, bytes);
    } else if (strcmp(extension, "npz") == 0) {
        repair_npz(file, bytes);
    }
}
