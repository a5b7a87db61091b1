/* SPDX-License-Identifier: Apache-2.0
 * Lists before the first round: from a graph that is given, and at random. */
#ifndef KIN_DESCENT_DESCENT_FILL_H
#define KIN_DESCENT_DESCENT_FILL_H

#include "descent/descent.h"
#include "descent/descent_round.h"

/* Rows in the order of positions: owner[row] is the position of its group, KITH_ID_NONE of
 * degenerate rows. owner: a number for each row of the matrix. */
void kin_descent_owners(const kin_prepared *prepared, uint32_t *owner);

/* Which sets rows of a group belong to: one side of a split, or both. */
enum { KIN_DESCENT_BELOW = 1, KIN_DESCENT_BEHIND = 2 };

/* sides: a number for each position. */
void kin_descent_sides(const kin_prepared *prepared, int64_t split, uint8_t *sides);

/* The ids of request->init, a row for each row of the matrix, come into the lists of their groups,
 * marked new; of a group the row of its first. Ids that are no row's are passed over. Of a merge:
 * the ids of init and init2, not marked new; of a group the rows of the first in each set. */
kith_status kin_descent_fill_graph(kin_descent_rounds *rounds, const kin_descent_request *request,
                                   const uint32_t *owner);

/* ids: of each position `each` others, different ones. The nearest come into its list, marked new.
 */
kith_status kin_descent_fill_ids(kin_descent_rounds *rounds, const uint32_t *ids, int32_t each);

/* Lists of fewer than `least` entries get positions that seed and place draw; where near rows stand
 * together (`ordered`), half of them from the places around. Draws may meet: a list of a small set
 * may stay short. */
kith_status kin_descent_fill_random(kin_descent_rounds *rounds, int32_t least, bool ordered);

#endif
