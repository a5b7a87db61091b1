/* SPDX-License-Identifier: Apache-2.0
 * Lists before the first round: from a graph that is given, and at random. */
#ifndef KIN_DESCENT_DESCENT_FILL_H
#define KIN_DESCENT_DESCENT_FILL_H

#include "descent/descent_round.h"

/* Rows in the order of positions: owner[row] is the position of its group, KITH_ID_NONE of
 * degenerate rows. owner: a number for each row of the matrix. */
void kin_descent_owners(const kin_prepared *prepared, uint32_t *owner);

/* The ids of `graph`, a row for each row of the matrix, come into the lists of their groups; of a
 * group the row of its first. Ids that are no row's are passed over. */
kith_status kin_descent_fill_graph(kin_descent_rounds *rounds, const kith_neighbors *graph,
                                   const uint32_t *owner);

/* Lists with empty places get positions that seed and place draw; where near rows stand together
 * (`ordered`), half of them from the places around. Draws may meet: a list of a small set may stay
 * short. */
kith_status kin_descent_fill_random(kin_descent_rounds *rounds, bool ordered);

#endif
