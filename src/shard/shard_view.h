/* SPDX-License-Identifier: Apache-2.0
 * A shard's lists in its mapped file, or in memory, read from the first row to the last. */
#ifndef KIN_SHARD_VIEW_H
#define KIN_SHARD_VIEW_H

#include "file/file_container.h"
#include "shard/shard_folder.h"

typedef struct kin_shard_view {
    kin_container *file; /* NULL: lists in memory */
    const uint32_t *ids;
    const float *distances; /* NULL in memory, where keys are those of all rows */
    const double *keys;     /* of rows that are shared (kin_shard_brief) */
    int64_t k;
    int64_t row;      /* the next one, for the caller to move */
    int64_t shared;   /* rows before it that are shared; the caller's, too */
    int64_t returned; /* rows whose pages were given back */
    int64_t shared_returned;
} kin_shard_view;

/* Checks the whole file, which must have keys of `shared` rows. KITH_E_FORMAT where it is damaged.
 */
kith_status kin_shard_view_open(kith_ctx *ctx, const kin_shard_folder *folder, int32_t shard,
                                int64_t shared, kin_shard_view *view);
/* Pages before the next row do not count as memory any more. */
void kin_shard_view_return(kin_shard_view *view);
void kin_shard_view_rewind(kin_shard_view *view);
/* Accepts a view that is all zero. */
void kin_shard_view_close(kin_shard_view *view);

#endif
