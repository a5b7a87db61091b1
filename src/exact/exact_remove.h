/* SPDX-License-Identifier: Apache-2.0
 * Lists of a graph without the points that leave it. */
#ifndef KIN_EXACT_REMOVE_H
#define KIN_EXACT_REMOVE_H

#include "base/base_ctx.h"

/* New ids of rows and rows of new ids: those whose byte is 0 move up. map: a number for each row,
 * KITH_ID_NONE of those that leave; rows: room for as many. Returns how many are left. */
int64_t kin_remove_map(const uint8_t *removed, int64_t count, uint32_t *map, uint32_t *rows);

/* ids: left x graph->k, lists of `rows` in new ids, KITH_ID_NONE where somebody left. lacking: room
 * for `left` new ids; those whose list has fewer than `wanted` different ones, its own counting
 * where `self` is set and not otherwise, ascending.
 * *lacking_count: how many. */
kith_status kin_remove_lists(kith_ctx *ctx, const kith_neighbors *graph, const uint32_t *map,
                             const uint32_t *rows, int64_t left, int64_t wanted, bool self,
                             uint32_t *ids, uint32_t *lacking, int64_t *lacking_count);

#endif
