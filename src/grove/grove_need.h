/* SPDX-License-Identifier: Apache-2.0
 * How queries of a tree are cut, and what a job takes of a device's memory before it starts: the
 * same sums. */
#ifndef KIN_GROVE_NEED_H
#define KIN_GROVE_NEED_H

#include "grove/grove_search.h"

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

#endif
