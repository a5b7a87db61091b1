/* SPDX-License-Identifier: Apache-2.0
 * A prepared corpus in a .kith container, and back without a copy. */
#ifndef KIN_EXACT_STORE_H
#define KIN_EXACT_STORE_H

#include "file/file_container.h"
#include "screen/screen_prepare.h"

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

/* ---- Parts of it, and of others' files ----------------------------------------------------- */

/* What every engine's arrays have in common when they are stored in a container and viewed there.
 *
 * Trust. The container's checksums guard against accidents, not against malice. Whatever is used as
 * an index or a length is therefore checked by who views it: a file can be wrong, but not lead
 * outside of itself. */

enum { KIN_STORE_SECTIONS = 24 };

typedef struct kin_storing {
    kin_container_header header;
    kin_section sections[KIN_STORE_SECTIONS];
    int32_t count;
} kin_storing;

typedef struct kin_viewing {
    kith_ctx *ctx;
    const kin_container *container;
} kin_viewing;

/* An index of this kind begins with its points. */
kin_storing kin_store_begin(kith_kind kind, kith_metric metric, const kith_matrix *points);
/* rows x row_bytes at data under a tag; left out where data is NULL. */
void kin_store_add(kin_storing *storing, const char *tag, const void *data, int64_t rows,
                   uint64_t row_bytes);
void kin_store_add_groups(kin_storing *storing, const kin_groups *groups);

/* float64 a column, where there is a period. */
void kin_store_add_period(kin_storing *storing, const kin_distance *distance);
/* As it lies in the map; NULL: the points have none. */
kith_status kin_store_period(kith_ctx *ctx, const kin_container *container, const double **period);

/* A section of that size as the arrays want it, written to the pointer at `out`: nobody writes to
 * what it points to. */
kith_status kin_store_view_array(const kin_viewing *viewing, const char *tag, int64_t rows,
                                 uint64_t row_bytes, void *out);
/* Groups of `rows` rows, of which rows, count and degenerate are set: the arrays, consistent with
 * each other. equal: some rows are, so there are links. */
kith_status kin_store_view_groups(const kin_viewing *viewing, bool equal, kin_groups *groups);

/* KITH_E_FORMAT: "its ... (it is damaged: make it again)". */
kith_status kin_store_fail_damaged(const kin_viewing *viewing, const char *what);

#endif
