/* SPDX-License-Identifier: Apache-2.0
 * Rows that are solved exactly, so that lists can be judged while they descend. */
#ifndef KIN_DESCENT_DESCENT_CONTROL_H
#define KIN_DESCENT_DESCENT_CONTROL_H

#include "descent/descent.h"
#include "descent/descent_finish.h"

/* Fills control->kth: by the exact engine's screen, and by a scan of all groups for metrics that
 * have none. owner: kin_descent_owners. */
kith_status kin_descent_control_solve(kith_ctx *ctx, const kin_prepared *prepared,
                                      const kin_descent_request *request, const uint32_t *owner);

/* Fills control->found and *phi (kin_descent_round) from lists as they are; lists NULL: from a scan
 * of all groups, which is the truth. points: NULL with them. */
kith_status kin_descent_control_look(kith_ctx *ctx, const kin_prepared *prepared,
                                     const kin_descent_points *points,
                                     const kin_descent_lists *lists,
                                     const kin_descent_request *request, const uint32_t *owner,
                                     double *phi);

/* Beside what is prepared, while kth is solved. */
uint64_t kin_descent_control_bytes(const kith_matrix *points, const kin_descent_request *request,
                                   int32_t threads);

#endif
