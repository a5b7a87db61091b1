/* SPDX-License-Identifier: Apache-2.0
 * Jobs of several GPUs (gpu/gpu_team.h). The answers are those of one, byte for byte. */
#ifndef KIN_FUSED_TEAM_H
#define KIN_FUSED_TEAM_H

#include "fused/fused_answer.h"
#include "fused/fused_search.h"
#include "gpu/gpu_team.h"

/* Whether a search, or both directions of one, is divided: there is a team, and rows for it. */
bool kin_fused_team_searches(const kin_gpu *gpu, int64_t queries, uint32_t place);
/* Queries are divided, the corpus is on each GPU. */
kith_status kin_fused_team_search(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *corpus,
                                  const kith_matrix *queries, const kin_request *request,
                                  const kith_neighbors *out);

/* Finished lists of a team in lockstep, a batch of rows at a time: each member computes those of
 * the positions that it owns into pairs and counts of its delivery, the first one fetches them into
 * its own and delivers them. */
typedef struct kin_fused_relay {
    kin_fused_answers *answers; /* of a member that does not deliver: `on`, and kernels_write */
    const int64_t *firsts;      /* whose positions: firsts[part] .. firsts[part + 1] - 1 */
    int64_t rows;               /* in all */
    int32_t k;
    kith_status (*compute)(void *arg, kin_fused_delivery *d, int64_t row0, int64_t rows);
    kith_status (*deliver)(void *arg, kin_fused_delivery *d, int64_t row0, int64_t rows);
    /* Before the first batch; NULL: nothing. */
    kith_status (*begin)(void *arg, kin_fused_delivery *d);
    void *arg;
} kin_fused_relay;
kith_status kin_fused_team_relay(const kin_fused_relay *relay);

/* Whether the leader alone shall do what the team could not: it works in batches where a team wants
 * all on each GPU, and who is told of a bad value is told the number of its row. The failure is
 * then logged and forgotten. */
bool kin_fused_team_yields(kith_ctx *ctx, kith_status status);

/* Fewer rows a member are nearly all in the seeds of a graph. */
enum { KIN_FUSED_TEAM_ROWS = 1024 };
/* Whether a graph is divided: pairs of blocks, each of which serves both ends. */
bool kin_fused_team_graphs(const kin_gpu *gpu, const kith_matrix *points,
                           const kin_request *request, uint32_t place);
/* The points are on each GPU. */
kith_status kin_fused_team_graph(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                 const kin_request *request, uint32_t place,
                                 const kith_neighbors *out);

#endif
