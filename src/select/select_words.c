/* SPDX-License-Identifier: Apache-2.0
 * Words: sorted, bounded, and made of the values and ids of a run.
 *
 * They are sorted by introsort (Musser 1997), as pairs are: quicksort with the median of three,
 * insertion for short runs, heapsort when the recursion gets deeper than 2 log2 n, so that no input
 * is slow. */
#include "select/select_word.h"

#include "select/select.h"

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

/* ---- Values and ids of a run ----------------------------------------------------------------- */

/* Values and ids of a run as words. Contract: select.h.
 *
 * Sixteen places at a time through small arrays of their own: memory of any alignment is copied in,
 * nothing can alias, and every loop has a fixed count, which is what lets a compiler use vectors at
 * -O2. Type and direction are constants of each instance. */

enum { AT_ONCE = 16 };

#define LOAD_INLINE static inline __attribute__((always_inline))

/* kin_bits32_of_f16 without its loop: the leading bit of a subnormal is found by a subtraction that
 * is exact and has no subnormal in it. */
LOAD_INLINE uint32_t half_bits(uint16_t half)
{
    const uint32_t tiny = 0x38800000u; /* 2^-14, the smallest normal binary16 */
    const uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t beside = tiny | rest;
    float above;
    float base;
    memcpy(&above, &beside, sizeof above);
    memcpy(&base, &tiny, sizeof base);
    const float difference = above - base;
    uint32_t small;
    memcpy(&small, &difference, sizeof small);
    const uint32_t is_small = 0u - (uint32_t)(rest < 0x00800000u);
    const uint32_t is_top = 0u - (uint32_t)(rest >= 0x0f800000u); /* infinity, NaN */
    const uint32_t normal = (rest + 0x38000000u) | (is_top & 0x7f800000u);
    const uint32_t magnitude = (is_small & small & 0x7fffffffu) | (~is_small & normal);
    return magnitude | (uint32_t)(half & 0x8000u) << 16;
}

LOAD_INLINE void load_ids(const kin_run *run, int64_t at, int64_t count, uint32_t ids[AT_ONCE])
{
    if (run->ids != NULL) {
        memcpy(ids, (const char *)run->ids + 4 * at, 4 * (size_t)count);
    } else {
        const uint32_t first = (uint32_t)(run->first + at);
        for (uint32_t lane = 0; lane < AT_ONCE; lane++) {
            ids[lane] = first + lane;
        }
    }
}

/* count <= AT_ONCE places. */
LOAD_INLINE void load_chunk64(const kin_run *run, kin_select_type dtype, bool largest, int64_t at,
                              int64_t count, kin_word64 *words)
{
    uint32_t bits[AT_ONCE] = {0};
    if (dtype == KIN_SELECT_F32) {
        memcpy(bits, run->values + 4 * at, 4 * (size_t)count);
    } else {
        uint16_t halves[AT_ONCE] = {0};
        memcpy(halves, run->values + 2 * at, 2 * (size_t)count);
        for (int lane = 0; lane < AT_ONCE; lane++) {
            bits[lane] =
                dtype == KIN_SELECT_F16 ? half_bits(halves[lane]) : (uint32_t)halves[lane] << 16;
        }
    }
    uint32_t ids[AT_ONCE] = {0};
    load_ids(run, at, count, ids);
    uint32_t keys[AT_ONCE];
    for (int lane = 0; lane < AT_ONCE; lane++) {
        keys[lane] = kin_key32(bits[lane], largest);
    }
    uint64_t made[AT_ONCE];
    for (int lane = 0; lane < AT_ONCE; lane++) {
        made[lane] = kin_word64_make(keys[lane], ids[lane]);
    }
    memcpy(words, made, sizeof made[0] * (size_t)count);
}

LOAD_INLINE void load_all64(const kin_run *run, kin_select_type dtype, bool largest, int64_t at,
                            int64_t count, kin_word64 *words)
{
    int64_t i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) {
        load_chunk64(run, dtype, largest, at + i, AT_ONCE, words + i);
    }
    if (i < count) {
        load_chunk64(run, dtype, largest, at + i, count - i, words + i);
    }
}

LOAD_INLINE void load_typed64(const kin_run *run, kin_select_type dtype, int64_t at, int64_t count,
                              kin_word64 *words)
{
    if (run->largest) {
        load_all64(run, dtype, true, at, count, words);
    } else {
        load_all64(run, dtype, false, at, count, words);
    }
}

void kin_select_load64(const kin_run *run, int64_t at, int64_t count, kin_word64 *words)
{
    switch (run->dtype) {
    case KIN_SELECT_F16:
        load_typed64(run, KIN_SELECT_F16, at, count, words);
        break;
    case KIN_SELECT_BF16:
        load_typed64(run, KIN_SELECT_BF16, at, count, words);
        break;
    default:
        load_typed64(run, KIN_SELECT_F32, at, count, words);
        break;
    }
}

LOAD_INLINE void load_all128(const kin_run *run, bool largest, int64_t at, int64_t count,
                             kin_word128 *words)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, run->values + 8 * (at + i), sizeof bits);
        uint32_t id = (uint32_t)(run->first + at + i);
        if (run->ids != NULL) {
            memcpy(&id, (const char *)run->ids + 4 * (at + i), sizeof id);
        }
        words[i] = kin_word128_make(kin_key64(bits, largest), id);
    }
}

void kin_select_load128(const kin_run *run, int64_t at, int64_t count, kin_word128 *words)
{
    if (run->largest) {
        load_all128(run, true, at, count, words);
    } else {
        load_all128(run, false, at, count, words);
    }
}
