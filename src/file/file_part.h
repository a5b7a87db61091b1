/* SPDX-License-Identifier: Apache-2.0
 * A graph in several .kith files, its parts, and one that names them, its index.
 *
 * A part is a result of its rows: ids are those of all, and say nothing of parts. Ids and distances
 * begin at multiples of KIN_PART_ALIGNMENT, and all parts but the last have as many rows as make
 * their tables a multiple of it: so the tables of all parts can be mapped side by side, and are one
 * table of each. The index has rows and checksum of each part, whose checksum is that of its header
 * and table, and these have the checksums of its ids and distances: what is not as it was when all
 * were written is found.
 *
 * Parts lie in the folder of the index, NAME-00000-of-00008.kith. The index has NAME, so that it
 * may be given another name, and the folder be moved. */
#ifndef KIN_FILE_PART_H
#define KIN_FILE_PART_H

#include "file/file_result.h"

#define KIN_TAG_PART "part"   /* of a part: kin_part */
#define KIN_TAG_PARTS "parts" /* of an index: kin_part_entry of each part */
#define KIN_TAG_NAME "name"   /* of an index: NAME */

/* A page is no larger on any machine. */
enum { KIN_PART_ALIGNMENT = 1 << 16, KIN_PART_SECTIONS = 5 };

typedef struct kin_part {
    int64_t first; /* row of the whole */
    int32_t number;
    int32_t count;
} kin_part;

typedef struct kin_part_entry {
    int64_t first;
    int64_t rows;
    uint64_t checksum;
} kin_part_entry;

/* Rows of which each part but the last has a multiple. */
int64_t kin_part_unit(int64_t k);
/* sections[0] and [1] are ids and distances, with all that stands around them they are
 * KIN_PART_SECTIONS, which is returned. part is borrowed. */
int32_t kin_part_arrange(const kin_part *part, kin_section sections[KIN_PART_SECTIONS]);
kith_status kin_part_read(kith_ctx *ctx, const kin_container *container, kin_part *part);

/* The path of an index where it is in truth: parts are not looked for beside a symbolic link. */
kith_status kin_part_home(kith_ctx *ctx, const char *path, char **home);
/* The path of a part of an index at home; name: so many bytes. */
kith_status kin_part_path(kith_ctx *ctx, const char *home, const char *name, int name_bytes,
                          const kin_part *part, char **path);

/* Ids and distances of all parts into the tables of a result whose container is an index. */
kith_status kin_parts_map(kith_result *result, const char *path);
/* Whether all parts are there, by their headers; *bytes: theirs are added. */
kith_status kin_parts_inspect(kith_ctx *ctx, const char *path, const kin_container *index,
                              int32_t *count, uint64_t *bytes);

#endif
