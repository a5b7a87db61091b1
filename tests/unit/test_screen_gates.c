/* SPDX-License-Identifier: Apache-2.0
 * The coarse test of the GPU's screen, on the processor: the arithmetic is the kernels' own
 * (screen_gate.h). For rows, columns and reaches of all magnitudes, the largest v that the test
 * discards has a cost above the limits of both ends, in real numbers; a test that forgets a part
 * must be seen to fail. What v may be off by: test_screen_kappa.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "screen/screen_gate.h"
#include "screen/screen_kappa.h"
#include "support/support_rows.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Columns of a tile, of which the first share the gate that is looked at. */
enum { COLUMNS = 4, SHARED = 2, TRIALS = 300000 };

/* ---- Numbers -------------------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(test_uniform(&seed) * (double)n);
}

/* 24 random bits, or a power of two, or one unit beside it; times 2^low .. 2^high. */
static float magnitude(int low, int high)
{
    const int exponent = low + (int)below((uint32_t)(high - low + 1));
    const double near[4] = {1.0, 1.0 - 0x1p-24, 1.0 + 0x1p-23, 1.0 + test_uniform(&seed)};
    return (float)ldexp(near[below(4)], exponent);
}

static float any_float(void)
{
    const uint32_t bits = below(1u << 16) << 16 | below(1u << 16);
    float f;
    memcpy(&f, &bits, sizeof f);
    return below(4) == 0 ? magnitude(-149, 127) : f == f ? f : 1.0F;
}

/* ---- Directed rounding ---------------------------------------------------------------------- */

typedef struct three {
    volatile float a, b, c;
} three;

static float in_mode(int mode, int kind, const three *x)
{
    volatile float result = 0.0F;
    assert_int_equal(fesetround(mode), 0);
    if (kind == 0) {
        result = x->a + x->b;
    } else if (kind == 1) {
        result = x->a * x->b;
    } else if (kind == 2) {
        result = fmaf(x->a, x->b, x->c);
    } else {
        volatile double wide = (double)x->a * 0x1.123456789abcdp-3;
        result = (float)wide;
    }
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    return result;
}

static void same(const char *name, const three *x, float got, float wanted)
{
    if (!(got == wanted || (got != got && wanted != wanted))) {
        fail_msg("%s of %a, %a, %a: %a, the processor says %a", name, (double)x->a, (double)x->b,
                 (double)x->c, (double)got, (double)wanted);
    }
}

static void test_directed_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < 10 * TRIALS; i++) {
        three x = {any_float(), any_float(), any_float()};
        if (below(3) == 0) { /* of one size */
            x.b = nextafterf(-x.a, any_float());
            x.c = -x.a * x.b;
        }
        /* In the host's mode the exact product must be nearest; the operations need no mode. */
        volatile double wide = (double)x.a * 0x1.123456789abcdp-3;
        same("of", &x, kin_up_of(wide), in_mode(FE_UPWARD, 3, &x));
        same("add", &x, kin_up_add(x.a, x.b), in_mode(FE_UPWARD, 0, &x));
        same("mul", &x, kin_up_mul(x.a, x.b), in_mode(FE_UPWARD, 1, &x));
        same("fma", &x, kin_up_fma(x.a, x.b, x.c), in_mode(FE_UPWARD, 2, &x));
        same("fma down", &x, kin_down_fma(x.a, x.b, x.c), in_mode(FE_DOWNWARD, 2, &x));
        x.b = -x.b;
        same("sub down", &x, kin_down_sub(x.a, -x.b), in_mode(FE_DOWNWARD, 0, &x));
    }
    printf("sums, products and fma rounded up and down have the processor's bits: %d of each\n",
           10 * TRIALS);
}

/* ---- The test of a tile --------------------------------------------------------------------- */

typedef enum mutant {
    MUTANT_NONE = 0,
    MUTANT_NO_ERROR,    /* of a cost */
    MUTANT_NO_ROW_LOST, /* in thresholds */
    MUTANT_NO_COL_LOST,
    MUTANT_NO_FAR, /* the crossed term of a column's limit */
    MUTANT_NO_NORM,
    MUTANT_NO_TIE, /* > in place of >= */
    MUTANT_COUNT
} mutant;

static const char *const mutant_names[MUTANT_COUNT] = {
    "the test", "no error of costs", "no lost of rows", "no lost of columns",
    "no far",   "no norms",          "no ties"};

typedef struct end {
    float norm;
    float lost;
    double reach;
} end;

/* A row against a tile of columns. */
typedef struct scene {
    kin_screen_gpu_type type;
    kin_bound_kind bound;
    double kappa;
    float eps;
    end row;
    float term; /* of the row; integers: as a whole number */
    bool even;  /* bytes: one set of thresholds for all tiles */
    end cols[COLUMNS];
} scene;

/* What the screen works out: thresholds of the row, the gate, one threshold of both. */
typedef struct verdict {
    kin_gate_test test;
    kin_screen_gpu_word gate;
    kin_screen_gpu_word threshold;
} verdict;

static double far_of(const scene *s, const end *e)
{
    return s->bound == KIN_BOUND_DISTANCE ? e->reach + (double)e->lost : e->reach;
}

/* A set that the row is one of, with starts where all its thresholds are even. */
static kin_screen_gpu_set set_of(const scene *s, mutant m)
{
    static const unsigned char some = 0;
    kin_screen_gpu_set set = {.frame = {.type = s->type, .bound = s->bound},
                              .starts = s->even ? &some : NULL};
    set.worst.lost = m == MUTANT_NO_ROW_LOST ? 0.0 : (double)s->row.lost;
    for (int i = 0; i < COLUMNS; i++) {
        set.worst.norm = fmax(set.worst.norm, (double)s->cols[i].norm);
        set.worst.lost = fmax(set.worst.lost, (double)s->cols[i].lost);
    }
    return set;
}

static verdict judge(const scene *s, mutant m)
{
    verdict v;
    const kin_screen_gpu_set set = set_of(s, m);
    kin_bound_row worst = {0.0, 0.0};
    float far = -INFINITY;
    v.gate = kin_gate_of(s->type, s->bound, -INFINITY);
    for (int i = 0; i < COLUMNS; i++) {
        const double own = far_of(s, &s->cols[i]);
        const kin_screen_gpu_word gate =
            kin_gate_of(s->type, s->bound, kin_gate_set_far(&set, own));
        worst.norm = fmax(worst.norm, (double)s->cols[i].norm);
        worst.lost = fmax(worst.lost, (double)s->cols[i].lost);
        far = fmaxf(far, kin_up_of(own));
        if (s->type == KIN_SCREEN_GPU_S8) {
            v.gate.i = i < SHARED && gate.i > v.gate.i ? gate.i : v.gate.i;
        } else {
            v.gate.f = i < SHARED && gate.f > v.gate.f ? gate.f : v.gate.f;
        }
    }
    kin_gate_row row = {{0}, s->row.norm, s->row.lost, {0}};
    row.far = kin_gate_far(s->bound, s->row.reach, s->row.lost);
    if (s->type == KIN_SCREEN_GPU_S8) {
        row.half.i = (int32_t)s->term >> 1;
    } else {
        row.half.f = 0.5F * s->term;
    }
    if (m == MUTANT_NO_ROW_LOST) {
        row.lost = 0.0F;
        row.far = kin_gate_far(s->bound, s->row.reach, 0.0F);
    } else if (m == MUTANT_NO_COL_LOST) {
        worst.lost = 0.0;
    } else if (m == MUTANT_NO_NORM) {
        worst.norm = 0.0;
    }
    v.test = s->even ? kin_gate_make_even(s->bound, row, worst)
                     : kin_gate_make_test(s->type, s->bound, m == MUTANT_NO_ERROR ? 0.0F : s->eps,
                                          row, worst, m == MUTANT_NO_FAR ? 0.0F : far);
    if (s->type == KIN_SCREEN_GPU_S8) {
        const int32_t col = v.test.col.i - v.gate.i;
        v.threshold.i = col < v.test.row.i ? col : v.test.row.i;
        v.threshold.i += m == MUTANT_NO_TIE ? 1 : 0;
    } else {
        const float col = kin_down_sub(v.test.col.f, v.gate.f);
        v.threshold.f = col < v.test.row.f ? col : v.test.row.f;
    }
    return v;
}

/* Limit of an end in real numbers, docs/notes/numerics.md, and what long doubles may be off by. */
static long double limit_of(const scene *s, const end *q, const end *c, long double *off)
{
    const long double norms = (long double)q->norm + c->norm;
    const long double error =
        s->kappa > 0.0 ? ((long double)s->kappa + 0x1p-20L) * norms * norms : 0.0L;
    const long double reach = q->reach;
    *off = 0.0L;
    if (s->bound == KIN_BOUND_INTEGER) {
        return reach;
    }
    if (s->bound == KIN_BOUND_DISTANCE) {
        if (reach < 0.0L) {
            return -INFINITY;
        }
        const long double far = (reach + q->lost + c->lost) * (1.0L + 0x1p-30L);
        *off = (far * far + error) * 0x1p-58L;
        return far * far * (1.0L + 0x1p-30L) + error;
    }
    const long double rests = (long double)q->norm * c->lost + (long double)q->lost * c->norm +
                              (long double)q->lost * c->lost;
    const long double all = ((long double)q->norm + q->lost) * ((long double)c->norm + c->lost);
    *off = (fabsl(reach) + 2.0L * rests + all + error) * 0x1p-58L;
    return reach + 2.0L * rests + 0x1p-28L * all + error;
}

/* Whether a pair of this cost, which the test discards, was within the limit of an end. A limit
 * that is no number keeps everything. */
static bool wrong(const scene *s, long double cost, long double cost_off)
{
    for (int i = 0; i < SHARED; i++) {
        long double off = 0.0L;
        const long double row = limit_of(s, &s->row, &s->cols[i], &off);
        if (!(cost > row - off - cost_off)) {
            return true;
        }
        const long double col = limit_of(s, &s->cols[i], &s->row, &off);
        if (!(cost > col - off - cost_off)) {
            return true;
        }
    }
    return false;
}

/* Whether the least cost that is discarded should have been kept; larger ones are farther above. */
static bool discards_wrongly(const scene *s, const verdict *v)
{
    if (s->type == KIN_SCREEN_GPU_S8) {
        /* cost = term_i + odd_j - 2 v, and no cost is beyond 2^30. */
        const long double cost = (long double)s->term - 2.0L * ((long double)v->threshold.i - 1.0L);
        return cost <= 0x1p30L && wrong(s, cost, 0.0L);
    }
    if (!(v->threshold.f > -FLT_MAX)) {
        return v->threshold.f != v->threshold.f;
    }
    const float most = v->threshold.f == INFINITY ? FLT_MAX : nextafterf(v->threshold.f, -INFINITY);
    const long double off = (fabsl((long double)most) + s->term) * 0x1p-58L;
    return wrong(s, (long double)s->term - 2.0L * most, off);
}

/* ---- Scenes --------------------------------------------------------------------------------- */

static end random_end(const scene *s, int norm_top, int lost_low, int lost_high)
{
    end e = {0.0F, 0.0F, 0.0};
    if (s->bound == KIN_BOUND_INTEGER) {
        e.reach = floor(ldexp(test_uniform(&seed), (int)below(31)));
        e.reach = s->bound == KIN_BOUND_INTEGER && below(3) == 0 ? -e.reach : e.reach;
        return e;
    }
    e.norm = below(16) == 0 ? 0.0F : magnitude(norm_top - (int)below(20) - 1, norm_top);
    e.lost = magnitude(lost_low, lost_high);
    e.reach =
        (double)magnitude(norm_top - 30, norm_top + 1) * (1.0 + test_uniform(&seed) * 0x1p-30);
    if (s->bound == KIN_BOUND_PRODUCT) {
        e.reach *= below(2) == 0 ? -(double)e.norm : (double)e.norm;
    }
    return e;
}

static void fill(scene *s, kin_screen_gpu_type type, kin_bound_kind bound)
{
    /* Norms of rounded rows: up to 2^25 in halves, 2^14 in bytes. */
    const int norm_top = type == KIN_SCREEN_GPU_S8 ? 13 : (int)below(26);
    const int lost_high = (int)below(32) - 10;
    const int lost_low = below(8) == 0 ? -149 : lost_high - (int)below(4);
    const int32_t cols = 1 << below(21);
    *s = (scene){.type = type, .bound = bound, .even = type == KIN_SCREEN_GPU_S8 && below(2) == 0};
    if (type == KIN_SCREEN_GPU_F16) {
        s->kappa = kin_screen_gpu_unit_kappa(8 + (int32_t)below(3), cols);
        s->eps = nextafterf((float)(s->kappa + 0x1p-20), INFINITY);
    }
    s->row = random_end(s, norm_top, lost_low, lost_high);
    for (int i = 0; i < COLUMNS; i++) {
        s->cols[i] = random_end(s, norm_top, lost_low, lost_high);
    }
    if (below(8) == 0) { /* one that lost much */
        s->cols[below(COLUMNS)].lost = magnitude(0, 60);
    }
    if (bound == KIN_BOUND_DISTANCE && type == KIN_SCREEN_GPU_F16) {
        s->term = s->row.norm * s->row.norm;
    } else if (bound == KIN_BOUND_DISTANCE) {
        s->term = floorf(s->row.norm * s->row.norm);
    } else if (bound == KIN_BOUND_INTEGER) {
        s->term = (float)below(1u << 24) - (float)(1 << 23);
    }
}

/* What is infinite, or not known yet, or takes nothing. */
static void spoil(scene *s)
{
    const double unknown = kin_from_bits(0x7f7f7f7f7f7f7f7fu);
    for (int i = -1; i < COLUMNS; i++) {
        end *e = i < 0 ? &s->row : &s->cols[i];
        const uint32_t kind = below(12);
        if (kind < 2) {
            e->reach = kind == 0 ? unknown : (double)INFINITY;
        } else if (kind == 2 && s->bound != KIN_BOUND_INTEGER) {
            e->lost = INFINITY;
        } else if (kind == 3) {
            e->norm = 0.0F;
        } else if (kind == 4 && s->bound != KIN_BOUND_INTEGER) {
            e->lost = magnitude(20, 127);
        }
    }
    if (s->bound == KIN_BOUND_DISTANCE && s->type == KIN_SCREEN_GPU_F16) {
        s->term = s->row.norm * s->row.norm;
    }
}

static void complain(const scene *s, const verdict *v, mutant m)
{
    printf("%s, type %d, bound %d: row norm %a lost %a reach %a term %a\n", mutant_names[m],
           (int)s->type, (int)s->bound, (double)s->row.norm, (double)s->row.lost, s->row.reach,
           (double)s->term);
    for (int i = 0; i < COLUMNS; i++) {
        printf("  column norm %a lost %a reach %a\n", (double)s->cols[i].norm,
               (double)s->cols[i].lost, s->cols[i].reach);
    }
    printf("  kappa %a, threshold %a or %d, gate %a or %d\n", s->kappa, (double)v->threshold.f,
           (int)v->threshold.i, (double)v->gate.f, (int)v->gate.i);
}

typedef struct kind {
    const char *name;
    kin_screen_gpu_type type;
    kin_bound_kind bound;
} kind;

static const kind kinds[] = {{"f16 distances", KIN_SCREEN_GPU_F16, KIN_BOUND_DISTANCE},
                             {"f16 products", KIN_SCREEN_GPU_F16, KIN_BOUND_PRODUCT},
                             {"s8 distances", KIN_SCREEN_GPU_S8, KIN_BOUND_DISTANCE},
                             {"s8 products", KIN_SCREEN_GPU_S8, KIN_BOUND_PRODUCT},
                             {"integers", KIN_SCREEN_GPU_S8, KIN_BOUND_INTEGER}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void test_nothing_is_discarded_wrongly(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < TRIALS; i++) {
            scene s;
            fill(&s, kinds[k].type, kinds[k].bound);
            if (i % 4 == 0) {
                spoil(&s);
            }
            const verdict v = judge(&s, MUTANT_NONE);
            if (discards_wrongly(&s, &v)) {
                complain(&s, &v, MUTANT_NONE);
                fail_msg("%s: a pair within a limit is discarded", kinds[k].name);
            }
        }
        printf("%s: the least cost that is discarded is above all limits, %d tiles\n",
               kinds[k].name, TRIALS);
    }
}

/* Which mutants a kind can tell. */
static bool matters(const kind *k, mutant m)
{
    switch (m) {
    case MUTANT_NO_ERROR:
    case MUTANT_NO_NORM:
        return k->type == KIN_SCREEN_GPU_F16 ||
               (m == MUTANT_NO_NORM && k->bound == KIN_BOUND_PRODUCT);
    case MUTANT_NO_TIE:
        return k->bound == KIN_BOUND_INTEGER;
    case MUTANT_NO_FAR:
        return k->bound == KIN_BOUND_DISTANCE;
    default:
        return k->bound != KIN_BOUND_INTEGER;
    }
}

static void test_mutants_are_seen(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        for (int m = 1; m < MUTANT_COUNT; m++) {
            int failures = 0;
            for (int i = 0; i < TRIALS / 10 && matters(&kinds[k], (mutant)m); i++) {
                scene s;
                fill(&s, kinds[k].type, kinds[k].bound);
                const verdict v = judge(&s, (mutant)m);
                failures += discards_wrongly(&s, &v) ? 1 : 0;
            }
            if (matters(&kinds[k], (mutant)m)) {
                printf("%s, %s: wrong for %d of %d tiles\n", kinds[k].name, mutant_names[m],
                       failures, TRIALS / 10);
                assert_true(failures > 0);
            }
        }
    }
}

/* For its row the test is as sharp as the worst column allows: 2^-18 of what is added there. */
static void test_rows_are_sharp(void **state)
{
    (void)state;
    double worst = 0.0;
    for (int i = 0; i < TRIALS; i++) {
        scene s;
        long double off = 0.0L;
        fill(&s, KIN_SCREEN_GPU_F16, KIN_BOUND_DISTANCE);
        end col = s.cols[0];
        for (int j = 1; j < COLUMNS; j++) {
            col.norm = fmaxf(col.norm, s.cols[j].norm);
            col.lost = fmaxf(col.lost, s.cols[j].lost);
        }
        const long double limit = limit_of(&s, &s.row, &col, &off);
        const verdict v = judge(&s, MUTANT_NONE);
        if (limit < 0x1p100L) {
            const long double taken = (long double)s.term - 2.0L * v.test.row.f;
            worst = fmax(worst, (double)((taken - limit) / (limit + s.term)));
        }
    }
    printf("a row's threshold gives away at most %.2g of its limit and term\n", worst);
    assert_true(worst < 0x1p-18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directed_rounding),
        cmocka_unit_test(test_nothing_is_discarded_wrongly),
        cmocka_unit_test(test_mutants_are_seen),
        cmocka_unit_test(test_rows_are_sharp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
