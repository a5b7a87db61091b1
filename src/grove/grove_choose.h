/* SPDX-License-Identifier: Apache-2.0
 * Tree or all pairs on a GPU: before there is a tree, and by a sample of it. */
#ifndef KIN_GROVE_CHOOSE_H
#define KIN_GROVE_CHOOSE_H

#include "grove/grove_solve.h"

/* A job, as far as the choice depends on it. */
typedef struct kin_grove_choice {
    const kin_request *request;
    int64_t points; /* rows of the corpus, or groups of equal ones */
    int64_t queries;
    int32_t wanted; /* points a list */
    bool graph;
} kin_grove_choice;

/* Whether a sample costs little beside all pairs, and the tree may win. */
bool kin_grove_may_win(const kin_grove_choice *choice, int32_t cols);
/* Sends a sample of rows (NULL: of the corpus' points, a graph) through a tree of a sample of the
 * corpus. */
kith_status kin_grove_try(const kin_fused_device *on, const kin_fused_prepared *corpus,
                          const kin_fused_rows *rows, const kin_grove_choice *choice, bool *wins);

/* Points a leaf: what is fastest for so many columns, or what makes a tree of the request's height.
 */
int64_t kin_grove_leaf_points(const kin_request *request, int64_t points);

#endif
