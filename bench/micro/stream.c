/* SPDX-License-Identifier: Apache-2.0
 * Searches whose corpus or queries are larger than their share of a GPU: how much of the uploads is
 * hidden behind computation.
 *
 *     bench_stream [--only TEXT] [--runs N] [--memory MIB]
 *
 * Rows are N(0, 1)^d on the host, k = 10. Each work is measured three times, a warm-up and then the
 * median of 5 runs: with all of the device, and within --memory MIB (default 512) with uploads that
 * are waited for and with uploads ahead (gpu/gpu_ahead.c).
 *
 *   whole     ms with all of the device; upload and download included
 *   waiting   ms in chunks and stripes, every upload before its computation
 *   ahead     ms in chunks and stripes, the next rows coming meanwhile
 *   upload    ms that the uploads of that run took which were begun ahead
 *   hidden    share of them that nobody waited for
 *   answers   of both, compared byte for byte
 */
#include "base/base_random.h"
#include "engine/engine_call.h"
#include "gpu/gpu.h"
#include "host/host_clock.h"
#include "host/host_threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct work {
    const char *name;
    int64_t rows;
    int64_t asked; /* 0: a graph */
    int32_t cols;
} work;

static const work works[] = {
    {"1000 in 1000000x128", 1000000, 1000, 128},
    {"10000 in 1000000x128", 1000000, 10000, 128},
    {"100000 in 1000000x128", 1000000, 100000, 128},
    {"1000000 in 100000x128", 100000, 1000000, 128},
    {"10000 in 300000x960", 300000, 10000, 960},
    {"graph 1000000x128", 1000000, 0, 128},
};
enum { WORKS = sizeof works / sizeof *works, K = 10, MOST_RUNS = 64, PIECE = 4096 };

static void stop(const char *what, const char *detail)
{
    (void)fprintf(stderr, "bench_stream: %s %s\n", what, detail);
    exit(1);
}

static void *take(uint64_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        stop("no host memory for", "the rows");
    }
    return block;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef struct maker {
    float *rows;
    int64_t count;
    int32_t cols;
    uint64_t seed;
} maker;

/* Sums of four uniform numbers of 16 bits: mean 0, variance 1, near enough to normal. */
static kith_status make_piece(void *arg, int64_t task, int32_t thread)
{
    const maker *m = arg;
    const int64_t last = (task + 1) * PIECE < m->count ? (task + 1) * PIECE : m->count;
    uint64_t seed = m->seed + (uint64_t)task * 0x10001;
    (void)thread;
    for (int64_t i = task * PIECE * m->cols; i < last * m->cols; i++) {
        const uint64_t bits = kin_random_next(&seed);
        const int64_t sum = (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                      (bits >> 32 & 0xffff) + (bits >> 48));
        m->rows[i] = (float)(sum - 131070) * (1.7320508F / 65536.0F);
    }
    return KITH_OK;
}

static kith_matrix make_rows(kith_ctx *ctx, int64_t count, int32_t cols, uint64_t seed)
{
    maker m = {.rows = take((uint64_t)count * (uint64_t)cols * sizeof(float)),
               .count = count,
               .cols = cols,
               .seed = seed};
    (void)kin_parallel(ctx, NULL, (count + PIECE - 1) / PIECE, make_piece, &m);
    return (kith_matrix){.data = m.rows, .rows = count, .cols = cols, .dtype = KITH_F32};
}

/* ---- One work -------------------------------------------------------------------------------- */

typedef struct job {
    kith_matrix corpus;
    kith_matrix queries;
    bool graph;
    int runs;
} job;

typedef struct result {
    double seconds;
    double upload;
    double waited;
    int64_t chunks;
    int64_t stripes;
} result;

static kith_ctx *make_ctx(uint64_t budget, bool ahead)
{
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    kin_gpu *gpu = NULL;
    params.device = "cuda:0";
    params.gpu_memory_limit = budget;
    if (kith_ctx_create(&params, &ctx) != KITH_OK ||
        kin_device_enter_gpu(ctx, 0, &gpu) != KITH_OK) {
        stop("no GPU:", kin_gpu_reason() != NULL ? kin_gpu_reason() : "it does not open");
    }
    gpu->ahead_off = !ahead;
    kin_device_leave(ctx, gpu);
    return ctx;
}

static int by_size(const void *a, const void *b)
{
    const double x = ((const result *)a)->seconds;
    const double y = ((const result *)b)->seconds;
    return (x > y) - (x < y);
}

static result run_once(kith_ctx *ctx, const job *j, const kith_neighbors *out)
{
    kith_search_params params = kith_search_params_default();
    const kin_gpu_ahead_tally before = ctx->gpu->ahead_tally;
    params.k = K;
    const int64_t start = kin_clock_ns();
    const kith_status status = j->graph
                                   ? kith_graph(ctx, &j->corpus, &params, out, NULL)
                                   : kith_search(ctx, &j->corpus, &j->queries, &params, out, NULL);
    const double seconds = kin_clock_since(start);
    if (status != KITH_OK) {
        stop("failed:", kith_ctx_detail(ctx));
    }
    const kin_gpu_ahead_tally *after = &ctx->gpu->ahead_tally;
    return (result){.seconds = seconds,
                    .upload = 1e-9 * (double)(after->copying_ns - before.copying_ns),
                    .waited = 1e-9 * (double)(after->waiting_ns - before.waiting_ns)};
}

static result measure(const job *j, uint64_t budget, bool ahead, const kith_neighbors *out)
{
    result results[MOST_RUNS];
    kith_ctx *ctx = make_ctx(budget, ahead);
    kith_search_params params = kith_search_params_default();
    kith_plan plan = {.struct_size = sizeof plan};
    params.k = K;
    (void)kith_plan_search(ctx, &j->corpus, j->graph ? NULL : &j->queries, &params, &plan);
    (void)run_once(ctx, j, out);
    for (int i = 0; i < j->runs; i++) {
        results[i] = run_once(ctx, j, out);
    }
    kith_ctx_free(ctx);
    qsort(results, (size_t)j->runs, sizeof *results, by_size);
    result r = results[j->runs / 2];
    r.chunks = plan.gpu_corpus_chunks;
    r.stripes = plan.gpu_query_stripes;
    return r;
}

static bool same(const kith_neighbors *a, const kith_neighbors *b)
{
    const size_t places = (size_t)(a->rows * a->k);
    return memcmp(a->ids, b->ids, places * sizeof *a->ids) == 0 &&
           memcmp(a->distances, b->distances, places * sizeof *a->distances) == 0;
}

static kith_neighbors make_out(int64_t rows)
{
    return (kith_neighbors){.ids = take((uint64_t)rows * K * sizeof(uint32_t)),
                            .distances = take((uint64_t)rows * K * sizeof(float)),
                            .rows = rows,
                            .k = K};
}

static bool run_work(const work *w, uint64_t budget, int runs)
{
    kith_ctx *ctx = make_ctx(0, true); /* its threads make the rows */
    job j = {.corpus = make_rows(ctx, w->rows, w->cols, 1), .graph = w->asked == 0, .runs = runs};
    if (!j.graph) {
        j.queries = make_rows(ctx, w->asked, w->cols, 2);
    }
    kith_ctx_free(ctx);
    const kith_neighbors first = make_out(j.graph ? w->rows : w->asked);
    const kith_neighbors second = make_out(first.rows);
    const result whole = measure(&j, 0, true, &first);
    const result waiting = measure(&j, budget, false, &second);
    bool right = same(&first, &second);
    const result ahead = measure(&j, budget, true, &second);
    right = right && same(&first, &second);
    printf("%-24s %6" PRId64 " %7" PRId64 " %9.1f %9.1f %9.1f %9.1f %6.0f%%  %s\n", w->name,
           ahead.chunks, ahead.stripes, 1e3 * whole.seconds, 1e3 * waiting.seconds,
           1e3 * ahead.seconds, 1e3 * ahead.upload,
           ahead.upload > 0.0 ? 100.0 * (1.0 - ahead.waited / ahead.upload) : 0.0,
           right ? "same" : "DIFFERENT");
    (void)fflush(stdout);
    free(first.ids);
    free(first.distances);
    free(second.ids);
    free(second.distances);
    free((void *)(uintptr_t)j.corpus.data);
    free((void *)(uintptr_t)j.queries.data);
    return right;
}

int main(int argc, char **argv)
{
    const char *only = "";
    uint64_t mib = 512;
    int runs = 5;
    bool right = true;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--only") == 0) {
            only = value;
        } else if (strcmp(argv[i], "--runs") == 0) {
            runs = atoi(value);
        } else if (strcmp(argv[i], "--memory") == 0) {
            mib = strtoull(value, NULL, 10);
        } else {
            stop("unknown option", argv[i]);
        }
        i += 1;
    }
    if (runs < 1 || runs > MOST_RUNS || mib < 1) {
        stop("give --runs 1 to 64,", "and --memory in MiB");
    }
    printf("kith %s (%s), within %" PRIu64 " MiB, median of %d\n", kith_version(), kith_commit(),
           mib, runs);
    printf("%-24s %6s %7s %9s %9s %9s %9s %7s  %s\n", "work", "chunks", "stripes", "whole",
           "waiting", "ahead", "upload", "hidden", "answers");
    for (int i = 0; i < WORKS; i++) {
        if (strstr(works[i].name, only) != NULL) {
            right = run_work(&works[i], mib << 20, runs) && right;
        }
    }
    return right ? 0 : 1;
}
