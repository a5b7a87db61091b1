/* SPDX-License-Identifier: Apache-2.0
 * Canonical keys on a device have the bits of the processor's, in tiles (keys) and for candidates
 * (rescore), whatever the metric, the types, the number of columns and the scale of the values;
 * best lists and final rows are what sorting and the CPU engine's writer give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "exact/exact_answer.h"
#include "fused/fused_direct.h"
#include "fused/fused_search.h"
#include "metric/metric.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 37, POINTS = 45, MOST_CAPACITY = 300, MOST_TOLD = 20 };

static const kith_metric metrics[] = {
    KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE,  KITH_CORRELATION, KITH_KL,
    KITH_MANHATTAN, KITH_CHEBYSHEV,   KITH_CHI2,          KITH_HAMMING, KITH_JACCARD,
};
enum { METRICS = sizeof metrics / sizeof metrics[0] };

/* One device for all tests. */
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

static void must_launch(int error, const char *what)
{
    must(kin_gpu_check(ctx, gpu, error, what));
}

static void *room(uint64_t bytes)
{
    void *block = NULL;
    must(kin_gpu_alloc(ctx, gpu, &block, bytes, 1, "a test"));
    return block;
}

static void *uploaded(const void *from, uint64_t bytes)
{
    void *block = room(bytes + 1);
    if (bytes != 0) {
        must(kin_gpu_upload(ctx, gpu, block, from, bytes));
    }
    return block;
}

static void download(void *to, const void *from, uint64_t bytes)
{
    must(kin_gpu_download(ctx, gpu, to, from, bytes));
}

static uint64_t bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static void *host(size_t bytes)
{
    void *block = calloc(bytes + 1, 1);
    assert_non_null(block);
    return block;
}

/* ---- Rows on both sides -----------------------------------------------------------------------
 */

typedef struct both_rows {
    test_rows rows;
    kin_row_transform *transforms;
    kin_rows on_host;
    kin_fused_rows on_device;
} both_rows;

static void both_free(both_rows *both)
{
    kin_gpu_free(gpu, (void *)(uintptr_t)both->on_device.data);
    kin_gpu_free(gpu, (void *)(uintptr_t)both->on_device.transforms);
    free(both->transforms);
    test_rows_free(&both->rows);
}

/* After the rows were filled. */
static void both_finish(both_rows *both, kith_metric metric)
{
    const kith_matrix *m = &both->rows.matrix;
    const int64_t row_bytes = (int64_t)m->cols * kith_dtype_bytes(m->dtype);
    const uint64_t bytes = (uint64_t)((m->rows - 1) * m->stride_bytes + row_bytes);
    if (kin_metric_get_traits(metric)->transforms) {
        both->transforms = host((size_t)m->rows * sizeof(kin_row_transform));
        must(kin_metric_transforms(ctx, m, metric, both->transforms));
    }
    both->on_host = (kin_rows){*m, both->transforms};
    both->on_device = (kin_fused_rows){
        .data = uploaded(m->data, bytes),
        .rows = m->rows,
        .stride_bytes = m->stride_bytes,
        .cols = m->cols,
        .dtype = m->dtype,
        .metric = metric,
    };
    if (both->transforms != NULL) {
        both->on_device.transforms =
            uploaded(both->transforms, (uint64_t)m->rows * sizeof(kin_row_transform));
    }
}

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
                      int32_t cols, int s, uint64_t *seed, both_rows *queries, both_rows *points)
{
    const int nonnegative = kin_metric_get_traits(metric)->nonnegative;
    const double query_scale = scale_of(query_type, s);
    const double point_scale = scale_of(point_type, s);
    *queries = (both_rows){.rows = test_rows_make(query_type, QUERIES, cols, cols % 3)};
    *points = (both_rows){.rows = test_rows_make(point_type, POINTS, cols, cols % 2)};
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
    both_finish(queries, metric);
    both_finish(points, metric);
}

/* keys[i * POINTS + j], by the processor. */
static void host_keys(kith_metric metric, const both_rows *queries, const both_rows *points,
                      double *keys)
{
    const kin_distance distance = {
        .metric = metric, .cols = points->rows.matrix.cols, .isa = ctx->isa};
    double *values = aligned_alloc(64, ((size_t)distance.cols * sizeof(double) + 63) / 64 * 64);
    assert_non_null(values);
    for (int64_t i = 0; i < QUERIES; i++) {
        const kin_query query = kin_metric_load(&distance, &queries->on_host, i, values);
        kin_metric_keys(&distance, &query, &points->on_host, NULL, 0, POINTS, keys + i * POINTS);
    }
    free(values);
}

/* ---- keys -------------------------------------------------------------------------------------
 */

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
    wrong += 1;
    if (wrong <= MOST_TOLD) {
        printf("WRONG %s: %s %s-%s cols %d scale %d row %lld place %lld: want %a (%016" PRIx64
               ") id %u, got %a (%016" PRIx64 ") id %u\n",
               what, kith_metric_name(c->metric), kith_dtype_name(c->query_type),
               kith_dtype_name(c->point_type), c->cols, c->scale, (long long)row, (long long)place,
               want, bits(want), want_id, got, bits(got), got_id);
        (void)fflush(stdout);
    }
}

/* By number, then by a list of ids, from the second row of the corpus on. */
static void try_keys(const one_case *c, const both_rows *queries, const both_rows *points,
                     const double *want, const uint32_t *ids)
{
    const int64_t pitch = POINTS + 3;
    const int64_t corpus0 = ids != NULL ? 1 : 0;
    double got[QUERIES * (POINTS + 3)];
    uint32_t *device_ids = ids != NULL ? uploaded(ids, QUERIES * sizeof *ids) : NULL;
    double *keys = room(sizeof got);
    const kin_fused_keys job = {
        .queries = queries->on_device,
        .corpus = points->on_device,
        .query_ids = device_ids,
        .query_count = QUERIES,
        .corpus0 = corpus0,
        .corpus_count = POINTS - corpus0,
        .keys = keys,
        .pitch = pitch,
    };
    must(kin_gpu_fill(ctx, gpu, keys, 0x5a, sizeof got));
    must_launch(gpu->module->fused->keys(gpu->stream, &job), "keys");
    download(got, keys, sizeof got);
    for (int64_t i = 0; i < QUERIES; i++) {
        const int64_t row = ids != NULL ? (int64_t)ids[i] : i;
        for (int64_t j = 0; j < POINTS - corpus0; j++) {
            const double expected = want[row * POINTS + corpus0 + j];
            if (bits(expected) != bits(got[i * pitch + j])) {
                tell(c, "keys", i, j, expected, (uint32_t)(corpus0 + j), got[i * pitch + j], 0);
            }
        }
        for (int64_t j = POINTS - corpus0; j < pitch; j++) {
            if (bits(got[i * pitch + j]) != 0x5a5a5a5a5a5a5a5a) {
                tell(c, "keys behind the end", i, j, 0, 0, got[i * pitch + j], 0);
            }
        }
    }
    kin_gpu_free(gpu, keys);
    kin_gpu_free(gpu, device_ids);
}

/* ---- rescore ----------------------------------------------------------------------------------
 */

/* Positions of the sets are rows in reverse; a list repeats no candidate but where the capacity is
 * above the points there are, then ids stand for themselves several times. */
static void try_rescore(const one_case *c, const both_rows *queries, const both_rows *points,
                        const double *want, int32_t k, int32_t capacity, uint64_t *seed)
{
    uint32_t query_ids[QUERIES];
    uint32_t point_ids[POINTS];
    int32_t counts[QUERIES];
    uint64_t *words = host(sizeof *words * (size_t)QUERIES * (size_t)capacity);
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
    kin_fused_pair *pairs = host(sizeof *pairs * (size_t)QUERIES * (size_t)k);
    int32_t got_counts[QUERIES] = {0};
    uint64_t computed = 0;
    kin_fused_rescore job = {
        .set = {.frame = {.bound = KIN_BOUND_DISTANCE, .cols = c->cols},
                .points = QUERIES,
                .ids = uploaded(query_ids, sizeof query_ids)},
        .cols_set = {.frame = {.bound = KIN_BOUND_DISTANCE, .cols = c->cols},
                     .points = POINTS,
                     .ids = uploaded(point_ids, sizeof point_ids)},
        .set_rows = queries->on_device,
        .cols_rows = points->on_device,
        .lists = {.rows = QUERIES,
                  .k = k,
                  .capacity = capacity,
                  .words = uploaded(words, sizeof *words * (size_t)QUERIES * (size_t)capacity),
                  .counts = uploaded(counts, sizeof counts)},
        .row0 = row0,
        .rows = rows,
        .pairs = room(sizeof *pairs * (size_t)QUERIES * (size_t)k),
        .count = room(sizeof got_counts),
        .keys = uploaded(&computed, sizeof computed),
    };
    must_launch(gpu->module->fused->rescore(gpu->stream, &job), "rescore");
    download(pairs, job.pairs, sizeof *pairs * (size_t)rows * (size_t)k);
    download(got_counts, job.count, (uint64_t)rows * sizeof *got_counts);
    download(&computed, job.keys, sizeof computed);
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
            const kin_fused_pair *got = &pairs[i * k + j];
            if (bits(got->key) != bits(sorted[j].key) || got->id != sorted[j].id) {
                tell(c, "rescore", i, j, sorted[j].key, sorted[j].id, got->key, got->id);
            }
        }
    }
    if (computed != keys_wanted) {
        tell(c, "rescore keys", 0, 0, (double)keys_wanted, 0, (double)computed, 0);
    }
    kin_gpu_free(gpu, job.keys);
    kin_gpu_free(gpu, job.count);
    kin_gpu_free(gpu, job.pairs);
    kin_gpu_free(gpu, job.lists.counts);
    kin_gpu_free(gpu, job.lists.words);
    kin_gpu_free(gpu, (void *)(uintptr_t)job.cols_set.ids);
    kin_gpu_free(gpu, (void *)(uintptr_t)job.set.ids);
    free(pairs);
    free(words);
}

static void try_case(const one_case *c, uint64_t *seed)
{
    both_rows queries;
    both_rows points;
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
    both_free(&queries);
    both_free(&points);
}

static void key_bits(void **state)
{
    (void)state;
    static const int32_t wide[] = {63, 64, 65, 127, 128, 129, 784, 5000};
    enum { NARROW = 40, WIDE = sizeof wide / sizeof wide[0] };
    uint64_t seed = 1;
    int64_t cases = 0;
    wrong = 0;
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
        printf("%s: %d wrong so far\n", kith_metric_name(metrics[m]), wrong);
        (void)fflush(stdout);
    }
    printf("keys and rescore: %lld cases of %d x %d pairs, bit for bit; %d differences\n",
           (long long)cases, QUERIES, POINTS, wrong);
    assert_int_equal(wrong, 0);
}

/* Integer costs are the keys; nothing of the rows is read. */
static void integer_costs(void **state)
{
    (void)state;
    enum { ROWS = 9, CAPACITY = 20000, K = 2049 };
    uint64_t seed = 5;
    uint64_t *words = host(sizeof *words * ROWS * CAPACITY);
    uint32_t *ids = host(sizeof *ids * CAPACITY);
    kin_fused_pair *pairs = host(sizeof *pairs * ROWS * K);
    kin_pair *sorted = host(sizeof *sorted * CAPACITY);
    int32_t counts[ROWS];
    int32_t got[ROWS];
    wrong = 0;
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
        kin_fused_rescore job = {
            .set = {.frame = {.bound = KIN_BOUND_INTEGER}, .points = ROWS},
            .set_rows = {.cols = 4, .dtype = KITH_U8, .metric = metric},
            .cols_rows = {.cols = 4, .dtype = KITH_U8, .metric = metric},
            .lists = {.rows = ROWS, .k = K, .capacity = CAPACITY},
            .rows = ROWS,
        };
        job.set.ids = job.cols_set.ids = uploaded(ids, sizeof *ids * CAPACITY);
        job.lists.words = uploaded(words, sizeof *words * ROWS * CAPACITY);
        job.lists.counts = uploaded(counts, sizeof counts);
        job.pairs = room(sizeof *pairs * ROWS * K);
        job.count = room(sizeof got);
        must_launch(gpu->module->fused->rescore(gpu->stream, &job), "rescore of costs");
        download(pairs, job.pairs, sizeof *pairs * ROWS * K);
        download(got, job.count, sizeof got);
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
                const kin_fused_pair *p = &pairs[i * K + j];
                if (bits(p->key) != bits(sorted[j].key) || p->id != sorted[j].id) {
                    tell(&c, "costs", i, j, sorted[j].key, sorted[j].id, p->key, p->id);
                }
            }
        }
        kin_gpu_free(gpu, job.count);
        kin_gpu_free(gpu, job.pairs);
        kin_gpu_free(gpu, job.lists.counts);
        kin_gpu_free(gpu, job.lists.words);
        kin_gpu_free(gpu, (void *)(uintptr_t)job.set.ids);
    }
    free(sorted);
    free(pairs);
    free(ids);
    free(words);
    printf("rescore of integer costs, lists of %d, k %d: %d differences\n", CAPACITY, K, wrong);
    assert_int_equal(wrong, 0);
}

/* ---- best -------------------------------------------------------------------------------------
 */

typedef enum kind { RANDOM = 0, TIES, EQUAL, FALLING, RISING, INFINITE, KINDS } kind;

static double key_of(kind how, int64_t column, int64_t columns, uint64_t *seed)
{
    switch (how) {
    case TIES:
        return (double)kin_random_below(seed, 5);
    case EQUAL:
        return 1;
    case FALLING:
        return (double)(columns - column);
    case RISING:
        return (double)column - 100;
    case INFINITE:
        return kin_random_below(seed, 3) == 0 ? test_uniform(seed) : (double)INFINITY;
    default:
        return test_uniform(seed) * 2 - 1;
    }
}

/* `passes` lists of k one behind the other, the columns in pieces of `piece`. */
static void try_best(kind how, int64_t rows, int64_t columns, int32_t k, int32_t passes,
                     int64_t piece)
{
    static const char *const names[KINDS] = {"random", "ties", "equal", "falling", "rising", "inf"};
    uint64_t seed = (uint64_t)(columns + k);
    const int64_t pitch = columns + 5;
    const int64_t wanted = (int64_t)k * passes;
    const size_t key_bytes = sizeof(double) * (size_t)(rows * pitch);
    const size_t pair_bytes = sizeof(kin_fused_pair) * (size_t)(rows * wanted);
    double *keys = host(key_bytes);
    kin_fused_pair *pairs = host(pair_bytes);
    kin_pair *sorted = host(sizeof *sorted * (size_t)columns);
    int32_t *counts = host(sizeof *counts * (size_t)rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < pitch; j++) {
            keys[i * pitch + j] = j < columns ? key_of(how, j, columns, &seed) : -1e9;
        }
    }
    double *device_keys = uploaded(keys, key_bytes);
    kin_fused_pair *device_pairs = room(pair_bytes);
    int32_t *device_counts = room(sizeof *counts * (size_t)rows);
    const int before = wrong;
    const int64_t first_id = 1000;
    for (int32_t pass = 0; pass < passes; pass++) {
        must(kin_gpu_fill(ctx, gpu, device_counts, 0, sizeof *counts * (size_t)rows));
        for (int64_t at = 0; at < columns; at += piece) {
            const kin_fused_best job = {
                .keys = device_keys + at,
                .pitch = pitch,
                .rows = rows,
                .columns = columns - at < piece ? columns - at : piece,
                .corpus0 = first_id + at,
                .k = k,
                .after = pass > 0 ? device_pairs + (int64_t)pass * k - 1 : NULL,
                .after_pitch = wanted,
                .pairs = device_pairs + (int64_t)pass * k,
                .pairs_pitch = wanted,
                .count = device_counts,
            };
            must_launch(gpu->module->fused->best(gpu->stream, &job), "best");
        }
        download(counts, device_counts, sizeof *counts * (size_t)rows);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t left = columns - (int64_t)pass * k;
            const int64_t expected = left < 0 ? 0 : left < k ? left : k;
            if (counts[i] != expected && wrong++ < MOST_TOLD) {
                printf("WRONG best count %s row %lld pass %d: want %lld, got %d\n", names[how],
                       (long long)i, pass, (long long)expected, counts[i]);
            }
        }
    }
    download(pairs, device_pairs, pair_bytes);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sorted[j] = (kin_pair){keys[i * pitch + j], (uint32_t)(first_id + j), 1};
        }
        kin_select_sort_pairs(sorted, columns);
        for (int64_t j = 0; j < wanted && j < columns; j++) {
            const kin_fused_pair *got = &pairs[i * wanted + j];
            if (bits(got->key) != bits(sorted[j].key) || got->id != sorted[j].id) {
                wrong += 1;
                if (wrong <= MOST_TOLD) {
                    printf("WRONG best %s row %lld place %lld: want %a id %u, got %a id %u\n",
                           names[how], (long long)i, (long long)j, sorted[j].key, sorted[j].id,
                           got->key, got->id);
                }
                break;
            }
        }
    }
    if (wrong != before) {
        printf("WRONG best %s: rows %lld columns %lld k %d passes %d piece %lld\n", names[how],
               (long long)rows, (long long)columns, k, passes, (long long)piece);
        (void)fflush(stdout);
    }
    kin_gpu_free(gpu, device_counts);
    kin_gpu_free(gpu, device_pairs);
    kin_gpu_free(gpu, device_keys);
    free(counts);
    free(sorted);
    free(pairs);
    free(keys);
}

static void best_lists(void **state)
{
    (void)state;
    wrong = 0;
    int cases = 0;
    for (int how = 0; how < KINDS; how++) {
        for (int few = 0; few < 2; few++) {
            const int64_t rows = few ? 3 : 400;
            try_best((kind)how, rows, 17, 1, 1, 17);
            try_best((kind)how, rows, 17, 30, 1, 4);
            try_best((kind)how, rows, 5000, 1, 1, 5000);
            try_best((kind)how, rows, 5000, 10, 1, 1999);
            try_best((kind)how, rows, 5001, 100, 1, 5001);
            try_best((kind)how, rows, 6001, 2048, 1, 2500);
            try_best((kind)how, few ? 2 : 300, 4500, 2048, 3, 4500);
            try_best((kind)how, rows, 3000, 333, 4, 1024);
            cases += 8;
        }
    }
    printf("best: %d cases against a plain sort; %d differences\n", cases, wrong);
    assert_int_equal(wrong, 0);
}

/* ---- write ------------------------------------------------------------------------------------
 */

enum { ROWS_OUT = 70 };

static void try_write(kith_metric metric, int32_t k, int32_t k_out, int own, int exclude)
{
    static const double special[] = {0,    0x1p-1074,    1e-50,        1e-40,  0x1.fffffep-127,
                                     1.0,  0x1.000001p0, 0x1.000003p0, 3.4e38, 0x1.ffffffp127,
                                     1e39, 1e300,        INFINITY};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    uint64_t seed = (uint64_t)(k * 100 + k_out);
    kin_fused_pair *pairs = host(sizeof *pairs * ROWS_OUT * (size_t)k);
    kin_pair *list = host(sizeof *list * (size_t)k);
    uint32_t ids[ROWS_OUT];
    uint32_t left_out[ROWS_OUT];
    int32_t counts[ROWS_OUT];
    const size_t places = ROWS_OUT * (size_t)k_out;
    kith_neighbors want = {host(places * 4), host(places * 4), host(places * 8), ROWS_OUT, k_out};
    kith_neighbors got = {host(places * 4), host(places * 4), host(places * 8), ROWS_OUT, k_out};
    uint64_t short_wanted = 0;
    for (int i = 0; i < ROWS_OUT; i++) {
        ids[i] = (uint32_t)(i * 3 % ROWS_OUT);
        counts[i] = i % 9 == 8 ? k / 2 : k;
        for (int j = 0; j < counts[i]; j++) {
            const double key =
                j % 2 == 0 ? special[kin_random_below(&seed, SPECIAL)] : test_uniform(&seed);
            const double signed_key = metric == KITH_INNER_PRODUCT && j % 3 == 0 ? -key : key;
            list[j] = (kin_pair){signed_key + 0.0, (uint32_t)j, 1};
        }
        kin_select_sort_pairs(list, counts[i]);
        left_out[ids[i]] = i % 4 == 0 ? KITH_ID_NONE : (uint32_t)kin_random_below(&seed, 40);
        for (int j = 0; j < counts[i]; j++) {
            pairs[i * k + j] = (kin_fused_pair){list[j].key, list[j].id, 0};
        }
        const uint32_t skipped = exclude ? left_out[ids[i]] : own ? ids[i] : KITH_ID_NONE;
        const kin_answer answer = {.metric = metric, .list = list, .count = counts[i]};
        short_wanted += kin_answer_write(&answer, skipped, &want, (int64_t)ids[i]) ? 0 : 1;
    }
    uint64_t short_rows = 0;
    kin_fused_write job = {
        .metric = metric,
        .ids = uploaded(ids, sizeof ids),
        .left_out = exclude ? uploaded(left_out, sizeof left_out) : NULL,
        .leaves_own_out = own,
        .rows = ROWS_OUT,
        .pairs = uploaded(pairs, sizeof *pairs * ROWS_OUT * (size_t)k),
        .count = uploaded(counts, sizeof counts),
        .k = k,
        .k_out = k_out,
        .out_ids = room(places * 4),
        .out_distances = room(places * 4),
        .out_distances64 = room(places * 8),
        .short_rows = uploaded(&short_rows, sizeof short_rows),
    };
    must(kin_gpu_fill(ctx, gpu, job.out_ids, 0, places * 4));
    must(kin_gpu_fill(ctx, gpu, job.out_distances, 0, places * 4));
    must(kin_gpu_fill(ctx, gpu, job.out_distances64, 0, places * 8));
    must_launch(gpu->module->fused->write(gpu->stream, &job), "write");
    download(got.ids, job.out_ids, places * 4);
    download(got.distances, job.out_distances, places * 4);
    download(got.distances64, job.out_distances64, places * 8);
    download(&short_rows, job.short_rows, sizeof short_rows);
    for (size_t i = 0; i < places; i++) {
        if (want.ids[i] != got.ids[i] || memcmp(&want.distances[i], &got.distances[i], 4) != 0 ||
            bits(want.distances64[i]) != bits(got.distances64[i])) {
            wrong += 1;
            if (wrong <= MOST_TOLD) {
                printf("WRONG write %s k %d of %d own %d exclude %d row %zu place %zu: want id %u "
                       "%a %a, got id %u %a %a\n",
                       kith_metric_name(metric), k_out, k, own, exclude, i / (size_t)k_out,
                       i % (size_t)k_out, want.ids[i], (double)want.distances[i],
                       want.distances64[i], got.ids[i], (double)got.distances[i],
                       got.distances64[i]);
            }
        }
    }
    if (short_rows != short_wanted) {
        wrong += 1;
        printf("WRONG write: %llu short rows, want %llu\n", (unsigned long long)short_rows,
               (unsigned long long)short_wanted);
    }
    void *const blocks[] = {job.short_rows,
                            job.out_distances64,
                            job.out_distances,
                            job.out_ids,
                            (void *)(uintptr_t)job.count,
                            (void *)(uintptr_t)job.pairs,
                            (void *)(uintptr_t)job.left_out,
                            (void *)(uintptr_t)job.ids};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        kin_gpu_free(gpu, blocks[i]);
    }
    free(want.ids);
    free(want.distances);
    free(want.distances64);
    free(got.ids);
    free(got.distances);
    free(got.distances64);
    free(list);
    free(pairs);
}

static void final_rows(void **state)
{
    (void)state;
    const kith_metric three[] = {KITH_EUCLIDEAN, KITH_INNER_PRODUCT, KITH_MANHATTAN};
    wrong = 0;
    for (int m = 0; m < 3; m++) {
        for (int who = 0; who < 3; who++) {
            try_write(three[m], 2, 1, who == 1, who == 2);
            try_write(three[m], 33, 32, who == 1, who == 2);
            try_write(three[m], 64, 64, who == 1, who == 2);
            try_write(three[m], 101, 100, who == 1, who == 2);
        }
    }
    printf("write: 36 cases against the CPU engine's writer; %d differences\n", wrong);
    assert_int_equal(wrong, 0);
}

/* ---- The driver -------------------------------------------------------------------------------
 */

static void try_direct(kith_metric metric, int64_t corpus_rows, int64_t query_rows, int64_t k,
                       uint64_t budget)
{
    uint64_t seed = 77;
    const int32_t cols = 5;
    both_rows points = {.rows = test_rows_make(KITH_U8, corpus_rows, cols, 0)};
    both_rows queries = {.rows = test_rows_make(KITH_U8, query_rows, cols, 0)};
    test_rows_fill(&points.rows, 6, 1, &seed); /* many ties */
    test_rows_fill(&queries.rows, 6, 1, &seed);
    const uint64_t usual = gpu->budget;
    gpu->budget = budget;
    both_finish(&points, metric);
    both_finish(&queries, metric);
    uint32_t *exclude = host(sizeof *exclude * (size_t)query_rows);
    for (int64_t i = 0; i < query_rows; i++) {
        exclude[i] = (uint32_t)kin_random_below(&seed, (uint64_t)corpus_rows);
    }
    kin_request request = {
        .distance = {.metric = metric, .cols = cols, .isa = ctx->isa}, .k = k, .exclude = exclude};
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = k;
    kith_ctx *cpu = test_cpu_ctx();
    for (int graph = 0; graph < 2; graph++) {
        const int64_t rows = graph ? corpus_rows : query_rows;
        const size_t places = (size_t)(rows * k);
        kith_neighbors want = {host(places * 4), host(places * 4), host(places * 8), rows, k};
        kith_neighbors got = {host(places * 4), host(places * 4), host(places * 8), rows, k};
        params.exclude = graph ? NULL : exclude;
        must(graph
                 ? kith_graph_exact(cpu, &points.rows.matrix, &params, &want)
                 : kith_knn_exact(cpu, &points.rows.matrix, &queries.rows.matrix, &params, &want));
        must(kin_fused_direct(ctx, gpu, &points.on_device,
                              graph ? &points.on_device : &queries.on_device, &request, 0, &got));
        for (size_t i = 0; i < places; i++) {
            if (want.ids[i] != got.ids[i] ||
                memcmp(&want.distances[i], &got.distances[i], 4) != 0 ||
                bits(want.distances64[i]) != bits(got.distances64[i])) {
                wrong += 1;
                printf("WRONG direct %s graph %d rows %lld of %lld k %lld row %zu place %zu: want "
                       "%u %a, got %u %a\n",
                       kith_metric_name(metric), graph, (long long)rows, (long long)corpus_rows,
                       (long long)k, i / (size_t)k, i % (size_t)k, want.ids[i], want.distances64[i],
                       got.ids[i], got.distances64[i]);
                break;
            }
        }
        free(want.ids);
        free(want.distances);
        free(want.distances64);
        free(got.ids);
        free(got.distances);
        free(got.distances64);
    }
    kith_ctx_free(cpu);
    free(exclude);
    both_free(&queries);
    both_free(&points);
    gpu->budget = usual;
}

static void all_pairs(void **state)
{
    (void)state;
    wrong = 0;
    const uint64_t large = (uint64_t)1 << 30;
    try_direct(KITH_EUCLIDEAN, 3000, 50, 10, large);
    try_direct(KITH_COSINE, 700, 50, 699 - 1, large);
    try_direct(KITH_KL, 900, 11, 7, 1 << 20);
    try_direct(KITH_JACCARD, 6000, 3, 100, 2 << 20);
    try_direct(KITH_MANHATTAN, 5000, 3, 4900, large);
    try_direct(KITH_MANHATTAN, 5000, 3, 4900, 4 << 20);
    printf("all pairs by canonical keys, graphs and searches, little memory, k up to 4900: %d "
           "differences\n",
           wrong);
    assert_int_equal(wrong, 0);
}

static int open_device(void **state)
{
    (void)state;
    ctx = test_cpu_ctx();
    return kin_gpu_open(ctx, 0, (uint64_t)2 << 30, &gpu) == KITH_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    kin_gpu_close(ctx, gpu);
    kith_ctx_free(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_lists), cmocka_unit_test(final_rows), cmocka_unit_test(integer_costs),
        cmocka_unit_test(key_bits),   cmocka_unit_test(all_pairs),
    };
    return test_gpu_is_absent() ? TEST_SKIPPED
                                : cmocka_run_group_tests(tests, open_device, close_device);
}
