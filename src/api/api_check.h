/* SPDX-License-Identifier: Apache-2.0
 * Arguments are checked once, here, before anything is computed. Below api/ they are trusted. What
 * is of one chapter of the header is checked in that chapter's file. */
#ifndef KIN_API_CHECK_H
#define KIN_API_CHECK_H

#include "engine/engine_call.h"
#include "engine/engine_graph.h"

/* *checked = *matrix with its stride filled in. `name` stands in messages ("points", "queries"). */
kith_status kin_check_matrix(kith_ctx *ctx, const kith_matrix *matrix, const char *name,
                             kith_matrix *checked);
/* Of plans, which may have no data: *shape, where a matrix without any has an address that nobody
 * follows; NULL of NULL. */
const kith_matrix *kin_check_shape(const kith_matrix *matrix, kith_matrix *shape);
/* Two matrices that must have the same number of columns. */
kith_status kin_check_cols(kith_ctx *ctx, const kith_matrix *a, const char *a_name,
                           const kith_matrix *b, const char *b_name);
/* The metric, bound to a number of columns and to the context's instruction set. */
kith_status kin_check_metric(kith_ctx *ctx, kith_metric metric, kith_distance_fn custom,
                             void *custom_arg, int32_t cols, kin_distance *distance);
/* That of parameters which may have one of the caller's. */
#define KIN_CHECK_METRIC_OF(ctx, params, cols, distance)                                      \
    kin_check_metric((ctx), (params)->metric, (params)->custom, (params)->custom_arg, (cols), \
                     (distance))
/* A period for each column, of a metric that has boxes, which becomes the distance's; NULL, or
 * zeros alone: nothing does. The caller's array stays where it is as long as the distance is used.
 */
kith_status kin_check_period(kith_ctx *ctx, const double *period, kin_distance *distance);
/* KITH_E_UNSUPPORTED where there is a period, and `why` there cannot be. */
kith_status kin_refuse_period(kith_ctx *ctx, const double *period, const char *why);
/* k >= 1 and at most `most`, and the output of that shape. `why` explains the limit. */
kith_status kin_check_output(kith_ctx *ctx, int64_t k, int64_t most, const char *why,
                             const kith_neighbors *out, int64_t rows);
/* Neighbours with their ids, at least one. `name` stands in messages. */
kith_status kin_check_neighbors(kith_ctx *ctx, const kith_neighbors *neighbors, const char *name);
/* Ids of a graph are its points, or empty. */
kith_status kin_check_ids(kith_ctx *ctx, const kith_neighbors *graph, const char *name);
/* A graph of so many points, whose ids are those. */
kith_status kin_check_graph(kith_ctx *ctx, const kith_neighbors *graph, int64_t rows);
/* A radius is a number, and one that the metric can have. */
kith_status kin_check_radius(kith_ctx *ctx, kith_metric metric, double radius);
/* The radius of the k nearest: one that the metric can have, or none. */
kith_status kin_check_limit(kith_ctx *ctx, kith_metric metric, const kith_search_params *params);
/* A number that a caller gave for a kith_method. */
kith_status kin_check_method(kith_ctx *ctx, int method);
/* Bits of flags that are not in `known`, those of `of`, are an error. */
kith_status kin_check_flags(kith_ctx *ctx, uint32_t flags, uint32_t known, const char *of);
/* Structs that grow begin with struct_size, a uint32_t.
 *
 * KIN_GROWS(kith_search_params, flags): its name, where the first field stands that a caller may
 * not know, and its size. */
#define KIN_GROWS(type, first) #type, offsetof(type, first), sizeof(type)
/* Parameters as this library knows them, whatever the caller's struct_size: defaults, then what the
 * caller has set (kin_take_params). */
#define KIN_TAKE(ctx, type, first, given, known) \
    (*(known) = type##_default(), kin_take_params((ctx), KIN_GROWS(type, first), (given), (known)))
/* Parameters as this library knows them: *known, which are the defaults, become the caller's as far
 * as these reach. */
kith_status kin_take_params(kith_ctx *ctx, const char *type, size_t least, size_t size,
                            const void *given, void *known);
/* Room for what a call says, called `name`: NULL, or its struct_size is set. */
kith_status kin_check_room(kith_ctx *ctx, const void *room, const char *name, const char *type);
/* The same where it is what the call is for, so that it must be there. */
kith_status kin_check_told(kith_ctx *ctx, const void *room, const char *name, const char *type);
/* What the call says, as far as the caller's struct reaches. room may be NULL. */
void kin_fill_room(void *room, const void *said, size_t size);
/* The report of a call that has ended. */
kith_status kin_api_tell(const kin_call *call, kith_status status, kith_report *report);
/* A whole public call that has a report. */
#define KIN_CALL_TOLD(ctx, work, report)                                     \
    do {                                                                     \
        kin_call call_;                                                      \
        KIN_TRY(kin_call_begin((ctx), &call_));                              \
        return kin_api_tell(&call_, kin_call_end(&call_, (work)), (report)); \
    } while (0)

/* KITH_E_UNSUPPORTED of a filter: where there may be one it was taken out. */
kith_status kin_refuse_filter(kith_ctx *ctx, const kith_search_params *params);
/* The name of a file. */
kith_status kin_check_path(kith_ctx *ctx, const char *path);
/* Where a call puts a pointer: NULL is there until it has one. */
static inline void kin_clear_out(void *out)
{
    if (out != NULL) {
        memset(out, 0, sizeof(void *));
    }
}
static inline kith_status kin_check_out(kith_ctx *ctx, const void *out)
{
    KIN_ALLOW_IF(out != NULL, ctx, "out", "is NULL (give room for a pointer)");
}
/* Parameters as this library knows them, whatever the caller's struct_size. No filter. */
kith_status kin_check_search_params(kith_ctx *ctx, const kith_search_params *params,
                                    kith_search_params *known);

/* ---- Exact graphs and searches -------------------------------------------------------------- */

kith_status kin_api_check_graph(kith_ctx *ctx, const kith_matrix *points,
                                const kith_search_params *given, const kith_neighbors *out,
                                kin_knn_job *job);
kith_status kin_api_check_knn(kith_ctx *ctx, const kith_matrix *corpus, const kith_matrix *queries,
                              const kith_search_params *given, const kith_neighbors *out,
                              kin_knn_job *job);
/* The same for a corpus that was checked: job->corpus and job->request.distance. */
kith_status kin_api_check_queries(kith_ctx *ctx, const kith_matrix *queries,
                                  const kith_search_params *params, const kith_neighbors *out,
                                  kin_knn_job *job);

/* Under params.filter, which is set; job->corpus and queries were checked (of a graph they are
 * one).
 */
kith_status kin_api_check_filter(kith_ctx *ctx, const kith_search_params *params, bool graph,
                                 kin_filter_job *job);
/* The same of a filter alone, of calls that have other parameters. */
kith_status kin_api_take_filter(kith_ctx *ctx, const kith_filter *given, bool graph,
                                kin_filter_job *job);
/* Numbers of groups, but of those that lie on a GPU. */
kith_status kin_api_check_groups(kith_ctx *ctx, const kin_filter_job *job);
/* A search or a graph (queries NULL) with a filter; given: as kin_take_params has them. job->there
 * is read, all else is made. */
kith_status kin_api_check_filtered(kith_ctx *ctx, const kith_matrix *corpus,
                                   const kith_matrix *queries, const kith_search_params *given,
                                   const kith_neighbors *out, kin_filter_job *job);
/* kith_search of that. */
kith_status kin_api_search_filtered(kith_ctx *ctx, const kith_matrix *corpus,
                                    const kith_matrix *queries, const kith_search_params *params,
                                    const kith_neighbors *out);
/* *lists: out as lists of k of their own; where it has not their shape and there is one list a
 * query, as it is. out may be NULL, *lists is not written then. */
kith_status kin_api_check_lists(kith_ctx *ctx, const kin_filter_job *job, int64_t k,
                                const kith_neighbors *out, kith_neighbors *lists);

/* Which graph kith_graph makes of these params: a descent where it is named, or may be and will be
 * the sooner one. */
typedef struct kin_graph_choice {
    kith_search_params params; /* as kin_take_params has them */
    kin_choice choice;
    kin_descent_job descent; /* where it descends or may */
    kin_knn_job exact;       /* where it does not or may not; not of shapes alone */
} kin_graph_choice;

/* The way that params name, or leave open. *known: as kin_take_params has them. */
kith_status kin_api_take_choice(kith_ctx *ctx, const kith_search_params *given,
                                kith_search_params *known, kin_choice *choice);

/* A place beside those of exact_search_gpu.h: of the points the shape is all that matters, of
 * graphs what is known of them, and `out` is not looked at. */
enum { KIN_API_SHAPE = 1u << 30 };

/* place: of exact_search_gpu.h, or KIN_API_SHAPE. */
kith_status kin_api_check_choice(kith_ctx *ctx, const kith_matrix *points,
                                 const kith_search_params *given, uint32_t place,
                                 const kith_neighbors *out, kin_graph_choice *job);

/* report: NULL, or checked. */
kith_status kin_api_descend(kith_ctx *ctx, const kin_descent_job *job, const kith_neighbors *out,
                            kith_descent_report *report);

/* ---- Approximate graphs --------------------------------------------------------------------- */

/* params: here and below as kin_take_params has them. place: as above. Of `out` and points.data
 * addresses are not followed. */
kith_status kin_descent_check(kith_ctx *ctx, const kith_matrix *points,
                              const kith_search_params *params, uint32_t place,
                              const kith_neighbors *out, kin_descent_job *job);

/* What a descent shall have beside what any graph has. */
kith_status kin_api_take_descent(kith_ctx *ctx, const kith_search_params *params,
                                 kith_descent_params *descent);
/* All of *plan but what its caller estimates. reads: points.data are there, and may be read. */
kith_status kin_descent_plan(kith_ctx *ctx, const kin_descent_job *job, bool reads,
                             kith_plan *plan);

/* ---- Walks on a graph ----------------------------------------------------------------------- */

typedef struct kin_walk_call {
    kith_walk_params walk;
    kin_walks_search job;
    kin_filter_job filter; /* where there is one, job.filter; of an excluded id, too */
} kin_walk_call;

/* points, whose values are of no interest, are checked; params: as kin_take_params has them. */
kith_status kin_api_check_walk(kith_ctx *ctx, const kith_matrix *points, const kith_matrix *queries,
                               const kith_search_params *params, const kith_neighbors *out,
                               kin_walk_call *call);

/* ---- Radius --------------------------------------------------------------------------------- */

/* What a radius is asked of: a matrix, or points that are kept, whose distance is job->request's.
 */
typedef struct kin_radius_call {
    kith_matrix asked;
    kin_radius_job job; /* its queries: &asked, or NULL */
    kith_filter filter; /* struct_size 0: none */
    bool counts;        /* under a filter: lists are found, and their lengths wanted */
    bool there;         /* set before: matrices lie on a device, where lists may stay, */
    bool stays;         /* and shall */
} kin_radius_call;

/* Where engines are told that matrices lie, and lists. Under a filter these come to the host. */
static inline uint32_t kin_radius_place(const kin_radius_call *call)
{
    return (call->there ? KIN_GPU_DATA_ON_DEVICE : 0) |
           (call->stays && call->filter.struct_size == 0 ? KIN_GPU_OUT_ON_DEVICE : 0);
}
/* Lists that shall stay on a device go there, where they do not lie there. */
kith_status kin_api_send_ranges(kith_ctx *ctx, kin_gpu *gpu, const kin_radius_call *call,
                                kith_ranges *ranges);

/* kept: the metric that points are prepared for, which are in *call; KITH_METRIC_DEFAULT: corpus is
 * taken. */
kith_status kin_api_check_radius(kith_ctx *ctx, const kith_matrix *corpus,
                                 const kith_matrix *queries, const kith_radius_params *given,
                                 kith_metric kept, kin_radius_call *call);
/* What was found, where status is KITH_OK, without what the call's filter forbids. Hands the status
 * on. */
kith_status kin_api_filter_ranges(const kin_radius_call *call, kith_status status,
                                  kith_ranges *ranges);
/* Empty ranges of this context; and their end: they are *out, or freed where status is a failure.
 */
kith_status kin_ranges_make(kith_ctx *ctx, kith_ranges **ranges);
kith_status kin_ranges_end(kith_ranges *ranges, kith_status status, kith_ranges **out);
/* A metric of 0, or that of an index. */
kith_status kin_check_same_metric(kith_ctx *ctx, kith_metric metric, kith_metric own);

/* ---- Two graphs made one -------------------------------------------------------------------- */

/* place: as above; on a device all that may be a descent is one. */
kith_status kin_api_check_merge(kith_ctx *ctx, const kith_merge_sets *sets,
                                const kith_search_params *given, uint32_t place,
                                const kith_neighbors *out, kin_merge_job *job);

/* ---- Device memory (api_cuda.c) -------------------------------------------------------------- */

/* The device that an address belongs to (NULL: none): *device, where it is not below 0 before. */
kith_status kin_api_find_device(kith_ctx *ctx, const void *address, const char *name,
                                int32_t *device);
/* The same of all parts of an answer. */
kith_status kin_api_find_out(kith_ctx *ctx, const kith_neighbors *out, int32_t *device);
/* Whether the context may use that device, on which points lie. */
kith_status kin_api_check_device(kith_ctx *ctx, int32_t device);
/* The GPU begins behind what the caller's stream holds; NULL: the default stream. */
kith_status kin_api_follow(kith_ctx *ctx, kin_gpu *gpu, void *stream);
/* And the caller's stream goes on behind the GPU. */
kith_status kin_api_lead(kith_ctx *ctx, kin_gpu *gpu, void *stream);
/* What kin_limit (engine_exact.h) is to a table in device memory. A radius is compared with the
 * answers on the host, and they go back. */
typedef struct kin_api_limit {
    kin_limit cut;             /* cut.out: what an engine writes */
    uint32_t place;            /* of the job, as in exact_search_gpu.h */
    const kith_neighbors *out; /* the caller's */
    kith_neighbors table;      /* the same in host memory, where they go by it */
    void *block;               /* of it; NULL: they do not */
} kin_api_limit;
/* by_host: the answers are made in host memory, whether there is a radius or not. */
kith_status kin_api_limit_begin(kith_ctx *ctx, const kin_request *request,
                                const kith_neighbors *out, bool by_host, kin_api_limit *limit);
/* The answers are the caller's where status is KITH_OK, which it hands on. */
kith_status kin_api_limit_end(kith_ctx *ctx, kin_gpu *gpu, kin_api_limit *limit,
                              kith_status status);
/* The caller's excluded ids are host memory; engines expect them where the queries are. *copy: to
 * be freed there. */
kith_status kin_api_bring_excluded(kith_ctx *ctx, kin_gpu *gpu, kin_knn_job *job, uint32_t **copy);

/* Neighbours under a filter of matrices in device memory, wherever the filter's arrays are read on
 * the host: what `there` has not done (*done) is done of copies in host memory, and the answer goes
 * back. */
typedef struct kin_api_filtering {
    kin_filter_job job;
    const kith_neighbors *out;
    const kith_matrix *on_host; /* the corpus, where it is there, too; NULL: it is copied */
    kin_gpu *gpu;               /* of an index; NULL: the context's for `device` */
    int32_t device;
    void *stream;
    const void *arg; /* of there */
    kith_status (*there)(kith_ctx *ctx, const void *arg, const kin_filter_job *job,
                         const kin_filter_place *where, bool *done);
} kin_api_filtering;
kith_status kin_api_filter(kith_ctx *ctx, const kin_api_filtering *f);

/* What all plans say: lists of k of so many rows, the processor, and the method. */
kith_plan kin_api_plan_begin(const kith_ctx *ctx, int64_t rows, int64_t k, const char *method);
/* What it needs of a GPU, whose room is the budget. */
void kin_api_plan_gpu(kin_gpu *gpu, const kin_exact_gpu_need *need, kith_plan *plan);
/* Memory beside what a plan says so far. */
void kin_api_plan_add(kith_plan *plan, uint64_t bytes);
/* What the host holds beside the answer of a GPU, at most; gpu_corpus_chunks and result_bytes of
 * the plan are set. batches: of a pipeline that selects on the host. */
void kin_api_plan_host(const kith_matrix *corpus, const kith_matrix *queries,
                       const kin_request *request, uint64_t batches, kith_plan *plan);

/* ---- Selection ------------------------------------------------------------------------------ */

/* Checked arguments. Parameters are taken as this library knows them, whatever their struct_size.
 */
kith_status kin_api_check_select(kith_ctx *ctx, const kith_values *values,
                                 const kith_select_params *given, const kith_selection *out,
                                 kin_select_job *job);

/* The report's part about what was done there; gpu NULL: on the processor. */
void kin_api_select_report(kith_ctx *ctx, const kin_gpu *gpu, const kin_select_job *job);

#endif
