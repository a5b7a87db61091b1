/* SPDX-License-Identifier: Apache-2.0
 * NN-Descent on a GPU (graph/graph.h has the request): nothing of a round happens on the host.
 * And walks on graphs.
 */
#ifndef KIN_GRAPH_GPU_H
#define KIN_GRAPH_GPU_H

#include "exact/exact_search_gpu.h"
#include "graph/graph.h"

/* What kin_graph_defaults is to the processor: a request without zeros, its list as kernels have
 * it. */
void kin_graph_gpu_defaults(kin_graph_request *request, int64_t rows);
/* As kin_graph_descend, on a device; answers are canonical, but not the processor's graph.
 * E_DEVICE_MEMORY where graph and points do not fit: there are no batches.
 * E_UNSUPPORTED for KITH_CUSTOM. */
kith_status kin_graph_gpu_descend(kith_ctx *ctx, kin_gpu *gpu, const kith_matrix *points,
                                  const kin_graph_request *request, const kith_neighbors *out,
                                  kin_graph_outcome *outcome);
/* Device memory that it takes; and on each GPU of a team that would share it. */
uint64_t kin_graph_gpu_bytes(const kith_matrix *points, const kin_graph_request *request);
uint64_t kin_graph_gpu_bytes_on(const kin_gpu *gpu, const kith_matrix *points,
                                const kin_graph_request *request);

/* Distances below so many times what rounding may do to them are not told apart. Rounding to bytes
 * was tried on these very points (screen_prepare_gpu.c) before they were taken, and they make
 * rounds fast. */
#define KIN_GRAPH_GPU_TIMES_LOST 4.0
#define KIN_GRAPH_GPU_TIMES_LOST_BYTES 2.0

/* Whether a distance of these costs, of a position with these facts to one like it, is such a one.
 */
static inline bool kin_graph_gpu_blurs(const kin_screen_gpu_frame *frame,
                                       const kin_screen_gpu_facts *facts, double cost)
{
    const kin_bound_row row = {.norm = (double)facts->norm, .lost = (double)facts->lost};
    const double times = frame->type == KIN_SCREEN_GPU_S8 ? KIN_GRAPH_GPU_TIMES_LOST_BYTES
                                                          : KIN_GRAPH_GPU_TIMES_LOST;
    const double blur = times * (row.lost + row.lost);
    return cost < blur * blur + kin_bound_error(frame->kappa, row, row);
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* Best-first search on a graph of any origin (graph/graph_walk.h says what it is). */

/* So many rows that equal others have positions of their own; of more that are as far from a query
 * the exact engine's lists would overflow twice, and walks are by rows. */
enum { KIN_GRAPH_GPU_MOST_EQUAL = 2048 };

/* Rows where the last walks began. Who walks has the GPU for himself. */
typedef struct kin_graph_gpu_entering {
    kin_graph_entries counts;
    uint64_t seed;
    uint32_t *rows; /* device; NULL: nobody walked yet */
} kin_graph_gpu_entering;

/* Points and a graph of them in device memory, made ready for walks and for the exact engine, which
 * shares the points. Keeps gpu. */
typedef struct kin_graph_gpu_paths {
    kin_gpu *gpu;
    kin_distance distance;
    kin_exact_gpu_corpus *own; /* NULL: the corpus is the caller's */
    const kin_exact_gpu_corpus *corpus;
    const kin_screen_gpu_prepared *rounded; /* by whose positions walks are; NULL: by rows */
    kin_screen_gpu_prepared bytes;          /* ours, of the corpus; none where it has them */
    double *middle; /* device: by column; NULL: other queries than rows of whole numbers are not
                       shifted */
    int64_t rows;
    int32_t most;    /* links a row */
    uint32_t *links; /* device: rows x most; rows or positions */
    uint32_t *parts; /* as of kin_graph_links */
    int64_t part_count;
    kin_graph_gpu_entering *entering;
    kith_ctx *home;                  /* its memory */
    bool shared;                     /* the other GPUs of a team have theirs */
    void *others[KIN_GPU_TEAM_MOST]; /* paths there, by number */
} kin_graph_gpu_paths;

/* What walks are made for. */
typedef struct kin_graph_gpu_ground {
    const kith_matrix *points;
    const kith_neighbors *graph; /* checked, host memory */
    kin_distance distance;
    int64_t k; /* ids a row that will be asked for */
    /* of the points, which outlives the paths; NULL: one is made */
    const kin_exact_gpu_corpus *corpus;
    bool shared; /* the other GPUs of the team that this one leads get paths, too, if they can */
    const kin_exact_gpu_corpus *const *others; /* corpora there, by number; NULL: they are made */
} kin_graph_gpu_ground;

/* Queries that walk, each as it would alone. */
typedef struct kin_graph_gpu_walks {
    const kith_matrix *queries; /* checked here */
    int64_t width;              /* k .. KIN_GRAPH_GPU_MOST_WIDTH, below the points */
    uint64_t seed;
    uint32_t place; /* of exact_search_gpu.h: of queries and answers */
} kin_graph_gpu_walks;

/* The most that a walk keeps. */
int64_t kin_graph_gpu_most_width(void);
/* E_UNSUPPORTED for KITH_CUSTOM and for 2^31 - 1 points or more, E_DEVICE_MEMORY where points and
 * links do not fit. */
kith_status kin_graph_gpu_paths_make(kith_ctx *ctx, kin_gpu *gpu,
                                     const kin_graph_gpu_ground *ground, kin_graph_gpu_paths **out);
/* Accepts NULL. */
void kin_graph_gpu_paths_free(kin_graph_gpu_paths *paths);
int64_t kin_graph_gpu_paths_parts(const kin_graph_gpu_paths *paths);
/* As kin_graph_walk_run, in batches where memory is short, many queries by all GPUs that have
 * paths. The same bytes in every run, but not the processor's: what walks find differs. */
kith_status kin_graph_gpu_walk_run(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                   const kin_graph_gpu_walks *walkers, const kith_neighbors *out,
                                   kin_graph_effort *effort);
/* The exact engine's answer. */
kith_status kin_graph_gpu_walk_solve(kith_ctx *ctx, const kin_graph_gpu_paths *paths,
                                     const kith_matrix *queries, uint32_t place,
                                     const kith_neighbors *out);

#endif
