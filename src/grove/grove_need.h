/* SPDX-License-Identifier: Apache-2.0
 * How queries of a tree are cut, and what a job takes of a device's memory before it starts: the
 * same sums. */
#ifndef KIN_GROVE_NEED_H
#define KIN_GROVE_NEED_H

#include "exact/exact_search.h"

/* Queries of a stripe beside the tree. */
typedef struct kin_grove_cut {
    int64_t stripe;
    bool ahead; /* the next stripe's rows find room, too */
} kin_grove_cut;

/* capacity: of a list, in a first walk. ahead: whether rows may come ahead. */
kin_grove_cut kin_grove_cut_queries(const kith_matrix *queries, const kin_request *request,
                                    int32_t capacity, uint32_t place, uint64_t room, bool ahead);

/* Room of a list in a first walk; dtype: of the corpus; most_short: that shared memory holds
 * (grove_kernels.h). */
int32_t kin_grove_list_room(kith_dtype dtype, int64_t wanted, int32_t most_short);

/* Points a leaf: what is fastest for so many columns, or what makes a tree of the request's height.
 */
int64_t kin_grove_usual_leaf(int32_t cols);
int64_t kin_grove_leaf_points(const kin_request *request, int64_t points);

/* Device memory of a first walk and its lists, beside rows that are rounded already. */
uint64_t kin_grove_lists_bytes(int64_t places, int32_t capacity);

/* Device memory that a job takes, for matrices on the host; queries NULL: a graph. */
typedef struct kin_grove_need {
    uint64_t whole_bytes; /* all queries at once */
    uint64_t least_bytes; /* as few as it may be */
    int64_t stripes;      /* within the budget */
} kin_grove_need;
kin_grove_need kin_grove_plan_need(const kith_matrix *corpus, const kith_matrix *queries,
                                   const kin_request *request, uint64_t budget);

#endif
