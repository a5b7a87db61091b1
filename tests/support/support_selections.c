/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_selections.h"
#include "kith/kith_papers.h"

#include "base/base_random.h"
#include "base/base_size.h"
#include "oracle/plain_select.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Values and ids ------------------------------------------------------------------------- */

static void *room(uint64_t bytes)
{
    void *block = malloc((size_t)bytes + 1);
    if (block == NULL) {
        abort();
    }
    return block;
}

/* Values for which the median of the first, the middle and the last is next to the smallest, round
 * after round: places get numbers only when the method looks at them (McIlroy 1999). */
static void fill_adversary(double *values, int64_t n)
{
    enum { ROUNDS = 80 };
    int64_t *now = room(sizeof *now * (uint64_t)n);
    int64_t *next = room(sizeof *next * (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        now[i] = i;
        values[i] = INFINITY;
    }
    double least = 0;
    int64_t count = n;
    for (int round = 0; round < ROUNDS && count > 3; round++) {
        const int64_t three[] = {now[0], now[count / 2], now[count - 1]};
        int known = 0;
        for (int i = 0; i < 3; i++) {
            known += isfinite(values[three[i]]) != 0;
        }
        for (int i = 0; i < 3 && known < 2; i++) {
            if (!isfinite(values[three[i]])) {
                values[three[i]] = least;
                least += 1;
                known += 1;
            }
        }
        double pivot = -1;
        for (int i = 0; i < 3; i++) { /* the second of those that are known */
            pivot =
                isfinite(values[three[i]]) && values[three[i]] > pivot ? values[three[i]] : pivot;
        }
        int64_t low = 0;
        int64_t high = count - 1;
        for (int64_t i = 0; i < count; i++) {
            const bool before = values[now[i]] < pivot;
            next[before ? low : high] = now[i];
            low += before;
            high -= !before;
        }
        count -= low;
        memcpy(now, next + low, sizeof *now * (size_t)count);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) {
            values[i] = least;
            least += 1;
        }
    }
    free(now);
    free(next);
}

void test_run_fill(double *values, int64_t n, test_run kind, uint64_t *seed)
{
    const double specials[] = {NAN,     -NAN,     INFINITY, -INFINITY, 0.0, -0.0,
                               0x1p-24, -0x1p-24, 1,        65504,     -1,  0x1p-14};
    if (kind == TEST_RUN_ADVERSARY) {
        fill_adversary(values, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double u = test_uniform(seed);
        const double values_of[] = {2 * u - 1,
                                    (double)i,
                                    (double)-i,
                                    0.25,
                                    floor(7 * u),
                                    (double)kin_min_i64(i, n - i),
                                    specials[kin_random_below(seed, 12)],
                                    specials[i % 2]};
        values[i] = values_of[kind];
    }
}

uint32_t test_id_given(test_ids kind, int64_t place, uint64_t *seed)
{
    const uint32_t id = kind == TEST_IDS_GIVEN ? (uint32_t)place * 2654435761u
                                               : (uint32_t)kin_random_below(seed, 3);
    return kin_random_below(seed, 8) == 0 ? KITH_ID_NONE : id;
}

static void fill_ids(test_values *v, test_ids kind, uint64_t *seed)
{
    unsigned char *first = v->ids.map + ((const unsigned char *)v->ids.matrix.data - v->ids.map);
    for (int64_t row = 0; row < v->values.rows; row++) {
        for (int64_t i = 0; i < v->values.cols; i++) {
            const uint32_t id = test_id_given(kind, i, seed);
            memcpy(first + row * v->ids.matrix.stride_bytes + 4 * i, &id, 4);
        }
    }
    v->values.ids = v->ids.matrix.data;
    v->values.ids_stride_bytes = v->ids.matrix.stride_bytes;
}

test_values test_values_make(kith_dtype dtype, int64_t rows, int32_t cols, int64_t gap,
                             test_run kind, test_ids ids, uint64_t *seed)
{
    test_values v = {.rows = test_rows_make(dtype, rows, cols, gap * kith_dtype_bytes(dtype))};
    double *row_values = room((uint64_t)cols * sizeof *row_values);
    for (int64_t row = 0; row < rows; row++) {
        test_run_fill(row_values, cols, kind, seed);
        /* Neighbours differ also where the kind is a fixed sequence. */
        const double shift =
            kind == TEST_RUN_SPECIALS || kind == TEST_RUN_ALL_NAN ? 0 : (double)(row % 5);
        for (int64_t i = 0; i < cols; i++) {
            test_rows_set(&v.rows, row, i, row_values[i] + shift);
        }
    }
    free(row_values);
    v.values = (kith_values){.data = v.rows.matrix.data,
                             .rows = rows,
                             .cols = cols,
                             .stride_bytes = v.rows.matrix.stride_bytes,
                             .dtype = dtype};
    if (ids != TEST_IDS_PLACES) {
        v.ids = test_rows_make(KITH_F32, rows, cols, 4 * gap);
        fill_ids(&v, ids, seed);
    }
    return v;
}

void test_values_free(test_values *v)
{
    test_rows_free(&v->rows);
    if (v->values.ids != NULL) {
        test_rows_free(&v->ids);
    }
    free(v->sorted);
    free(v->sorted_ids);
    *v = (test_values){0};
}

/* ---- What is right -------------------------------------------------------------------------- */

static void make_sorted(test_values *v, int64_t known, bool largest)
{
    const uint64_t places = (uint64_t)(v->values.rows * known);
    free(v->sorted);
    free(v->sorted_ids);
    v->known = known;
    v->largest = largest;
    v->sorted = room(places * (uint64_t)kith_dtype_bytes(v->values.dtype));
    v->sorted_ids = room(places * sizeof *v->sorted_ids);
}

void test_values_sort(test_values *v, bool largest)
{
    const int64_t cols = v->values.cols;
    make_sorted(v, cols, largest);
    for (int64_t row = 0; row < v->values.rows; row++) {
        oracle_select(&v->values, row, largest,
                      v->sorted + row * cols * kith_dtype_bytes(v->values.dtype),
                      v->sorted_ids + row * cols);
    }
}

void test_values_sort_by(test_values *v, kith_ctx *ctx, int64_t known, bool largest)
{
    kith_select_params params = kith_select_params_default();
    make_sorted(v, known, largest);
    params.k = known;
    params.flags = largest ? KITH_SELECT_LARGEST : 0;
    const kith_selection out = {v->sorted, v->sorted_ids, NULL};
    if (kith_select(ctx, &v->values, &params, &out) != KITH_OK) {
        abort();
    }
}

const char *test_selection_text(const kith_select_params *params, char *text, size_t bytes)
{
    (void)snprintf(text, bytes,
                   "%s, buffer %d of %d, group %d, sample %d, level %d, flags %u, k %lld",
                   kith_select_method_name(params->method), (int)params->buffer,
                   (int)params->buffer_size, (int)params->group, (int)params->sample,
                   (int)params->level, (unsigned)params->flags, (long long)params->k);
    return text;
}

static void print_difference(const test_values *v, const kith_select_params *params, int64_t row,
                             int64_t place, const char *what)
{
    char text[160];
    (void)printf("  DIFFERS: %s of row %lld, place %lld: %s, %s %lld x %lld, ids %s\n", what,
                 (long long)row, (long long)place, test_selection_text(params, text, sizeof text),
                 kith_dtype_name(v->values.dtype), (long long)v->values.rows,
                 (long long)v->values.cols, v->values.ids == NULL ? "none" : "given");
    (void)fflush(stdout);
}

/* Equal bytes of one row; the first place that differs is printed. */
static bool row_is_right(const test_values *v, const kith_select_params *params, int64_t row,
                         const void *got, const void *wanted, int64_t item_bytes, const char *what)
{
    const char *x = got;
    const char *y = wanted;
    for (int64_t i = 0; i < params->k; i++) {
        if (memcmp(x + i * item_bytes, y + i * item_bytes, (size_t)item_bytes) != 0) {
            print_difference(v, params, row, i, what);
            return false;
        }
    }
    return true;
}

bool test_selection_is_right(const test_values *v, const kith_select_params *params, void *values,
                             uint32_t *ids)
{
    const int64_t bytes = kith_dtype_bytes(v->values.dtype);
    const int64_t k = params->k;
    assert(k <= v->known && v->largest == ((params->flags & KITH_SELECT_LARGEST) != 0));
    const bool unsorted = (params->flags & KITH_SELECT_UNSORTED) != 0;
    assert(!unsorted || (values != NULL && ids != NULL));
    const kith_values answer = {
        .data = values, .ids = ids, .rows = v->values.rows, .cols = k, .dtype = v->values.dtype};
    for (int64_t row = 0; row < v->values.rows; row++) {
        char *row_values = values == NULL ? NULL : (char *)values + row * k * bytes;
        uint32_t *row_ids = ids == NULL ? NULL : ids + row * k;
        if (unsorted) {
            oracle_select(&answer, row, v->largest, row_values, row_ids);
        }
        if (row_values != NULL &&
            !row_is_right(v, params, row, row_values, v->sorted + row * v->known * bytes, bytes,
                          "value")) {
            return false;
        }
        if (row_ids != NULL &&
            !row_is_right(v, params, row, row_ids, v->sorted_ids + row * v->known, sizeof *row_ids,
                          "id")) {
            return false;
        }
    }
    return true;
}

static bool kth_is_right(const test_values *v, const kith_select_params *params, const char *kth)
{
    const int64_t bytes = kith_dtype_bytes(v->values.dtype);
    for (int64_t row = 0; row < v->values.rows; row++) {
        const char *wanted = v->sorted + (row * v->known + params->k - 1) * bytes;
        if (memcmp(kth + row * bytes, wanted, (size_t)bytes) != 0) {
            print_difference(v, params, row, params->k - 1, "k-th value");
            return false;
        }
    }
    return true;
}

bool test_select(const test_values *v, kith_ctx *ctx, const kith_select_params *params,
                 test_parts parts)
{
    enum { POISON = 0xee };
    const uint64_t places = (uint64_t)(v->values.rows * params->k);
    const uint64_t bytes = places * (uint64_t)kith_dtype_bytes(v->values.dtype);
    char text[160];
    char *values = room(bytes);
    uint32_t *ids = room(places * sizeof *ids);
    memset(values, POISON, (size_t)bytes);
    memset(ids, POISON, (size_t)places * sizeof *ids);
    const kith_selection out = {parts == TEST_IDS_ALONE ? NULL : values,
                                parts == TEST_VALUES_ALONE ? NULL : ids, NULL};
    const kith_status status =
        parts == TEST_KTH ? kith_select(ctx, &v->values, params, &(kith_selection){.kth = values})
                          : kith_select(ctx, &v->values, params, &out);
    bool right = status == KITH_OK;
    if (!right) {
        (void)printf("  REFUSED: %s: %s: %s\n", test_selection_text(params, text, sizeof text),
                     kith_status_name(status), kith_ctx_detail(ctx));
    } else if (parts == TEST_KTH) {
        right = kth_is_right(v, params, values);
    } else {
        right = test_selection_is_right(v, params, out.values, out.ids);
    }
    free(ids);
    free(values);
    return right;
}

/* ---- Methods -------------------------------------------------------------------------------- */

static int list_queues(kith_select_params *variants)
{
    static const int32_t groups[] = {0, 2, 4, 8};
    int count = 0;
    for (int method = KITH_SELECT_INSERTION; method <= KITH_SELECT_MERGE_QUEUE; method++) {
        const int kinds = method == KITH_SELECT_MERGE_QUEUE ? 32 : 16;
        for (int i = 0; i < kinds; i++) {
            kith_select_params *p = &variants[count];
            *p = kith_select_params_default();
            p->method = (kith_select_method)method;
            p->buffer = (kith_select_buffer)(i % 4);
            p->group = groups[i / 4 % 4];
            p->flags = i >= 16 ? KITH_SELECT_ALIGNED : 0;
            count += 1;
        }
    }
    return count;
}

int test_select_variants(kith_select_params variants[TEST_SELECT_VARIANTS])
{
    static const kith_select_method plain[] = {KITH_SELECT_AUTO, KITH_SELECT_SCAN,
                                               KITH_SELECT_QUICK, KITH_SELECT_BITONIC,
                                               KITH_SELECT_RADIX};
    static const int32_t samples[] = {0, 1, 32, 1024};
    int count = list_queues(variants);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        variants[count] = kith_select_params_default();
        variants[count].method = plain[i];
        count += 1;
    }
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        variants[count] = kith_select_params_default();
        variants[count].method = KITH_SELECT_THRESHOLD_HEAP;
        variants[count].sample = samples[i];
        count += 1;
    }
    assert(count <= TEST_SELECT_VARIANTS);
    return count;
}
