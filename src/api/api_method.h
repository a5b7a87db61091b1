/* SPDX-License-Identifier: Apache-2.0
 * By which engine a search is done: all pairs, or the tree. */
#ifndef KIN_API_METHOD_H
#define KIN_API_METHOD_H

#include "exact/exact_search.h"

/* KITH_E_ARGUMENT for a tree of a metric, or with a pipeline, that has none. */
kith_status kin_method_check(kith_ctx *ctx, const kin_request *request);
/* KITH_E_ARGUMENT for a tree that so many rows do not fill: a leaf has 16 of them at least. 0 is
 * every corpus' own height. */
kith_status kin_method_check_height(kith_ctx *ctx, int32_t height, int64_t rows);
/* KITH_E_UNSUPPORTED where the tree was asked for and cannot do it: "a GPU has no tree yet". */
kith_status kin_method_refuse_tree(kith_ctx *ctx, const kin_request *request, const char *why);
/* A tree that was named leaves a GPU out; KITH_E_UNSUPPORTED where a GPU was named, too. */
kith_status kin_method_enter(kith_ctx *ctx, const kin_request *request, bool *cpu_alone);
/* Whether the processor solves it by the tree: it was named, or may be faster; queries NULL: a
 * graph. */
bool kin_method_takes_tree(const kin_request *request, const kith_matrix *corpus,
                           const kith_matrix *queries);

#endif
