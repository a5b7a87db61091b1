/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_shapes.h"

#include "base/base_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *test_shape_name(test_shape shape)
{
    static const char *const names[SHAPE_COUNT] = {
        "gauss",   "clusters", "grid",  "equal",  "offset", "tiny", "heavy",
        "outlier", "norms",    "tight", "sparse", "copies", "line", "ball"};
    return names[shape];
}

double test_gauss(uint64_t *seed)
{
    double sum = -6.0;
    for (int i = 0; i < 12; i++) {
        sum += test_uniform(seed);
    }
    return sum;
}

/* What the components of a row have in common. */
typedef struct row_plan {
    double scale;
    double centre; /* a number from which each component makes its own offset */
    bool zero;
} row_plan;

static row_plan plan_row(test_shape shape, int64_t row, int64_t rows, uint64_t *seed)
{
    row_plan plan = {.scale = 1.0, .centre = (double)kin_random_below(seed, 10)};
    switch (shape) {
    case SHAPE_HEAVY:
        plan.scale = exp(3.0 * test_gauss(seed));
        break;
    case SHAPE_OUTLIER:
        plan.scale = row == rows / 2 ? 1e30 : 1.0;
        break;
    case SHAPE_NORMS:
        plan.scale = pow(10.0, 12.0 * test_uniform(seed) - 6.0);
        break;
    case SHAPE_TIGHT:
        plan.scale = pow(10.0, -1.0 - (double)(row % 9));
        plan.centre = (double)(row % 9);
        break;
    case SHAPE_BALL:
        plan.scale = row == rows / 2 ? 1e6 : 1.0;
        break;
    case SHAPE_SPARSE:
        plan.zero = row % 7 == 3;
        break;
    case SHAPE_LINE:
        plan.scale = test_gauss(seed);
        break;
    default:
        break;
    }
    return plan;
}

/* Component `col` of the one direction that a cluster or a line has. */
static double direction(double centre, int64_t col)
{
    return sin(1.0 + centre * 7.3 + (double)col * 1.7);
}

static double component(test_shape shape, const row_plan *plan, int64_t col, uint64_t *seed)
{
    const double noise = test_gauss(seed);
    switch (shape) {
    case SHAPE_CLUSTERS:
        return 10.0 * direction(plan->centre, col) + 0.01 * noise;
    case SHAPE_GRID:
        return noise > 0.0 ? 1.0 : 0.0;
    case SHAPE_EQUAL:
        return 2.0 + direction(0.0, col);
    case SHAPE_OFFSET:
        return 1e4 + 1e-3 * noise;
    case SHAPE_TINY:
        return 1e-38 * noise;
    case SHAPE_TIGHT:
        return direction(plan->centre, col) + plan->scale * noise;
    case SHAPE_SPARSE:
        return plan->zero || test_uniform(seed) < 0.9 ? 0.0 : noise;
    case SHAPE_LINE:
        return plan->scale * direction(0.0, col);
    case SHAPE_BALL:
        return plan->scale * direction(1.0, col) + 1e-5 * noise;
    default:
        return plan->scale * noise;
    }
}

/* Into the range of a type, with something left to see of it. */
static double fit(kith_dtype dtype, test_shape shape, double x)
{
    switch (dtype) {
    case KITH_U8:
        return shape == SHAPE_GRID ? x : fmin(fabs(rint(40.0 * x)), 255.0);
    case KITH_I8:
        return shape == SHAPE_GRID ? x : fmax(fmin(rint(30.0 * x), 127.0), -128.0);
    case KITH_F16:
        return fmax(fmin(x, 60000.0), -60000.0);
    default:
        return x;
    }
}

void test_shape_fill(const test_rows *rows, test_shape shape, bool nonnegative, uint64_t *seed)
{
    const kith_matrix *m = &rows->matrix;
    for (int64_t row = 0; row < m->rows; row++) {
        if (shape == SHAPE_COPIES && row > 0 && kin_random_below(seed, 2) == 0) {
            test_rows_copy(rows, row, rows, (int64_t)kin_random_below(seed, (uint64_t)row));
            continue;
        }
        const row_plan plan = plan_row(shape, row, m->rows, seed);
        for (int64_t col = 0; col < m->cols; col++) {
            const double x = component(shape, &plan, col, seed);
            test_rows_set(rows, row, col, fit(m->dtype, shape, nonnegative ? fabs(x) : x));
        }
    }
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_BUILD 1
#endif
#if __has_feature(address_sanitizer)
#define ADDRESS_BUILD 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define THREAD_BUILD 1
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_BUILD 1
#endif

bool test_is_thread_build(void)
{
#ifdef THREAD_BUILD
    return true;
#else
    return false;
#endif
}

bool test_is_slow_build(void)
{
    const char *cases = getenv("KITH_CASES");
    return test_is_thread_build() || (cases != NULL && strcmp(cases, "few") == 0);
}

bool test_is_whole_build(void)
{
    const char *cases = getenv("KITH_CASES");
    return cases != NULL && strcmp(cases, "all") == 0;
}

bool test_is_sanitized_build(void)
{
#ifdef ADDRESS_BUILD
    return true;
#else
    return test_is_slow_build();
#endif
}

int64_t test_fewer(int64_t rows)
{
    const int64_t least = rows < 8000 ? rows : 8000;
    const int64_t few = rows / 8 > least ? rows / 8 : least;
    return test_is_slow_build() ? few : rows;
}
