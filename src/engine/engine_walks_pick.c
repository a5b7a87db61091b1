/* SPDX-License-Identifier: Apache-2.0
 * Walks on a GPU under a filter: they tell of all that they keep, so many entries at a time, and
 * the host picks what each query may find. */
#include "engine/engine_graph.h"
#include "host/host_threads.h"

enum { PICKED_AT_ONCE = 1 << 22, ROWS_A_TASK = 64 };

typedef struct picking {
    const kin_walks_pick *job;
    kin_allowed allowed;
    int64_t first;       /* of the rows */
    kith_neighbors kept; /* of those from there on */
    const kith_neighbors *out;
    int64_t *found; /* by row of kept */
} picking;

static int64_t query_of(const kin_walks_pick *job, int64_t row)
{
    return job->rows != NULL ? (int64_t)job->rows[row] : row;
}

static kith_status pick_row(void *arg, int64_t i, int32_t thread)
{
    const picking *p = arg;
    const int64_t k = p->out->k;
    const int64_t row = p->first + i;
    const int64_t query = query_of(p->job, row);
    int64_t found = 0;
    (void)thread;
    for (int64_t j = i * p->kept.k; j < (i + 1) * p->kept.k && found < k; j++) {
        if (kin_allowed_has(&p->allowed, query, p->kept.ids[j])) {
            kin_answer_put(p->out, row * k + found, p->kept.ids[j], p->kept.distances64[j]);
            found += 1;
        }
    }
    p->found[i] = found;
    return KITH_OK;
}

static kith_status pick(picking *p, kin_walks_picked *picked)
{
    const kin_walks_pick *job = p->job;
    const kith_matrix part = kin_fused_part_of(&job->queries, p->first, p->kept.rows);
    const kin_graph_gpu_walks walkers = {.queries = &part, .width = p->kept.k, .seed = job->seed};
    kin_graph_effort sums;
    KIN_TRY(kin_graph_gpu_walk_run(job->ctx, job->walks->paths, &walkers, &p->kept, &sums));
    picked->effort.met += sums.met;
    picked->effort.walked += sums.walked;
    KIN_TRY(kin_parallel_rows(job->ctx, NULL, part.rows, ROWS_A_TASK, pick_row, p));
    for (int64_t i = 0; i < part.rows; i++) {
        if (p->found[i] < p->out->k) {
            picked->places[picked->lacking] = (uint32_t)(p->first + i);
            picked->lacking_rows[picked->lacking++] = (uint32_t)query_of(job, p->first + i);
        }
    }
    return KITH_OK;
}

kith_status kin_walks_pick_allowed(const kin_walks_pick *job, const kith_neighbors *out,
                                   kin_walks_picked *picked)
{
    const int64_t rows = job->queries.rows;
    const int64_t at_once = kin_max_i64(1, kin_min_i64(rows, PICKED_AT_ONCE / job->width));
    const uint64_t entries = kin_size_mul((uint64_t)at_once, (uint64_t)job->width);
    picking p = {.job = job,
                 .allowed = {&job->filter->filter, job->filter->request.exclude},
                 .kept = {.k = job->width},
                 .out = out};
    KIN_HOLD(hold, job->ctx);
    KIN_NEW(&hold, p.kept.ids, entries, "what walks keep");
    KIN_NEW(&hold, p.kept.distances64, entries, "what walks keep");
    KIN_NEW(&hold, p.found, (uint64_t)at_once, "what walks keep");
    for (; p.first < rows; p.first += at_once) {
        p.kept.rows = kin_min_i64(at_once, rows - p.first);
        KIN_TRY(pick(&p, picked));
    }
    return KITH_OK;
}
