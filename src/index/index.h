/* SPDX-License-Identifier: Apache-2.0
 * Points that are kept for many searches. An index has a context of its own, which is never seen
 * outside: its memory and its GPU are that one's, so that the context that made it may go. What
 * makes or changes an index computes in it, with the settings of the caller's; searches compute in
 * the caller's, and only read. Searches wait for changes, and changes for searches; those that come
 * while a change waits, come behind it. The balls of a corpus that grew are made by the first
 * search that wants them, of which one at a time has the GPU.
 *
 *     method   on    what is kept                                        made by
 *     exact    cpu   prepared, whole                                     index_kept.c
 *     exact    gpu   resident; of prepared the matrix and the distance.     index_kept.c
 *                    Rows may be the caller's, in the GPU's memory
 *     tree     cpu   tree; of prepared the groups of equal rows, too     index_kept.c
 *     tree     gpu   planted; the rest as of exact. A change makes it    index_kept.c
 *                    anew
 *     graph    cpu   graph: ids of neighbours, and walks over them       index_kept.c
 *     graph    gpu   the same, and resident, on whose rows it walks there   index_kept.c
 *
 * It is prepared on one device, for good, or on each GPU of a team (gpu/gpu.h), which divides
 * many queries of host memory; all else is the leader's. */
#ifndef KIN_INDEX_INDEX_H
#define KIN_INDEX_INDEX_H

#include "api/api_check.h"
#include "host/host_threads.h"
#include "tree/tree_gpu.h"

/* Walks for queries whose costs are whole numbers (8-bit ones of the points' own type) and for
 * others: made for the points' type at once, for the other one when the first of them are asked,
 * while others search. Those of a GPU are one for all, the first. */
typedef struct kin_index_walks {
    kin_guard lock;
    kin_walks *made[2];
} kin_index_walks;

typedef struct kin_index_graph {
    int64_t k; /* neighbours a row: `wanted`, or all there are */
    uint32_t *ids;
    kin_index_walks *walks;
} kin_index_graph;

/* The points on a GPU: for all pairs, or by a tree. */
typedef struct kin_index_copy {
    kith_ctx *home; /* its memory */
    kin_exact_gpu_corpus *resident;
    kin_tree_gpu_corpus planted;
} kin_index_copy;

/* What a change replaces, as a whole. */
typedef struct kin_index_kept {
    kin_prepared prepared;
    kin_tree tree;
    kin_exact_gpu_corpus *resident; /* of all pairs; NULL on the processor */
    kin_tree_gpu_corpus planted;    /* zeros on the processor */
    uint32_t place;                 /* of exact_search_gpu.h: of the points */
    void *there;        /* the points in device memory, after a change; NULL: not ours */
    int64_t there_rows; /* that it has room for */
    kin_index_graph graph;
    void *copies[KIN_GPU_TEAM_MOST]; /* by number of a GPU in its team: kin_index_copy; NULL where
                                        it has none. resident and planted are those of the first */
} kin_index_kept;

/* Whether the points lie in the GPU's memory: the caller's, or after a change the index' own. */
static inline bool kin_index_rows_on_device(const kin_index_kept *kept)
{
    return (kept->place & KIN_GPU_DATA_ON_DEVICE) != 0;
}

struct kith_index {
    kith_ctx *own;
    kin_guard *guard;
    kith_method method;
    kin_index_kept *kept;     /* some of it points to other parts: it does not move */
    kin_container *container; /* NULL unless it was opened from a file */
    bool views;               /* what is kept lies in the container, walks apart */
    double *period;           /* by column, of the distance; NULL: there is none */
    void *rows;               /* points of its own, after a change; else NULL */
    kin_gpu *gpu;             /* its own, with what is kept on it; it may lead others; NULL on the
                                 processor */

    /* Of a graph: what one that is made or changed shall be. */
    int64_t wanted;
    double recall;
    uint64_t seed;
};

/* ---- Calls (index_call.c) -------------------------------------------------------------------- */

/* A call that makes or changes an index: works in `own` between the two. */
typedef struct kin_index_call {
    kith_ctx *ctx;
    kith_ctx *own;
    kin_call call; /* of own */
} kin_index_call;

kith_status kin_index_call_begin(kith_ctx *ctx, kith_ctx *own, kin_index_call *call);
/* Report, failure and peak become the caller's; hands the status on. */
kith_status kin_index_call_end(kin_index_call *call, kith_status status);

/* For reading, until kin_index_leave, which counts the index' memory in the call's peak. Refuses
 * NULL. */
kith_status kin_index_enter(kith_ctx *ctx, const kith_index *index);
void kin_index_leave(kith_ctx *ctx, const kith_index *index);
/* A public call that reads an index: the work, between the begins and the ends. report: what is
 * told, or NULL. */
#define KIN_INDEX_CALL(ctx, index, work, report)                              \
    do {                                                                      \
        kin_call call_;                                                       \
        KIN_TRY(kin_call_begin((ctx), &call_));                               \
        kith_status status_ = kin_index_enter((ctx), (index));                \
        if (status_ == KITH_OK) {                                             \
            status_ = (work);                                                 \
            kin_index_leave((ctx), (index));                                  \
        }                                                                     \
        return kin_api_tell(&call_, kin_call_end(&call_, status_), (report)); \
    } while (0)
/* Graphs and trees that are kept on the processor are searched there. */
kith_status kin_index_refuse_gpu(kith_ctx *ctx, kith_method method);

/* ---- What is kept (index_kept.c), in the index' own context ---------------------------------- */

typedef struct kin_index_source {
    kith_matrix points; /* checked */
    kin_distance distance;
    const char *name;    /* of the points, in messages */
    uint32_t place;      /* KIN_GPU_DATA_ON_DEVICE: they lie on the index' GPU, and stay there */
    int32_t height;      /* of a tree, checked; 0: by columns */
    int64_t leaf_points; /* of a tree of the processor that there was; 0: by height */
    const kin_exact_gpu_corpus *like; /* kin_screen_gpu_source */
} kin_index_source;

/* The first half: index->gpu is not NULL where it is on a GPU now. */
kith_status kin_index_try_gpu(kith_ctx *ctx, const kin_index_source *source, kith_index *index);
/* On the processor. */
kith_status kin_index_keep_cpu(kith_ctx *ctx, const kin_index_source *source, kith_method method,
                               kin_index_kept *kept);
/* One that stands on a GPU stays there, whatever it has become. */
kith_status kin_index_stay_on_gpu(kith_ctx *ctx, const kin_index_source *source,
                                  const kith_index *index, kin_index_kept *kept);
/* On the GPU where the points lie, behind what the caller's stream holds. */
kith_status kin_index_keep_device(kith_ctx *ctx, const kin_index_source *source, int32_t device,
                                  void *stream, kith_index *index);
/* The points as rows in host memory: where they lie, or a copy, which the caller frees. */
kith_status kin_index_host_rows(kith_ctx *ctx, const kith_index *index, kith_matrix *rows,
                                void **copy);
/* The processor's preparation for all pairs. */
kith_status kin_index_prepare(kith_ctx *ctx, const kin_index_source *source,
                              kin_prepared *prepared);
/* All of it, of an index with that GPU; NULL is accepted. views: arrays lie in a file, walks apart.
 */
void kin_index_kept_free(kith_ctx *ctx, kin_gpu *gpu, bool views, kin_index_kept *kept);

/* ---- A graph, in the index' own context ------------------------------------------------------ */

/* A GPU where points lie, and the stream that fills them. */
typedef struct kin_index_there {
    int32_t device;
    void *stream;
} kin_index_there;

/* The ids alone. given NULL: a graph is made, where the points lie (there NULL: in host memory). */
kith_status kin_index_make_graph(kith_ctx *ctx, const kin_index_source *source,
                                 const kith_neighbors *given, const kin_index_there *there,
                                 kith_index *index);
/* Of points of which the first are the index'. */
kith_status kin_index_grow_graph(kith_ctx *ctx, const kin_index_source *source,
                                 const kith_index *index, kin_index_graph *made);
/* points: the index', on the host; removed: a byte for each of them; source: those that are left.
 */
kith_status kin_index_shrink_graph(kith_ctx *ctx, const kith_matrix *points,
                                   const kin_index_source *source, const uint8_t *removed,
                                   const kith_index *index, kin_index_graph *made);
/* Those for queries of this type, in the context of a search. */
kith_status kin_index_walks_for(kith_ctx *ctx, const kith_index *index, const kith_matrix *queries,
                                const kin_walks **walks);

/* What it is by. */
const char *kin_index_method_name(kith_method method);

#define KIN_INDEX_HAS_ITS_OWN "an index has its own (leave it out)"

#endif
