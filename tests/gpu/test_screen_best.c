/* SPDX-License-Identifier: Apache-2.0
 * Best lists and final rows of a device are what sorting and the CPU engine's writer give; all
 * pairs by canonical keys are what the CPU engine finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "exact/exact_answer.h"
#include "exact/exact_answer_gpu.h"
#include "exact/exact_search_gpu.h"
#include "support/support_device.h"
#include "support/support_gpu.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- best ----------------------------------------------------------------------------------- */

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
    const size_t pair_bytes = sizeof(kin_screen_gpu_pair) * (size_t)(rows * wanted);
    double *keys = test_host_room(key_bytes);
    kin_screen_gpu_pair *pairs = test_host_room(pair_bytes);
    kin_pair *sorted = test_host_room(sizeof *sorted * (size_t)columns);
    int32_t *counts = test_host_room(sizeof *counts * (size_t)rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < pitch; j++) {
            keys[i * pitch + j] = j < columns ? key_of(how, j, columns, &seed) : -1e9;
        }
    }
    double *device_keys = test_device_copy(keys, key_bytes);
    kin_screen_gpu_pair *device_pairs = test_device_room(pair_bytes);
    int32_t *device_counts = test_device_room(sizeof *counts * (size_t)rows);
    const int before = test_wrong;
    const int64_t first_id = 1000;
    for (int32_t pass = 0; pass < passes; pass++) {
        test_must(kin_gpu_fill(test_device_ctx, test_device, device_counts, 0,
                               sizeof *counts * (size_t)rows));
        for (int64_t at = 0; at < columns; at += piece) {
            const kin_screen_gpu_best job = {
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
            test_launch(test_device->module->screen->best(test_device->stream, &job), "best");
        }
        test_download(counts, device_counts, sizeof *counts * (size_t)rows);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t left = columns - (int64_t)pass * k;
            const int64_t expected = left < 0 ? 0 : left < k ? left : k;
            if (counts[i] != expected && test_wrong++ < TEST_MOST_TOLD) {
                printf("WRONG best count %s row %lld pass %d: want %lld, got %d\n", names[how],
                       (long long)i, pass, (long long)expected, counts[i]);
            }
        }
    }
    test_download(pairs, device_pairs, pair_bytes);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sorted[j] = (kin_pair){keys[i * pitch + j], (uint32_t)(first_id + j), 1};
        }
        kin_select_sort_pairs(sorted, columns);
        for (int64_t j = 0; j < wanted && j < columns; j++) {
            const kin_screen_gpu_pair *got = &pairs[i * wanted + j];
            if (test_bits(got->key) != test_bits(sorted[j].key) || got->id != sorted[j].id) {
                test_wrong += 1;
                if (test_wrong <= TEST_MOST_TOLD) {
                    printf("WRONG best %s row %lld place %lld: want %a id %u, got %a id %u\n",
                           names[how], (long long)i, (long long)j, sorted[j].key, sorted[j].id,
                           got->key, got->id);
                }
                break;
            }
        }
    }
    if (test_wrong != before) {
        printf("WRONG best %s: rows %lld columns %lld k %d passes %d piece %lld\n", names[how],
               (long long)rows, (long long)columns, k, passes, (long long)piece);
        (void)fflush(stdout);
    }
    kin_gpu_free(test_device, device_counts);
    kin_gpu_free(test_device, device_pairs);
    kin_gpu_free(test_device, device_keys);
    free(counts);
    free(sorted);
    free(pairs);
    free(keys);
}

static void best_lists(void **state)
{
    (void)state;
    test_wrong = 0;
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
    printf("best: %d cases against a plain sort; %d differences\n", cases, test_wrong);
    assert_int_equal(test_wrong, 0);
}

static bool differ_at(const kith_neighbors *a, const kith_neighbors *b, size_t i)
{
    return a->ids[i] != b->ids[i] || memcmp(&a->distances[i], &b->distances[i], 4) != 0 ||
           test_bits(a->distances64[i]) != test_bits(b->distances64[i]);
}

/* ---- write ---------------------------------------------------------------------------------- */

enum { ROWS_OUT = 70 };

static void try_write(kith_metric metric, int32_t k, int32_t k_out, int own, int exclude)
{
    static const double special[] = {0,    0x1p-1074,    1e-50,        1e-40,  0x1.fffffep-127,
                                     1.0,  0x1.000001p0, 0x1.000003p0, 3.4e38, 0x1.ffffffp127,
                                     1e39, 1e300,        INFINITY};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    uint64_t seed = (uint64_t)(k * 100 + k_out);
    kin_screen_gpu_pair *pairs = test_host_room(sizeof *pairs * ROWS_OUT * (size_t)k);
    kin_pair *list = test_host_room(sizeof *list * (size_t)k);
    uint32_t ids[ROWS_OUT];
    uint32_t left_out[ROWS_OUT];
    int32_t counts[ROWS_OUT];
    const size_t places = ROWS_OUT * (size_t)k_out;
    kith_neighbors want = {test_host_room(places * 4),
                           test_host_room(places * 4),
                           test_host_room(places * 8),
                           ROWS_OUT,
                           k_out,
                           NULL};
    kith_neighbors got = {test_host_room(places * 4),
                          test_host_room(places * 4),
                          test_host_room(places * 8),
                          ROWS_OUT,
                          k_out,
                          NULL};
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
            pairs[i * k + j] = (kin_screen_gpu_pair){list[j].key, list[j].id, 0};
        }
        const uint32_t skipped = exclude ? left_out[ids[i]] : own ? ids[i] : KITH_ID_NONE;
        const kin_answer answer = {.metric = metric, .list = list, .count = counts[i]};
        short_wanted += kin_answer_write(&answer, skipped, &want, (int64_t)ids[i]) ? 0 : 1;
    }
    uint64_t short_rows = 0;
    kin_screen_gpu_write job = {
        .metric = metric,
        .ids = test_device_copy(ids, sizeof ids),
        .left_out = exclude ? test_device_copy(left_out, sizeof left_out) : NULL,
        .leaves_own_out = own,
        .rows = ROWS_OUT,
        .pairs = test_device_copy(pairs, sizeof *pairs * ROWS_OUT * (size_t)k),
        .count = test_device_copy(counts, sizeof counts),
        .k = k,
        .k_out = k_out,
        .out_ids = test_device_room(places * 4),
        .out_distances = test_device_room(places * 4),
        .out_distances64 = test_device_room(places * 8),
        .short_rows = test_device_copy(&short_rows, sizeof short_rows),
    };
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.out_ids, 0, places * 4));
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.out_distances, 0, places * 4));
    test_must(kin_gpu_fill(test_device_ctx, test_device, job.out_distances64, 0, places * 8));
    test_launch(test_device->module->screen->write(test_device->stream, &job), "write");
    test_download(got.ids, job.out_ids, places * 4);
    test_download(got.distances, job.out_distances, places * 4);
    test_download(got.distances64, job.out_distances64, places * 8);
    test_download(&short_rows, job.short_rows, sizeof short_rows);
    for (size_t i = 0; i < places; i++) {
        if (differ_at(&want, &got, i)) {
            test_wrong += 1;
            if (test_wrong <= TEST_MOST_TOLD) {
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
        test_wrong += 1;
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
        kin_gpu_free(test_device, blocks[i]);
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
    test_wrong = 0;
    for (int m = 0; m < 3; m++) {
        for (int who = 0; who < 3; who++) {
            try_write(three[m], 2, 1, who == 1, who == 2);
            try_write(three[m], 33, 32, who == 1, who == 2);
            try_write(three[m], 64, 64, who == 1, who == 2);
            try_write(three[m], 101, 100, who == 1, who == 2);
        }
    }
    printf("write: 36 cases against the CPU engine's writer; %d differences\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- The driver ----------------------------------------------------------------------------- */

static void try_direct(kith_metric metric, int64_t corpus_rows, int64_t query_rows, int64_t k,
                       uint64_t budget)
{
    uint64_t seed = 77;
    const int32_t cols = 5;
    test_device_rows points = {.rows = test_rows_make(KITH_U8, corpus_rows, cols, 0)};
    test_device_rows queries = {.rows = test_rows_make(KITH_U8, query_rows, cols, 0)};
    test_rows_fill(&points.rows, 6, 1, &seed); /* many ties */
    test_rows_fill(&queries.rows, 6, 1, &seed);
    const uint64_t usual = test_device->budget;
    test_device->budget = budget;
    test_device_rows_finish(&points, metric);
    test_device_rows_finish(&queries, metric);
    uint32_t *exclude = test_host_room(sizeof *exclude * (size_t)query_rows);
    for (int64_t i = 0; i < query_rows; i++) {
        exclude[i] = (uint32_t)kin_random_below(&seed, (uint64_t)corpus_rows);
    }
    kin_request request = {
        .distance = {.metric = metric, .cols = cols, .isa = test_device_ctx->isa},
        .k = k,
        .exclude = exclude};
    kith_search_params params = kith_search_params_default();
    params.metric = metric;
    params.k = k;
    kith_ctx *cpu = test_cpu_ctx();
    for (int graph = 0; graph < 2; graph++) {
        const int64_t rows = graph ? corpus_rows : query_rows;
        const size_t places = (size_t)(rows * k);
        kith_neighbors want = {test_host_room(places * 4),
                               test_host_room(places * 4),
                               test_host_room(places * 8),
                               rows,
                               k,
                               NULL};
        kith_neighbors got = {test_host_room(places * 4),
                              test_host_room(places * 4),
                              test_host_room(places * 8),
                              rows,
                              k,
                              NULL};
        params.exclude = graph ? NULL : exclude;
        test_must(graph ? kith_graph(cpu, &points.rows.matrix, &params, &want, NULL)
                        : kith_search(cpu, &points.rows.matrix, &queries.rows.matrix, &params,
                                      &want, NULL));
        const kin_exact_gpu_query query = {.request = &request, .out = &got};
        test_must(kin_exact_gpu_direct(test_device_ctx, test_device, &points.on_device,
                                       graph ? &points.on_device : &queries.on_device, &query));
        for (size_t i = 0; i < places; i++) {
            if (differ_at(&want, &got, i)) {
                test_wrong += 1;
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
    test_device_rows_free(&queries);
    test_device_rows_free(&points);
    test_device->budget = usual;
}

static void all_pairs(void **state)
{
    (void)state;
    test_wrong = 0;
    const uint64_t large = (uint64_t)1 << 30;
    try_direct(KITH_EUCLIDEAN, 3000, 50, 10, large);
    try_direct(KITH_COSINE, 700, 50, 699 - 1, large);
    try_direct(KITH_KL, 900, 11, 7, 1 << 20);
    try_direct(KITH_JACCARD, 6000, 3, 100, 2 << 20);
    try_direct(KITH_MANHATTAN, 5000, 3, 4900, large);
    try_direct(KITH_MANHATTAN, 5000, 3, 4900, 4 << 20);
    printf("all pairs by canonical keys, graphs and searches, little memory, k up to 4900: %d "
           "differences\n",
           test_wrong);
    assert_int_equal(test_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_lists),
        cmocka_unit_test(final_rows),
        cmocka_unit_test(all_pairs),
    };
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
