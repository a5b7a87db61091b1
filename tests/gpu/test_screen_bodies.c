/* SPDX-License-Identifier: Apache-2.0
 * Both bodies of the screen against plain loops in double: costs as a matrix, their minima and the
 * least of parts, the nearest column, lists of one and of both ends, lists that overflow; lists of
 * bytes also with starts of columns as bytes, some of which are cut off. Rounded rows are made
 * here, so that nothing else of the engine is needed. Integer costs are exact and so are their
 * sets; of floats, all that the theorem of docs/notes/numerics.md keeps must be there, and nothing
 * beyond the error of a cost. Units come in random order and size. KITH_GPU_UNIT is set before each
 * launch, which reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metric/metric_arith.h"
#include "screen/screen_start.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = KIN_SCREEN_GPU_TILE, BLOCK = KIN_SCREEN_GPU_BLOCK, NEAR = 12 };

typedef struct variant {
    const char *name;
    kin_screen_gpu_type type;
    kin_bound_kind bound;
    bool has_terms; /* |x^|^2, else 0; integer products: any number */
} variant;

static const variant kinds[] = {{"fp16 distances", KIN_SCREEN_GPU_F16, KIN_BOUND_DISTANCE, true},
                                {"fp16 products", KIN_SCREEN_GPU_F16, KIN_BOUND_PRODUCT, false},
                                {"s8 distances", KIN_SCREEN_GPU_S8, KIN_BOUND_INTEGER, true},
                                {"s8 products", KIN_SCREEN_GPU_S8, KIN_BOUND_INTEGER, false}};

typedef struct extent {
    int32_t cols;
    int64_t rows;
    int64_t points;
} extent;

static const extent sizes[] = {{1, 1000, 777},   {5, 300, 1000},  {20, 600, 900},  {40, 513, 640},
                               {64, 513, 257},   {96, 129, 640},  {128, 700, 900}, {128, 1, 1},
                               {200, 257, 300},  {160, 300, 400}, {380, 260, 500}, {784, 256, 385},
                               {1500, 130, 200}, {5000, 100, 140}};

/* A set on both sides. */
typedef struct side {
    kin_screen_gpu_set device;
    double *values; /* points x cols */
    unsigned char *rounded;
    kin_screen_gpu_facts *facts;
    kin_screen_gpu_word *half;
    double *reach;
    kin_screen_gpu_worst *worst;
    const unsigned char *starts; /* device; of integers */
    int32_t start_shift;
} side;

typedef struct scene {
    test_bench *b;
    const variant *kind;
    extent size;
    side rows;
    side cols;
    double *product; /* rows x points, in double */
} scene;

/* ---- Sets ----------------------------------------------------------------------------------- */

static int64_t padded_of(int64_t points)
{
    return (points + BLOCK - 1) / BLOCK * BLOCK;
}

/* A random component: halves of all magnitudes that are stored, most of them large, some 0. */
static double random_component(test_bench *b, kin_screen_gpu_type type, unsigned char *to)
{
    const double pick = test_uniform(&b->seed);
    if (type == KIN_SCREEN_GPU_S8) {
        const int value = (int)(test_uniform(&b->seed) * 256.0) - 128;
        *(int8_t *)to = (int8_t)(pick < 0.1 ? 0 : value);
        return (double)*(int8_t *)to;
    }
    const unsigned lowest = pick < 0.8 ? 23 : 1;
    const unsigned exponent = lowest + (unsigned)(test_uniform(&b->seed) * (double)(27 - lowest));
    const unsigned rest = (unsigned)(test_uniform(&b->seed) * 2048.0);
    const uint16_t half = (uint16_t)((rest >> 10) << 15 | exponent << 10 | (rest & 1023));
    const uint16_t stored = pick < 0.95 ? half : 0;
    memcpy(to, &stored, sizeof stored);
    return kin_value_of_f16(stored);
}

static void set_term(test_bench *b, const variant *kind, side *s, int64_t p, double square)
{
    kin_screen_gpu_word term = {0};
    if (kind->type == KIN_SCREEN_GPU_F16) {
        term.f = kind->has_terms ? (float)square : 0.0F;
        s->half[p].f = term.f / 2;
        s->facts[p].norm = test_float_above(sqrt(square) * (1 + 0x1p-40));
        s->facts[p].lost = test_float_above(sqrt(square) * 0x1p-11 * test_uniform(&b->seed));
    } else {
        const int32_t any = (int32_t)((test_uniform(&b->seed) - 0.5) * 1e6);
        const int32_t far = 3000000; /* beyond what a start can say */
        term.i = kind->has_terms ? (int32_t)square : p % 40 == 9 ? far : any;
        s->half[p].i = (term.i >> 1);
    }
    s->facts[p].term = term;
}

static void pad(const variant *kind, side *s, int64_t p)
{
    if (kind->type == KIN_SCREEN_GPU_F16) {
        s->facts[p].term.f = KIN_SCREEN_GPU_PAD_FLOAT;
        s->half[p].f = KIN_SCREEN_GPU_PAD_FLOAT;
        s->reach[p] = -INFINITY;
    } else {
        s->facts[p].term.i = KIN_SCREEN_GPU_PAD_INT;
        s->half[p].i = KIN_SCREEN_GPU_PAD_INT;
        s->reach[p] = -1;
    }
}

static void make_starts(test_bench *b, side *s)
{
    const uint64_t bytes = (uint64_t)s->device.padded * KIN_START_BYTES;
    const kin_screen_gpu_starts none = {INT32_MAX, 0};
    const kin_screen_gpu_start job = {.half = s->device.half,
                                      .points = s->device.points,
                                      .padded = s->device.padded,
                                      .starts = test_bench_block(b, bytes, 0xa5),
                                      .found = test_bench_copy(b, &none, sizeof none)};
    test_bench_launched(b, b->gpu->module->screen->start(b->gpu->stream, &job), "starts");
    kin_screen_gpu_starts *found = test_host_copy(b, job.found, sizeof *found);
    unsigned char *starts = test_host_copy(b, job.starts, bytes);
    uint32_t cut = 0;
    s->starts = job.starts;
    s->start_shift = kin_start_shift(found->least);
    for (int64_t p = 0; p < s->device.points; p++) {
        const unsigned char *tile = starts + p / TILE * TILE * KIN_START_BYTES;
        int32_t sum = 0;
        for (int32_t t = 0; t < KIN_START_BYTES; t++) {
            sum += kin_start_of_rows(t) * (int8_t)tile[kin_start_place((int32_t)(p % TILE), t)];
        }
        assert_int_equal(sum, kin_start_of(s->start_shift, s->half[p].i));
        cut += sum != s->start_shift - s->half[p].i;
    }
    assert_int_equal(cut, found->cut);
    free(starts);
    free(found);
}

static void make_side(test_bench *b, const variant *kind, int32_t cols, int64_t points, side *s)
{
    const int64_t item = kind->type == KIN_SCREEN_GPU_S8 ? 1 : 2;
    const int64_t row_bytes =
        (cols * item + KIN_SCREEN_GPU_SLICE - 1) / KIN_SCREEN_GPU_SLICE * KIN_SCREEN_GPU_SLICE;
    const int64_t padded = padded_of(points);
    memset(s, 0, sizeof *s);
    s->values = test_host_block((uint64_t)(points * cols), sizeof *s->values);
    s->rounded = test_host_block((uint64_t)(padded * row_bytes), 1);
    s->facts = test_host_block((uint64_t)padded, sizeof *s->facts);
    s->half = test_host_block((uint64_t)padded, sizeof *s->half);
    s->reach = test_host_block((uint64_t)padded, sizeof *s->reach);
    s->worst = test_host_block((uint64_t)(padded / TILE), sizeof *s->worst);
    for (int64_t p = 0; p < points; p++) {
        double square = 0;
        for (int32_t c = 0; c < cols; c++) {
            const double x = random_component(b, kind->type, s->rounded + p * row_bytes + c * item);
            s->values[p * cols + c] = x;
            square += x * x;
        }
        set_term(b, kind, s, p, square);
    }
    for (int64_t p = points; p < padded; p++) {
        pad(kind, s, p);
    }
    kin_screen_gpu_set *d = &s->device;
    d->frame.type = kind->type;
    d->frame.bound = kind->bound;
    d->frame.cols = cols;
    d->frame.row_bytes = (int32_t)row_bytes;
    d->frame.scale = 1;
    d->frame.key_scale = 1;
    d->frame.reach_scale = 1;
    d->frame.kappa =
        kind->type == KIN_SCREEN_GPU_S8 ? 0 : b->gpu->module->screen->kappa(b->gpu->stream, cols);
    d->points = points;
    d->padded = padded;
    d->rounded = test_bench_copy(b, s->rounded, (uint64_t)(padded * row_bytes));
    d->facts = test_bench_copy(b, s->facts, (uint64_t)padded * sizeof *s->facts);
    d->half = test_bench_copy(b, s->half, (uint64_t)padded * sizeof *s->half);
    if (kind->type == KIN_SCREEN_GPU_S8) {
        make_starts(b, s);
    }
}

/* Lists of bytes are screened with and without. */
static void use_starts(side *s, bool used)
{
    s->device.starts = used ? s->starts : NULL;
    s->device.start_shift = used ? s->start_shift : 0;
}

static void free_side(side *s)
{
    free(s->values);
    free(s->rounded);
    free(s->facts);
    free(s->half);
    free(s->reach);
    free(s->worst);
}

static kin_bound_row bound_row(const side *s, int64_t p)
{
    return (kin_bound_row){(double)s->facts[p].norm, (double)s->facts[p].lost};
}

/* ---- The truth ------------------------------------------------------------------------------ */

/* |x^_i - x^_j|^2 or -2 x^_i.x^_j; of integers the cost, which is a whole number. */
static double true_cost(const scene *s, int64_t i, int64_t j)
{
    const double product = s->product[i * s->cols.device.points + j];
    if (s->kind->type == KIN_SCREEN_GPU_S8) {
        return (double)s->rows.facts[i].term.i + (double)s->cols.facts[j].term.i - 2 * product;
    }
    if (!s->kind->has_terms) {
        return -2 * product;
    }
    double sum = 0;
    const int32_t cols = s->size.cols;
    for (int32_t c = 0; cols <= 8 && c < cols; c++) {
        const double t = s->rows.values[i * cols + c] - s->cols.values[j * cols + c];
        sum += t * t;
    }
    const double squares = (double)s->rows.facts[i].term.f + (double)s->cols.facts[j].term.f;
    return cols <= 8 ? sum : squares - 2 * product;
}

/* Of a cost, with the rounding of the terms in true_cost. */
static double error_of(const scene *s, int64_t i, int64_t j)
{
    return kin_bound_error(s->rows.device.frame.kappa, bound_row(&s->rows, i),
                           bound_row(&s->cols, j));
}

static void multiply_sides(scene *s)
{
    const int32_t cols = s->size.cols;
    const int64_t points = s->cols.device.points;
    s->product = test_host_block((uint64_t)(s->rows.device.points * points), sizeof *s->product);
    for (int64_t i = 0; i < s->rows.device.points; i++) {
        for (int64_t j = 0; j < points; j++) {
            const double *a = s->rows.values + i * cols;
            const double *b = s->cols.values + j * cols;
            double sum = 0;
            for (int32_t c = 0; c < cols; c++) {
                sum += a[c] * b[c];
            }
            s->product[i * points + j] = sum;
        }
    }
}

/* A reach that about `near` of these costs are within; every 17th is infinite, every 13th takes
 * nothing but what is at distance 0. */
static double reach_of(const scene *s, double *costs, int64_t count, int64_t p)
{
    if (p % 17 == 5) {
        return INFINITY;
    }
    qsort(costs, (size_t)count, sizeof *costs, test_compare_doubles);
    const double cost = costs[count < NEAR ? count - 1 : NEAR - 1];
    if (s->kind->bound == KIN_BOUND_DISTANCE) {
        return p % 13 == 3 ? 0 : sqrt(cost > 0 ? cost : 0);
    }
    return cost;
}

static void make_reaches(scene *s, bool of_rows)
{
    const int64_t rows = s->rows.device.points;
    const int64_t points = s->cols.device.points;
    const int64_t others = of_rows ? points : rows;
    double *costs = test_host_block((uint64_t)others, sizeof *costs);
    for (int64_t p = 0; p < (of_rows ? rows : points); p++) {
        for (int64_t o = 0; o < others; o++) {
            costs[o] = of_rows ? true_cost(s, p, o) : true_cost(s, o, p);
        }
        const double reach = reach_of(s, costs, others, p);
        *(of_rows ? s->rows.reach + p : s->cols.reach + p) = reach;
    }
    free(costs);
}

/* ---- What the driver would make -------------------------------------------------------------- */

static kin_screen_gpu_word gate_of(const variant *kind, double far)
{
    kin_screen_gpu_word gate = {0};
    if (kind->type == KIN_SCREEN_GPU_S8) {
        gate.i = !(far < 0x1p30) ? 1 << 29 : far < -0x1p30 ? -(1 << 29) : (int32_t)ceil(far / 2);
    } else if (kind->bound == KIN_BOUND_DISTANCE) {
        gate.f =
            far < 0 ? -KIN_SCREEN_GPU_PAD_FLOAT : test_float_above(far * far * (1 + 0x1p-20) / 2);
    } else {
        gate.f = test_float_above(far / 2);
    }
    return gate;
}

static void make_worst(const variant *kind, side *s)
{
    for (int64_t t = 0; t < s->device.padded / TILE; t++) {
        kin_screen_gpu_worst *w = &s->worst[t];
        double gates[TILE / KIN_SCREEN_GPU_GATE];
        *w = (kin_screen_gpu_worst){.far = -INFINITY, .integer = INT32_MIN};
        for (int g = 0; g < TILE / KIN_SCREEN_GPU_GATE; g++) {
            gates[g] = -INFINITY;
        }
        for (int64_t p = t * TILE; p < (t + 1) * TILE && p < s->device.points; p++) {
            const bool distance = kind->bound == KIN_BOUND_DISTANCE;
            const double far = s->reach[p] + (distance ? (double)s->facts[p].lost : 0);
            double *gate = &gates[kin_screen_gpu_gate_of((int32_t)(p % TILE))];
            *gate = fmax(*gate, far);
            w->norm = fmaxf(w->norm, s->facts[p].norm);
            w->lost = fmaxf(w->lost, s->facts[p].lost);
            w->far = fmaxf(w->far, test_float_above(far));
            if (kind->type == KIN_SCREEN_GPU_S8) {
                const int32_t whole = far < 0x1p30 ? (int32_t)far : INT32_MAX;
                w->integer = w->integer < whole ? whole : w->integer;
            }
        }
        for (int g = 0; g < TILE / KIN_SCREEN_GPU_GATE; g++) {
            w->gate[g] = gate_of(kind, gates[g]);
        }
    }
}

/* One a position, on the device. */
static kin_screen_gpu_word *make_gates(test_bench *b, const variant *kind, const side *s)
{
    const uint64_t bytes = (uint64_t)s->device.padded * sizeof(kin_screen_gpu_word);
    kin_screen_gpu_word *gates = test_host_block((uint64_t)s->device.padded, sizeof *gates);
    for (int64_t p = 0; p < s->device.padded; p++) {
        const bool distance = kind->bound == KIN_BOUND_DISTANCE;
        const double lost = distance ? (double)s->facts[p].lost : 0.0;
        gates[p] = gate_of(kind, p < s->device.points ? s->reach[p] + lost : -INFINITY);
    }
    kin_screen_gpu_word *device = test_bench_copy(b, gates, bytes);
    free(gates);
    return device;
}

typedef struct plan {
    uint32_t *tiles;
    kin_screen_gpu_unit *units;
    uint32_t unit_count;
    uint32_t tiles_a_block;
} plan;

static uint32_t below(test_bench *b, uint32_t count)
{
    return (uint32_t)(test_uniform(&b->seed) * (double)count);
}

/* All pairs of blocks and tiles; graph: tiles of later blocks alone, so that each pair of positions
 * in two blocks comes once. */
static plan make_plan(const scene *s, bool graph)
{
    test_bench *b = s->b;
    const uint32_t blocks = (uint32_t)(s->rows.device.padded / BLOCK);
    const uint32_t tiles = (uint32_t)(s->cols.device.padded / TILE);
    plan p = {test_host_block((uint64_t)blocks * tiles, sizeof *p.tiles),
              test_host_block((uint64_t)blocks * tiles + 1, sizeof *p.units), 0, tiles};
    for (uint32_t block = 0; block < blocks; block++) {
        uint32_t *own = p.tiles + (size_t)block * tiles;
        uint32_t count = 0;
        for (uint32_t t = graph ? 2 * block + 2 : 0; t < tiles; t++) {
            const uint32_t to = below(b, count + 1);
            own[count++] = own[to];
            own[to] = t;
        }
        for (uint32_t first = 0; first < count;) {
            const uint32_t most = count - first;
            const uint32_t part = 1 + below(b, most);
            const uint32_t to = below(b, p.unit_count + 1);
            p.units[p.unit_count++] = p.units[to];
            p.units[to] = (kin_screen_gpu_unit){block, block * tiles + first, part, 0};
            first += part;
        }
    }
    return p;
}

static kin_screen_gpu_screen start_job(scene *s, kin_screen_gpu_mode mode, const plan *p)
{
    test_bench *b = s->b;
    kin_screen_gpu_screen job;
    memset(&job, 0, sizeof job);
    job.mode = mode;
    job.rows = s->rows.device;
    job.cols = s->cols.device;
    job.tiles_a_block = p->tiles_a_block;
    job.tiles = test_bench_copy(b, p->tiles,
                                (uint64_t)(s->rows.device.padded / BLOCK) * p->tiles_a_block *
                                    sizeof *p->tiles);
    job.units = test_bench_copy(b, p->units, (uint64_t)(p->unit_count + 1) * sizeof *p->units);
    job.unit_count = test_bench_copy(b, &p->unit_count, sizeof p->unit_count);
    job.next = test_bench_block(b, sizeof *job.next, 0);
    return job;
}

static void free_plan(plan *p)
{
    free(p->tiles);
    free(p->units);
}

/* The first few wrong things of a scene are told. */
static bool tell(const scene *s, const char *test)
{
    if (s->b->wrong++ >= 8) {
        return false;
    }
    printf("  WRONG %s, %s, %s, cols %d, rows %" PRId64 ", points %" PRId64 ": ", s->b->unit, test,
           s->kind->name, s->size.cols, s->rows.device.points, s->cols.device.points);
    return true;
}

/* ---- The tests ------------------------------------------------------------------------------ */

static bool cost_is_right(const scene *s, const char *test, int64_t i, int64_t j, uint32_t order)
{
    const double got = test_cost_of_order(s->kind->type, order);
    const double want = true_cost(s, i, j);
    const double off = fabs(got - want);
    if (off <= error_of(s, i, j)) {
        return true;
    }
    if (tell(s, test)) {
        printf("cost(%" PRId64 ", %" PRId64 ") = %.9g, want %.9g within %.3g\n", i, j, got, want,
               error_of(s, i, j));
    }
    return false;
}

/* Where a plan put tile t of a block. */
static int64_t place_of(const plan *p, int64_t block, int64_t tile)
{
    for (int64_t place = 0; place < p->tiles_a_block; place++) {
        if (p->tiles[block * p->tiles_a_block + place] == tile) {
            return place;
        }
    }
    return -1;
}

static void check_matrix_row(const scene *s, const plan *p, const uint32_t *matrix,
                             const uint32_t *minima, int64_t i)
{
    const int64_t tiles = p->tiles_a_block;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t place = place_of(p, i / BLOCK, t);
        const uint32_t *own = matrix + (i * tiles + place) * TILE;
        uint32_t least = UINT32_MAX;
        for (int64_t c = 0; c < TILE; c++) {
            const int64_t j = t * TILE + c;
            least = own[c] < least ? own[c] : least;
            if (j < s->cols.device.points) {
                cost_is_right(s, "matrix", i, j, own[c]);
            } else if (own[c] != UINT32_MAX && tell(s, "matrix")) {
                printf("row %" PRId64 ", padding %" PRId64 ": %08x\n", i, j, own[c]);
            }
        }
        if (minima[i * tiles + place] != least && tell(s, "minima")) {
            printf("row %" PRId64 ", tile %" PRId64 ": %08x, want %08x\n", i, t,
                   minima[i * tiles + place], least);
        }
    }
}

static void check_matrix(scene *s)
{
    test_bench *b = s->b;
    const int keep = b->block_count;
    plan p = make_plan(s, false);
    kin_screen_gpu_screen job = start_job(s, KIN_SCREEN_GPU_MATRIX, &p);
    const uint64_t count = (uint64_t)s->rows.device.padded * p.tiles_a_block;
    job.pitch = (int64_t)p.tiles_a_block * TILE;
    job.matrix = test_bench_block(b, count * TILE * sizeof(uint32_t), 0x5a);
    job.minima = test_bench_block(b, count * sizeof(uint32_t), 0x5a);
    test_screen_run(b, &job);
    uint32_t *matrix = test_host_copy(b, job.matrix, count * TILE * sizeof(uint32_t));
    uint32_t *minima = test_host_copy(b, job.minima, count * sizeof(uint32_t));
    for (int64_t i = 0; i < s->rows.device.points; i++) {
        check_matrix_row(s, &p, matrix, minima, i);
    }
    const uint64_t tiles = (uint64_t)s->rows.device.points * p.tiles_a_block;
    for (uint64_t at = tiles * TILE; at < count * TILE; at++) {
        if (matrix[at] != 0x5a5a5a5a && tell(s, "matrix")) {
            printf("a padding row was written at %" PRIu64 "\n", at);
        }
    }
    job.parts = job.matrix;
    job.matrix = job.minima = NULL;
    job.next = test_bench_block(b, sizeof *job.next, 0);
    test_screen_run(b, &job);
    uint32_t *parts = test_host_copy(b, job.parts, count * (TILE / KIN_SCREEN_GPU_PART) * 4);
    for (uint64_t at = 0; at < tiles; at++) {
        (void)(test_are_parts(matrix + at * TILE, parts + at * (TILE / KIN_SCREEN_GPU_PART)) ||
               tell(s, "parts"));
    }
    free(parts);
    free(matrix);
    free(minima);
    free_plan(&p);
    test_give_back(b, keep);
}

static void check_nearest(scene *s)
{
    test_bench *b = s->b;
    const int keep = b->block_count;
    const int64_t rows = s->rows.device.points;
    plan p = make_plan(s, false);
    kin_screen_gpu_screen job = start_job(s, KIN_SCREEN_GPU_NEAREST, &p);
    job.nearest = test_bench_block(b, (uint64_t)rows * sizeof(uint64_t), 0xff);
    test_screen_run(b, &job);
    uint64_t *nearest = test_host_copy(b, job.nearest, (uint64_t)rows * sizeof *nearest);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (int64_t)(nearest[i] & UINT32_MAX);
        if (at >= s->cols.device.points) {
            if (tell(s, "nearest")) {
                printf("row %" PRId64 ": position %" PRId64 "\n", i, at);
            }
            continue;
        }
        cost_is_right(s, "nearest", i, at, (uint32_t)(nearest[i] >> 32));
        for (int64_t j = 0; j < s->cols.device.points; j++) {
            const double less = true_cost(s, i, at) - true_cost(s, i, j);
            const bool wrong = less > error_of(s, i, at) + error_of(s, i, j) ||
                               (less == 0 && s->kind->type == KIN_SCREEN_GPU_S8 && j < at);
            if (wrong && tell(s, "nearest")) {
                printf("row %" PRId64 ": %" PRId64 " at %.9g, but %" PRId64 " at %.9g\n", i, at,
                       true_cost(s, i, at), j, true_cost(s, i, j));
            }
        }
    }
    free(nearest);
    free_plan(&p);
    test_give_back(b, keep);
}

static kin_screen_gpu_lists make_lists(test_bench *b, const side *s, int32_t capacity)
{
    const uint64_t padded = (uint64_t)s->device.padded;
    kin_screen_gpu_lists lists;
    memset(&lists, 0, sizeof lists);
    lists.rows = s->device.padded;
    lists.k = 1;
    lists.capacity = capacity;
    lists.words = test_bench_block(b, padded * (uint64_t)capacity * sizeof(uint64_t), 0xff);
    lists.counts = test_bench_block(b, padded * sizeof(int32_t), 0);
    lists.reach = test_bench_copy(b, s->reach, padded * sizeof(double));
    lists.lost = test_bench_block(b, padded, 0);
    return lists;
}

/* Which ends of which pairs a list may hold. */
typedef struct ends {
    bool of_rows; /* the row is the end that collects */
    bool graph;   /* pairs of different blocks, rows and columns one set */
} ends;

/* Whether the pair is proven to be in a list (1), or not in it (-1), or may be either (0). */
static int verdict(const scene *s, ends e, int64_t own, int64_t other)
{
    if (e.graph && own / BLOCK == other / BLOCK) {
        return -1;
    }
    const int64_t i = e.of_rows ? own : other;
    const int64_t j = e.of_rows ? other : own;
    const side *self = e.of_rows ? &s->rows : &s->cols;
    const kin_bound_row a = bound_row(&s->rows, i);
    const kin_bound_row c = bound_row(&s->cols, j);
    const double cost = true_cost(s, i, j);
    const double limit =
        kin_bound_limit(s->kind->bound, self->reach[own], s->rows.device.frame.kappa, a, c);
    const double error = error_of(s, i, j);
    return cost <= limit - error ? 1 : cost > limit + error ? -1 : 0;
}

static int compare_words(const void *a, const void *b)
{
    const uint32_t x = (uint32_t) * (const uint64_t *)a;
    const uint32_t y = (uint32_t) * (const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* words: `stored` entries. whole: the list lost nothing, so all that must be there is. */
static void check_list(const scene *s, const char *test, ends e, int64_t own, uint64_t *words,
                       int64_t stored, bool whole)
{
    const int64_t others = e.of_rows ? s->cols.device.points : s->rows.device.points;
    qsort(words, (size_t)stored, sizeof *words, compare_words);
    int64_t at = 0;
    for (int64_t other = 0; other < others; other++) {
        const int want = verdict(s, e, own, other);
        const bool there = at < stored && (int64_t)(words[at] & UINT32_MAX) == other;
        if (there) {
            const uint32_t order = (uint32_t)(words[at++] >> 32);
            cost_is_right(s, test, e.of_rows ? own : other, e.of_rows ? other : own, order);
        }
        const bool wrong = there ? want < 0 : whole && want > 0;
        if (wrong && tell(s, test)) {
            printf("list of %s %" PRId64 " %s %" PRId64 ", cost %.9g, reach %.9g\n",
                   e.of_rows ? "row" : "column", own, there ? "holds" : "lacks", other,
                   e.of_rows ? true_cost(s, own, other) : true_cost(s, other, own),
                   e.of_rows ? s->rows.reach[own] : s->cols.reach[own]);
        }
    }
    if (at < stored && tell(s, test)) {
        printf("list of %" PRId64 ": position %" PRIu64 " twice, or padding\n", own,
               words[at] & UINT32_MAX);
    }
}

static void check_lists(const scene *s, const char *test, const kin_screen_gpu_lists *lists, ends e,
                        int32_t *counts_out)
{
    test_bench *b = s->b;
    const side *self = e.of_rows ? &s->rows : &s->cols;
    const int64_t padded = self->device.padded;
    int32_t *counts = test_host_copy(b, lists->counts, (uint64_t)padded * sizeof *counts);
    uint64_t *words =
        test_host_copy(b, lists->words, (uint64_t)(padded * lists->capacity) * sizeof *words);
    for (int64_t own = 0; own < padded; own++) {
        if (own >= self->device.points) {
            if (counts[own] != 0 && tell(s, test)) {
                printf("padding %" PRId64 " has %d candidates\n", own, counts[own]);
            }
            continue;
        }
        const bool whole = counts[own] <= lists->capacity;
        check_list(s, test, e, own, words + own * lists->capacity,
                   whole ? counts[own] : lists->capacity, whole);
    }
    if (counts_out != NULL) {
        memcpy(counts_out, counts, (size_t)padded * sizeof *counts);
    }
    free(counts);
    free(words);
}

/* Once with room for all, once with room for 5: what is counted must be the same. */
static void check_search_lists(scene *s)
{
    test_bench *b = s->b;
    const int keep = b->block_count;
    const int64_t padded = s->rows.device.padded;
    plan p = make_plan(s, false);
    int32_t *counts[2] = {test_host_block((uint64_t)padded, sizeof **counts),
                          test_host_block((uint64_t)padded, sizeof **counts)};
    for (int pass = 0; pass < 2; pass++) {
        kin_screen_gpu_screen job = start_job(s, KIN_SCREEN_GPU_LISTS, &p);
        job.worst = test_bench_copy(
            b, s->cols.worst, (uint64_t)(s->cols.device.padded / TILE) * sizeof *s->cols.worst);
        job.row_lists = make_lists(b, &s->rows, pass == 0 ? (int32_t)s->cols.device.points + 9 : 5);
        test_screen_run(b, &job);
        check_lists(s, pass == 0 ? "lists" : "full lists", &job.row_lists, (ends){true, false},
                    counts[pass]);
        test_give_back(b, keep);
    }
    for (int64_t i = 0; i < padded; i++) {
        if (counts[0][i] != counts[1][i] && tell(s, "full lists")) {
            printf("row %" PRId64 " counted %d, with room %d\n", i, counts[1][i], counts[0][i]);
        }
    }
    free(counts[0]);
    free(counts[1]);
    free_plan(&p);
}

/* One set; its lists are those of both ends, so that each pair is in up to two of them. */
static void check_graph_lists(scene *s)
{
    test_bench *b = s->b;
    const int keep = b->block_count;
    plan p = make_plan(s, true);
    kin_screen_gpu_screen job = start_job(s, KIN_SCREEN_GPU_LISTS, &p);
    job.worst = test_bench_copy(b, s->cols.worst,
                                (uint64_t)(s->cols.device.padded / TILE) * sizeof *s->cols.worst);
    job.row_lists = make_lists(b, &s->rows, (int32_t)s->cols.device.points + 9);
    job.col_lists = job.row_lists;
    job.gates = make_gates(b, s->kind, &s->cols);
    test_screen_run(b, &job);
    check_lists(s, "two-sided lists", &job.row_lists, (ends){true, true}, NULL);
    free_plan(&p);
    test_give_back(b, keep);
}

static void run_scene(test_bench *b, const variant *kind, extent size, bool graph)
{
    scene s = {.b = b, .kind = kind, .size = size};
    make_side(b, kind, size.cols, size.rows, &s.rows);
    if (graph) {
        s.cols = s.rows;
    } else {
        make_side(b, kind, size.cols, size.points, &s.cols);
    }
    multiply_sides(&s);
    make_reaches(&s, true);
    if (!graph) {
        make_reaches(&s, false);
        make_worst(kind, &s.rows);
    }
    make_worst(kind, &s.cols);
    for (int u = 0; u < 2 && b->units[u] != NULL; u++) {
        b->unit = b->units[u];
        if (!graph) {
            check_matrix(&s);
            check_nearest(&s);
        }
        for (int starts = 0; starts < (kind->type == KIN_SCREEN_GPU_S8 ? 2 : 1); starts++) {
            use_starts(&s.cols, starts == 1);
            if (graph) {
                check_graph_lists(&s);
            } else {
                check_search_lists(&s);
            }
        }
    }
    free(s.product);
    free_side(&s.rows);
    if (!graph) {
        free_side(&s.cols);
    }
    test_give_back(b, 0);
}

/* Few rows of bytes, which no unit is named for: they have a body of their own. */
static void few_rows(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 4, 5, 8, 9, 16, 17};
    static const extent columns[] = {{1, 0, 127},    {33, 0, 1000}, {128, 0, 1},
                                     {128, 0, 4099}, {129, 0, 640}, {1000, 0, 513}};
    test_bench b = test_bench_open();
    b.seed = 78;
    b.unit = "";
    enum { ROWS = sizeof rows / sizeof *rows, SHAPES = sizeof columns / sizeof *columns };
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds) * ROWS * SHAPES; i++) {
        scene s = {.b = &b, .kind = &kinds[i / (ROWS * SHAPES)], .size = columns[i % SHAPES]};
        s.size.rows = rows[i / SHAPES % ROWS];
        make_side(&b, s.kind, s.size.cols, s.size.rows, &s.rows);
        make_side(&b, s.kind, s.size.cols, s.size.points, &s.cols);
        multiply_sides(&s);
        make_worst(s.kind, &s.cols);
        check_matrix(&s);
        free(s.product);
        free_side(&s.rows);
        free_side(&s.cols);
        test_give_back(&b, 0);
    }
    assert_int_equal(b.wrong, 0);
    test_bench_close(&b);
}

static void all_scenes(void **state)
{
    (void)state;
    test_bench b = test_bench_open();
    b.seed = 77;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int graph = 0; graph < 2; graph++) {
                run_scene(&b, &kinds[k], sizes[i], graph == 1);
            }
        }
        printf("%s on %s%s: matrices, minima, nearest, lists of one and of both ends: %" PRId64
               " wrong so far\n",
               kinds[k].name, b.units[0], b.units[1] != NULL ? " and wgmma" : "", b.wrong);
    }
    assert_int_equal(b.wrong, 0);
    test_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_rows), cmocka_unit_test(all_scenes)};
    return test_gpu_is_absent() ? TEST_SKIPPED : cmocka_run_group_tests(tests, NULL, NULL);
}
