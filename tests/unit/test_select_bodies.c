/* SPDX-License-Identifier: Apache-2.0
 * Every method of selection on the processor against qsort, word for word, on one run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "papers/papers.h"
#include "select/select.h"
#include "support/support_keys.h"
#include "support/support_selections.h"
#include "support/support_shapes.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_VARIANTS = 80, MOST_QUEUES = 3000, GUARD = 0x5a };

/* ---- What is tried -------------------------------------------------------------------------- */

typedef struct variant {
    kin_isa isa;
    kith_select_method method;
    kith_select_buffer buffer;
    int32_t group;
    int32_t sample;
    int32_t level;
    int32_t buffer_size;
    bool merge_path;
} variant;

/* Every method, with each of its switches. */
static int list_variants(variant list[MOST_VARIANTS])
{
    int count = 0;
    const int32_t groups[] = {0, 2, 4, 8};
    for (int method = KITH_SELECT_INSERTION; method <= KITH_SELECT_MERGE_QUEUE; method++) {
        for (int buffer = KITH_BUFFER_NONE; buffer <= KITH_BUFFER_SORTED; buffer++) {
            for (int g = 0; g < 4; g++) {
                list[count] = (variant){.method = (kith_select_method)method,
                                        .buffer = (kith_select_buffer)buffer,
                                        .group = groups[g],
                                        .sample = 8};
                count += 1;
            }
        }
    }
    const kith_select_method plain[] = {KITH_SELECT_QUICK, KITH_SELECT_BITONIC, KITH_SELECT_RADIX};
    for (int i = 0; i < 3; i++) {
        list[count] = (variant){.method = plain[i], .sample = 8};
        count += 1;
    }
    const int32_t samples[] = {1, 8, 32};
    for (int i = 0; i < 3; i++) {
        list[count] = (variant){.method = KITH_SELECT_THRESHOLD_HEAP, .sample = samples[i]};
        count += 1;
    }
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    for (int i = 0; i < bodies; i++) {
        list[count] = (variant){.isa = isas[i], .method = KITH_SELECT_SCAN, .sample = 8};
        count += 1;
    }
    assert_true(count <= MOST_VARIANTS);
    return count;
}

/* A queue with each kind and size of its buffer and each group. */
static int add_queues(variant like, variant *list, int count)
{
    for (int buffer = 0; buffer < 16; buffer++) { /* 4 kinds, 4 sizes */
        for (int g = 0; g < 4 && (buffer % 4 != KITH_BUFFER_NONE || buffer == 0); g++) {
            list[count] = like;
            list[count].buffer = (kith_select_buffer)(buffer % 4);
            list[count].buffer_size =
                buffer % 4 == KITH_BUFFER_NONE ? 0 : KITH_QUEUE_BUFFER_LEAST << buffer / 4;
            list[count].group = g == 0 ? 0 : 1 << g;
            count += 1;
        }
    }
    return count;
}

/* Every queue on every machine; the merge queue with each m, and both ways to merge. */
static int list_queues(variant list[MOST_QUEUES])
{
    kin_isa isas[KIN_ISA_COUNT];
    const int bodies = test_bodies(isas);
    int count = 0;
    for (int i = 0; i < bodies; i++) {
        count = add_queues((variant){.isa = isas[i], .method = KITH_SELECT_INSERTION}, list, count);
        count = add_queues((variant){.isa = isas[i], .method = KITH_SELECT_HEAP}, list, count);
        for (int level = KITH_QUEUE_LEVEL_LEAST; level <= KITH_QUEUE_LEVEL_MOST; level *= 2) {
            for (int path = 0; path < 2; path++) {
                const variant like = {.isa = isas[i],
                                      .method = KITH_SELECT_MERGE_QUEUE,
                                      .level = level,
                                      .merge_path = path == 1};
                count = add_queues(like, list, count);
            }
        }
    }
    assert_true(count <= MOST_QUEUES);
    return count;
}

/* The k of a run of n: small ones, those around powers of two, all but one, all, more than all. */
static int list_ks(int64_t n, int64_t ks[16])
{
    const int64_t wanted[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 100, 255, 256, 1000, n - 1, n, n + 5};
    int count = 0;
    for (int i = 0; i < 16; i++) {
        if (wanted[i] >= 1 && (wanted[i] < n - 1 || i >= 13)) {
            ks[count] = wanted[i];
            count += 1;
        }
    }
    return count;
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* One run, and its words in order. */
typedef struct data {
    test_rows rows;
    test_rows ids; /* float32 rows hold them: a forbidden page ends them, too */
    kin_run run;
    void *sorted;
    int32_t word_bytes;
} data;

static kin_word64 word64_of(const data *d, int64_t i, uint32_t id)
{
    uint32_t bits;
    if (d->run.dtype == KIN_SELECT_F32) {
        memcpy(&bits, d->run.values + 4 * i, 4);
    } else {
        uint16_t half;
        memcpy(&half, d->run.values + 2 * i, 2);
        bits = d->run.dtype == KIN_SELECT_F16 ? kin_bits32_of_f16(half) : (uint32_t)half << 16;
    }
    return kin_word64_make(kin_key32(bits, d->run.largest), id);
}

static int order64(const void *a, const void *b)
{
    kin_word64 x;
    kin_word64 y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static int order128(const void *a, const void *b)
{
    kin_word128 x;
    kin_word128 y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void sort_words(void *words, int64_t count, int32_t word_bytes)
{
    qsort(words, (size_t)count, (size_t)word_bytes, word_bytes == 8 ? order64 : order128);
}

static data make_data(kin_select_type dtype, bool largest, int64_t n, test_run kind, test_ids ids,
                      uint64_t *seed)
{
    data d = {.rows = test_rows_make((kith_dtype)dtype, 1, (int32_t)n, 0),
              .ids = test_rows_make(KITH_F32, 1, (int32_t)n, 0),
              .word_bytes = kin_word_bytes(dtype)};
    double *values = malloc(sizeof *values * (size_t)n);
    d.sorted = malloc((size_t)n * (size_t)d.word_bytes);
    assert_true(values != NULL && d.sorted != NULL);
    test_run_fill(values, n, kind, seed);
    for (int64_t i = 0; i < n; i++) {
        const bool mirrored = largest && kind == TEST_RUN_ADVERSARY;
        test_rows_set(&d.rows, 0, i, mirrored ? -values[i] : values[i]);
    }
    free(values);
    d.run = (kin_run){.values = d.rows.matrix.data,
                      .ids = ids == TEST_IDS_PLACES ? NULL : d.ids.matrix.data,
                      .first = 12345,
                      .count = n,
                      .dtype = dtype,
                      .largest = largest};
    for (int64_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)(d.run.first + i);
        if (ids != TEST_IDS_PLACES) {
            id = test_id_given(ids, i, seed);
            memcpy(d.ids.map + ((const unsigned char *)d.ids.matrix.data - d.ids.map) + 4 * i, &id,
                   4);
        }
        if (dtype == KIN_SELECT_F64) {
            uint64_t bits;
            memcpy(&bits, d.run.values + 8 * i, 8);
            ((kin_word128 *)d.sorted)[i] = kin_word128_make(kin_key64(bits, largest), id);
        } else {
            ((kin_word64 *)d.sorted)[i] = word64_of(&d, i, id);
        }
    }
    sort_words(d.sorted, n, d.word_bytes);
    return d;
}

static void free_data(data *d)
{
    test_rows_free(&d->rows);
    test_rows_free(&d->ids);
    free(d->sorted);
}

/* ---- One selection -------------------------------------------------------------------------- */

/* Memory with a guard behind it. */
static unsigned char *guarded(uint64_t bytes)
{
    unsigned char *memory = NULL;
    assert_int_equal(posix_memalign((void **)&memory, 64, (size_t)bytes + 64), 0);
    memset(memory + bytes, GUARD, 64);
    return memory;
}

static bool guard_holds(const unsigned char *memory, uint64_t bytes)
{
    for (int i = 0; i < 64; i++) {
        if (memory[bytes + (uint64_t)i] != GUARD) {
            return false;
        }
    }
    return true;
}

static kin_select_job job_of(const data *d, const variant *v, int64_t k, bool sorted)
{
    return (kin_select_job){.rows = 1,
                            .cols = d->run.count,
                            .k = k,
                            .dtype = d->run.dtype,
                            .buffer = v->buffer,
                            .group = v->group,
                            .sample = v->sample,
                            .level = v->level,
                            .buffer_size = v->buffer_size,
                            .merge_path = v->merge_path,
                            .largest = d->run.largest,
                            .sorted = sorted};
}

/* Whether the answer is the first words of the sorted run, and nothing else was written. */
static bool select_is_right(const data *d, const variant *v, int64_t k, bool sorted)
{
    const kin_select_body *body = kin_papers_select_method(v->method)->body(v->isa);
    const kin_select_job job = job_of(d, v, k, sorted);
    const int64_t count = kin_min_i64(k, d->run.count);
    const uint64_t scratch_bytes = body->scratch_bytes(&job, d->run.count);
    const uint64_t out_bytes = (uint64_t)count * (uint64_t)d->word_bytes;
    unsigned char *scratch = guarded(scratch_bytes);
    unsigned char *out = guarded(out_bytes);
    body->select(&job, &d->run, scratch, out);
    if (!sorted) {
        sort_words(out, count, d->word_bytes);
    }
    const bool right = memcmp(out, d->sorted, (size_t)out_bytes) == 0 &&
                       guard_holds(scratch, scratch_bytes) && guard_holds(out, out_bytes);
    if (!right) {
        print_error("method %d, isa %d, buffer %d of %d, group %d, sample %d, level %d, path %d: "
                    "n %lld, k %lld, sorted %d, dtype %d, largest %d, ids %d\n",
                    (int)v->method, (int)v->isa, (int)v->buffer, v->buffer_size, v->group,
                    v->sample, v->level, v->merge_path, (long long)d->run.count, (long long)k,
                    sorted, (int)d->run.dtype, d->run.largest, d->run.ids != NULL);
    }
    free(scratch);
    free(out);
    return right;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* All variants and k on one run. */
static void try_run(const data *d, const variant *variants, int count, long *done, long *wrong)
{
    int64_t ks[16];
    const int kinds = list_ks(d->run.count, ks);
    for (int i = 0; i < kinds; i++) {
        for (int v = 0; v < count; v++) {
            /* Insertion takes n k steps: of the long cases, one in sixteen. */
            const bool slow =
                variants[v].method == KITH_SELECT_INSERTION && d->run.count * ks[i] > 1000000;
            if (slow && (*done + v) % 16 != 0) {
                continue;
            }
            *wrong += !select_is_right(d, &variants[v], ks[i], (*done + i) % 4 != 0);
            *done += 1;
        }
    }
}

static void selects_what_sorting_puts_first(void **state)
{
    (void)state;
    variant variants[MOST_VARIANTS];
    const int count = list_variants(variants);
    const int64_t lengths[] = {1, 2, 17, 100, 1000, 5000};
    const kin_select_type dtypes[] = {KIN_SELECT_F32, KIN_SELECT_F64, KIN_SELECT_F16,
                                      KIN_SELECT_BF16};
    uint64_t seed = 7;
    long done = 0;
    long wrong = 0;
    int turn = 0;
    for (int length = 0; length < 6; length++) {
        for (int kind = 0; kind < TEST_RUNS; kind++) {
            for (int type = 0; type < 4; type++) {
                /* Direction and ids: every pair on short runs, in turn on long ones. */
                const bool some = lengths[length] >= 1000 || test_is_slow_build();
                const int pairs = some ? 2 : 2 * TEST_IDS_KINDS;
                const int step = lengths[length] >= 1000 && test_is_slow_build() ? 2 : 1;
                for (int pair = 0; pair < pairs; pair += step) {
                    const int which = pairs == 2 ? turn++ % 6 : pair;
                    data d = make_data(dtypes[type], which % 2 != 0, lengths[length],
                                       (test_run)kind, (test_ids)(which / 2), &seed);
                    try_run(&d, variants, count, &done, &wrong);
                    free_data(&d);
                }
            }
        }
    }
    assert_int_equal(wrong, 0);
    (void)printf("%d variants of all methods: %ld selections are what sorting puts first\n", count,
                 done);
}

/* One in `share` of the queues in turn for each k; the turns go on from run to run. */
static long try_queues(const data *d, const variant *queues, int count, int share, long *wrong)
{
    static long turn = 0;
    const int64_t ks[] = {1, 4, 7, 8, 9, 33, 64, 100, 257, 512, 1000};
    long done = 0;
    for (int i = 0; i < 11 && ks[i] <= d->run.count; i++) {
        for (int v = (int)(turn % share); v < count; v += share) {
            *wrong += !select_is_right(d, &queues[v], ks[i], (done + i) % 4 != 0);
            done += 1;
        }
        turn += 1;
    }
    return done;
}

/* Runs end within a segment of vectors and behind one; rows of equal values, of NaN, and those in
 * order are what a threshold is bad at. */
static void queues_of_every_size(void **state)
{
    (void)state;
    static variant queues[MOST_QUEUES];
    const int count = list_queues(queues);
    const int64_t lengths[] = {5, 130, 700, 2049};
    const kin_select_type dtypes[] = {KIN_SELECT_F32, KIN_SELECT_F64, KIN_SELECT_F16,
                                      KIN_SELECT_BF16};
    const int share = test_is_slow_build() ? 3 : 1;
    uint64_t seed = 11;
    long done = 0;
    long wrong = 0;
    for (int turn = 0; turn < 4 * 4 * TEST_RUNS; turn++) {
        const int64_t n = lengths[turn % 4];
        data d = make_data(dtypes[turn / 4 % 4], turn % 3 == 0, n, (test_run)(turn / 16),
                           (test_ids)((turn + turn / 3) % TEST_IDS_KINDS), &seed);
        done += try_queues(&d, queues, count, (n > 1000 ? 101 : 31) * share, &wrong);
        free_data(&d);
    }
    assert_int_equal(wrong, 0);
    (void)printf("%d queues, of every m, merge, buffer, group and machine: %ld selections are what "
                 "sorting puts first\n",
                 count, done);
}

static void adversary_is_survived(void **state)
{
    (void)state;
    const variant quick = {.method = KITH_SELECT_QUICK};
    const int64_t n = 200000;
    uint64_t seed = 3;
    data d = make_data(KIN_SELECT_F32, false, n, TEST_RUN_ADVERSARY, TEST_IDS_PLACES, &seed);
    assert_true(select_is_right(&d, &quick, 1000, true));
    assert_true(select_is_right(&d, &quick, n / 2, true));
    free_data(&d);
    (void)printf("quick: bad pivots in every round are answered by sorting\n");
}

static void scratch_grows_with_the_run(void **state)
{
    (void)state;
    variant variants[MOST_VARIANTS];
    const int count = list_variants(variants);
    const int64_t ks[] = {1, 7, 8, 9, 64, 100, 1000};
    for (int v = 0; v < count; v++) {
        const kin_select_body *body =
            kin_papers_select_method(variants[v].method)->body(variants[v].isa);
        for (int i = 0; i < 7; i++) {
            kin_select_job job = {.k = ks[i],
                                  .dtype = i % 2 != 0 ? KIN_SELECT_F64 : KIN_SELECT_F32,
                                  .buffer = variants[v].buffer,
                                  .group = variants[v].group,
                                  .sample = variants[v].sample};
            uint64_t least = 0;
            for (int64_t longest = 1; longest < 40000; longest += 1 + longest / 50) {
                const uint64_t bytes = body->scratch_bytes(&job, longest);
                assert_true(bytes >= least);
                least = bytes;
            }
        }
    }
    (void)printf("a shorter run never wants more scratch\n");
}

/* Every number has a row of its own; AUTO has none, and takes only kith's. */
static void rows_are_one_sequence(void **state)
{
    (void)state;
    assert_null(kin_papers_select_method(KITH_SELECT_AUTO));
    assert_null(kin_papers_select_method(KITH_SELECT_METHOD_COUNT));
    assert_null(kin_papers_select_method(-1));
    for (int32_t i = 1; i < KITH_SELECT_METHOD_COUNT; i++) {
        const kin_select_method *row = kin_papers_select_method(i);
        assert_non_null(row);
        assert_int_equal(row->number, i);
        assert_string_equal(kith_select_method_name(i), row->name);
        assert_non_null(row->body(KIN_ISA_PORTABLE));
    }
    const kin_select_type types[] = {KIN_SELECT_F32, KIN_SELECT_F64, KIN_SELECT_F16,
                                     KIN_SELECT_BF16, KIN_SELECT_KEYS};
    int64_t jobs = 0;
    const int32_t chips[] = {KIN_SELECT_ON_CPU, 80, 90};
    assert_true(kin_select_tuned(KIN_SELECT_ON_CPU) && kin_select_tuned(90));
    assert_false(kin_select_tuned(80));
    for (size_t c = 0; c < sizeof chips / sizeof chips[0]; c++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (int64_t cols = 1; cols < (int64_t)1 << 32; cols += 1 + cols / 3) {
                for (int64_t k = 1; k <= cols; k += 1 + k / 3) {
                    const kin_select_job job = {.cols = cols, .k = k, .dtype = types[t]};
                    const kin_select_method *row = kin_select_choose(chips[c], &job);
                    assert_non_null(row);
                    assert_ptr_equal(row, kin_select_method_of(row->number));
                    if (!kin_select_tuned(chips[c])) {
                        assert_ptr_equal(row, kin_select_choose(90, &job)); /* an H200's */
                    }
                    jobs += 1;
                }
            }
        }
    }
    (void)printf("%d methods have a row each; auto takes kith's own for %lld jobs\n",
                 KITH_SELECT_METHOD_COUNT - 1, (long long)jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selects_what_sorting_puts_first),
        cmocka_unit_test(queues_of_every_size),
        cmocka_unit_test(adversary_is_survived),
        cmocka_unit_test(scratch_grows_with_the_run),
        cmocka_unit_test(rows_are_one_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
