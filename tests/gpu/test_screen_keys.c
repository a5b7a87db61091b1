/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys on a device have the bits of the processor's, in tiles (keys) and for candidates
 * (rescore), whatever the metric, the types, the number of columns and the scale of the values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "select/select_word.h"
#include "support/support_device.h"
#include "support/support_gpu.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 37, POINTS = 45, MOST_CAPACITY = 300 };

static const kith_metric metrics[] = {
    KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE, KITH_CORRELATION,
    KITH_KL,        KITH_MANHATTAN,   KITH_CHEBYSHEV,     KITH_CHI2,   KITH_HAMMING,
    KITH_JACCARD,   TEST_MINKOWSKI_3, TEST_MINKOWSKI_2_5,
};
enum { METRICS = sizeof metrics / sizeof metrics[0] };

static double scale_of(kith_dtype dtype, int s)
{
    static const double halves[] = {2e-7, 1e-4, 1, 6e4};
    static const double bytes[] = {1, 2, 20, 255};
    static const double signed_bytes[] = {1, 2, 20, 127};
    static const double floats[] = {1e-40, 1e-22, 1, 1e15};
    return dtype == KITH_F16  ? halves[s]
           : dtype == KITH_U8 ? bytes[s]
           : dtype == KITH_I8 ? signed_bytes[s]
                              : floats[s];
}

static void fill_constant(const test_rows *rows, int64_t row, double x)
{
    for (int32_t col = 0; col < rows->matrix.cols; col++) {
        test_rows_set(rows, row, col, x);
    }
}

static void make_case(kith_metric metric, kith_dtype query_type, kith_dtype point_type,
                      int32_t cols, int s, uint64_t *seed, test_device_rows *queries,
                      test_device_rows *points)
{
    const int nonnegative = kin_metric_get_traits(metric)->nonnegative;
    const double query_scale = scale_of(query_type, s);
    const double point_scale = scale_of(point_type, s);
    *queries = (test_device_rows){.rows = test_rows_make(query_type, QUERIES, cols, cols % 3)};
    *points = (test_device_rows){.rows = test_rows_make(point_type, POINTS, cols, cols % 2)};
    test_rows_fill(&queries->rows, query_scale, nonnegative || query_type == KITH_U8, seed);
    test_rows_fill(&points->rows, point_scale, nonnegative || point_type == KITH_U8, seed);
    fill_constant(&queries->rows, 1, 0);
    fill_constant(&queries->rows, 2, query_scale / 2);
    fill_constant(&points->rows, 2, 0);
    fill_constant(&points->rows, 3, point_scale / 2);
    if (query_type == point_type) {
        test_rows_copy(&points->rows, 0, &queries->rows, 0);
        test_rows_copy(&points->rows, 1, &queries->rows, 0); /* but for one component */
        test_rows_set(&points->rows, 1, cols / 2, point_scale / 3);
        test_rows_copy(&points->rows, POINTS - 1, &queries->rows, QUERIES - 1);
    }
    test_device_rows_finish(queries, metric);
    test_device_rows_finish(points, metric);
}

/* keys[i * POINTS + j], by the processor. */
static void host_keys(kith_metric metric, const test_device_rows *queries,
                      const test_device_rows *points, double *keys)
{
    const kin_distance distance = {
        .metric = metric, .cols = points->rows.matrix.cols, .isa = test_device_ctx->isa};
    double *values = aligned_alloc(64, ((size_t)distance.cols * sizeof(double) + 63) / 64 * 64);
    assert_non_null(values);
    for (int64_t i = 0; i < QUERIES; i++) {
        const kin_query query = kin_metric_load(&distance, &queries->on_host, i, values);
        kin_metric_keys_run(&distance, &query, &points->on_host, 0, POINTS, keys + i * POINTS);
    }
    free(values);
}

/* ---- keys ----------------------------------------------------------------------------------- */

typedef struct one_case {
    kith_metric metric;
    int32_t cols;
    kith_dtype query_type;
    kith_dtype point_type;
    int scale;
} one_case;

static void tell(const one_case *c, const char *what, int64_t row, int64_t place, double want,
                 uint32_t want_id, double got, uint32_t got_id)
{
    test_wrong += 1;
    if (test_wrong <= TEST_MOST_TOLD) {
        printf("WRONG %s: %s %s-%s cols %d scale %d row %lld place %lld: want %a (%016" PRIx64
               ") id %u, got %a (%016" PRIx64 ") id %u\n",
               what, kith_metric_name(c->metric), kith_dtype_name(c->query_type),
               kith_dtype_name(c->point_type), c->cols, c->scale, (long long)row, (long long)place,
               want, test_bits(want), want_id, got, test_bits(got), got_id);
        (void)fflush(stdout);
    }
}

/* By number, then by a list of ids, from the second row of the corpus on. */
static void try_keys(const one_case *c, const test_device_rows *queries,
                     const test_device_rows *points, const double *want, const uint32_t *ids)
{
    const int64_t pitch = POINTS + 3;
    const int64_t corpus0 = ids != NULL ? 1 : 0;
    double got[QUERIES * (POINTS + 3)];
    uint32_t *device_ids = ids != NULL ? test_device_copy(ids, QUERIES * sizeof *ids) : NULL;
    double *keys = test_device_room(sizeof got);
    const kin_screen_gpu_keys job = {
        .queries = queries->on_device,
        .corpus = points->on_device,
        .query_ids = device_ids,
        .query_count = QUERIES,
        .corpus0 = corpus0,
        .corpus_count = POINTS - corpus0,
        .keys = keys,
        .pitch = pitch,
    };
    test_must(kin_gpu_fill(test_device_ctx, test_device, keys, 0x5a, sizeof got));
    test_launch(test_device->module->screen->keys(test_device->stream, &job), "keys");
    test_download(got, keys, sizeof got);
    for (int64_t i = 0; i < QUERIES; i++) {
        const int64_t row = ids != NULL ? (int64_t)ids[i] : i;
        for (int64_t j = 0; j < POINTS - corpus0; j++) {
            const double expected = want[row * POINTS + corpus0 + j];
            if (test_bits(expected) != test_bits(got[i * pitch + j])) {
                tell(c, "keys", i, j, expected, (uint32_t)(corpus0 + j), got[i * pitch + j], 0);
            }
        }
        for (int64_t j = POINTS - corpus0; j < pitch; j++) {
            if (test_bits(got[i * pitch + j]) != 0x5a5a5a5a5a5a5a5a) {
                tell(c, "keys behind the end", i, j, 0, 0, got[i * pitch + j], 0);
            }
        }
    }
    kin_gpu_free(test_device, keys);
    kin_gpu_free(test_device, device_ids);
}

/* ---- rescore -------------------------------------------------------------------------------- */

/* Positions of the sets are rows in reverse; a list repeats no candidate but where the capacity is
 * above the points there are, then ids stand for themselves several times. */
static void try_rescore(const one_case *c, const test_device_rows *queries,
                        const test_device_rows *points, const double *want, int32_t k,
                        int32_t capacity, uint64_t *seed)
{
    uint32_t query_ids[QUERIES];
    uint32_t point_ids[POINTS];
    int32_t counts[QUERIES];
    uint64_t *words = test_host_room(sizeof *words * (size_t)QUERIES * (size_t)capacity);
    for (uint32_t i = 0; i < QUERIES; i++) {
        query_ids[i] = QUERIES - 1 - i;
        counts[i] = i == 3   ? 0
                    : i == 4 ? capacity + 5
                             : (int32_t)kin_random_below(seed, (uint64_t)capacity + 1);
        const uint64_t first = kin_random_below(seed, POINTS);
        for (int32_t j = 0; j < capacity; j++) {
            words[(int64_t)i * capacity + j] =
                kin_random_next(seed) << 32 | (first + 7u * (uint64_t)j) % POINTS;
        }
    }
    for (uint32_t i = 0; i < POINTS; i++) {
        point_ids[i] = POINTS - 1 - i;
    }
    const int64_t row0 = 2;
    const int64_t rows = QUERIES - row0;
    kin_screen_gpu_pair *pairs = test_host_room(sizeof *pairs * (size_t)QUERIES * (size_t)k);
    int32_t got_counts[QUERIES] = {0};
    uint64_t computed = 0;
    kin_screen_gpu_rescore job = {
        .set = {.frame = {.bound = KIN_BOUND_DISTANCE, .cols = c->cols},
                .points = QUERIES,
                .ids = test_device_copy(query_ids, sizeof query_ids)},
        .cols_set = {.frame = {.bound = KIN_BOUND_DISTANCE, .cols = c->cols},
                     .points = POINTS,
                     .ids = test_device_copy(point_ids, sizeof point_ids)},
        .set_rows = queries->on_device,
        .cols_rows = points->on_device,
        .lists = {.rows = QUERIES,
                  .k = k,
                  .capacity = capacity,
                  .words =
                      test_device_copy(words, sizeof *words * (size_t)QUERIES * (size_t)capacity),
                  .counts = test_device_copy(counts, sizeof counts)},
        .row0 = row0,
        .rows = rows,
        .pairs = test_device_room(sizeof *pairs * (size_t)QUERIES * (size_t)k),
        .count = test_device_room(sizeof got_counts),
        .keys = test_device_copy(&computed, sizeof computed),
    };
    test_launch(test_device->module->screen->rescore(test_device->stream, &job), "rescore");
    test_download(pairs, job.pairs, sizeof *pairs * (size_t)rows * (size_t)k);
    test_download(got_counts, job.count, (uint64_t)rows * sizeof *got_counts);
    test_download(&computed, job.keys, sizeof computed);
    kin_pair sorted[MOST_CAPACITY];
    uint64_t keys_wanted = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t position = row0 + i;
        const int32_t count = counts[position] < capacity ? counts[position] : capacity;
        for (int32_t j = 0; j < count; j++) {
            const uint32_t id = point_ids[(uint32_t)words[position * capacity + j]];
            sorted[j] = (kin_pair){want[query_ids[position] * POINTS + id], id, 1};
        }
        kin_select_sort_pairs(sorted, count);
        keys_wanted += (uint64_t)count;
        const int32_t expected = count < k ? count : k;
        if (got_counts[i] != expected) {
            tell(c, "rescore count", i, capacity, expected, 0, got_counts[i], 0);
            continue;
        }
        for (int32_t j = 0; j < expected; j++) {
            const kin_screen_gpu_pair *got = &pairs[i * k + j];
            if (test_bits(got->key) != test_bits(sorted[j].key) || got->id != sorted[j].id) {
                tell(c, "rescore", i, j, sorted[j].key, sorted[j].id, got->key, got->id);
            }
        }
    }
    if (computed != keys_wanted) {
        tell(c, "rescore keys", 0, 0, (double)keys_wanted, 0, (double)computed, 0);
    }
    kin_gpu_free(test_device, job.keys);
    kin_gpu_free(test_device, job.count);
    kin_gpu_free(test_device, job.pairs);
    kin_gpu_free(test_device, job.lists.counts);
    kin_gpu_free(test_device, job.lists.words);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.cols_set.ids);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.set.ids);
    free(pairs);
    free(words);
}

static void try_case(const one_case *c, uint64_t *seed)
{
    test_device_rows queries;
    test_device_rows points;
    double want[QUERIES * POINTS];
    uint32_t ids[QUERIES];
    make_case(c->metric, c->query_type, c->point_type, c->cols, c->scale, seed, &queries, &points);
    host_keys(c->metric, &queries, &points, want);
    for (uint32_t i = 0; i < QUERIES; i++) {
        ids[i] = i * 5 % QUERIES;
    }
    try_keys(c, &queries, &points, want, c->scale % 2 == 0 ? NULL : ids);
    if (kin_metric_get_traits(c->metric)->screen != KIN_SCREEN_DIRECT) {
        const int32_t capacities[] = {40, 128, 129, MOST_CAPACITY};
        try_rescore(c, &queries, &points, want, 1 + c->cols % 30, capacities[c->scale], seed);
    }
    test_device_rows_free(&queries);
    test_device_rows_free(&points);
}

static void key_bits(void **state)
{
    (void)state;
    static const int32_t wide[] = {63, 64, 65, 127, 128, 129, 784, 5000};
    enum { NARROW = 40, WIDE = sizeof wide / sizeof wide[0] };
    uint64_t seed = 1;
    int64_t cases = 0;
    test_wrong = 0;
    for (int m = 0; m < METRICS; m++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            for (int n = 0; n < NARROW + WIDE; n++) {
                for (int s = 0; s < 4; s++) {
                    const bool mixed = n % 7 == 6;
                    const one_case c = {
                        .metric = metrics[m],
                        .cols = n < NARROW ? n + 1 : wide[n - NARROW],
                        .query_type = mixed ? (kith_dtype)(dtype % KITH_I8 + 1) : (kith_dtype)dtype,
                        .point_type = (kith_dtype)dtype,
                        .scale = s,
                    };
                    try_case(&c, &seed);
                    cases += 1;
                }
            }
        }
        printf("%s: %d wrong so far\n", kith_metric_name(metrics[m]), test_wrong);
        (void)fflush(stdout);
    }
    printf("keys and rescore: %lld cases of %d x %d pairs, bit for bit; %d differences\n",
           (long long)cases, QUERIES, POINTS, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* Integer costs are the keys; nothing of the rows is read. */
static void integer_costs(void **state)
{
    (void)state;
    enum { ROWS = 9, CAPACITY = 20000, K = 2049 };
    uint64_t seed = 5;
    uint64_t *words = test_host_room(sizeof *words * ROWS * CAPACITY);
    uint32_t *ids = test_host_room(sizeof *ids * CAPACITY);
    kin_screen_gpu_pair *pairs = test_host_room(sizeof *pairs * ROWS * K);
    kin_pair *sorted = test_host_room(sizeof *sorted * CAPACITY);
    int32_t counts[ROWS];
    int32_t got[ROWS];
    test_wrong = 0;
    for (uint32_t i = 0; i < CAPACITY; i++) {
        ids[i] = i * 7919u % CAPACITY;
    }
    for (int64_t i = 0; i < ROWS; i++) {
        counts[i] = i == 0 ? 100 : CAPACITY - (int32_t)i;
        for (uint32_t j = 0; j < CAPACITY; j++) {
            const int32_t cost = (int32_t)kin_random_below(&seed, 2001) - 1000;
            words[i * CAPACITY + j] = (uint64_t)((uint32_t)cost ^ 0x80000000u) << 32 | j;
        }
    }
    for (int product = 0; product < 2; product++) {
        const kith_metric metric = product ? KITH_INNER_PRODUCT : KITH_EUCLIDEAN;
        const one_case c = {
            .metric = metric, .cols = 4, .query_type = KITH_U8, .point_type = KITH_U8};
        kin_screen_gpu_rescore job = {
            .set = {.frame = {.bound = KIN_BOUND_INTEGER}, .points = ROWS},
            .set_rows = {.cols = 4, .dtype = KITH_U8, .metric = metric},
            .cols_rows = {.cols = 4, .dtype = KITH_U8, .metric = metric},
            .lists = {.rows = ROWS, .k = K, .capacity = CAPACITY},
            .rows = ROWS,
        };
        job.set.ids = job.cols_set.ids = test_device_copy(ids, sizeof *ids * CAPACITY);
        job.lists.words = test_device_copy(words, sizeof *words * ROWS * CAPACITY);
        job.lists.counts = test_device_copy(counts, sizeof counts);
        job.pairs = test_device_room(sizeof *pairs * ROWS * K);
        job.count = test_device_room(sizeof got);
        test_launch(test_device->module->screen->rescore(test_device->stream, &job),
                    "rescore of costs");
        test_download(pairs, job.pairs, sizeof *pairs * ROWS * K);
        test_download(got, job.count, sizeof got);
        for (int64_t i = 0; i < ROWS; i++) {
            for (int32_t j = 0; j < counts[i]; j++) {
                const uint64_t word = words[i * CAPACITY + j];
                const double cost = (double)(int32_t)((uint32_t)(word >> 32) ^ 0x80000000u);
                sorted[j] = (kin_pair){product ? cost / 2 : cost, ids[(uint32_t)word], 1};
            }
            kin_select_sort_pairs(sorted, counts[i]);
            const int32_t expected = counts[i] < K ? counts[i] : K;
            if (got[i] != expected) {
                tell(&c, "cost count", i, 0, expected, 0, got[i], 0);
                continue;
            }
            for (int32_t j = 0; j < expected; j++) {
                const kin_screen_gpu_pair *p = &pairs[i * K + j];
                if (test_bits(p->key) != test_bits(sorted[j].key) || p->id != sorted[j].id) {
                    tell(&c, "costs", i, j, sorted[j].key, sorted[j].id, p->key, p->id);
                }
            }
        }
        kin_gpu_free(test_device, job.count);
        kin_gpu_free(test_device, job.pairs);
        kin_gpu_free(test_device, job.lists.counts);
        kin_gpu_free(test_device, job.lists.words);
        kin_gpu_free(test_device, (void *)(uintptr_t)job.set.ids);
    }
    free(sorted);
    free(pairs);
    free(ids);
    free(words);
    printf("rescore of integer costs, lists of %d, k %d: %d differences\n", CAPACITY, K,
           test_wrong);
    assert_int_equal(test_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_costs),
        cmocka_unit_test(key_bits),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
