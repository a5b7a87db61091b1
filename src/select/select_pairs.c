/* SPDX-License-Identifier: Apache-2.0
 *
 * Introsort (Musser 1997) for three kinds of items: quicksort with the median of three, insertion
 * for short runs, heapsort when the recursion gets deeper than 2 log2 n, so that no input is slow.
 */
#include "select/select_word.h"

#include "base/base_isa.h"

#include <string.h>

enum { SHORT_RUN = 24 };

static int word_less(const uint64_t *a, const uint64_t *b)
{
    return *a < *b;
}

static int word128_less(const kin_word128 *a, const kin_word128 *b)
{
    return *a < *b;
}

/* Insertion. */
#define INSERTION_OF(name, item, less)                       \
    static void name##_insertion(item *a, int64_t count)     \
    {                                                        \
        for (int64_t i = 1; i < count; i++) {                \
            const item moving = a[i];                        \
            int64_t j = i;                                   \
            for (; j > 0 && less(&moving, &a[j - 1]); j--) { \
                a[j] = a[j - 1];                             \
            }                                                \
            a[j] = moving;                                   \
        }                                                    \
    }
INSERTION_OF(pairs, kin_pair, kin_pair_less)
INSERTION_OF(words128, kin_word128, word128_less)

/* Of words in order none moves; another is exchanged all along those before it without a branch,
 * which would be foreseen badly. */
static void words_insertion(uint64_t *a, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        uint64_t moving = a[i];
        if (moving >= a[i - 1]) {
            continue;
        }
        for (int64_t j = 0; j < i; j++) {
            const uint64_t there = a[j];
            a[j] = there < moving ? there : moving;
            moving = there < moving ? moving : there;
        }
        a[i] = moving;
    }
}

/* One generator for all items: the bodies differ in the type and in `less` alone. */
#define SORT_OF(name, item, less)                                                                \
    static void name##_sift(item *a, int64_t root, int64_t count)                                \
    {                                                                                            \
        const item moving = a[root];                                                             \
        for (int64_t child = 2 * root + 1; child < count; child = 2 * root + 1) {                \
            if (child + 1 < count && less(&a[child], &a[child + 1])) {                           \
                child += 1;                                                                      \
            }                                                                                    \
            if (!less(&moving, &a[child])) {                                                     \
                break;                                                                           \
            }                                                                                    \
            a[root] = a[child];                                                                  \
            root = child;                                                                        \
        }                                                                                        \
        a[root] = moving;                                                                        \
    }                                                                                            \
    static void name##_heap(item *a, int64_t count)                                              \
    {                                                                                            \
        for (int64_t root = count / 2 - 1; root >= 0; root--) {                                  \
            name##_sift(a, root, count);                                                         \
        }                                                                                        \
        for (int64_t last = count - 1; last > 0; last--) {                                       \
            const item top = a[0];                                                               \
            a[0] = a[last];                                                                      \
            a[last] = top;                                                                       \
            name##_sift(a, 0, last);                                                             \
        }                                                                                        \
    }                                                                                            \
    /* Splits a[0 .. count - 1], count > 3, at the median of three: everything before the result \
     * is not above everything from it on, and both sides are non-empty. */                      \
    static int64_t name##_split(item *a, int64_t count)                                          \
    {                                                                                            \
        const item *x = &a[0];                                                                   \
        const item *y = &a[count / 2];                                                           \
        const item *z = &a[count - 1];                                                           \
        const item pivot = less(x, y) ? (less(y, z) ? *y : (less(x, z) ? *z : *x))               \
                                      : (less(x, z) ? *x : (less(y, z) ? *z : *y));              \
        int64_t i = -1;                                                                          \
        int64_t j = count;                                                                       \
        for (;;) {                                                                               \
            do {                                                                                 \
                i += 1;                                                                          \
            } while (less(&a[i], &pivot));                                                       \
            do {                                                                                 \
                j -= 1;                                                                          \
            } while (less(&pivot, &a[j]));                                                       \
            if (i >= j) {                                                                        \
                return j + 1 < count ? j + 1 : j;                                                \
            }                                                                                    \
            const item moving = a[i];                                                            \
            a[i] = a[j];                                                                         \
            a[j] = moving;                                                                       \
        }                                                                                        \
    }                                                                                            \
    static int name##_depth(int64_t count)                                                       \
    {                                                                                            \
        return 2 * (64 - __builtin_clzll((unsigned long long)count | 1));                        \
    }                                                                                            \
    static void name##_sort(item *a, int64_t count, int depth)                                   \
    {                                                                                            \
        while (count > SHORT_RUN) {                                                              \
            if (depth-- == 0) {                                                                  \
                name##_heap(a, count);                                                           \
                return;                                                                          \
            }                                                                                    \
            const int64_t middle = name##_split(a, count);                                       \
            name##_sort(a + middle, count - middle, depth);                                      \
            count = middle;                                                                      \
        }                                                                                        \
        name##_insertion(a, count);                                                              \
    }

#define NTH_OF(name, item)                                    \
    static void name##_nth(item *a, int64_t count, int64_t k) \
    {                                                         \
        int depth = name##_depth(count);                      \
        while (count > SHORT_RUN) {                           \
            if (depth-- == 0) {                               \
                name##_heap(a, count);                        \
                return;                                       \
            }                                                 \
            const int64_t middle = name##_split(a, count);    \
            if (k < middle) {                                 \
                count = middle;                               \
            } else {                                          \
                a += middle;                                  \
                k -= middle;                                  \
                count -= middle;                              \
            }                                                 \
        }                                                     \
        name##_insertion(a, count);                           \
    }

SORT_OF(pairs, kin_pair, kin_pair_less)
SORT_OF(words, uint64_t, word_less)
SORT_OF(words128, kin_word128, word128_less)
NTH_OF(words, uint64_t)
NTH_OF(words128, kin_word128)

void kin_select_sort_pairs(kin_pair *pairs, int64_t count)
{
    pairs_sort(pairs, count, pairs_depth(count));
}

void kin_select_sort_words(uint64_t *words, int64_t count)
{
    words_sort(words, count, words_depth(count));
}

void kin_select_sort_words128(kin_word128 *words, int64_t count)
{
    words128_sort(words, count, words128_depth(count));
}

void kin_select_nth_word(uint64_t *words, int64_t count, int64_t k)
{
    words_nth(words, count, k);
}

void kin_select_nth_word128(kin_word128 *words, int64_t count, int64_t k)
{
    words128_nth(words, count, k);
}

/* ---- A bound --------------------------------------------------------------------------------- */

/* Idea. Numbers are dealt to 4 columns of 8 classes, of which the least number is kept. Columns are
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
