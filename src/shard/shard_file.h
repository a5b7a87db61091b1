/* SPDX-License-Identifier: Apache-2.0
 * One version of one shard's lists in a file: shard-00003.000007.kith, a container with the
 * sections shard (facts), met, ids, keys and, of approximate graphs, own. Of groups, which meet
 * nobody, it has distances, and keys of those rows alone that other groups have, too. */
#ifndef KIN_SHARD_FILE_H
#define KIN_SHARD_FILE_H

#include "shard/shard_folder.h"

enum { KIN_SHARD_NAME_BYTES = 32, KIN_SHARD_FACTS_FORMAT = 1 };
#define KIN_SHARD_TAG_FACTS "shard"
#define KIN_SHARD_TAG_MET "met"
#define KIN_SHARD_TAG_KEYS "keys"
#define KIN_SHARD_TAG_OWN "own"

typedef struct kin_shard_name {
    int32_t shard;
    int64_t version;
} kin_shard_name;

typedef struct kin_shard_facts {
    uint32_t format;
    int32_t shards;
    int32_t shard;
    int32_t last; /* whom it has met last */
    int64_t version;
    uint64_t job; /* checksum of the journal's head */
} kin_shard_facts;

void kin_shard_name_print(kin_shard_name name, char text[KIN_SHARD_NAME_BYTES]);
/* False where it is no name of a shard's file. */
bool kin_shard_name_parse(const char *text, kin_shard_name *name);

kith_status kin_shard_file_path(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                                char **path);
int64_t kin_shard_file_rows(const kin_shard_folder *folder, int32_t shard);

/* What a file says of itself, held against the folder's job: KITH_E_FORMAT where it is damaged or
 * another job's. */
kith_status kin_shard_file_facts(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                                 kin_shard_facts *facts);
/* met: one byte a shard. */
kith_status kin_shard_file_met(kith_ctx *ctx, const kin_shard_folder *folder, kin_shard_name name,
                               unsigned char *met);

#endif
