/* SPDX-License-Identifier: Apache-2.0
 * Preparation on a device, kernel by kernel, against the processor's functions or plain C: the same
 * lowest bad value, the same bits of transforms, the same groups, facts that bound what rounding
 * lost, balls that hold their rows, a stable sort, an order that is a permutation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "fused/fused_near.h"
#include "fused/fused_prepare.h"
#include "metric/metric_value.h"
#include "support/support_gpu.h"
#include "support/support_keys.h"
#include "support/support_rows.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TOLD = 10, WIDTHS = 14, GAPS = 3 };

static const kith_dtype dtypes[] = {KITH_F64, KITH_F32, KITH_F16, KITH_BF16, KITH_U8, KITH_I8};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };
static const int32_t widths[WIDTHS] = {1, 2, 3, 7, 8, 9, 31, 64, 100, 128, 129, 300, 784, 5000};
static const int64_t gaps[GAPS] = {0, 16, 3};

static kith_ctx *ctx;
static kin_gpu *gpu;
static int wrong;

static void must(kith_status status)
{
    if (status != KITH_OK) {
        printf("failed: %s: %s\n", kith_status_name(status), kith_ctx_detail(ctx));
        (void)fflush(stdout);
        fail();
    }
}

static void launched(int error, const char *what)
{
    must(kin_gpu_check(ctx, gpu, error, what));
}

static void *room(uint64_t bytes)
{
    void *block = NULL;
    must(kin_gpu_alloc(ctx, gpu, &block, bytes + 64, 1, "a test"));
    return block;
}

static void *filled(int byte, uint64_t bytes)
{
    void *block = room(bytes);
    must(kin_gpu_fill(ctx, gpu, block, byte, bytes));
    return block;
}

static void *fetched(const void *from, uint64_t bytes)
{
    void *block = malloc((size_t)bytes + 1);
    assert_non_null(block);
    must(kin_gpu_download(ctx, gpu, block, from, bytes));
    return block;
}

/* Counts a difference, and says whether it is to be printed. */
static bool tell(void)
{
    wrong += 1;
    return wrong <= MOST_TOLD;
}

static void settle(const char *what, int64_t cases)
{
    printf("%s: %" PRId64 " cases, %d wrong\n", what, cases, wrong);
    (void)fflush(stdout);
    assert_int_equal(wrong, 0);
}

/* A matrix on the device as it lies on the host, gaps included, `skew` bytes behind an aligned
 * address. */
typedef struct placed {
    unsigned char *block;
    kin_fused_rows rows;
} placed;

static placed place(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const uint64_t bytes =
        (uint64_t)((m->rows - 1) * m->stride_bytes + (int64_t)m->cols * kith_dtype_bytes(m->dtype));
    placed p = {.block = room(bytes + (uint64_t)skew)};
    must(kin_gpu_upload(ctx, gpu, p.block + skew, m->data, bytes));
    p.rows = (kin_fused_rows){.data = p.block + skew,
                              .rows = m->rows,
                              .stride_bytes = m->stride_bytes,
                              .cols = m->cols,
                              .dtype = m->dtype,
                              .metric = metric};
    return p;
}

static test_rows random_rows(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap,
                             bool nonnegative, uint64_t *seed)
{
    test_rows r = test_rows_make(dtype, rows, cols, gap);
    const bool eight = dtype == KITH_U8 || dtype == KITH_I8;
    test_rows_fill(&r, eight ? 120.0 : 3.0, nonnegative || dtype == KITH_U8, seed);
    return r;
}

static const char *row_of(const kith_matrix *m, int64_t row)
{
    return (const char *)m->data + row * m->stride_bytes;
}

/* ---- Check ---------------------------------------------------------------------------------- */

static bool is_bad(kith_dtype dtype, kith_metric metric, double x)
{
    const bool nonnegative = metric == KITH_CHI2 || metric == KITH_KL;
    return isnan(x) || isinf(x) || (nonnegative && x < 0) ||
           (dtype == KITH_F64 && fabs(x) > 0x1p500) ||
           (dtype == KITH_F64 && metric == KITH_KL && x > 0 && x < 0x1p-500);
}

static uint64_t lowest_bad(const kith_matrix *m, kith_metric metric)
{
    for (int64_t row = 0; row < m->rows; row++) {
        for (int32_t col = 0; col < m->cols; col++) {
            if (is_bad(m->dtype, metric, kin_value(m->dtype, row_of(m, row), col))) {
                return (uint64_t)(row * m->cols + col);
            }
        }
    }
    return UINT64_MAX;
}

static void check_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const placed p = place(m, metric, skew);
    uint64_t *bad = filled(0xff, sizeof *bad);
    const kin_fused_check job = {.rows = p.rows, .bad = bad};
    launched(gpu->module->fused->check(gpu->stream, &job), "check");
    uint64_t *got = fetched(bad, sizeof *bad);
    const uint64_t wanted = lowest_bad(m, metric);
    if (*got != wanted && tell()) {
        printf("check %s %s cols %d stride %" PRId64 " skew %" PRId64 ": got %" PRIx64
               ", wanted %" PRIx64 "\n",
               kith_dtype_name(m->dtype), kith_metric_name(metric), m->cols, m->stride_bytes, skew,
               *got, wanted);
    }
    free(got);
    kin_gpu_free(gpu, bad);
    kin_gpu_free(gpu, p.block);
}

static void finds_the_lowest_bad_value(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_CHI2, KITH_KL};
    static const double spoilers[] = {NAN, INFINITY, -INFINITY, -1.0, 0x1p501, 0x1p-501, -0.0};
    uint64_t seed = 1;
    int64_t cases = 0;
    wrong = 0;
    for (int i = 0; i < DTYPES * WIDTHS * GAPS * 3; i++) {
        const kith_dtype dtype = dtypes[i % DTYPES];
        const int32_t cols = widths[i / DTYPES % WIDTHS];
        const int64_t gap = gaps[i / (DTYPES * WIDTHS) % GAPS];
        const kith_metric metric = metrics[i / (DTYPES * WIDTHS * GAPS)];
        test_rows r = random_rows(dtype, 37, cols, gap, metric != KITH_EUCLIDEAN, &seed);
        for (int spoiled = 0; spoiled < 4; spoiled++) {
            check_case(&r.matrix, metric, spoiled % 2 * (gap == 3 ? 1 : 16));
            cases += 1;
            const int64_t row = (int64_t)kin_random_below(&seed, 37);
            const int64_t col = (int64_t)kin_random_below(&seed, (uint64_t)cols);
            if (kith_dtype_bytes(dtype) > 1) {
                test_rows_set(&r, row, col, spoilers[kin_random_below(&seed, 7)]);
            } else if (dtype == KITH_I8) {
                test_rows_set(&r, row, col, -1.0);
            }
        }
        test_rows_free(&r);
    }
    settle("check", cases);
}

/* The sentence is the processor's, rows of a stripe counted from the matrix's first. */
static void complains_like_the_processor(void **state)
{
    (void)state;
    uint64_t seed = 2;
    test_rows r = random_rows(KITH_F32, 50, 33, 5, false, &seed);
    test_rows_set(&r, 41, 7, NAN);
    assert_int_equal(kin_metric_check(ctx, &r.matrix, KITH_EUCLIDEAN, "points"), KITH_E_DATA);
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, "%s", kith_ctx_detail(ctx));
    must(kin_ctx_begin(ctx));
    const kin_distance distance = {.metric = KITH_EUCLIDEAN, .cols = 33, .isa = ctx->isa};
    kin_fused_prepared prepared;
    assert_int_equal(kin_fused_prepare_corpus(ctx, gpu, &r.matrix, &distance, KITH_F32, 5, "points",
                                              0, &prepared),
                     KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(ctx), wanted);
    must(kin_ctx_begin(ctx));
    const kin_fused_frame frame = {.type = KIN_FUSED_F16, .cols = 33, .row_bytes = 128};
    assert_int_equal(kin_fused_prepare_queries(ctx, gpu, &frame, &r.matrix, &distance, 40, 10,
                                               "points", 0, &prepared),
                     KITH_E_DATA);
    assert_string_equal(kith_ctx_detail(ctx), wanted);
    must(kin_ctx_begin(ctx));
    printf("both say: %s\n", wanted);
    test_rows_free(&r);
}

/* ---- Transforms ----------------------------------------------------------------------------- */

static kin_row_transform *transforms_on_device(const placed *p, uint8_t **degenerate,
                                               uint64_t *count)
{
    const uint64_t n = (uint64_t)p->rows.rows;
    kin_row_transform *out = room(n * sizeof *out);
    *degenerate = room(n);
    uint64_t *found = filled(0, sizeof *found);
    const kin_fused_transform job = {
        .rows = p->rows, .transforms = out, .degenerate = *degenerate, .count = found};
    launched(gpu->module->fused->transform(gpu->stream, &job), "transform");
    uint64_t *got = fetched(found, sizeof *found);
    *count = *got;
    free(got);
    kin_gpu_free(gpu, found);
    return out;
}

static void transform_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    const placed p = place(m, metric, skew);
    const uint64_t n = (uint64_t)m->rows;
    uint8_t *flags = NULL;
    uint64_t count = 0;
    kin_row_transform *made = transforms_on_device(&p, &flags, &count);
    kin_row_transform *got = fetched(made, n * sizeof *got);
    uint8_t *marks = fetched(flags, n);
    kin_row_transform *wanted = calloc((size_t)n, sizeof *wanted);
    assert_non_null(wanted);
    must(kin_metric_transforms(ctx, m, metric, wanted));
    uint64_t degenerate = 0;
    for (uint64_t i = 0; i < n; i++) {
        degenerate += wanted[i].degenerate != 0 ? 1 : 0;
        const bool same = memcmp(&got[i], &wanted[i], sizeof *got) == 0 &&
                          (marks[i] != 0) == (wanted[i].degenerate != 0);
        if (!same && tell()) {
            printf("transform %s %s cols %d row %" PRIu64
                   ": %a %a %a %g (%d), wanted %a %a %a %g\n",
                   kith_dtype_name(m->dtype), kith_metric_name(metric), m->cols, i, got[i].scale,
                   got[i].shift, got[i].gain, got[i].degenerate, marks[i], wanted[i].scale,
                   wanted[i].shift, wanted[i].gain, wanted[i].degenerate);
        }
    }
    if (count != degenerate && tell()) {
        printf("transform: %" PRIu64 " degenerate rows, wanted %" PRIu64 "\n", count, degenerate);
    }
    free(wanted);
    free(marks);
    free(got);
    kin_gpu_free(gpu, flags);
    kin_gpu_free(gpu, made);
    kin_gpu_free(gpu, p.block);
}

static void transforms_have_the_processors_bits(void **state)
{
    (void)state;
    uint64_t seed = 3;
    int64_t cases = 0;
    wrong = 0;
    for (int i = 0; i < DTYPES * WIDTHS * GAPS; i++) {
        const kith_dtype dtype = dtypes[i % DTYPES];
        const int32_t cols = widths[i / DTYPES % WIDTHS];
        test_rows r = random_rows(dtype, 45, cols, gaps[i / (DTYPES * WIDTHS)], false, &seed);
        for (int32_t c = 0; c < cols; c++) { /* zero, constant, and tiny rows */
            test_rows_set(&r, 5, c, 0.0);
            test_rows_set(&r, 6, c, 7.0);
            test_rows_set(&r, 44, c, 7.0);
            test_rows_set(&r, 7, c, dtype == KITH_F64 ? 0x1p-1060 * (c % 5) : 1.0);
        }
        transform_case(&r.matrix, KITH_COSINE, i % 3);
        transform_case(&r.matrix, KITH_CORRELATION, 0);
        cases += 2;
        test_rows_free(&r);
    }
    settle("transforms", cases);
}

/* ---- Groups --------------------------------------------------------------------------------- */

static uint64_t group_on_device(const placed *p, uint64_t slots, uint32_t **firsts)
{
    const uint64_t n = (uint64_t)p->rows.rows;
    uint64_t *table = filled(0xff, slots * 16);
    uint32_t *made = room(n * sizeof *made);
    uint64_t *distinct = filled(0, sizeof *distinct);
    const kin_fused_group job = {
        .rows = p->rows, .slots = slots, .table = table, .firsts = made, .distinct = distinct};
    launched(gpu->module->fused->group(gpu->stream, &job), "group");
    *firsts = fetched(made, n * sizeof *made);
    uint64_t *count = fetched(distinct, sizeof *distinct);
    const uint64_t result = *count;
    free(count);
    kin_gpu_free(gpu, distinct);
    kin_gpu_free(gpu, made);
    kin_gpu_free(gpu, table);
    return result;
}

static void group_case(const kith_matrix *m, int64_t skew)
{
    const placed p = place(m, KITH_EUCLIDEAN, skew);
    const size_t bytes = (size_t)m->cols * (size_t)kith_dtype_bytes(m->dtype);
    uint64_t slots = 1;
    while (slots < 2 * (uint64_t)m->rows) {
        slots *= 2;
    }
    uint32_t *got = NULL;
    const uint64_t distinct = group_on_device(&p, slots, &got);
    const kin_rows rows = {.matrix = *m};
    kin_groups groups;
    must(kin_groups_make(ctx, &rows, false, &groups));
    uint32_t *wanted = malloc((size_t)m->rows * sizeof *wanted);
    assert_non_null(wanted);
    for (int64_t g = 0; g < groups.count; g++) {
        uint32_t id = groups.firsts[g];
        while (id != KITH_ID_NONE) {
            wanted[id] = groups.firsts[g];
            id = groups.next != NULL ? groups.next[id] : KITH_ID_NONE;
        }
    }
    for (int64_t i = 0; i < m->rows; i++) {
        if (got[i] != wanted[i] && tell()) {
            printf("group %s cols %d bytes %zu row %" PRId64 ": %" PRIu32 ", wanted %" PRIu32 "\n",
                   kith_dtype_name(m->dtype), m->cols, bytes, i, got[i], wanted[i]);
        }
    }
    if (distinct != (uint64_t)groups.count && tell()) {
        printf("group: %" PRIu64 " distinct, wanted %" PRId64 "\n", distinct, groups.count);
    }
    free(wanted);
    free(got);
    kin_groups_free(ctx, &groups);
    kin_gpu_free(gpu, p.block);
}

static void equal_rows_are_found(void **state)
{
    (void)state;
    static const test_shape shapes[] = {SHAPE_GAUSS, SHAPE_GRID, SHAPE_EQUAL, SHAPE_COPIES,
                                        SHAPE_SPARSE};
    uint64_t seed = 4;
    int64_t cases = 0;
    wrong = 0;
    for (int i = 0; i < DTYPES * 5 * WIDTHS; i++) {
        const int32_t cols = widths[i / (DTYPES * 5)];
        const int64_t n = cols > 300 ? 300 : i % 7 == 0 ? 4096 : 1001;
        test_rows r = test_rows_make(dtypes[i % DTYPES], n, cols, gaps[i % GAPS]);
        test_shape_fill(&r, shapes[i / DTYPES % 5], false, &seed);
        if (cols > 1) { /* two rows that differ in their last component alone */
            test_rows_copy(&r, n - 1, &r, 0);
            test_rows_set(&r, n - 1, cols - 1, 5.0);
        }
        group_case(&r.matrix, i % 2);
        cases += 1;
        test_rows_free(&r);
    }
    settle("groups", cases);
}

/* ---- Frames --------------------------------------------------------------------------------- */

typedef struct measured {
    double *mean; /* device */
    double *copy; /* host */
    double largest[2];
} measured;

static measured measure(const kin_fused_rows *rows, bool shifts)
{
    const int32_t parts = kin_fused_measure_parts(rows->cols);
    const uint64_t cols = (uint64_t)rows->cols;
    measured m = {.mean = room(cols * sizeof(double))};
    double *scratch = room((uint64_t)parts * 3 * cols * sizeof(double));
    double *largest = room(2 * sizeof(double));
    const kin_fused_measure job = {.rows = *rows,
                                   .shifts = shifts,
                                   .norms = 1,
                                   .parts = parts,
                                   .scratch = scratch,
                                   .mean = m.mean,
                                   .largest = largest};
    launched(gpu->module->fused->measure(gpu->stream, &job), "measure");
    m.copy = fetched(m.mean, cols * sizeof(double));
    must(kin_gpu_download(ctx, gpu, m.largest, largest, sizeof m.largest));
    kin_gpu_free(gpu, largest);
    kin_gpu_free(gpu, scratch);
    return m;
}

static void free_measured(measured *m)
{
    free(m->copy);
    kin_gpu_free(gpu, m->mean);
}

/* The row as doubles that keys are computed from. */
static void load(const kith_matrix *m, const kin_row_transform *transforms, int64_t row, double *x)
{
    for (int32_t i = 0; i < m->cols; i++) {
        x[i] = kin_value(m->dtype, row_of(m, row), i);
        if (transforms != NULL) {
            const kin_row_transform *t = &transforms[row];
            x[i] = (x[i] * t->scale - t->shift) * t->gain;
        }
    }
}

static bool near(double got, long double wanted, long double size)
{
    return fabsl((long double)got - wanted) <= 1e-12L * size;
}

static void measure_case(const kith_matrix *m, const kin_row_transform *transforms,
                         const measured *got, bool shifts)
{
    const size_t cols = (size_t)m->cols;
    long double *sum = calloc(cols, sizeof *sum);
    double *x = calloc(cols, sizeof *x);
    assert_true(sum != NULL && x != NULL);
    long double size = 0;
    for (int64_t r = 0; r < m->rows; r++) {
        load(m, transforms, r, x);
        for (size_t i = 0; i < cols; i++) {
            sum[i] += x[i];
            size = fmaxl(size, fabsl((long double)x[i]));
        }
    }
    long double largest[2] = {0, 0};
    for (int64_t r = 0; r < m->rows; r++) {
        long double norm = 0;
        load(m, transforms, r, x);
        for (size_t i = 0; i < cols; i++) {
            const long double a = (long double)x[i] - (shifts ? sum[i] / m->rows : 0);
            largest[0] = fmaxl(largest[0], fabsl(a));
            norm += a * a;
        }
        largest[1] = fmaxl(largest[1], sqrtl(norm));
    }
    for (size_t i = 0; i < cols; i++) {
        const long double mean = shifts ? sum[i] / m->rows : 0;
        if (!near(got->copy[i], mean, size) && tell()) {
            printf("mean %s cols %d column %zu: %a, wanted %La\n", kith_dtype_name(m->dtype),
                   m->cols, i, got->copy[i], mean);
        }
    }
    for (int i = 0; i < 2; i++) {
        const long double scale = i == 0 ? size : size * sqrtl((long double)cols);
        if (!near(got->largest[i], largest[i], 2 * scale) && tell()) {
            printf("largest[%d] %s cols %d: %a, wanted %La\n", i, kith_dtype_name(m->dtype),
                   m->cols, got->largest[i], largest[i]);
        }
    }
    free(x);
    free(sum);
}

/* ---- Rounded rows --------------------------------------------------------------------------- */

typedef struct rounding {
    const kith_matrix *matrix;
    const kin_row_transform *transforms; /* host */
    const double *mean;                  /* host, or NULL */
    bool product;                        /* of the metric */
    kin_fused_set set;                   /* device pointers */
    unsigned char *rounded;              /* host */
    kin_fused_facts *facts;
    kin_fused_word *half;
    uint32_t *ids;
    double *x;
} rounding;

static double stored(const rounding *r, int64_t position, int32_t i)
{
    const char *row = (const char *)r->rounded + position * r->set.frame.row_bytes;
    return kin_value(r->set.frame.type == KIN_FUSED_F16 ? KITH_F16 : KITH_I8, row, i);
}

static int32_t wide(const kin_fused_frame *frame)
{
    return frame->row_bytes / (frame->type == KIN_FUSED_F16 ? 2 : 1);
}

/* Component i of a row in the frame, r->x being loaded. */
static long double framed(const rounding *r, int32_t i)
{
    const long double mean = r->mean != NULL ? (long double)r->mean[i] : 0;
    return ((long double)r->x[i] - mean) / (long double)r->set.frame.scale;
}

static void complain(const rounding *r, int64_t p, const char *what, long double got,
                     long double wanted)
{
    if (tell()) {
        printf("round %s type %d bound %d cols %d position %" PRId64 ": %s %La, wanted %La\n",
               kith_dtype_name(r->matrix->dtype), (int)r->set.frame.type, (int)r->set.frame.bound,
               r->matrix->cols, p, what, got, wanted);
    }
}

static void verify_float_term(const rounding *r, int64_t p, long double square)
{
    const float term = r->set.frame.bound == KIN_BOUND_PRODUCT ? 0.0F : r->facts[p].term.f;
    const long double wanted = r->set.frame.bound == KIN_BOUND_PRODUCT ? 0 : square;
    if (fabsl((long double)term - wanted) > wanted * 0x1p-23L) {
        complain(r, p, "term", term, wanted);
    }
    if (r->half[p].f != 0.5F * r->facts[p].term.f) {
        complain(r, p, "half", r->half[p].f, 0.5L * term);
    }
}

static void verify_integer_term(const rounding *r, int64_t p, int64_t sum, int64_t square)
{
    const bool shifted = r->set.frame.bound == KIN_BOUND_INTEGER && r->matrix->dtype == KITH_U8;
    int64_t term = square;
    if (r->product) {
        term = shifted ? -256 * sum - 16384 * (int64_t)r->matrix->cols : 0;
    }
    if (r->facts[p].term.i != term) {
        complain(r, p, "term", r->facts[p].term.i, (long double)term);
    }
    if (r->half[p].i != (int32_t)floor((double)term / 2.0)) {
        complain(r, p, "half", r->half[p].i, floorl((long double)term / 2));
    }
}

static void verify_position(const rounding *r, int64_t p)
{
    const kin_fused_frame *frame = &r->set.frame;
    long double square = 0;
    long double off = 0;
    long double sum = 0;
    load(r->matrix, r->transforms, r->ids[p], r->x);
    for (int32_t i = 0; i < frame->cols; i++) {
        const long double x = stored(r, p, i);
        const long double a = frame->bound == KIN_BOUND_INTEGER
                                  ? r->x[i] - (r->matrix->dtype == KITH_U8 ? 128 : 0)
                                  : framed(r, i);
        square += x * x;
        sum += x;
        off += (a - x) * (a - x);
        const bool fine = frame->type == KIN_FUSED_F16
                              ? x == 0 || (fabsl(x) >= 0x1p-14L && fabsl(x) <= 0x1p15L)
                              : frame->bound == KIN_BOUND_INTEGER || fabsl(x) <= 127;
        if (!fine) {
            complain(r, p, "component", x, a);
        }
    }
    for (int32_t i = frame->cols; i < wide(frame); i++) {
        if (stored(r, p, i) != 0) {
            complain(r, p, "behind the end", stored(r, p, i), 0);
        }
    }
    const long double norm = r->facts[p].norm;
    const long double lost = r->facts[p].lost;
    if (frame->bound == KIN_BOUND_INTEGER) {
        if (off != 0 || norm != 0 || lost != 0) {
            complain(r, p, "loss of an integer", sqrtl(off), 0);
        }
    } else {
        /* Bounds, and not loose ones. */
        if (norm < sqrtl(square) || norm > sqrtl(square) * 1.000001L) {
            complain(r, p, "norm", norm, sqrtl(square));
        }
        if (lost < sqrtl(off) ||
            lost > sqrtl(off) * 1.000001L + 0x1p-40L * sqrtl(square) + 1e-30L) {
            complain(r, p, "lost", lost, sqrtl(off));
        }
    }
    if (frame->type == KIN_FUSED_F16) {
        verify_float_term(r, p, square);
    } else {
        verify_integer_term(r, p, (int64_t)sum, (int64_t)square);
    }
}

static void verify_padding(const rounding *r, int64_t p)
{
    const bool is_float = r->set.frame.type == KIN_FUSED_F16;
    const bool padded =
        is_float ? r->facts[p].term.f == KIN_FUSED_PAD_FLOAT && r->half[p].f == KIN_FUSED_PAD_FLOAT
                 : r->facts[p].term.i == KIN_FUSED_PAD_INT && r->half[p].i == KIN_FUSED_PAD_INT;
    double any = 0;
    for (int32_t i = 0; i < wide(&r->set.frame); i++) {
        any += fabs(stored(r, p, i));
    }
    if (!padded || any != 0 || r->facts[p].norm != 0.0F || r->facts[p].lost != 0.0F) {
        complain(r, p, "padding", r->facts[p].term.f, KIN_FUSED_PAD_FLOAT);
    }
}

static void verify_set(rounding *r, const float *worst)
{
    float norm = 0.0F;
    float lost = 0.0F;
    for (int64_t p = 0; p < r->set.padded; p++) {
        if (p < r->set.points) {
            verify_position(r, p);
        } else {
            verify_padding(r, p);
        }
        norm = fmaxf(norm, r->facts[p].norm);
        lost = fmaxf(lost, r->facts[p].lost);
    }
    if (worst[0] != norm || worst[1] != lost) {
        complain(r, -1, "worst norm", worst[0], norm);
        complain(r, -1, "worst lost", worst[1], lost);
    }
}

/* Balls hold their rows. */
static void verify_cover(const rounding *r, const float *centres, const float *radii)
{
    const int32_t cols = r->matrix->cols;
    for (int64_t p = 0; p < r->set.points; p++) {
        const float *centre = centres + p / KIN_FUSED_TILE * cols;
        long double square = 0;
        load(r->matrix, r->transforms, r->ids[p], r->x);
        for (int32_t i = 0; i < cols; i++) {
            const long double a = r->set.frame.bound == KIN_BOUND_INTEGER
                                      ? r->x[i] - (r->matrix->dtype == KITH_U8 ? 128 : 0)
                                      : framed(r, i);
            square += (a - (long double)centre[i]) * (a - (long double)centre[i]);
        }
        if (!((long double)radii[p / KIN_FUSED_TILE] >= sqrtl(square))) {
            complain(r, p, "radius", radii[p / KIN_FUSED_TILE], sqrtl(square));
        }
    }
}

static void round_case(const kith_matrix *m, const placed *at, const kin_row_transform *host,
                       kin_fused_frame frame, const double *mean)
{
    const int64_t points = m->rows - 1; /* in falling order, one left out */
    rounding r = {.matrix = m,
                  .transforms = host,
                  .mean = mean,
                  .product = at->rows.metric == KITH_INNER_PRODUCT};
    r.set = (kin_fused_set){
        .frame = frame, .points = points, .padded = kin_round_up(points, KIN_FUSED_BLOCK)};
    const uint64_t n = (uint64_t)r.set.padded;
    r.ids = malloc((size_t)n * sizeof *r.ids);
    r.x = malloc((size_t)m->cols * sizeof *r.x);
    assert_true(r.ids != NULL && r.x != NULL);
    for (int64_t p = 0; p < points; p++) {
        r.ids[p] = (uint32_t)(points - p);
    }
    uint32_t *ids = room(n * sizeof *ids);
    must(kin_gpu_upload(ctx, gpu, ids, r.ids, (uint64_t)points * sizeof *ids));
    unsigned char *rounded = filled(0xa5, n * (uint64_t)frame.row_bytes);
    kin_fused_facts *facts = filled(0xa5, n * sizeof *facts);
    kin_fused_word *half = filled(0xa5, n * sizeof *half);
    float *worst = filled(0, 2 * sizeof *worst);
    const kin_fused_round job = {.rows = at->rows,
                                 .frame = frame,
                                 .ids = ids,
                                 .points = points,
                                 .padded = r.set.padded,
                                 .rounded = rounded,
                                 .facts = facts,
                                 .half = half,
                                 .worst = worst};
    launched(gpu->module->fused->round(gpu->stream, &job), "round");
    r.set.rounded = rounded;
    r.set.facts = facts;
    r.set.half = half;
    const uint64_t tiles = n / KIN_FUSED_TILE;
    float *centres = room(tiles * (uint64_t)m->cols * sizeof *centres);
    float *radii = room(tiles * sizeof *radii);
    const kin_fused_cover cover = {.set = r.set, .centres = centres, .radii = radii};
    launched(gpu->module->fused->cover(gpu->stream, &cover), "cover");
    r.rounded = fetched(rounded, n * (uint64_t)frame.row_bytes);
    r.facts = fetched(facts, n * sizeof *facts);
    r.half = fetched(half, n * sizeof *half);
    float *worst_copy = fetched(worst, 2 * sizeof *worst);
    float *centres_copy = fetched(centres, tiles * (uint64_t)m->cols * sizeof *centres);
    float *radii_copy = fetched(radii, tiles * sizeof *radii);
    verify_set(&r, worst_copy);
    verify_cover(&r, centres_copy, radii_copy);
    void *device[] = {ids, rounded, facts, half, worst, centres, radii};
    void *host_blocks[] = {r.ids,  r.x,        r.rounded,    r.facts,
                           r.half, worst_copy, centres_copy, radii_copy};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) {
        kin_gpu_free(gpu, device[i]);
    }
    for (size_t i = 0; i < sizeof host_blocks / sizeof host_blocks[0]; i++) {
        free(host_blocks[i]);
    }
}

/* Frames of both types, for one matrix under one metric. */
static void frame_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    placed p = place(m, metric, skew);
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    const bool shifts = traits->screen == KIN_SCREEN_DISTANCE;
    kin_row_transform *on_device = NULL;
    kin_row_transform *host = NULL;
    if (traits->transforms) {
        uint8_t *flags = NULL;
        uint64_t count = 0;
        on_device = transforms_on_device(&p, &flags, &count);
        kin_gpu_free(gpu, flags);
        host = fetched(on_device, (uint64_t)m->rows * sizeof *host);
        p.rows.transforms = on_device;
    }
    measured got = measure(&p.rows, shifts);
    measure_case(m, host, &got, shifts);
    const kin_frame_stats stats = {.largest = got.largest[0], .largest_norm = got.largest[1]};
    for (int type = KIN_FUSED_F16; type <= KIN_FUSED_S8; type++) {
        const bool half = type == KIN_FUSED_F16;
        kin_fused_frame frame = {
            .type = (kin_fused_type)type,
            .bound = shifts ? KIN_BOUND_DISTANCE : KIN_BOUND_PRODUCT,
            .cols = m->cols,
            .row_bytes = (int32_t)kin_round_up((int64_t)m->cols * (half ? 2 : 1), KIN_FUSED_SLICE),
            .scale = kin_frame_scale(half ? KIN_TILE_F32 : KIN_TILE_S8, m->cols, &stats),
            .mean = shifts ? got.mean : NULL};
        round_case(m, &p, host, frame, shifts ? got.copy : NULL);
        frame.scale *= 0x1p-9; /* as of queries far outside their corpus: everything is clamped */
        round_case(m, &p, host, frame, shifts ? got.copy : NULL);
        const bool eight = m->dtype == KITH_U8 || m->dtype == KITH_I8;
        if (!half && eight && !traits->transforms && m->cols <= 8192) {
            frame.bound = KIN_BOUND_INTEGER;
            frame.scale = 1.0;
            frame.mean = NULL;
            round_case(m, &p, NULL, frame, NULL);
        }
    }
    free_measured(&got);
    free(host);
    kin_gpu_free(gpu, on_device);
    kin_gpu_free(gpu, p.block);
}

static void rounded_rows_keep_their_bounds(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_CORRELATION};
    uint64_t seed = 5;
    int64_t cases = 0;
    wrong = 0;
    for (int i = 0; i < DTYPES * WIDTHS * 4; i++) {
        const int32_t cols = widths[i / DTYPES % WIDTHS];
        const int64_t n = cols > 300 ? 150 : 301;
        test_rows r = random_rows(dtypes[i % DTYPES], n, cols, gaps[i % GAPS], false, &seed);
        frame_case(&r.matrix, metrics[i / (DTYPES * WIDTHS)], i % 5 == 0 ? 1 : 0);
        cases += 1;
        test_rows_free(&r);
    }
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        test_rows r = test_rows_make(KITH_F32, 700, 48, 0);
        test_shape_fill(&r, (test_shape)shape, false, &seed);
        frame_case(&r.matrix, KITH_EUCLIDEAN, 0);
        cases += 1;
        test_rows_free(&r);
    }
    /* So wide that quantised rows leave the range of their norms. */
    test_rows r = random_rows(KITH_F32, 40, 40000, 0, false, &seed);
    frame_case(&r.matrix, KITH_EUCLIDEAN, 0);
    test_rows_free(&r);
    settle("frames, rounded rows, balls", cases + 1);
}

/* ---- Order ---------------------------------------------------------------------------------- */

static void cells_are_sorted_stably(void **state)
{
    (void)state;
    uint64_t seed = 6;
    wrong = 0;
    enum { POINTS = 5003, CELLS = 300 };
    uint64_t *nearest = malloc(POINTS * sizeof *nearest);
    uint32_t *ids = malloc(POINTS * sizeof *ids);
    assert_true(nearest != NULL && ids != NULL);
    for (int i = 0; i < POINTS; i++) {
        nearest[i] = kin_random_next(&seed) << 32 | kin_random_below(&seed, CELLS);
        ids[i] = (uint32_t)(3 * i + (i & 1));
    }
    uint64_t *nearest_there = room(POINTS * sizeof *nearest);
    uint32_t *ids_there = room(POINTS * sizeof *ids);
    uint32_t *order = room(POINTS * sizeof *order);
    must(kin_gpu_upload(ctx, gpu, nearest_there, nearest, POINTS * sizeof *nearest));
    must(kin_gpu_upload(ctx, gpu, ids_there, ids, POINTS * sizeof *ids));
    uint64_t bytes = 0;
    kin_fused_sort job = {.nearest = nearest_there,
                          .ids = ids_there,
                          .points = POINTS,
                          .cell_count = CELLS,
                          .order = order,
                          .scratch_bytes = &bytes};
    launched(gpu->module->fused->sort(gpu->stream, &job), "sort");
    job.scratch = room(bytes);
    launched(gpu->module->fused->sort(gpu->stream, &job), "sort");
    uint32_t *got = fetched(order, POINTS * sizeof *order);
    int at = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        for (int i = 0; i < POINTS; i++) {
            if ((uint32_t)nearest[i] == cell) {
                if (got[at] != ids[i] && tell()) {
                    printf("sort: place %d is %" PRIu32 ", wanted %" PRIu32 "\n", at, got[at],
                           ids[i]);
                }
                at += 1;
            }
        }
    }
    free(got);
    kin_gpu_free(gpu, job.scratch);
    kin_gpu_free(gpu, order);
    kin_gpu_free(gpu, ids_there);
    kin_gpu_free(gpu, nearest_there);
    free(ids);
    free(nearest);
    settle("sort", 1);
}

/* Mean radius of the balls: how well an order does. */
static double mean_radius(const kin_fused_prepared *p)
{
    const int64_t tiles = kin_ceil_div(p->set.points, KIN_FUSED_TILE);
    float *radii = fetched(p->radii, (uint64_t)tiles * sizeof *radii);
    double sum = 0;
    for (int64_t t = 0; t < tiles; t++) {
        sum += radii[t];
    }
    free(radii);
    return sum / (double)tiles;
}

static void prepare_case(const kith_matrix *m, kith_metric metric, const char *name)
{
    const kin_distance distance = {.metric = metric, .cols = m->cols, .isa = ctx->isa};
    kin_fused_prepared p;
    must(kin_fused_prepare_corpus(ctx, gpu, m, &distance, m->dtype, 10, "points", 0, &p));
    kin_rows rows = {.matrix = *m};
    kin_row_transform *transforms = calloc((size_t)m->rows, sizeof *transforms);
    assert_non_null(transforms);
    if (kin_metric_get_traits(metric)->transforms) {
        must(kin_metric_transforms(ctx, m, metric, transforms));
        rows.transforms = transforms;
    }
    kin_groups groups;
    must(kin_groups_make(ctx, &rows, false, &groups));
    assert_int_equal(p.groups.rows, groups.rows);
    assert_int_equal(p.groups.count, groups.count);
    assert_int_equal(p.groups.degenerate, groups.degenerate);
    assert_int_equal(p.plain, groups.weights == NULL && groups.degenerate == 0);
    const size_t n = (size_t)groups.rows;
    if (!p.plain) {
        const size_t firsts = (size_t)groups.count * sizeof *groups.firsts;
        assert_memory_equal(p.groups.firsts, groups.firsts, firsts);
        assert_int_equal(p.groups.weights == NULL, groups.weights == NULL);
        if (groups.weights != NULL) {
            assert_memory_equal(p.groups.weights, groups.weights, n * sizeof(uint32_t));
            assert_memory_equal(p.groups.next, groups.next, n * sizeof(uint32_t));
        }
        if (groups.degenerate > 0) {
            assert_memory_equal(p.groups.degenerates, groups.degenerates,
                                (size_t)groups.degenerate * sizeof(uint32_t));
        }
    }
    /* Every first stands in the order once. */
    uint32_t *ids = fetched(p.ids, (uint64_t)groups.count * sizeof *ids);
    uint8_t *seen = calloc(n, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < groups.count; i++) {
        assert_true(ids[i] < n);
        seen[ids[i]] += 1;
    }
    for (int64_t g = 0; g < groups.count; g++) {
        if (seen[groups.firsts[g]] != 1 && tell()) {
            printf("order of %s: row %" PRIu32 " stands there %d times\n", name, groups.firsts[g],
                   seen[groups.firsts[g]]);
        }
    }
    if (p.radii != NULL) {
        const double ordered = mean_radius(&p);
        must(kin_gpu_upload(ctx, gpu, p.ids, groups.firsts, (uint64_t)groups.count * sizeof *ids));
        must(kin_fused_prepared_round(ctx, gpu, &p));
        const double listed = mean_radius(&p);
        printf("  %s %s: mean radius %.4g in order, %.4g as listed; prepared in %.4f s\n", name,
               kith_metric_name(metric), ordered, listed, p.seconds_prepare);
    }
    free(seen);
    free(ids);
    kin_groups_free(ctx, &groups);
    free(transforms);
    kin_fused_prepared_free(ctx, gpu, &p);
}

static void corpora_are_prepared(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_COSINE, KITH_INNER_PRODUCT};
    uint64_t seed = 7;
    int64_t cases = 0;
    wrong = 0;
    const uint64_t held = gpu->held;
    for (int shape = 0; shape < SHAPE_COUNT; shape++) {
        for (int i = 0; i < 6; i++) {
            test_rows r = test_rows_make(i % 2 == 0 ? KITH_F32 : KITH_U8,
                                         shape == SHAPE_CLUSTERS ? 40000 : 6000, 24, 0);
            test_shape_fill(&r, (test_shape)shape, false, &seed);
            prepare_case(&r.matrix, metrics[i / 2], test_shape_name((test_shape)shape));
            cases += 1;
            test_rows_free(&r);
        }
    }
    assert_true(gpu->held == held);
    settle("corpora", cases);
}

/* ---- All of it ------------------------------------------------------------------------------ */

static int start(void **state)
{
    (void)state;
    ctx = test_ctx(KIN_ISA_PORTABLE, 4);
    must(kin_ctx_begin(ctx));
    if (kin_gpu_open(ctx, 0, (uint64_t)4 << 30, &gpu) != KITH_OK) {
        printf("%s\n", kith_ctx_detail(ctx));
        return -1;
    }
    kin_gpu_enter(gpu);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kin_gpu_leave(gpu);
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_lowest_bad_value),
        cmocka_unit_test(complains_like_the_processor),
        cmocka_unit_test(transforms_have_the_processors_bits),
        cmocka_unit_test(equal_rows_are_found),
        cmocka_unit_test(rounded_rows_keep_their_bounds),
        cmocka_unit_test(cells_are_sorted_stably),
        cmocka_unit_test(corpora_are_prepared),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED
                                : cmocka_run_group_tests_name("fused_prepare", tests, start, stop);
}
