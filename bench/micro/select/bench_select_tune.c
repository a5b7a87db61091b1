/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing one chip's part of src/select/select_tune.inc, which a line "0: machine, ..." begins. A
 * class is a width of values, a range of row lengths and a range of k; it is measured at its upper
 * ends, with as many rows as make a matrix of fixed size, and its method is the fastest one, or
 * scan where nothing is faster by more than the margin. Neighbouring classes of one method become
 * one row of the table.
 *
 * On the processor the time that counts is that of its threads, which other programs disturb least.
 */
#include "bench_select.h"

#include "host/host_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const int64_t col_classes[] = {256, 1024, 4096, 16384, 65536, 262144, 1048576, INT64_MAX};
static const int64_t k_classes[] = {4, 16, 64, 256, 512, 1024, 2048, 8192, 32768, INT64_MAX};
enum {
    COLS = sizeof col_classes / sizeof col_classes[0],
    KS = sizeof k_classes / sizeof k_classes[0],
    WIDTHS = 3,
    LONGEST = 1 << 22 /* stands for all longer rows */
};
static const kin_select_type widths[WIDTHS] = {KIN_SELECT_F16, KIN_SELECT_F32, KIN_SELECT_F64};
static const int64_t VALUES_CPU = 1 << 22;
static const int64_t VALUES_CUDA = 1 << 27;
static const double MARGIN = 0.97;

#define ROW(NAME, number, name) [number] = #NAME,
static const char *const rule_names[] = {KITH_SELECT_MAP(ROW)};
#undef ROW
enum { FIRST = KITH_SELECT_SCAN, METHODS = sizeof rule_names / sizeof rule_names[0] };

static double seconds_of(const bench *b, const bench_result *r)
{
    return b->gpu == NULL ? r->busy : r->fastest;
}

/* The fastest method of one class. */
static kith_select_method choose(bench *b, kin_select_job job)
{
    double seconds[METHODS] = {0.0};
    kith_select_method best = KITH_SELECT_SCAN;
    for (int m = FIRST; m < METHODS; m++) {
        job.method = kin_select_method_of(m);
        const bench_result r = bench_measure(b, &job);
        seconds[m] = seconds_of(b, &r);
        if (seconds[m] < seconds[best] * (best == KITH_SELECT_SCAN ? MARGIN : 1.0)) {
            best = m;
        }
    }
    printf("  %d bits %7" PRId64 " x %-8" PRId64 " k %-7" PRId64 ":",
           8 * kin_select_type_bytes(job.dtype), job.rows, job.cols, job.k);
    for (int m = FIRST; m < METHODS; m++) {
        printf(" %s %.2f", rule_names[m], seconds[m] * 1e3);
    }
    printf(" -> %s\n", rule_names[best]);
    (void)fflush(stdout);
    return best;
}

/* Of rows of this length: the classes of k that can occur. */
static int choose_all_k(bench *b, kin_select_type dtype, int64_t cols, kith_select_method best[KS])
{
    const int64_t values = b->gpu == NULL ? VALUES_CPU : VALUES_CUDA;
    kin_select_job job = {
        .dtype = dtype, .cols = cols < LONGEST ? cols : LONGEST, .sorted = true, .sample = 8};
    job.rows = values / job.cols > 1 ? values / job.cols : 1;
    int count = 0;
    for (; count < KS && (count == 0 || k_classes[count - 1] < job.cols); count++) {
        job.k = k_classes[count] < job.cols ? k_classes[count] : job.cols;
        best[count] = choose(b, job);
    }
    return count;
}

static void print_bound(FILE *out, int64_t bound)
{
    if (bound == INT64_MAX) {
        (void)fprintf(out, "ANY, ");
    } else {
        (void)fprintf(out, "%" PRId64 ", ", bound);
    }
}

/* One row for neighbours of one method; the last one has no bound. */
static void print_rules(FILE *out, int32_t chip, kin_select_type dtype, int64_t cols,
                        const kith_select_method best[KS], int count)
{
    for (int i = 0; i < count; i++) {
        if (i + 1 < count && best[i] == best[i + 1]) {
            continue;
        }
        (void)fprintf(out, "RULE(%" PRId32 ", %d, ", chip, 8 * kin_select_type_bytes(dtype));
        print_bound(out, cols);
        print_bound(out, i + 1 < count ? k_classes[i] : INT64_MAX);
        (void)fprintf(out, "%s)\n", rule_names[best[i]]);
    }
}

int32_t bench_chip(const bench *b)
{
    return b->gpu == NULL ? KIN_SELECT_ON_CPU : kin_gpu_chip(&b->gpu->info);
}

static void print_chip(bench *b, FILE *out)
{
    const int32_t chip = bench_chip(b);
    char date[16] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL) {
        (void)strftime(date, sizeof date, "%Y-%m-%d", &parts);
    }
    (void)fprintf(out, "\n/* %" PRId32 ": %s, %s, make tune DEVICE=%s */\n", chip, b->machine, date,
                  b->gpu == NULL ? "cpu" : "cuda");
    for (int w = 0; w < WIDTHS; w++) {
        for (int c = 0; c < COLS; c++) {
            kith_select_method best[KS];
            const int count = choose_all_k(b, widths[w], col_classes[c], best);
            print_rules(out, chip, widths[w], col_classes[c], best, count);
        }
    }
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    long bytes = -1;
    if (in != NULL && fseek(in, 0, SEEK_END) == 0) {
        bytes = ftell(in);
    }
    char *text = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
    if (text == NULL || fseek(in, 0, SEEK_SET) != 0 ||
        fread(text, 1, (size_t)bytes, in) != (size_t)bytes || fclose(in) != 0) {
        bench_stop("cannot read", path);
    }
    text[bytes] = '\0';
    return text;
}

void bench_tune(bench *b, const char *path)
{
    char *text = read_file(path);
    char head[32];
    (void)snprintf(head, sizeof head, "\n/* %" PRId32 ":", bench_chip(b));
    /* The part that goes; nothing at the end where there is none yet. */
    char *part = strstr(text, head);
    char *rest = part == NULL ? NULL : strstr(part + 1, "\n/* ");
    if (part == NULL) {
        part = text + strlen(text);
    }
    if (rest == NULL) {
        rest = text + strlen(text);
    }
    FILE *out = tmpfile(); /* the old table stays until the new one is whole */
    if (out == NULL) {
        bench_stop("no temporary file for", path);
    }
    b->runs = 3;
    b->checks = false;
    print_chip(b, out);
    const long bytes = ftell(out);
    char *made = malloc((size_t)bytes);
    rewind(out);
    if (made == NULL || fread(made, 1, (size_t)bytes, out) != (size_t)bytes || fclose(out) != 0) {
        bench_stop("cannot read back rows for", path);
    }
    out = fopen(path, "w");
    if (out == NULL) {
        bench_stop("cannot write", path);
    }
    (void)fprintf(out, "%.*s%.*s%s", (int)(part - text), text, (int)bytes, made, rest);
    if (fclose(out) != 0) {
        bench_stop("cannot write", path);
    }
    free(made);
    free(text);
}
