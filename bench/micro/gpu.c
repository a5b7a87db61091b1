/* SPDX-License-Identifier: Apache-2.0
 * What the exact engine reaches on a GPU, data resident on the device, beside its floor. Queries of
 * a prepared corpus and their answers are on the host, and so are both sets of a search in both
 * directions (by one product, and by two searches), of which those of the queries are compared.
 *
 *     bench_gpu [--file POINTS.u8bin] [--only TEXT] [--runs N] [--csv FILE] [--no-check]
 *
 * A warm-up, then the median of 5 runs of each work whose name holds TEXT; 32 sampled rows of each
 * are compared with the processor's answer. A table stands last; --csv appends its rows to a file.
 *
 * mixture   1,000 clusters; cluster c has a centre m_c ~ N(0, 1)^d and a matrix
 *           A_c ~ N(0, 1)^(12 x d); a point is m_c + 0.5 z A_c / sqrt(12) + 0.01 e,
 *           z ~ N(0, 1)^12, e ~ N(0, 1)^d, c at random. Normal numbers are sums of four uniform
 *           ones of 16 bits, which is near enough here.
 * gauss     N(0, 1)^d: no structure that a bound could use.
 * spectrum  1,000 clusters in the principal axes: coordinate i of a point is i^-p (c_i + 0.6 z_i),
 *           c_i of its cluster and z_i N(0, 1); then turned, so that no column is an axis:
 *           embeddings have such spectra.
 * floor     the time that the tensor cores need for the products alone: 2 x pairs x padded columns
 *           by the rate that was measured for dense products on an H200 (790 TFLOP/s in fp16,
 *           1,580 TOP/s in int8), each unordered pair once; or, where that is longer, one read of
 *           the rounded corpus at 4.3 TB/s. On other devices it is a unit of comparison, not a
 *           floor. */
#include "gpu/gpu.h"
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "host/host_threads.h"
#include "kith/kith_cuda.h"
#include "kith/kith_papers.h"
#include "screen/screen_set_gpu.h"

#include "base/base_random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum origin { MIXTURE, GAUSS, SPECTRUM, FROM_FILE } origin;
/* BOTH: two sets on the host, each searched with the other; TWICE: by two searches. */
typedef enum call { GRAPH, SEARCH, PREPARED, BOTH, TWICE } call;

typedef struct work {
    const char *name;
    call call;
    origin origin;
    int64_t rows;
    int64_t asked;
    int32_t cols;
    int32_t k;
    double power; /* p of a spectrum */
} work;

static const work works[] = {
    {"graph 100000x128 k10", GRAPH, MIXTURE, 100000, 0, 128, 10, 0.0},
    {"graph 262144x128 k10", GRAPH, MIXTURE, 262144, 0, 128, 10, 0.0},
    {"graph 262144x128 k64", GRAPH, MIXTURE, 262144, 0, 128, 64, 0.0},
    {"graph 262144x128 k10 gauss", GRAPH, GAUSS, 262144, 0, 128, 10, 0.0},
    {"100000 in 1000000x128", SEARCH, MIXTURE, 1000000, 100000, 128, 10, 0.0},
    {"1 in 1000000x128 prepared", PREPARED, MIXTURE, 1000000, 1, 128, 10, 0.0},
    {"10 in 1000000x128 prepared", PREPARED, MIXTURE, 1000000, 10, 128, 10, 0.0},
    {"both 500000x500000x128 k10", BOTH, MIXTURE, 500000, 500000, 128, 10, 0.0},
    {"both 500000x500000x128 k10 twice", TWICE, MIXTURE, 500000, 500000, 128, 10, 0.0},
    {"both 500000x500000x128 k10 gauss", BOTH, GAUSS, 500000, 500000, 128, 10, 0.0},
    {"both 500000x500000x128 k10 gauss twice", TWICE, GAUSS, 500000, 500000, 128, 10, 0.0},
    {"graph 1000000x128 k10", GRAPH, MIXTURE, 1000000, 0, 128, 10, 0.0},
    {"graph 1000000x128 k10 gauss", GRAPH, GAUSS, 1000000, 0, 128, 10, 0.0},
    {"graph 1000000x960 k10 spectrum 0.6", GRAPH, SPECTRUM, 1000000, 0, 960, 10, 0.6},
    {"graph 1000000x768 k10 spectrum 0.5", GRAPH, SPECTRUM, 1000000, 0, 768, 10, 0.5},
    {"graph of the file k10", GRAPH, FROM_FILE, 0, 0, 0, 10, 0.0},
    {"graph 10000000x96 k10", GRAPH, MIXTURE, 10000000, 0, 96, 10, 0.0},
};
enum { WORKS = sizeof works / sizeof *works, MOST_RUNS = 64, SAMPLES = 32 };

static const double F16_RATE = 790e12;
static const double S8_RATE = 1580e12;
static const double READ_RATE = 4.3e12;
/* What takes longer, in seconds, is run once after its warm-up. */
static const double PATIENCE = 4.0;

typedef struct result {
    const work *work;
    double seconds; /* median */
    double fastest;
    double slowest;
    int runs;
    double floor;
    kith_report report;
    const char *check;
} result;

typedef struct bench {
    kith_ctx *gpu;
    kith_ctx *cpu;
    const kin_gpu_ops *ops;
    kin_gpu_stream *stream;
    const char *file;
    const char *only;
    const char *csv;
    int runs;
    bool checks;
    const char *device;
} bench;

static void stop(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench_gpu: %s %s\n", what, detail);
    exit(1);
}

static void must(kith_ctx *ctx, kith_status status, const char *what)
{
    if (status != KITH_OK) {
        stop(what, kith_ctx_detail(ctx));
    }
}

static void *take(uint64_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        stop("no host memory for", "the points");
    }
    return block;
}

/* ---- Data ----------------------------------------------------------------------------------- */

enum { CLUSTERS = 1000, INTRINSIC = 12, PIECE = 4096 };

/* Mean 0, variance 1: four uniform numbers of 16 bits, of variance 1/12 each. */
static float normal(uint64_t *seed)
{
    const uint64_t bits = kin_random_next(seed);
    const int64_t sum =
        (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (float)(sum - 131070) * (1.7320508F / 65536.0F);
}

typedef struct maker {
    origin origin;
    float *points;
    const float *centres; /* CLUSTERS x cols */
    const float *frames;  /* CLUSTERS x INTRINSIC x cols */
    const float *scales;  /* of a spectrum: cols, with random signs */
    int64_t rows;
    int32_t cols;
    uint64_t seed;
} maker;

/* By 45 degrees in the planes of columns that are 1, 2, 4, ... apart. */
static void turn(float *row, int32_t cols)
{
    for (int32_t apart = 1; apart < cols; apart *= 2) {
        for (int32_t i = 0; i + apart < cols; i++) {
            if ((i & apart) == 0) {
                const float a = row[i];
                const float b = row[i + apart];
                row[i] = 0.70710678F * (a + b);
                row[i + apart] = 0.70710678F * (a - b);
            }
        }
    }
}

static void make_row(const maker *m, float *row, uint64_t *seed)
{
    if (m->origin == GAUSS) {
        for (int32_t j = 0; j < m->cols; j++) {
            row[j] = normal(seed);
        }
        return;
    }
    const int64_t cluster = (int64_t)kin_random_below(seed, CLUSTERS);
    if (m->origin == SPECTRUM) {
        for (int32_t j = 0; j < m->cols; j++) {
            row[j] = m->scales[j] * (m->centres[cluster * m->cols + j] + 0.6F * normal(seed));
        }
        turn(row, m->cols);
        return;
    }
    const float *frame = m->frames + cluster * INTRINSIC * m->cols;
    for (int32_t j = 0; j < m->cols; j++) {
        row[j] = m->centres[cluster * m->cols + j] + 0.01F * normal(seed);
    }
    for (int32_t i = 0; i < INTRINSIC; i++) {
        const float z = normal(seed) * (0.5F / 3.4641016F);
        for (int32_t j = 0; j < m->cols; j++) {
            row[j] += z * frame[i * m->cols + j];
        }
    }
}

static kith_status make_piece(void *arg, int64_t task, int32_t thread)
{
    (void)thread;
    const maker *m = arg;
    uint64_t seed = m->seed + (uint64_t)task * 0x10001;
    seed = kin_random_next(&seed);
    const int64_t last = (task + 1) * PIECE < m->rows ? (task + 1) * PIECE : m->rows;
    for (int64_t i = task * PIECE; i < last; i++) {
        make_row(m, m->points + i * m->cols, &seed);
    }
    return KITH_OK;
}

/* Clusters have their own seed: queries come from those of the corpus. */
static float *make_points(bench *b, const work *w, int64_t rows, uint64_t seed)
{
    const int32_t cols = w->cols;
    const int64_t centres = (int64_t)CLUSTERS * cols;
    float *clusters =
        take(((uint64_t)centres * (1 + INTRINSIC) + (uint64_t)cols) * sizeof *clusters);
    float *scales = clusters + centres * (1 + INTRINSIC);
    uint64_t of_clusters = 11;
    for (int64_t i = 0; i < centres * (1 + INTRINSIC); i++) {
        clusters[i] = normal(&of_clusters);
    }
    for (int32_t j = 0; j < cols; j++) {
        const float sign = (kin_random_next(&of_clusters) & 1) != 0 ? -1.0F : 1.0F;
        scales[j] = sign * (float)pow(1.0 + j, -w->power);
    }
    maker m = {.origin = w->origin,
               .points = take((uint64_t)rows * (uint64_t)cols * sizeof(float)),
               .centres = clusters,
               .frames = clusters + centres,
               .scales = scales,
               .rows = rows,
               .cols = cols,
               .seed = seed};
    must(b->cpu, kin_parallel(b->cpu, NULL, (rows + PIECE - 1) / PIECE, make_piece, &m), "making");
    free(clusters);
    return m.points;
}

/* ---- Device memory -------------------------------------------------------------------------- */

static void check_cuda(const bench *b, int error, const char *what)
{
    if (error != 0) {
        stop(what, b->ops->error_text(error));
    }
}

static void *on_device(const bench *b, uint64_t bytes)
{
    void *block = NULL;
    check_cuda(b, b->ops->allocate(b->stream, bytes, &block), "allocating:");
    return block;
}

static void *upload(const bench *b, const void *from, uint64_t bytes)
{
    void *block = on_device(b, bytes);
    check_cuda(b, b->ops->copy_in(b->stream, block, from, bytes), "copying:");
    check_cuda(b, b->ops->wait(b->stream), "copying:");
    return block;
}

static uint64_t matrix_bytes(const kith_matrix *m)
{
    return (uint64_t)m->rows * (uint64_t)m->cols * (uint64_t)kith_dtype_bytes(m->dtype);
}

/* ---- One work ------------------------------------------------------------------------------- */

typedef struct job {
    const work *work;
    kith_matrix points; /* on the host */
    kith_matrix queries;
    kith_matrix device_points;
    kith_matrix device_queries;
    kith_points *file;
    kith_neighbors
        out; /* on the device; of a prepared corpus and of both directions: on the host */
    kith_neighbors back; /* of the points among the queries */
    kith_index *corpus;
} job;

static bool is_on_host(const work *w)
{
    return w->call >= PREPARED;
}

static void make_out(bench *b, job *j)
{
    j->out = (kith_neighbors){.rows = j->work->call == GRAPH ? j->points.rows : j->work->asked,
                              .k = j->work->k};
    const uint64_t entries = (uint64_t)j->out.rows * (uint64_t)j->out.k;
    const bool host = is_on_host(j->work);
    j->out.ids = host ? take(entries * sizeof(uint32_t)) : on_device(b, entries * sizeof(uint32_t));
    j->out.distances = host ? take(entries * sizeof(float)) : on_device(b, entries * sizeof(float));
}

/* A prepared corpus takes its points from the host and keeps them on the device; few queries come
 * from the host, and their answers go there. */
static job job_make(bench *b, const work *w)
{
    job j = {.work = w};
    if (w->origin == FROM_FILE) {
        must(b->cpu, kith_points_open(b->cpu, b->file, NULL, &j.file), "opening");
        j.points = *kith_points_matrix(j.file);
    } else {
        j.points = (kith_matrix){.data = make_points(b, w, w->rows, 1),
                                 .rows = w->rows,
                                 .cols = w->cols,
                                 .dtype = KITH_F32};
    }
    if (w->call != GRAPH) {
        j.queries = j.points;
        j.queries.rows = w->asked;
        j.queries.data = make_points(b, w, w->asked, 2);
    }
    make_out(b, &j);
    if (w->call > PREPARED) {
        j.back = (kith_neighbors){.ids = take((uint64_t)w->rows * (uint64_t)w->k * 4),
                                  .distances = take((uint64_t)w->rows * (uint64_t)w->k * 4),
                                  .rows = w->rows,
                                  .k = w->k};
        return j;
    }
    if (w->call == PREPARED) {
        const kith_index_params params = kith_index_params_default();
        must(b->gpu, kith_index_create(b->gpu, &j.points, &params, &j.corpus), "preparing:");
        return j;
    }
    j.device_points = j.points;
    j.device_points.data = upload(b, j.points.data, matrix_bytes(&j.points));
    if (w->call == SEARCH) {
        j.device_queries = j.queries;
        j.device_queries.data = upload(b, j.queries.data, matrix_bytes(&j.queries));
    }
    return j;
}

static void release(const bench *b, const void *block)
{
    b->ops->release(b->stream, (void *)(uintptr_t)block);
}

static void job_free(bench *b, job *j)
{
    kith_index_free(j->corpus);
    if (is_on_host(j->work)) {
        free(j->out.ids);
        free(j->out.distances);
        free(j->back.ids);
        free(j->back.distances);
    } else {
        release(b, j->out.ids);
        release(b, j->out.distances);
        release(b, j->device_points.data);
        release(b, j->device_queries.data);
    }
    free((void *)(uintptr_t)j->queries.data);
    if (j->file != NULL) {
        kith_points_free(j->file);
    } else {
        free((void *)(uintptr_t)j->points.data);
    }
}

static double run_once(bench *b, const job *j)
{
    kith_search_params params = kith_search_params_default();
    params.k = j->work->k;
    kith_status status = KITH_OK;
    const int64_t start = kin_clock_ns();
    switch (j->work->call) {
    case BOTH:
    case TWICE:
        params.flags = j->work->call == TWICE ? KITH_NO_SYMMETRY : 0;
        status = kith_knn_both(b->gpu, &j->queries, &j->points, &params, &j->out, &j->back);
        break;
    case GRAPH:
        status = kith_cuda_graph(b->gpu, &j->device_points, &params, &j->out, NULL, NULL);
        break;
    case SEARCH:
        status =
            kith_cuda_search(b->gpu, &j->device_points, &j->device_queries, &params, &j->out, NULL);
        break;
    default:
        status = kith_index_search(b->gpu, j->corpus, &j->queries, &params, &j->out, NULL);
    }
    const double seconds = kin_clock_since(start);
    must(b->gpu, status, j->work->name);
    return seconds;
}

static void fetch(const bench *b, const job *j, void *to, const void *from, uint64_t bytes)
{
    if (is_on_host(j->work)) {
        memcpy(to, from, bytes);
    } else {
        check_cuda(b, b->ops->copy_out(b->stream, to, from, bytes), "copying:");
        check_cuda(b, b->ops->wait(b->stream), "copying:");
    }
}

/* Sampled rows against the processor's: ids and distances. */
static const char *check_rows(bench *b, const job *j)
{
    const bool graph = j->work->call == GRAPH;
    const kith_matrix *from = graph ? &j->points : &j->queries;
    const int64_t count = from->rows < SAMPLES ? from->rows : SAMPLES;
    const size_t row_bytes = (size_t)from->cols * (size_t)kith_dtype_bytes(from->dtype);
    const size_t k = (size_t)j->work->k;
    uint32_t own[SAMPLES];
    uint64_t seed = 3;
    unsigned char *rows = take((uint64_t)count * row_bytes);
    kith_neighbors wanted = {.rows = count, .k = j->work->k};
    wanted.ids = take((uint64_t)count * k * sizeof(uint32_t));
    wanted.distances = take((uint64_t)count * k * sizeof(float));
    uint32_t *ids = take(k * sizeof *ids);
    float *distances = take(k * sizeof *distances);
    for (int64_t i = 0; i < count; i++) {
        own[i] = graph ? (uint32_t)kin_random_below(&seed, (uint64_t)from->rows) : (uint32_t)i;
        memcpy(rows + (size_t)i * row_bytes, (const unsigned char *)from->data + own[i] * row_bytes,
               row_bytes);
    }
    kith_matrix asked = *from;
    asked.data = rows;
    asked.rows = count;
    asked.stride_bytes = 0;
    kith_search_params params = kith_search_params_default();
    params.k = j->work->k;
    params.exclude = graph ? own : NULL;
    must(b->cpu, kith_search(b->cpu, &j->points, &asked, &params, &wanted, NULL), "checking:");
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        const size_t at = own[i] * k;
        fetch(b, j, ids, j->out.ids + at, k * sizeof *ids);
        fetch(b, j, distances, j->out.distances + at, k * sizeof *distances);
        wrong += memcmp(ids, wanted.ids + (size_t)i * k, k * sizeof *ids) != 0 ||
                 memcmp(distances, wanted.distances + (size_t)i * k, k * sizeof *distances) != 0;
    }
    if (wrong != 0) {
        printf("  WRONG: %" PRId64 " of %" PRId64 " sampled rows differ\n", wrong, count);
    }
    free(rows);
    free(wanted.ids);
    free(wanted.distances);
    free(ids);
    free(distances);
    return wrong == 0 ? "same" : "WRONG";
}

static double floor_of(const job *j)
{
    const int32_t size = kith_dtype_bytes(j->points.dtype) == 1 ? 1 : 2;
    const int64_t bytes = ((int64_t)j->points.cols * size + KIN_SCREEN_GPU_SLICE - 1) /
                          KIN_SCREEN_GPU_SLICE * KIN_SCREEN_GPU_SLICE;
    const double rows = (double)j->points.rows;
    const double pairs =
        j->work->call == GRAPH ? rows * (rows - 1.0) / 2.0 : rows * (double)j->work->asked;
    const double product = 2.0 * pairs * (double)(bytes / size) / (size == 1 ? S8_RATE : F16_RATE);
    const double read = rows * (double)bytes / READ_RATE;
    return product > read ? product : read;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static result measure(bench *b, const work *w)
{
    double seconds[MOST_RUNS];
    job j = job_make(b, w);
    const int runs = run_once(b, &j) > PATIENCE ? 1 : b->runs;
    for (int i = 0; i < runs; i++) {
        seconds[i] = run_once(b, &j);
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, by_size);
    result r = {.work = w,
                .seconds = seconds[runs / 2],
                .fastest = seconds[0],
                .slowest = seconds[runs - 1],
                .runs = runs,
                .floor = floor_of(&j),
                .report = {.struct_size = sizeof r.report},
                .check = "-"};
    must(b->gpu, kith_ctx_report(b->gpu, &r.report), "report:");
    printf("%s: %.3f ms (%.3f to %.3f); check %.1f prepare %.1f screen %.1f rescore %.1f ms, %s\n",
           w->name, 1e3 * r.seconds, 1e3 * r.fastest, 1e3 * r.slowest, 1e3 * r.report.seconds_check,
           1e3 * r.report.seconds_prepare, 1e3 * r.report.seconds_screen,
           1e3 * r.report.seconds_rescore, r.report.screen);
    (void)fflush(stdout);
    if (b->checks) {
        r.check = check_rows(b, &j);
    }
    job_free(b, &j);
    return r;
}

/* ---- What is printed ------------------------------------------------------------------------ */

static void print_table(const bench *b, const result *results, int count)
{
    printf("\n%s, kith %s (%s), median of %d\n", b->device, kith_version(), kith_commit(), b->runs);
    printf("%-36s %10s %9s %6s %9s %9s %9s %10s %7s %7s %5s %7s %6s\n", "work", "ms", "floor ms",
           "share", "prepare", "screen", "rescore", "survivors", "rerun", "skipped", "axes",
           "looked", "rows");
    for (int i = 0; i < count; i++) {
        const result *r = &results[i];
        printf("%-36s %10.3f %9.3f %5.0f%% %9.3f %9.3f %9.3f %10.1f %6.2f%% %6.1f%% %5d %6.3f%% "
               "%6s\n",
               r->work->name, 1e3 * r->seconds, 1e3 * r->floor, 100.0 * r->floor / r->seconds,
               1e3 * r->report.seconds_prepare, 1e3 * r->report.seconds_screen,
               1e3 * r->report.seconds_rescore, r->report.candidates, 100.0 * r->report.rerun_share,
               100.0 * r->report.skipped_share, r->report.shadow_axes,
               100.0 * r->report.looked_share, r->check);
    }
}

static void append_csv(const bench *b, const result *results, int count)
{
    FILE *out = fopen(b->csv, "a");
    if (out == NULL) {
        stop("cannot write", b->csv);
    }
    if (fseek(out, 0, SEEK_END) == 0 && ftell(out) == 0) {
        (void)fprintf(out, "work,engine,seconds,seconds_min,seconds_max,runs,floor,share,survivors,"
                           "rerun,skipped,checked,device,commit\n");
    }
    for (int i = 0; i < count; i++) {
        const result *r = &results[i];
        (void)fprintf(out, "%s,kith,%.6f,%.6f,%.6f,%d,%.6f,%.3f,%.1f,%.5f,%.4f,%s,%s,%s\n",
                      r->work->name, r->seconds, r->fastest, r->slowest, r->runs, r->floor,
                      r->floor / r->seconds, r->report.candidates, r->report.rerun_share,
                      r->report.skipped_share, r->check, b->device, kith_commit());
    }
    if (fclose(out) != 0) {
        stop("cannot write", b->csv);
    }
}

static const char *value_of(int argc, char **argv, int *at)
{
    *at += 1;
    return *at < argc ? argv[*at] : "";
}

static bench options(int argc, char **argv)
{
    bench b = {.runs = 5, .checks = true, .only = ""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--file") == 0) {
            b.file = value_of(argc, argv, &i);
        } else if (strcmp(argv[i], "--only") == 0) {
            b.only = value_of(argc, argv, &i);
        } else if (strcmp(argv[i], "--csv") == 0) {
            b.csv = value_of(argc, argv, &i);
        } else if (strcmp(argv[i], "--runs") == 0) {
            b.runs = atoi(value_of(argc, argv, &i));
        } else if (strcmp(argv[i], "--no-check") == 0) {
            b.checks = false;
        } else {
            stop("unknown option", argv[i]);
        }
    }
    if (b.runs < 1 || b.runs > MOST_RUNS) {
        stop("--runs:", "give 1 to 64");
    }
    return b;
}

static void open_device(bench *b)
{
    static kin_gpu_info info;
    if (kin_gpu_reason() != NULL) {
        stop("no GPU:", kin_gpu_reason());
    }
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cpu";
    if (kith_ctx_create(&params, &b->cpu) != KITH_OK) {
        stop("no context", "");
    }
    params.device = "cuda:0";
    if (kith_ctx_create(&params, &b->gpu) != KITH_OK) {
        stop("no context", "");
    }
    b->ops = kin_gpu_get_module()->ops;
    check_cuda(b, b->ops->make_current(0), "device:");
    check_cuda(b, b->ops->open(0, NULL, &b->stream), "device:");
    check_cuda(b, b->ops->describe(0, &info), "device:");
    b->device = info.name;
}

int main(int argc, char **argv)
{
    static result results[WORKS];
    bench b = options(argc, argv);
    int count = 0;
    bool right = true;
    open_device(&b);
    for (int i = 0; i < WORKS; i++) {
        if ((works[i].origin == FROM_FILE && b.file == NULL) ||
            strstr(works[i].name, b.only) == NULL) {
            continue;
        }
        results[count] = measure(&b, &works[i]);
        right = right && strcmp(results[count].check, "WRONG") != 0;
        count += 1;
    }
    print_table(&b, results, count);
    if (b.csv != NULL) {
        append_csv(&b, results, count);
    }
    b.ops->close(b.stream);
    kith_ctx_free(b.gpu);
    kith_ctx_free(b.cpu);
    return right ? 0 : 1;
}
