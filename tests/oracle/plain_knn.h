/* SPDX-License-Identifier: Apache-2.0
 * The oracle: nearest neighbours as a student would write them, in double, in the order of
 * operations that docs/notes/numerics.md defines. Shares no code with the library but the log.
 * Not for KITH_CUSTOM. Runs in the mode that it finds; tests call it in the standard one. */
#ifndef PLAIN_KNN_H
#define PLAIN_KNN_H

#include "kith/kith.h"

/* What neighbours are ordered by: row qi of q against row ci of c. */
double oracle_key(kith_metric metric, const kith_matrix *q, int64_t qi, const kith_matrix *c,
                  int64_t ci);
/* The same against every row of c: c.rows keys. */
void oracle_keys(kith_metric metric, const kith_matrix *q, int64_t qi, const kith_matrix *c,
                 double *keys);

/* What the user sees of a key. (float) of it is the float32 of results. */
double oracle_distance(kith_metric metric, double key);

/* The first k of the order (key, id) for each query, ascending: ids and keys are queries.rows x k.
 * exclude_self: query i may not get id i. Slots that nothing fills: KITH_ID_NONE, infinity.
 * Memory: one double for each component of the queries. */
void oracle_knn(kith_metric metric, const kith_matrix *queries, const kith_matrix *corpus,
                int64_t k, int exclude_self, uint32_t *ids, double *keys);

#endif
