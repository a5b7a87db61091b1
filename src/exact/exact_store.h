/* SPDX-License-Identifier: Apache-2.0
 * A prepared corpus in a .kith container, and back without a copy. */
#ifndef KIN_EXACT_STORE_H
#define KIN_EXACT_STORE_H

#include "exact/exact_prepare.h"
#include "file/file_container.h"

/* Written whole or not at all. */
kith_status kin_store_save(kith_ctx *ctx, const char *path, const kin_prepared *prepared);

/* The points of a corpus' or tree's file as they lie in the map, and their metric. */
kith_status kin_store_points(kith_ctx *ctx, const char *path, const kin_container *container,
                             kith_matrix *points, kith_metric *metric);

/* The preparation as it lies in the map: *prepared has its matrix and distance, and nothing else.
 * It is all views then: it is not freed, and ends with the container. *usable is false where the
 * file was made by another version, or for a type that this instruction set has no kernel for: then
 * prepare the points again. Not for direct metrics. */
kith_status kin_store_view(kith_ctx *ctx, const kin_container *container, kin_prepared *prepared,
                           bool *usable);

#endif
