/* SPDX-License-Identifier: Apache-2.0
 * What selection reaches beside one read of its matrix, on the processor or on a GPU.
 *
 *     bench_select [--device cpu|cuda] [--threads N] [--rows N --cols N --k K --dtype f32]
 *                  [--method auto --buffer none|plain|full|sorted --buffer-size N --group G]
 *                  [--level M --merge-path --aligned] [--sample S]
 *                  [--largest] [--unsorted] [--repeat 5] [--no-check] [--csv FILE]
 *     bench_select --table ...        the shapes that the project is judged by, with their targets
 *     bench_select --parts ...        the parts of threshold_heap on the processor
 *     bench_select --tune FILE ...    measures kith's own methods, class by class, and rewrites the
 * rows of that chip in FILE (src/select/select_tune.inc; `make tune`)
 *
 * Values are uniform in [0, 1), the same in every run. Values and ids are written. On a GPU all of
 * it is device memory. A warm-up, then the median of the runs; sampled rows are compared with a
 * sort of all their words. `floor` is one read of the matrix, measured just before: on the
 * processor by all threads, on a GPU as half of a copy within the device. `busy` is, on the
 * processor, the least time that its threads worked: where the machine is shared, its share of the
 * floor's says more. */
#include "select/bench_select.h"

#include "host/host_cpu.h"
#include "papers/papers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const dtype_names[] = {"", "f32", "f64", "f16", "bf16"};

static void append_csv(const bench *b, const kin_select_job *job, const bench_result *r)
{
    FILE *out = fopen(b->csv, "a");
    if (out == NULL) {
        bench_stop("cannot write", b->csv);
    }
    if (fseek(out, 0, SEEK_END) == 0 && ftell(out) == 0) {
        (void)fprintf(out, "rows,cols,k,dtype,method,buffer,group,seconds,seconds_min,seconds_max,"
                           "runs,floor,busy,floor_busy,checked,machine,commit\n");
    }
    (void)fprintf(out, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%d,%d,%.7f,%.7f,%.7f,%d,%.7f,",
                  job->rows, job->cols, job->k, dtype_names[job->dtype],
                  job->method != NULL ? job->method->name : "auto", (int)job->buffer, job->group,
                  r->median, r->fastest, r->slowest, b->runs, b->held.floor);
    (void)fprintf(out, "%.7f,%.7f,%s,%s,%s\n", r->busy, b->held.floor_busy,
                  b->checks ? (r->right ? "same" : "WRONG") : "-", b->machine, kith_commit());
    if (fclose(out) != 0) {
        bench_stop("cannot write", b->csv);
    }
}

/* One line of the table. target: milliseconds, 0 where there is none. */
static bool report(bench *b, const kin_select_job *job, double target)
{
    const bench_result r = bench_measure(b, job);
    const int32_t chip = bench_chip(b);
    char goal[32] = "-";
    if (target > 0.0) {
        (void)snprintf(goal, sizeof goal, "%.2f %s", target,
                       r.median * 1e3 <= target ? "met" : "MISSED");
    }
    printf("%8" PRId64 " x %-9" PRId64 " %6" PRId64 " %-5s %-15s %9.3f (%.3f to %.3f) %8.1f %9.3f "
           "%5.0f %%  %9.3f %5.0f %%  %-14s %s\n",
           job->rows, job->cols, job->k, dtype_names[job->dtype],
           kin_select_choose(chip, job)->name, r.median * 1e3, r.fastest * 1e3, r.slowest * 1e3,
           (double)bench_matrix_bytes(&b->held) / r.median / 1e9, b->held.floor * 1e3,
           100.0 * b->held.floor / r.median, r.busy * 1e3, 100.0 * b->held.floor_busy / r.busy,
           goal, b->checks ? (r.right ? "same" : "WRONG") : "-");
    (void)fflush(stdout);
    if (b->csv != NULL) {
        append_csv(b, job, &r);
    }
    return r.right;
}

/* ---- The shapes that the project is judged by ----------------------------------------------- */

typedef struct shape {
    int64_t rows;
    int64_t cols;
    int64_t k;
    double cuda_ms; /* what is to be reached: on one H200, */
    double cpu_ms;  /* and on a processor with two threads; 0: nothing was said */
} shape;

static const shape shapes[] = {
    {8192, 32768, 32, 0.33, 70.0},  {8192, 32768, 64, 0.35, 0.0}, {8192, 32768, 256, 0.45, 0.0},
    {8192, 32768, 1024, 0.9, 0.0},  {8192, 65536, 256, 0.8, 0.0}, {1000, 1000000, 10, 1.2, 0.0},
    {1000, 1000000, 100, 1.2, 0.0}, {128, 8388608, 32, 1.3, 0.0},
};

static bool report_shapes(bench *b, kin_select_job job)
{
    bool right = true;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        job.rows = shapes[i].rows;
        job.cols = shapes[i].cols;
        job.k = shapes[i].k;
        right = report(b, &job, b->gpu != NULL ? shapes[i].cuda_ms : shapes[i].cpu_ms) && right;
    }
    return right;
}

/* ---- Options -------------------------------------------------------------------------------- */

typedef struct asked {
    kin_select_job job;
    const char *device;
    const char *tune;
    int64_t threads;
    bool table;
    bool parts;
} asked;

static int64_t number(const char *text, int64_t least)
{
    char *end = NULL;
    const int64_t value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < least) {
        bench_stop("not a number that is possible here:", text);
    }
    return value;
}

static int among(const char *text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    bench_stop("unknown:", text);
}

static bool is_switch(const char *name, bench *b, asked *a)
{
    if (strcmp(name, "--largest") == 0) {
        a->job.largest = true;
    } else if (strcmp(name, "--unsorted") == 0) {
        a->job.sorted = false;
    } else if (strcmp(name, "--aligned") == 0) {
        a->job.aligned = true;
    } else if (strcmp(name, "--merge-path") == 0) {
        a->job.merge_path = true;
    } else if (strcmp(name, "--no-check") == 0) {
        b->checks = false;
    } else if (strcmp(name, "--table") == 0) {
        a->table = true;
    } else if (strcmp(name, "--parts") == 0) {
        a->parts = true;
    } else {
        return false;
    }
    return true;
}

static void set_option(const char *name, const char *text, bench *b, asked *a)
{
    static const char *const buffers[] = {"none", "plain", "full", "sorted"};
    static const char *const powers[] = {"4", "8", "16", "32", "64"};
    struct {
        const char *name;
        int64_t *value;
    } sizes[] = {{"--rows", &a->job.rows},
                 {"--cols", &a->job.cols},
                 {"--k", &a->job.k},
                 {"--threads", &a->threads}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(name, sizes[i].name) == 0) {
            *sizes[i].value = number(text, 1);
            return;
        }
    }
    if (strcmp(name, "--dtype") == 0) {
        a->job.dtype = (kin_select_type)(1 + among(text, dtype_names + 1, 4));
    } else if (strcmp(name, "--method") == 0) {
        const char *methods[KITH_SELECT_METHOD_COUNT];
        for (int i = 0; i < KITH_SELECT_METHOD_COUNT; i++) {
            methods[i] = kith_select_method_name(i);
        }
        a->job.method = kin_papers_select_method(among(text, methods, KITH_SELECT_METHOD_COUNT));
    } else if (strcmp(name, "--buffer") == 0) {
        a->job.buffer = (kith_select_buffer)among(text, buffers, 4);
    } else if (strcmp(name, "--group") == 0) {
        a->job.group = (int32_t)number(text, 0);
    } else if (strcmp(name, "--level") == 0) {
        a->job.level = 4 << among(text, powers, 5);
    } else if (strcmp(name, "--buffer-size") == 0) {
        a->job.buffer_size = 8 << among(text, powers + 1, 4);
    } else if (strcmp(name, "--sample") == 0) {
        a->job.sample = (int32_t)number(text, 1);
    } else if (strcmp(name, "--repeat") == 0) {
        b->runs = (int)number(text, 1);
        b->runs = b->runs > BENCH_MOST_RUNS ? BENCH_MOST_RUNS : b->runs;
    } else if (strcmp(name, "--device") == 0) {
        a->device = text;
    } else if (strcmp(name, "--csv") == 0) {
        b->csv = text;
    } else if (strcmp(name, "--tune") == 0) {
        a->tune = text;
    } else {
        bench_stop("unknown option:", name);
    }
}

static void open_machine(bench *b, const asked *a)
{
    char model[96];
    kith_ctx_params params = kith_ctx_params_default();
    params.device = "cpu"; /* a GPU is opened here, and by nobody else */
    params.threads = (int32_t)a->threads;
    if (kith_ctx_create(&params, &b->ctx) != KITH_OK || kin_ctx_begin(b->ctx) != KITH_OK) {
        bench_stop("no context:", b->ctx == NULL ? "" : kith_ctx_detail(b->ctx));
    }
    if (strcmp(a->device, "cuda") == 0) {
        const int32_t index = kin_gpu_first();
        if (index < 0 || kin_gpu_open(b->ctx, index, 0, &b->gpu) != KITH_OK) {
            bench_stop("no GPU:", index < 0 ? kin_gpu_reason() : kith_ctx_detail(b->ctx));
        }
        kin_gpu_enter(b->gpu);
        (void)snprintf(b->machine, sizeof b->machine, "%s", b->gpu->info.name);
    } else if (strcmp(a->device, "cpu") == 0) {
        (void)snprintf(b->machine, sizeof b->machine, "%s %s %d threads",
                       kin_cpu_model(model, sizeof model), kith_ctx_get_params(b->ctx)->isa,
                       (int)kith_ctx_get_params(b->ctx)->threads);
    } else {
        bench_stop("unknown device:", a->device);
    }
}

int main(int argc, char **argv)
{
    bench b = {.runs = 5, .checks = true};
    asked a = {.device = "cpu",
               .job = {.rows = 8192,
                       .cols = 32768,
                       .k = 32,
                       .dtype = KIN_SELECT_F32,
                       .sample = 8,
                       .sorted = true}};
    for (int i = 1; i < argc; i++) {
        if (!is_switch(argv[i], &b, &a)) {
            if (i + 1 >= argc) {
                bench_stop("no value for", argv[i]);
            }
            set_option(argv[i], argv[i + 1], &b, &a);
            i += 1;
        }
    }
    if (a.job.k > a.job.cols) {
        bench_stop("--k:", "above --cols");
    }
    open_machine(&b, &a);
    bool right = true;
    if (a.tune != NULL) {
        bench_tune(&b, a.tune);
    } else if (a.parts) {
        bench_parts(&b, a.job);
    } else {
        printf("%s\n    rows x cols           k dtype method           median ms (min to max)    "
               "GB/s     floor  share   busy ms   share  target ms      check\n",
               b.machine);
        right = a.table ? report_shapes(&b, a.job) : report(&b, &a.job, 0.0);
    }
    bench_release(&b);
    if (b.gpu != NULL) {
        kin_gpu_leave(b.gpu);
        kin_gpu_close(b.ctx, b.gpu);
    }
    kith_ctx_free(b.ctx);
    return right ? 0 : 1;
}
