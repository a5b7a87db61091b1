/* SPDX-License-Identifier: Apache-2.0
 * Frames, rounded rows and balls of a device, each number recomputed in long double: means and
 * largest components; facts that bound what rounding lost, and not loosely; balls that hold their
 * rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "metric/metric_arith.h"
#include "screen/screen_prepare_gpu.h"
#include "support/support_gpu.h"
#include "support/support_placed.h"
#include "support/support_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Frames --------------------------------------------------------------------------------- */

typedef struct measured {
    double *mean; /* device */
    double *copy; /* host */
    double largest[2];
} measured;

static measured measure(const kin_screen_gpu_rows *rows, bool shifts)
{
    const int32_t parts = kin_screen_gpu_measure_parts(rows->cols);
    const uint64_t cols = (uint64_t)rows->cols;
    measured m = {.mean = test_device_room(cols * sizeof(double))};
    double *scratch = test_device_room((uint64_t)parts * 3 * cols * sizeof(double));
    double *largest = test_device_room(2 * sizeof(double));
    const kin_screen_gpu_measure job = {.rows = *rows,
                                        .shifts = shifts,
                                        .norms = 1,
                                        .parts = parts,
                                        .scratch = scratch,
                                        .mean = m.mean,
                                        .largest = largest};
    test_launch(test_device->module->screen->measure(test_device->stream, &job), "measure");
    m.copy = test_fetched(m.mean, cols * sizeof(double));
    test_must(kin_gpu_download(test_device_ctx, test_device, m.largest, largest, sizeof m.largest));
    kin_gpu_free(test_device, largest);
    kin_gpu_free(test_device, scratch);
    return m;
}

static void free_measured(measured *m)
{
    free(m->copy);
    kin_gpu_free(test_device, m->mean);
}

/* The row as doubles that keys are computed from. */
static void load(const kith_matrix *m, const kin_row_transform *transforms, int64_t row, double *x)
{
    for (int32_t i = 0; i < m->cols; i++) {
        x[i] = kin_value(m->dtype, test_row(m, row), i);
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
        if (!near(got->copy[i], mean, size) && test_tell()) {
            printf("mean %s cols %d column %zu: %a, wanted %La\n", kith_dtype_name(m->dtype),
                   m->cols, i, got->copy[i], mean);
        }
    }
    for (int i = 0; i < 2; i++) {
        const long double scale = i == 0 ? size : size * sqrtl((long double)cols);
        if (!near(got->largest[i], largest[i], 2 * scale) && test_tell()) {
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
    kin_screen_gpu_set set;              /* device pointers */
    unsigned char *rounded;              /* host */
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    uint32_t *ids;
    double *x;
} rounding;

static double stored(const rounding *r, int64_t position, int32_t i)
{
    const char *row = (const char *)r->rounded + position * r->set.frame.row_bytes;
    return kin_value(r->set.frame.type == KIN_SCREEN_GPU_F16 ? KITH_F16 : KITH_I8, row, i);
}

static int32_t wide(const kin_screen_gpu_frame *frame)
{
    return frame->row_bytes / (frame->type == KIN_SCREEN_GPU_F16 ? 2 : 1);
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
    if (test_tell()) {
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
    const kin_screen_gpu_frame *frame = &r->set.frame;
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
        const bool fine = frame->type == KIN_SCREEN_GPU_F16
                              ? x == 0 || (fabsl(x) >= 0x1p-14L && fabsl(x) <= 0x1p15L)
                              : frame->bound == KIN_BOUND_INTEGER || x <= 127;
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
    if (frame->type == KIN_SCREEN_GPU_F16) {
        verify_float_term(r, p, square);
    } else {
        verify_integer_term(r, p, (int64_t)sum, (int64_t)square);
    }
}

static void verify_padding(const rounding *r, int64_t p)
{
    const bool is_float = r->set.frame.type == KIN_SCREEN_GPU_F16;
    const bool padded = is_float ? r->facts[p].term.f == KIN_SCREEN_GPU_PAD_FLOAT &&
                                       r->half[p].f == KIN_SCREEN_GPU_PAD_FLOAT
                                 : r->facts[p].term.i == KIN_SCREEN_GPU_PAD_INT &&
                                       r->half[p].i == KIN_SCREEN_GPU_PAD_INT;
    double any = 0;
    for (int32_t i = 0; i < wide(&r->set.frame); i++) {
        any += fabs(stored(r, p, i));
    }
    if (!padded || any != 0 || r->facts[p].norm != 0.0F || r->facts[p].lost != 0.0F) {
        complain(r, p, "padding", r->facts[p].term.f, KIN_SCREEN_GPU_PAD_FLOAT);
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
        const float *centre = centres + p / KIN_SCREEN_GPU_TILE * cols;
        long double square = 0;
        load(r->matrix, r->transforms, r->ids[p], r->x);
        for (int32_t i = 0; i < cols; i++) {
            const long double a = r->set.frame.bound == KIN_BOUND_INTEGER
                                      ? r->x[i] - (r->matrix->dtype == KITH_U8 ? 128 : 0)
                                      : framed(r, i);
            square += (a - (long double)centre[i]) * (a - (long double)centre[i]);
        }
        if (!((long double)radii[p / KIN_SCREEN_GPU_TILE] >= sqrtl(square))) {
            complain(r, p, "radius", radii[p / KIN_SCREEN_GPU_TILE], sqrtl(square));
        }
    }
}

static void round_case(const kith_matrix *m, const test_placed *at, const kin_row_transform *host,
                       kin_screen_gpu_frame frame, const double *mean)
{
    const int64_t points = m->rows - 1; /* in falling order, one left out */
    rounding r = {.matrix = m,
                  .transforms = host,
                  .mean = mean,
                  .product = at->rows.metric == KITH_INNER_PRODUCT};
    r.set = (kin_screen_gpu_set){
        .frame = frame, .points = points, .padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK)};
    const uint64_t n = (uint64_t)r.set.padded;
    r.ids = malloc((size_t)n * sizeof *r.ids);
    r.x = malloc((size_t)m->cols * sizeof *r.x);
    assert_true(r.ids != NULL && r.x != NULL);
    for (int64_t p = 0; p < points; p++) {
        r.ids[p] = (uint32_t)(points - p);
    }
    uint32_t *ids = test_device_room(n * sizeof *ids);
    test_must(
        kin_gpu_upload(test_device_ctx, test_device, ids, r.ids, (uint64_t)points * sizeof *ids));
    unsigned char *rounded = test_filled(0xa5, n * (uint64_t)frame.row_bytes);
    kin_screen_gpu_facts *facts = test_filled(0xa5, n * sizeof *facts);
    kin_screen_gpu_word *half = test_filled(0xa5, n * sizeof *half);
    float *worst = test_filled(0, 2 * sizeof *worst);
    const kin_screen_gpu_round job = {.rows = at->rows,
                                      .frame = frame,
                                      .ids = ids,
                                      .points = points,
                                      .padded = r.set.padded,
                                      .rounded = rounded,
                                      .facts = facts,
                                      .half = half,
                                      .worst = worst};
    test_launch(test_device->module->screen->round(test_device->stream, &job), "round");
    r.set.rounded = rounded;
    r.set.facts = facts;
    r.set.half = half;
    const uint64_t tiles = n / KIN_SCREEN_GPU_TILE;
    float *centres = test_device_room(tiles * (uint64_t)m->cols * sizeof *centres);
    float *radii = test_device_room(tiles * sizeof *radii);
    const kin_screen_gpu_cover cover = {.set = r.set, .centres = centres, .radii = radii};
    test_launch(test_device->module->screen->cover(test_device->stream, &cover), "cover");
    r.rounded = test_fetched(rounded, n * (uint64_t)frame.row_bytes);
    r.facts = test_fetched(facts, n * sizeof *facts);
    r.half = test_fetched(half, n * sizeof *half);
    float *worst_copy = test_fetched(worst, 2 * sizeof *worst);
    float *centres_copy = test_fetched(centres, tiles * (uint64_t)m->cols * sizeof *centres);
    float *radii_copy = test_fetched(radii, tiles * sizeof *radii);
    verify_set(&r, worst_copy);
    verify_cover(&r, centres_copy, radii_copy);
    void *device[] = {ids, rounded, facts, half, worst, centres, radii};
    void *host_blocks[] = {r.ids,  r.x,        r.rounded,    r.facts,
                           r.half, worst_copy, centres_copy, radii_copy};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) {
        kin_gpu_free(test_device, device[i]);
    }
    for (size_t i = 0; i < sizeof host_blocks / sizeof host_blocks[0]; i++) {
        free(host_blocks[i]);
    }
}

/* Frames of both types, for one matrix under one metric. */
static void frame_case(const kith_matrix *m, kith_metric metric, int64_t skew)
{
    test_placed p = test_place(m, metric, skew);
    const kin_metric_traits *traits = kin_metric_get_traits(metric);
    const bool shifts = traits->screen == KIN_SCREEN_DISTANCE;
    kin_row_transform *on_device = NULL;
    kin_row_transform *host = NULL;
    if (traits->transforms) {
        uint8_t *flags = NULL;
        uint64_t count = 0;
        on_device = test_transforms(&p, &flags, &count);
        kin_gpu_free(test_device, flags);
        host = test_fetched(on_device, (uint64_t)m->rows * sizeof *host);
        p.rows.transforms = on_device;
    }
    measured got = measure(&p.rows, shifts);
    measure_case(m, host, &got, shifts);
    const kin_frame_stats stats = {.largest = got.largest[0], .largest_norm = got.largest[1]};
    for (int type = KIN_SCREEN_GPU_F16; type <= KIN_SCREEN_GPU_S8; type++) {
        const bool half = type == KIN_SCREEN_GPU_F16;
        kin_screen_gpu_frame frame = {
            .type = (kin_screen_gpu_type)type,
            .bound = shifts ? KIN_BOUND_DISTANCE : KIN_BOUND_PRODUCT,
            .cols = m->cols,
            .row_bytes =
                (int32_t)kin_round_up((int64_t)m->cols * (half ? 2 : 1), KIN_SCREEN_GPU_SLICE),
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
    kin_gpu_free(test_device, on_device);
    kin_gpu_free(test_device, p.block);
}

static void rounded_rows_keep_their_bounds(void **state)
{
    (void)state;
    static const kith_metric metrics[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,
                                          KITH_CORRELATION};
    uint64_t seed = 5;
    int64_t cases = 0;
    test_wrong = 0;
    for (int i = 0; i < TEST_DTYPES * TEST_WIDTHS * 4; i++) {
        const int32_t cols = test_widths[i / TEST_DTYPES % TEST_WIDTHS];
        const int64_t n = cols > 300 ? 150 : 301;
        test_rows r = test_random_rows(test_dtypes[i % TEST_DTYPES], n, cols,
                                       test_gaps[i % TEST_GAPS], false, &seed);
        frame_case(&r.matrix, metrics[i / (TEST_DTYPES * TEST_WIDTHS)], i % 5 == 0 ? 1 : 0);
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
    test_rows r = test_random_rows(KITH_F32, 40, 40000, 0, false, &seed);
    frame_case(&r.matrix, KITH_EUCLIDEAN, 0);
    test_rows_free(&r);
    test_settle("frames, rounded rows, balls", cases + 1);
}

/* ---- All of it ------------------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_rows_keep_their_bounds),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
