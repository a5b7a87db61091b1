/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Numbers are dealt to 4 columns of 8 classes, of which the least number is kept. Columns are
 * sorted side by side, so that row r has the (r + 1)-th least number of each column:
 *
 *     column   0    1    2    3
 *     row 0   .1   .0   .2   .0
 *     row 1   .3   .2   .4   .1      4 (r + 1) different numbers are at most as large as the
 *     row 2   .4   .5   .7   .3      largest of row r
 *     ...
 *
 * Cost. A comparison of each number, and 19 of pairs of rows (Batcher's network of eight), without
 * a branch: a tenth of what it takes to insert random numbers into a short list, and three in five
 * of these are kept out of it. */
#include "select/select_pairs.h"

#include "base/base_isa.h"

#include <string.h>

enum { LANES = 2, COLUMNS = 4, VECTORS = KIN_SELECT_BOUND_MOST / LANES };

typedef double f64x2 __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t i64x2 __attribute__((vector_size(LANES * sizeof(int64_t))));

static inline f64x2 choose(i64x2 first, f64x2 a, f64x2 b)
{
    return (f64x2)((first & (i64x2)a) | (~first & (i64x2)b));
}

static inline void order(f64x2 *low, f64x2 *high)
{
    const f64x2 a = *low;
    const f64x2 b = *high;
    const i64x2 less = a < b;
    *low = choose(less, a, b);
    *high = choose(less, b, a);
}

static inline void order_rows(f64x2 *classes, int low, int high)
{
    for (int i = 0; i < COLUMNS / LANES; i++) {
        order(classes + low * COLUMNS / LANES + i, classes + high * COLUMNS / LANES + i);
    }
}

static const uint8_t network[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6},
                                     {5, 7}, {1, 2}, {5, 6}, {0, 4}, {1, 5}, {2, 6}, {3, 7},
                                     {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};

double kin_select_bound(const double *values, int64_t count, int64_t k)
{
    f64x2 classes[VECTORS];
    double row[COLUMNS];
    memcpy(classes, values, sizeof classes);
    for (int64_t i = VECTORS; i < count / LANES; i++) {
        f64x2 *least = &classes[i % VECTORS];
        f64x2 next;
        memcpy(&next, values + i * LANES, sizeof next);
        *least = choose(next < *least, next, *least);
    }
    KIN_UNROLL_BY(19)
    for (size_t i = 0; i < sizeof network / sizeof *network; i++) {
        order_rows(classes, network[i][0], network[i][1]);
    }
    memcpy(row, classes + (k - 1) / COLUMNS * COLUMNS / LANES, sizeof row);
    double bound = row[0];
    for (int i = 1; i < COLUMNS; i++) {
        bound = row[i] > bound ? row[i] : bound;
    }
    return bound;
}
