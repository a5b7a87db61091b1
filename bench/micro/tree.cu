/* SPDX-License-Identifier: Apache-2.0
 * A laboratory, not a method of kith: the opponents of the buffer k-d tree's paper, beside kith's
 * packets, on the same tree of the same device.
 *
 *     bench_tree [--rows 2000000] [--queries 10000000] [--only TEXT] [--leaf 64] [--bounds box]
 *                [--buffer B] [--batch M] [--few 65536] [--patience 0.5] [--csv FILE] [--help]
 *
 * Idea. Gieseke, Heinermann, Oancea and Igel 2014, "Buffer k-d trees", compare their tree with one
 * thread a query (section 4.2, kdtree(gpu)), with rounds that do not buffer (section 4.3, figure
 * 3a) and with brute force, for tree heights (figure 2), k (figure 5) and columns (table 2). What
 * became of their differences on today's hardware is measured here:
 *
 *   packets        kith's own: 32 neighbouring queries are a warp (src/tree), through the module's
 *                  table; float32 candidates, as all others; canonical keys are no part of it
 *   alone sorted   one thread a query, queries sorted by the leaf they fall into
 *   alone          the same in the order in which queries came, which is random: the paper's
 *                  kdtree(gpu)
 *   buffered       the paper's buffer k-d tree (section 3, algorithms 1 to 4)
 *   unbuffered     its rounds, but a query is solved as soon as it has found a leaf
 *   brute          all pairs, tiles of points in shared memory, of the first 16,384 queries
 *
 * Kept from the paper: exactly one leaf a query and round; algorithm 1's two queues, of which
 * `again` goes first; M queries a round (--batch); the leaves' buffers emptied together when one is
 * half full, B = 2^(22 - height) (--buffer); a last step for the few that remain. What differs,
 * mostly for the opponent's good: the loop stays on the device but for 8 bytes a round; buffers are
 * one pool, sorted by leaf, so that none overflows and M need not be 5 B (it is at least 2^21, as a
 * device of today wants); a leaf's points go through shared memory, not a cache; the stack is 8
 * bytes a query; the few go on alone instead of all pairs, of both kinds of rounds; bounds are
 * planes and then boxes (--bounds plane: the paper's, with the classical tree's leaf visits);
 * planes split the widest column. Columns and k are constants of every kernel, as kith's columns
 * are. Against it: the leaf size is the one that suits packets, while in the paper buffers prefer
 * large leaves; runs with --leaf from 64 to 8192 would be its figure 2, and stand in no table.
 *
 * Data. colour d: z A + 0.05 s e, z ~ N(0, 1)^4, A ~ N(0, 1)^(4 x d), e ~ N(0, 1)^d, s the
 * deviation of z A over all columns: the paper's photometric features in spirit.
 *
 * How it is measured. CUDA events around everything a method does for its queries, medians. Sorting
 * queries for `packets` and `alone sorted` and building are timed on their own. A method that takes
 * longer than --patience seconds gets a prefix of the queries, found by trying, and one run; the
 * table says how many, and what all would take in proportion. Fewer queries favour whoever does not
 * batch. Every k-th value is compared with that of `packets`, and that with `brute`; one that
 * differs by more than float32 allows (tree_bound.h) makes the program fail.
 *
 * Limits. 4, 10, 15 and 27 columns, k 1 and 10, float32, Euclidean. Exits with 77 without a GPU. */
#include "tree/bench_tree_rounds.cuh"

/* The drivers are C11, whose atomic types C++17 has by other means; GCC 13's C++ library would hand
 * their header on to C's, which is no C++. */
#include <atomic>
#define _STDATOMIC_H
using std::atomic_bool;
using std::atomic_int;
using std::atomic_int_fast64_t;
using std::atomic_uchar;
using std::atomic_uint_fast64_t;
extern "C" {
#include "tree/tree_gpu.h"
}

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    NO_GPU = 77,
    MOST_RUNS = 7,
    TRIES = 4,
    PILOT_SHARE = 64,
    BRUTE_ASKED = 16384,
    BRUTE_PARTS = 32,
    LEAST_BATCH = 1 << 21,
    LEAST_BUFFER = 64
};

typedef enum method { PACKETS, ALONE_SORTED, ALONE, BUFFERED, UNBUFFERED, BRUTE, METHODS } method;

static const char *const method_names[METHODS] = {"packets",  "alone sorted", "alone",
                                                  "buffered", "unbuffered",   "brute"};

/* What is a template on columns and k. */
typedef struct solver {
    int32_t cols;
    int32_t k;
    cudaError_t (*alone)(const search_job *job, cudaStream_t stream);
    cudaError_t (*rounds)(const search_job *job, const round_room *room, const round_rules *rules,
                          cudaStream_t stream);
    cudaError_t (*brute)(const search_job *parts, const search_job *whole, cudaStream_t stream);
} solver;

typedef struct bench {
    int64_t rows;
    int64_t queries;
    int64_t leaf_points;
    int64_t buffer; /* 0: by the height */
    int64_t batch;  /* 0: by the buffer */
    int64_t few;
    bool boxes;
    double patience;
    const char *only;
    FILE *csv;
    kith_ctx *ctx;
    kin_gpu *gpu;
    const kin_tree_kernels *kernels;
    cudaStream_t stream;
    kin_gpu_stream *module_stream; /* the same one */
    cudaEvent_t begin;
    cudaEvent_t end;
} bench;

/* One data set, one k; device memory. */
typedef struct work {
    char name[32];
    const solver *with;
    kin_tree_gpu tree;
    float *rows; /* queries, by query, wide columns */
    float *row_lost;
    uint32_t *order;
    int64_t ordered; /* the prefix that order sorts */
    double order_ms;
    void *order_scratch;
    kin_tree_gpu_lists lists;
    uint64_t *packets_met;
    float *reference; /* k-th values of packets, by query */
    int64_t known;    /* the prefix that has one */
    search_job job;
    search_job parts;
    round_room room;
    round_rules rules;
} work;

typedef struct result {
    method how;
    int64_t asked;
    int runs;
    double ms; /* median */
    double pairs;
    double leaves;
    uint64_t wrong;
    uint64_t unknown; /* queries whose list of packets lost something */
} result;

static void must_kith(const bench *b, kith_status status, const char *what)
{
    if (status != KITH_OK) {
        stop(what, kith_ctx_detail(b->ctx));
    }
}

static void must_launch(const bench *b, int error, const char *what)
{
    must_kith(b, kin_gpu_check(b->ctx, b->gpu, error, what), what);
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Points and queries of a width have the same axes and other seeds. */
static float *colour(const bench *b, int32_t cols, int64_t rows, uint64_t seed)
{
    recipe from = {};
    double squares = 0.0;
    float *points = NULL;
    for (int i = 0; i < INTRINSIC; i++) {
        for (int32_t c = 0; c < cols; c++) {
            from.axes[i][c] = normal(7, (uint64_t)(i * MOST_COLS + c));
            squares += (double)from.axes[i][c] * (double)from.axes[i][c];
        }
    }
    from.noise = (float)(0.05 * sqrt(squares / cols));
    from.cols = cols;
    from.rows = rows;
    from.seed = seed;
    take(&points, (uint64_t)(rows * cols));
    colour_kernel<<<blocks_for(rows), THREADS, 0, b->stream>>>(from, points);
    must(cudaStreamSynchronize(b->stream), "making data:");
    return points;
}

static kin_screen_gpu_rows rows_of(const float *points, int64_t rows, int32_t cols)
{
    kin_screen_gpu_rows view = {};
    view.data = points;
    view.rows = rows;
    view.stride_bytes = cols * (int64_t)sizeof(float);
    view.cols = cols;
    view.dtype = KITH_F32;
    view.metric = KITH_EUCLIDEAN;
    return view;
}

/* ---- Timing ---------------------------------------------------------------------------------- */

static void start_clock(const bench *b)
{
    must(cudaEventRecord(b->begin, b->stream), "timing:");
}

static double stop_clock(const bench *b, const char *what)
{
    float ms = 0.0F;
    must(cudaEventRecord(b->end, b->stream), "timing:");
    must(cudaEventSynchronize(b->end), what);
    must(cudaEventElapsedTime(&ms, b->begin, b->end), "timing:");
    return (double)ms;
}

/* ---- What is compared ------------------------------------------------------------------------ */

static void compare(const bench *b, const work *w, result *r)
{
    unsigned long long seen[2] = {0, 0};
    const float allowed = w->tree.widen * w->tree.widen;
    must(cudaMemsetAsync(w->job.met, 0, sizeof seen, b->stream), "checking:");
    compare_kernel<<<blocks_for(r->asked), THREADS, 0, b->stream>>>(
        w->reference, w->job.values, w->with->k, r->asked, allowed, w->job.met);
    must(cudaMemcpyAsync(seen, w->job.met, sizeof seen, cudaMemcpyDeviceToHost, b->stream),
         "checking:");
    must(cudaStreamSynchronize(b->stream), "checking:");
    r->wrong = seen[0];
    r->unknown = seen[1];
}

/* ---- Methods --------------------------------------------------------------------------------- */

template <int COLS, int K>
static cudaError_t solve_alone(const search_job *job, cudaStream_t stream)
{
    alone_kernel<COLS, K><<<blocks_for(job->count), THREADS, 0, stream>>>(*job);
    return cudaGetLastError();
}

template <int COLS, int K>
static cudaError_t solve_brute(const search_job *parts, const search_job *whole,
                               cudaStream_t stream)
{
    const dim3 grid((unsigned)(whole->count / (THREADS * BRUTE_QUERIES)), BRUTE_PARTS);
    brute_kernel<COLS, K><<<grid, THREADS, 0, stream>>>(*parts);
    merge_parts_kernel<K>
        <<<blocks_for(whole->count), THREADS, 0, stream>>>(*parts, BRUTE_PARTS, *whole);
    return cudaGetLastError();
}

#define SOLVER(cols, k)                                                            \
    {                                                                              \
        cols, k, solve_alone<cols, k>, solve_rounds<cols, k>, solve_brute<cols, k> \
    }
static const solver solvers[] = {SOLVER(4, 1),  SOLVER(4, 10),  SOLVER(10, 1), SOLVER(10, 10),
                                 SOLVER(15, 1), SOLVER(15, 10), SOLVER(27, 1), SOLVER(27, 10)};
enum { SOLVERS = sizeof solvers / sizeof *solvers };

/* order: the first `asked` queries by leaf. */
static void sort_queries(const bench *b, work *w, int64_t asked)
{
    uint64_t bytes = 0;
    kin_tree_gpu_order job = {};
    job.tree = w->tree;
    job.rows = w->rows;
    job.count = asked;
    job.scratch_bytes = &bytes;
    if (w->ordered == asked) {
        return;
    }
    must_launch(b, b->kernels->order(b->module_stream, &job), "sorting queries");
    job.order = w->order;
    job.scratch = w->order_scratch;
    start_clock(b);
    must_launch(b, b->kernels->order(b->module_stream, &job), "sorting queries");
    w->order_ms = stop_clock(b, "sorting queries:");
    w->ordered = asked;
}

static void walk_packets(const bench *b, const work *w, int64_t asked)
{
    kin_tree_gpu_walk job = {};
    job.tree = w->tree;
    job.rows = w->rows;
    job.row_lost = w->row_lost;
    job.order = w->order;
    job.count = asked;
    job.lists = w->lists;
    job.met = w->packets_met;
    must_launch(b, b->kernels->walk(b->module_stream, &job), "walking");
}

/* Milliseconds of one run; what was met is that of this run. */
static double run_once(const bench *b, work *w, method how, int64_t asked)
{
    search_job job = w->job;
    round_rules rules = w->rules;
    cudaError_t error = cudaSuccess;
    job.count = asked;
    job.order = how == ALONE_SORTED ? w->order : NULL;
    rules.buffered = how == BUFFERED;
    if (how == PACKETS || how == ALONE_SORTED) {
        sort_queries(b, w, asked);
    }
    must(cudaMemsetAsync(w->job.met, 0, MET_SLOTS * 2 * sizeof *w->job.met, b->stream),
         "counters:");
    must(cudaMemsetAsync(w->packets_met, 0, 3 * sizeof *w->packets_met, b->stream), "counters:");
    /* What another method has left can be no answer. */
    must(cudaMemsetAsync(w->job.values, 0xff, (size_t)(asked * w->with->k) * sizeof(float),
                         b->stream),
         "wiping:");
    start_clock(b);
    if (how == PACKETS) {
        walk_packets(b, w, asked);
    } else if (how == ALONE_SORTED || how == ALONE) {
        error = w->with->alone(&job, b->stream);
    } else if (how == BRUTE) {
        error = w->with->brute(&w->parts, &job, b->stream);
    } else {
        error = w->with->rounds(&job, &w->room, &rules, b->stream);
    }
    must(error, method_names[how]);
    return stop_clock(b, method_names[how]);
}

static void read_met(const bench *b, const work *w, result *r)
{
    unsigned long long met[MET_SLOTS][2];
    uint64_t packets[3] = {0, 0, 0};
    must(cudaMemcpyAsync(met, w->job.met, sizeof met, cudaMemcpyDeviceToHost, b->stream),
         "counters:");
    must(
        cudaMemcpyAsync(packets, w->packets_met, sizeof packets, cudaMemcpyDeviceToHost, b->stream),
        "counters:");
    must(cudaStreamSynchronize(b->stream), "counters:");
    r->pairs = (double)packets[0];
    r->leaves = (double)packets[1];
    for (int i = 0; i < MET_SLOTS; i++) {
        r->pairs += (double)met[i][0];
        r->leaves += (double)met[i][1];
    }
    if (r->how == BRUTE) {
        r->pairs = (double)r->asked * (double)w->tree.points;
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As many queries as patience allows: tries are the warm-up, but for the last one, the first run.
 */
static void try_queries(const bench *b, work *w, int64_t most, result *r, double *first_ms)
{
    const double patience = 1e3 * b->patience;
    r->asked = most / PILOT_SHARE > BRUTE_ASKED ? most / PILOT_SHARE : BRUTE_ASKED;
    r->asked = r->asked < most ? r->asked : most;
    for (int tries = 1;; tries++) {
        *first_ms = run_once(b, w, r->how, r->asked);
        const double fit = 0.9 * patience / *first_ms * (double)r->asked;
        if (tries == TRIES || r->asked == most || fit < 1.5 * (double)r->asked) {
            break;
        }
        r->asked = fit < (double)most ? (int64_t)fit : most;
    }
}

static result measure(const bench *b, work *w, method how)
{
    double ms[MOST_RUNS];
    result r = {};
    r.how = how;
    try_queries(b, w, how == BRUTE ? BRUTE_ASKED : how == PACKETS ? b->queries : w->known, &r, ms);
    double spent = ms[0];
    r.runs = 1;
    while (r.runs < MOST_RUNS && spent + ms[0] < 1e3 * b->patience) {
        ms[r.runs] = run_once(b, w, how, r.asked);
        spent += ms[r.runs++];
    }
    qsort(ms, (size_t)r.runs, sizeof *ms, by_size);
    r.ms = ms[r.runs / 2];
    read_met(b, w, &r);
    if (how == PACKETS) {
        w->known = r.asked;
        reference_kernel<<<blocks_for(r.asked), THREADS, 0, b->stream>>>(w->lists, w->order,
                                                                         r.asked, w->reference);
        must(cudaGetLastError(), "reference:");
    } else {
        compare(b, w, &r);
    }
    return r;
}

/* Lists of packets that lost something have no k-th value; if they are many, nothing was compared.
 */
static bool is_right(const result *r)
{
    return r->wrong == 0 && 100 * (int64_t)r->unknown <= r->asked;
}

/* ---- What is printed ------------------------------------------------------------------------- */

static void print_head(const work *w)
{
    printf("\n%s: %" PRId64 " points, height %d, queries sorted "
           "in %.2f ms (%" PRId64 ")\n",
           w->name, w->tree.points, w->tree.height, w->order_ms, w->ordered);
    printf("%-10s %3s %-13s %10s %5s %10s %10s %12s %12s %10s %7s\n", "work", "k", "method",
           "queries", "runs", "ms", "ns/query", "ms for all", "pairs/query", "leaves", "check");
}

static void print_row(const bench *b, const work *w, const result *r)
{
    const double asked = (double)r->asked;
    printf("%-10s %3d %-13s %10" PRId64 " %5d %10.3f %10.2f %12.2f %12.1f %10.2f %7s\n", w->name,
           w->with->k, method_names[r->how], r->asked, r->runs, r->ms, 1e6 * r->ms / asked,
           r->ms * (double)b->queries / asked, r->pairs / asked, r->leaves / asked,
           r->how == PACKETS ? "-"
           : is_right(r)     ? "same"
                             : "WRONG");
    if (r->wrong != 0 || r->unknown != 0) {
        printf("%-10s %3d %-13s %" PRIu64 " k-th values differ, %" PRIu64 " are not known\n",
               w->name, w->with->k, method_names[r->how], r->wrong, r->unknown);
    }
    (void)fflush(stdout);
}

static void append_row(const bench *b, const work *w, const char *method, const result *r)
{
    const time_t now = time(NULL);
    char date[16] = "";
    if (b->csv == NULL) {
        return;
    }
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    (void)fprintf(b->csv, "%s,%s,%" PRId64 ",%" PRId64 ",%d,%d,%.4f,%.3f,%.0f,%.0f,%s,%s,", w->name,
                  method, w->tree.points, r->asked, w->tree.cols, w->with->k, r->ms,
                  1e6 * r->ms / (double)r->asked, r->pairs, r->leaves, b->gpu->info.name,
                  kith_commit());
    (void)fprintf(b->csv, "%s,%d,%d,%s,%" PRId64 ",%u,%s\n", date, r->runs, w->tree.height,
                  b->boxes ? "box" : "plane", w->rules.batch, 2 * w->rules.half,
                  is_right(r) ? "same" : "WRONG");
}

static FILE *open_csv(const char *path)
{
    FILE *out = fopen(path, "a");
    if (out == NULL) {
        stop("cannot write", path);
    }
    if (fseek(out, 0, SEEK_END) == 0 && ftell(out) == 0) {
        (void)fprintf(out, "work,method,rows,queries,columns,k,ms,ns_a_query,pairs,leaves,device,"
                           "commit,date,runs,height,bounds,batch,buffer,checked\n");
    }
    return out;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Tree, queries in its units, and room for their order. */
static void make_work(const bench *b, work *w)
{
    const int32_t cols = w->with->cols;
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(b->ctx, b->gpu);
    float *points = colour(b, cols, b->rows, 1);
    const kin_screen_gpu_rows rows = rows_of(points, b->rows, cols);
    uint64_t bytes = 0;
    (void)snprintf(w->name, sizeof w->name, "colour %d", cols);
    must_kith(b, kin_tree_gpu_make(&on, &rows, NULL, b->rows, b->leaf_points, &w->tree),
              "making a tree");
    must_kith(b, kin_gpu_wait(b->ctx, b->gpu), "making a tree");
    must(cudaFree(points), "freeing:");
    points = colour(b, cols, b->queries, 2);
    take(&w->rows, (uint64_t)(b->queries * w->tree.wide));
    take(&w->row_lost, (uint64_t)b->queries);
    kin_tree_gpu_round round = {};
    round.rows = rows_of(points, b->queries, cols);
    round.count = b->queries;
    round.wide = w->tree.wide;
    round.norm = w->tree.norm;
    round.scale = w->tree.scale;
    round.shift = w->tree.shift;
    round.out = w->rows;
    round.lost = w->row_lost;
    must_launch(b, b->kernels->round(b->module_stream, &round), "rounding queries");
    must(cudaStreamSynchronize(b->stream), "rounding queries:");
    must(cudaFree(points), "freeing:");
    kin_tree_gpu_order order = {};
    order.tree = w->tree;
    order.rows = w->rows;
    order.count = b->queries;
    order.scratch_bytes = &bytes;
    must_launch(b, b->kernels->order(b->module_stream, &order), "sorting queries");
    take((unsigned char **)&w->order_scratch, bytes);
    take(&w->order, (uint64_t)b->queries);
}

/* The paper's B, and an M that keeps a device at work. */
static void make_rounds(const bench *b, work *w)
{
    const int64_t by_height = (int64_t)1 << (w->tree.height < 22 ? 22 - w->tree.height : 0);
    const int64_t usual = by_height > LEAST_BUFFER ? by_height : LEAST_BUFFER;
    const int64_t buffer = b->buffer != 0 ? b->buffer : usual;
    w->rules.half = (uint32_t)((buffer + 1) / 2);
    w->rules.batch = b->batch != 0 ? b->batch : 5 * buffer > LEAST_BATCH ? 5 * buffer : LEAST_BATCH;
    w->rules.few = b->few;
    make_room(&w->room, b->queries, w->tree.height);
}

/* Lists of the widest k serve all. */
static void make_lists(const bench *b, work *w, int32_t most_k)
{
    const uint64_t places = ((uint64_t)b->queries + KIN_TREE_GPU_PACKET - 1) / KIN_TREE_GPU_PACKET *
                            KIN_TREE_GPU_PACKET;
    const uint64_t values = (uint64_t)b->queries * (uint64_t)most_k;
    const int32_t capacity =
        kin_tree_gpu_list_room(KITH_F32, most_k, b->kernels->walk_short(b->module_stream));
    take(&w->lists.words, places * (uint64_t)capacity);
    take(&w->lists.counts, places);
    take(&w->lists.lost, places);
    take(&w->packets_met, 3);
    take(&w->reference, (uint64_t)b->queries);
    w->job.tree = w->tree;
    w->job.rows = w->rows;
    w->job.boxes = b->boxes;
    take(&w->job.values, values);
    take(&w->job.positions, values);
    take(&w->job.met, 2 * (uint64_t)MET_SLOTS);
    w->parts = w->job;
    w->parts.count = BRUTE_ASKED;
    take(&w->parts.values, (uint64_t)BRUTE_ASKED * BRUTE_PARTS * (uint64_t)most_k);
    take(&w->parts.positions, (uint64_t)BRUTE_ASKED * BRUTE_PARTS * (uint64_t)most_k);
}

static void free_work(const bench *b, work *w)
{
    const kin_screen_gpu_device on = kin_screen_gpu_device_of(b->ctx, b->gpu);
    void *const arrays[] = {w->rows,         w->row_lost,       w->order,         w->order_scratch,
                            w->lists.words,  w->lists.counts,   w->lists.lost,    w->packets_met,
                            w->reference,    w->job.values,     w->job.positions, w->job.met,
                            w->parts.values, w->parts.positions};
    for (void *array : arrays) {
        must(cudaFree(array), "freeing:");
    }
    free_room(&w->room);
    kin_tree_gpu_free(&on, &w->tree);
}

/* Every method with one k. */
static bool compare_methods(const bench *b, work *w)
{
    bool right = true;
    w->lists.wanted = w->with->k;
    w->lists.capacity =
        kin_tree_gpu_list_room(KITH_F32, w->with->k, b->kernels->walk_short(b->module_stream));
    for (int how = PACKETS; how < METHODS; how++) {
        const result r = measure(b, w, (method)how);
        if (how == PACKETS) {
            const result sorting = {PACKETS, w->ordered, 1, w->order_ms, 0.0, 0.0, 0, 0};
            print_head(w);
            append_row(b, w, "sorting", &sorting);
        }
        print_row(b, w, &r);
        append_row(b, w, method_names[how], &r);
        right = right && is_right(&r);
    }
    return right;
}

static bool is_wanted(const bench *b, const solver *with)
{
    char name[32] = "";
    (void)snprintf(name, sizeof name, "colour %d k%d", with->cols, with->k);
    return b->only == NULL || strstr(name, b->only) != NULL;
}

/* Solvers of one width stand together and share data and tree; the last has the largest k. */
static bool compare_all(const bench *b)
{
    bool right = true;
    for (int first = 0; first < SOLVERS;) {
        int last = first;
        int wanted = 0;
        for (; last < SOLVERS && solvers[last].cols == solvers[first].cols; last++) {
            wanted += is_wanted(b, solvers + last) ? 1 : 0;
        }
        if (wanted > 0) {
            work w = {};
            w.with = solvers + first;
            make_work(b, &w);
            make_rounds(b, &w);
            make_lists(b, &w, solvers[last - 1].k);
            for (int i = first; i < last; i++) {
                w.with = solvers + i;
                right = (!is_wanted(b, w.with) || compare_methods(b, &w)) && right;
            }
            free_work(b, &w);
        }
        first = last;
    }
    printf("\n%s\n", right ? "every k-th value as expected" : "WRONG values: see above");
    return right;
}

static int64_t number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end = NULL;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most) {
        stop(option, "a number that makes no sense");
    }
    return value;
}

static void help(void)
{
    printf("bench_tree [--rows 2000000] [--queries 10000000] [--only TEXT] [--leaf 64]\n"
           "           [--bounds box|plane] [--buffer B] [--batch M] [--few 65536]\n"
           "           [--patience 0.5] [--csv FILE]\n"
           "Ways through a k-d tree on a GPU, side by side; --only 'colour 10', say.\n");
    exit(0);
}

static bench options(int argc, char **argv)
{
    bench b = {};
    b.rows = 2000000;
    b.queries = 10000000;
    b.leaf_points = 64;
    b.few = 65536;
    b.boxes = true;
    b.patience = 0.5;
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        const struct {
            const char *name;
            int64_t *number;
            int64_t least;
            int64_t most;
        } numbers[] = {{"--rows", &b.rows, 1024, 100000000},
                       {"--queries", &b.queries, BRUTE_ASKED, 100000000},
                       {"--leaf", &b.leaf_points, KIN_TREE_LANES, 1 << 20},
                       {"--buffer", &b.buffer, 1, 1 << 24},
                       {"--batch", &b.batch, 1, 100000000},
                       {"--few", &b.few, 0, 100000000}};
        bool known = false;
        for (const auto &one : numbers) {
            if (strcmp(option, one.name) == 0) {
                *one.number = number(option, value, one.least, one.most);
                known = true;
            }
        }
        if (strcmp(option, "--help") == 0) {
            help();
        } else if (strcmp(option, "--only") == 0) {
            b.only = value;
        } else if (strcmp(option, "--patience") == 0) {
            b.patience = atof(value);
        } else if (strcmp(option, "--csv") == 0) {
            b.csv = open_csv(value);
        } else if (strcmp(option, "--bounds") == 0) {
            b.boxes = strcmp(value, "box") == 0;
            if (!b.boxes && strcmp(value, "plane") != 0) {
                stop("--bounds:", "give box or plane");
            }
        } else if (!known) {
            stop("unknown option", option);
        }
    }
    if (!(b.patience > 0.0)) {
        stop("--patience:", "give seconds above 0");
    }
    return b;
}

/* The device twice: for kith's drivers, and a stream of our own that its kernels take, too. */
static void open_device(bench *b)
{
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cuda";
    const int32_t index = kin_gpu_first();
    if (kith_ctx_create(&params, &b->ctx) != KITH_OK) {
        stop("no context:", "memory");
    }
    must_kith(b, kin_gpu_open(b->ctx, index, 0, &b->gpu), "opening the device:");
    kin_gpu_enter(b->gpu);
    must(cudaSetDevice(index), "device:");
    must(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "device:");
    must_launch(b, b->gpu->module->ops->open(index, b->stream, &b->module_stream), "device:");
    must(cudaEventCreate(&b->begin), "device:");
    must(cudaEventCreate(&b->end), "device:");
    b->kernels = b->gpu->module->tree;
}

static void close_device(bench *b)
{
    must(cudaEventDestroy(b->begin), "freeing:");
    must(cudaEventDestroy(b->end), "freeing:");
    b->gpu->module->ops->close(b->module_stream);
    must(cudaStreamDestroy(b->stream), "freeing:");
    kin_gpu_leave(b->gpu);
    kin_gpu_close(b->ctx, b->gpu);
    kith_ctx_free(b->ctx);
}

int main(int argc, char **argv)
{
    bench b = options(argc, argv);
    if (kin_gpu_reason() != NULL) {
        printf("bench_tree: no GPU (%s)\n", kin_gpu_reason());
        return NO_GPU;
    }
    open_device(&b);
    printf("%s, kith %s (%s), %" PRId64 " queries, patience %.2f s, bounds: %s\n", b.gpu->info.name,
           kith_version(), kith_commit(), b.queries, b.patience, b.boxes ? "boxes" : "planes");
    const bool right = compare_all(&b);
    close_device(&b);
    if (b.csv != NULL && fclose(b.csv) != 0) {
        stop("cannot write", "the table");
    }
    return right ? 0 : 1;
}
