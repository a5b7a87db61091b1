/* SPDX-License-Identifier: Apache-2.0
 * Arguments are checked once, here, before anything is computed. Below api/ they are trusted. */
#ifndef KIN_API_CHECK_H
#define KIN_API_CHECK_H

#include "exact/exact_search.h"

/* *checked = *matrix with its stride filled in. `name` stands in messages ("points", "queries"). */
kith_status kin_check_matrix(kith_ctx *ctx, const kith_matrix *matrix, const char *name,
                             kith_matrix *checked);
/* Two matrices that must have the same number of columns. */
kith_status kin_check_cols(kith_ctx *ctx, const kith_matrix *a, const char *a_name,
                           const kith_matrix *b, const char *b_name);
/* The metric, bound to a number of columns and to the context's instruction set. */
kith_status kin_check_metric(kith_ctx *ctx, kith_metric metric, kith_distance_fn custom,
                             void *custom_arg, int32_t cols, kin_distance *distance);
/* k >= 1 and at most `most`, and the output of that shape. `why` explains the limit. */
kith_status kin_check_output(kith_ctx *ctx, int64_t k, int64_t most, const char *why,
                             const kith_neighbors *out, int64_t rows);
/* Neighbours with their ids, at least one. `name` stands in messages. */
kith_status kin_check_neighbors(kith_ctx *ctx, const kith_neighbors *neighbors, const char *name);
/* Ids of a graph are its points, or empty. */
kith_status kin_check_ids(kith_ctx *ctx, const kith_neighbors *graph, const char *name);
/* A graph of so many points, whose ids are those. */
kith_status kin_check_graph(kith_ctx *ctx, const kith_neighbors *graph, int64_t rows);
/* Whether distances of this metric may be negative, and so a radius, too. */
bool kin_radius_may_be_negative(kith_metric metric);
/* A radius is a number, and one that the metric can have. */
kith_status kin_check_radius(kith_ctx *ctx, kith_metric metric, double radius);
/* A number that a caller gave for a kith_method. */
kith_status kin_check_method(kith_ctx *ctx, int method);
/* Bits of flags that are not in `known`, those of `of`, are an error. */
kith_status kin_check_flags(kith_ctx *ctx, uint32_t flags, uint32_t known, const char *of);
/* Structs that grow begin with struct_size, a uint32_t.
 *
 * KIN_GROWS(kith_search_params, flags): its name, where the first field stands that a caller may
 * not know, and its size. */
#define KIN_GROWS(type, first) #type, offsetof(type, first), sizeof(type)
/* Parameters as this library knows them: *known, which are the defaults, become the caller's as far
 * as these reach. */
kith_status kin_take_params(kith_ctx *ctx, const char *type, size_t least, size_t size,
                            const void *given, void *known);
/* Room for what a call says, called `name`: NULL, or its struct_size is set. */
kith_status kin_check_room(kith_ctx *ctx, const void *room, const char *name, const char *type);
/* What the call says, as far as the caller's struct reaches. room may be NULL. */
void kin_fill_room(void *room, const void *said, size_t size);

/* Parameters as this library knows them, whatever the caller's struct_size. */
kith_status kin_check_search_params(kith_ctx *ctx, const kith_search_params *params,
                                    kith_search_params *known);

#endif
