/* SPDX-License-Identifier: Apache-2.0
 * The start of metrics without matrix products. Each has a relative that has them: near under one
 * is mostly near under the other.
 *
 *   chi2, kl                 |sqrt a - sqrt b|^2: of shares that are close, any divergence is this
 *                            one times a number (Csiszar 1967)
 *   jaccard                  the cosine of the patterns, zeros and ones
 *   manhattan, chebyshev     the Euclidean distance, which lies between them
 *
 * So the graph of the relative is made first, approximately, and is what rounds begin with: a pair
 * costs it a hundredth of a pair of the metric itself. */
#ifndef KIN_DESCENT_DESCENT_RELATIVE_H
#define KIN_DESCENT_DESCENT_RELATIVE_H

#include "descent/descent.h"
#include "descent/descent_round.h"

bool kin_descent_has_relative(kith_metric metric);

/* Lists get what is nearest under the relative, marked new, with costs of the metric. request: of
 * the descent that starts, complete. The report is left as it was. */
kith_status kin_descent_start_relative(kin_descent_rounds *rounds,
                                       const kin_descent_request *request, double *evaluations);
/* What it takes while it runs. */
uint64_t kin_descent_relative_bytes(const kith_matrix *points, const kin_descent_request *request,
                                    int32_t threads);

#endif
