/* SPDX-License-Identifier: Apache-2.0
 * How lists of NN-Descent begin on a device, against plain C: positions that are given or drawn,
 * with the costs of rounded rows or the canonical keys of any metric (fill); farther halves that
 * are put aside and points of the other set (halve, cross); keys of the control
 * points (keys); how far near tiles are (near_tiles). Each runs twice and gives the same bytes.
 * KITH_TIMES: what they take for a million points. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "support/support_device.h"
#include "support/support_gpu.h"
#include "support/support_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- fill, in plain C ------------------------------------------------------------------------ */

typedef uint32_t (*order_of)(const void *points, uint32_t i, uint32_t j);

typedef struct fill_case {
    int64_t points;
    int32_t length;
    int32_t wanted;
    int32_t given_length; /* 0: none are given */
    bool begun;           /* lists have entries before */
} fill_case;

static const fill_case cases[] = {
    {1, 8, 8, 0, false},       {2, 8, 8, 3, false},       {33, 32, 32, 0, false},
    {33, 32, 20, 0, true},     {40, 64, 64, 12, true},    {700, 8, 3, 5, false},
    {700, 32, 32, 0, false},   {500, 72, 72, 40, true},   {300, 128, 128, 0, false},
    {500, 256, 200, 70, true}, {60, 1088, 1088, 0, true}, {400, 1088, 300, 33, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void enter_plainly(const void *points, order_of order, uint32_t own, uint32_t position,
                          uint64_t *list, int32_t *count)
{
    if (position == UINT32_MAX || position == own) {
        return;
    }
    for (int32_t i = 0; i < *count; i++) {
        if (kin_graph_position(list[i]) == position) {
            return;
        }
    }
    const uint64_t word = kin_graph_word(order(points, own, position), position, 1);
    int32_t i = (*count)++;
    for (; i > 0 && list[i - 1] > word; i--) {
        list[i] = list[i - 1];
    }
    list[i] = word;
}

static void plain_fill(const fill_case *c, const void *points, order_of order, uint64_t draws,
                       const uint32_t *given, uint64_t *words)
{
    const uint32_t others = (uint32_t)c->points - 1;
    const bool all = (int64_t)others <= c->wanted;
    for (uint32_t p = 0; p <= others; p++) {
        uint64_t *list = words + (int64_t)p * c->length;
        int32_t count = 0;
        while (count < c->length && list[count] != KIN_GRAPH_EMPTY) {
            count++;
        }
        for (int32_t i = 0; i < c->given_length && count < c->wanted; i++) {
            enter_plainly(points, order, p, given[(int64_t)p * c->given_length + i], list, &count);
        }
        for (int32_t place = all ? 0 : count, last = c->wanted; place < last; place++) {
            uint32_t other = (uint32_t)place;
            if (!all) {
                const uint64_t salt = kin_graph_mix(draws + (uint64_t)place);
                other = kin_graph_slot(kin_graph_hash(salt, p), others);
            }
            if (other < others) {
                enter_plainly(points, order, p, other + (other >= p), list, &count);
            }
        }
    }
}

/* Some are none, some the own one, some stand there twice. */
static uint32_t *make_given(const fill_case *c)
{
    uint32_t *given = test_host_room((size_t)(c->points * c->given_length) * sizeof *given);
    for (int64_t i = 0; i < c->points * c->given_length; i++) {
        const uint32_t what = test_below(8);
        given[i] = what == 0            ? UINT32_MAX
                   : what == 1 && i > 0 ? given[i - 1]
                                        : test_below((uint64_t)c->points);
    }
    return given;
}

static void fill_case_run(const fill_case *c, const char *what, const kin_graph_gpu_points *device,
                          const void *points, order_of order)
{
    const uint64_t bytes = (uint64_t)(c->points * c->length) * 8;
    uint64_t *before = test_host_room(bytes);
    memset(before, 0xff, bytes);
    if (c->begun) {
        free(before);
        before = test_make_graph(c->points, c->wanted / 2, (uint64_t)c->points, 1);
        uint64_t *wide = test_host_room(bytes);
        memset(wide, 0xff, bytes);
        for (int64_t p = 0; p < c->points; p++) {
            memcpy(wide + p * c->length, before + p * (c->wanted / 2),
                   (size_t)(c->wanted / 2) * sizeof *wide);
        }
        free(before);
        before = wide;
    }
    uint64_t *want = test_host_room(bytes);
    memcpy(want, before, bytes);
    uint32_t *given = make_given(c);
    kin_graph_gpu_fill job = {.points = *device,
                              .graph = {.points = c->points, .length = c->length},
                              .wanted = c->wanted,
                              .given_length = c->given_length,
                              .seed = kin_random_next(&test_graph_gpu_seed)};
    plain_fill(c, points, order, job.seed, given, want);
    uint32_t *device_given =
        test_device_copy(given, (uint64_t)(c->points * c->given_length) * sizeof *given);
    job.given = c->given_length > 0 ? device_given : NULL;
    for (int run = 0; run < 2; run++) {
        job.graph.words = test_device_copy(before, bytes);
        test_launch(test_graph_gpu_kernels()->fill(test_device->stream, &job), "fill");
        test_compare_words(what, c->points, c->length, want, job.graph.words, bytes);
        kin_gpu_free(test_device, job.graph.words);
    }
    kin_gpu_free(test_device, device_given);
    free(given);
    free(want);
    free(before);
}

/* ---- fill, rounded rows ---------------------------------------------------------------------- */

/* Whole numbers, so that every sum is exact, whatever its order. */
typedef struct rounded_points {
    kin_screen_gpu_type type;
    int32_t row_bytes;
    int8_t *values;
    kin_screen_gpu_facts *facts;
} rounded_points;

static int32_t values_a_row(const rounded_points *r)
{
    return r->type == KIN_SCREEN_GPU_F16 ? r->row_bytes / 2 : r->row_bytes;
}

static uint32_t rounded_order(const void *points, uint32_t i, uint32_t j)
{
    const rounded_points *r = points;
    const int32_t count = values_a_row(r);
    int32_t product = 0;
    for (int32_t c = 0; c < count; c++) {
        product += (int32_t)r->values[(int64_t)i * count + c] * r->values[(int64_t)j * count + c];
    }
    if (r->type == KIN_SCREEN_GPU_S8) {
        return kin_graph_order_of_int(r->facts[i].term.i + r->facts[j].term.i - 2 * product);
    }
    return kin_graph_order_of_float(r->facts[i].term.f + r->facts[j].term.f -
                                    2.0F * (float)product + 0.0F);
}

static uint16_t half_of(int32_t value)
{
    const uint32_t size = (uint32_t)abs(value);
    uint32_t exponent = 0;
    while (size >> (exponent + 1) != 0) {
        exponent++;
    }
    const uint32_t bits = size == 0 ? 0 : (15 + exponent) << 10 | (size << (10 - exponent) & 1023u);
    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0));
}

static void rounded_case(const fill_case *c, kin_screen_gpu_type type, int32_t row_bytes)
{
    rounded_points r = {.type = type, .row_bytes = row_bytes};
    const int64_t count = c->points * values_a_row(&r);
    const uint64_t bytes = (uint64_t)(c->points * row_bytes);
    r.values = test_host_room((size_t)count);
    r.facts = test_host_room((size_t)c->points * sizeof *r.facts);
    unsigned char *rows = test_host_room(bytes);
    for (int64_t i = 0; i < count; i++) {
        r.values[i] = (int8_t)((int32_t)test_below(type == KIN_SCREEN_GPU_S8 ? 256 : 31) -
                               (type == KIN_SCREEN_GPU_S8 ? 128 : 15));
        const uint16_t half = half_of(r.values[i]);
        memcpy(rows + i * (type == KIN_SCREEN_GPU_S8 ? 1 : 2),
               type == KIN_SCREEN_GPU_S8 ? (const void *)&r.values[i] : (const void *)&half,
               type == KIN_SCREEN_GPU_S8 ? 1 : 2);
    }
    for (int64_t p = 0; p < c->points; p++) {
        const int32_t term = (int32_t)test_below(30000) - 5000;
        r.facts[p].term = type == KIN_SCREEN_GPU_S8 ? (kin_screen_gpu_word){.i = term}
                                                    : (kin_screen_gpu_word){.f = (float)term};
    }
    const kin_graph_gpu_points device = {
        .set = {.frame = {.type = type, .row_bytes = row_bytes},
                .points = c->points,
                .rounded = test_device_copy(rows, bytes),
                .facts = test_device_copy(r.facts, (uint64_t)c->points * sizeof *r.facts)}};
    fill_case_run(c, type == KIN_SCREEN_GPU_S8 ? "fill, bytes" : "fill, halves", &device, &r,
                  rounded_order);
    kin_gpu_free(test_device, (void *)(uintptr_t)device.set.facts);
    kin_gpu_free(test_device, (void *)(uintptr_t)device.set.rounded);
    free(rows);
    free(r.facts);
    free(r.values);
}

static void test_fill_rounded(void **state)
{
    (void)state;
    test_wrong = 0;
    for (int i = 0; i < CASES; i++) {
        rounded_case(&cases[i], KIN_SCREEN_GPU_F16, 128 * (1 + i % 3));
        rounded_case(&cases[i], KIN_SCREEN_GPU_S8, 128 * (1 + (i + 1) % 3));
    }
    printf(
        "fill, rounded rows: %d shapes, halves and bytes, lists empty and begun, given positions "
        "and drawn ones: %d differences\n",
        2 * CASES, test_wrong);
    assert_int_equal(test_wrong, 0);
}

/* ---- fill and keys, rows as given ------------------------------------------------------------ */

static const kith_metric metrics[] = {
    KITH_EUCLIDEAN, KITH_SQEUCLIDEAN, KITH_INNER_PRODUCT, KITH_COSINE, KITH_CORRELATION,
    KITH_KL,        KITH_MANHATTAN,   KITH_CHEBYSHEV,     KITH_CHI2,   KITH_HAMMING,
    KITH_JACCARD,   TEST_MINKOWSKI_3, TEST_MINKOWSKI_2_5,
};
enum { METRICS = sizeof metrics / sizeof metrics[0], POINTS = 70 };

/* Positions are rows in reverse. */
typedef struct given_points {
    test_device_rows rows;
    double keys[POINTS * POINTS];
} given_points;

static uint32_t key_order(const void *points, uint32_t i, uint32_t j)
{
    const given_points *g = points;
    const uint32_t last = POINTS - 1;
    return kin_graph_order_of_float((float)g->keys[(last - i) * POINTS + (last - j)] + 0.0F);
}

static void make_points(given_points *g, kith_metric metric, kith_dtype dtype, int32_t cols)
{
    g->rows = (test_device_rows){.rows = test_rows_make(dtype, POINTS, cols, cols % 3)};
    test_rows_fill(&g->rows.rows, 20, kin_metric_get_traits(metric)->nonnegative,
                   &test_graph_gpu_seed);
    for (int32_t col = 0; col < cols; col++) {
        test_rows_set(&g->rows.rows, 3, col, 0);
    }
    test_rows_copy(&g->rows.rows, 8, &g->rows.rows, 9);
    test_device_rows_finish(&g->rows, metric);
    const kin_distance distance = {.metric = metric, .cols = cols, .isa = test_device_ctx->isa};
    double *values = aligned_alloc(64, ((size_t)cols * sizeof(double) + 63) / 64 * 64);
    assert_non_null(values);
    for (int64_t i = 0; i < POINTS; i++) {
        const kin_query query = kin_metric_load(&distance, &g->rows.on_host, i, values);
        kin_metric_keys_run(&distance, &query, &g->rows.on_host, 0, POINTS, g->keys + i * POINTS);
    }
    free(values);
}

static void keys_case(const given_points *g, const uint32_t *ids, int32_t length)
{
    enum { CONTROLS = 23 };
    uint32_t controls[CONTROLS];
    double keys[CONTROLS * 64];
    uint32_t entries[CONTROLS * 64];
    uint64_t *words = test_make_graph(POINTS, length, POINTS, 0);
    for (int i = 0; i < CONTROLS; i++) {
        controls[i] = test_below(POINTS);
        for (int32_t j = 0; j < length; j++) {
            const uint64_t word = words[(int64_t)controls[i] * length + j];
            const uint32_t row = POINTS - 1 - kin_graph_position(word);
            const bool empty = word == KIN_GRAPH_EMPTY;
            entries[i * length + j] = empty ? KITH_ID_NONE : row;
            keys[i * length + j] =
                empty ? INFINITY : g->keys[(POINTS - 1 - controls[i]) * POINTS + row];
        }
    }
    const uint64_t count = (uint64_t)(CONTROLS * length);
    const kin_graph_gpu_keys job = {
        .rows = g->rows.on_device,
        .ids = ids,
        .graph = {.points = POINTS,
                  .length = length,
                  .words = test_device_copy(words, (uint64_t)(POINTS * length) * 8)},
        .controls = test_device_copy(controls, sizeof controls),
        .control_count = CONTROLS,
        .keys = test_device_room(count * sizeof *keys),
        .entries = test_device_room(count * sizeof *entries)};
    test_launch(test_graph_gpu_kernels()->keys(test_device->stream, &job), "keys");
    test_compare_words("keys", POINTS, length, keys, job.keys, count * sizeof *keys);
    test_compare_words("keys: entries", POINTS, length, entries, job.entries,
                       count * sizeof *entries);
    kin_gpu_free(test_device, job.entries);
    kin_gpu_free(test_device, job.keys);
    kin_gpu_free(test_device, (void *)(uintptr_t)job.controls);
    kin_gpu_free(test_device, job.graph.words);
    free(words);
}

static void test_fill_given(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = {KITH_F32, KITH_F64, KITH_F16, KITH_BF16, KITH_U8, KITH_I8};
    enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };
    static const int32_t widths[] = {1, 7, 8, 33, 64, 200};
    enum { WIDTHS = sizeof widths / sizeof widths[0] };
    given_points *g = test_host_room(sizeof *g);
    uint32_t reversed[POINTS];
    for (uint32_t i = 0; i < POINTS; i++) {
        reversed[i] = POINTS - 1 - i;
    }
    uint32_t *ids = test_device_copy(reversed, sizeof reversed);
    test_wrong = 0;
    for (int m = 0; m < METRICS; m++) {
        for (int d = 0; d < DTYPES; d++) {
            const bool nonnegative = kin_metric_get_traits(metrics[m])->nonnegative;
            make_points(g, metrics[m], dtypes[d], widths[(m + d) % WIDTHS]);
            const kin_graph_gpu_points device = {.set = {.points = POINTS, .ids = ids},
                                                 .rows = g->rows.on_device};
            const fill_case c = {POINTS, 32, 32, nonnegative ? 10 : 0, m % 2 == 0};
            fill_case_run(&c, kith_metric_name(metrics[m]), &device, g, key_order);
            keys_case(g, ids, 8 * (1 + (m + d) % 8));
            test_device_rows_free(&g->rows);
        }
    }
    printf("fill and keys, rows as given: %d metrics, %d types: %d differences\n", METRICS, DTYPES,
           test_wrong);
    kin_gpu_free(test_device, ids);
    free(g);
    assert_int_equal(test_wrong, 0);
}

/* ---- halve and cross ------------------------------------------------------------------------- */

typedef struct halves_case {
    int64_t points;
    int32_t length;
    int32_t entries; /* of most lists */
    int64_t split;
} halves_case;

/* The list of point p, of p % 5 entries less; then cut, its other half in blocks. */
static void cut_plainly(const halves_case *c, uint64_t *words, int32_t blocks, uint64_t *aside)
{
    for (int64_t p = 0; p < c->points; p++) {
        uint64_t *list = words + p * c->length;
        int32_t count = 0;
        while (count < c->length && list[count] != KIN_GRAPH_EMPTY) {
            count++;
        }
        for (int32_t i = 0; i < blocks * KIN_GRAPH_GPU_SLOTS; i++) {
            const int32_t from = (count + 1) / 2 + i;
            aside[(i / KIN_GRAPH_GPU_SLOTS * c->points + p) * KIN_GRAPH_GPU_SLOTS +
                  i % KIN_GRAPH_GPU_SLOTS] = from < count ? list[from] : KIN_GRAPH_EMPTY;
        }
        for (int32_t i = (count + 1) / 2; i < count; i++) {
            list[i] = KIN_GRAPH_EMPTY;
        }
    }
}

/* Rows stand in reverse, every ninth nowhere. */
static uint32_t place_of(const halves_case *c, int64_t row)
{
    return row % 9 == 4 ? UINT32_MAX : (uint32_t)(c->points - 1 - row);
}

static void cross_plainly(const halves_case *c, const uint64_t *words, uint64_t seed,
                          uint32_t *given)
{
    for (int64_t p = 0; p < c->points; p++) {
        const int64_t row = c->points - 1 - p;
        const int64_t first = row < c->split ? c->split : 0;
        const int64_t others = row < c->split ? c->points - c->split : c->split;
        int32_t wanted = 0;
        for (int32_t i = 0; i < c->length; i++) {
            wanted += words[p * c->length + i] == KIN_GRAPH_EMPTY;
        }
        for (int32_t place = 0; place < c->length; place++) {
            int64_t other = others <= wanted ? place : -1;
            if (other < 0) {
                const uint64_t salt = kin_graph_mix(seed + (uint64_t)place);
                other = kin_graph_slot(kin_graph_hash(salt, (uint32_t)p), (uint32_t)others);
            }
            given[p * c->length + place] =
                place < wanted && other < others ? place_of(c, first + other) : UINT32_MAX;
        }
    }
}

static void halves_case_run(const halves_case *c)
{
    const size_t cells = (size_t)(c->points * c->length);
    const int32_t blocks = (c->length / 2 + KIN_GRAPH_GPU_SLOTS - 1) / KIN_GRAPH_GPU_SLOTS;
    const uint64_t aside_bytes = (uint64_t)blocks * (uint64_t)c->points * KIN_GRAPH_GPU_SLOTS * 8;
    uint64_t *words = test_host_room(cells * 8);
    uint64_t *aside = test_host_room(aside_bytes);
    uint32_t *given = test_host_room(cells * 4);
    uint32_t *ids = test_host_room((size_t)c->points * 4);
    uint32_t *places = test_host_room((size_t)c->points * 4);
    memset(words, 0xff, cells * 8);
    for (int64_t p = 0; p < c->points; p++) {
        ids[p] = (uint32_t)(c->points - 1 - p);
        places[p] = place_of(c, p);
        for (int32_t i = 0; i < c->entries - (int32_t)(p % 5); i++) {
            words[p * c->length + i] = kin_graph_word((uint32_t)i, (uint32_t)i, i % 2 == 0);
        }
    }
    kin_graph_gpu_lists graph = {
        .points = c->points, .length = c->length, .words = test_device_copy(words, cells * 8)};
    const kin_graph_gpu_halve halve = {graph, test_device_room(aside_bytes), blocks};
    const kin_graph_gpu_cross cross = {.graph = graph,
                                       .ids = test_device_copy(ids, (uint64_t)c->points * 4),
                                       .places = test_device_copy(places, (uint64_t)c->points * 4),
                                       .sets = {c->split, c->points},
                                       .seed = 77,
                                       .given = test_device_room(cells * 4)};
    cut_plainly(c, words, blocks, aside);
    cross_plainly(c, words, cross.seed, given);
    test_launch(test_graph_gpu_kernels()->halve(test_device->stream, &halve), "halve");
    test_launch(test_graph_gpu_kernels()->cross(test_device->stream, &cross), "cross");
    test_compare_words("halve", c->points, c->length, words, graph.words, cells * 8);
    test_compare_words("halve: aside", c->points, c->length, aside, halve.aside, aside_bytes);
    test_compare_words("cross", c->points, c->length, given, cross.given, cells * 4);
    kin_gpu_free(test_device, cross.given);
    kin_gpu_free(test_device, (void *)(uintptr_t)cross.places);
    kin_gpu_free(test_device, (void *)(uintptr_t)cross.ids);
    kin_gpu_free(test_device, halve.aside);
    kin_gpu_free(test_device, graph.words);
    free(places);
    free(ids);
    free(given);
    free(aside);
    free(words);
}

static void test_halves(void **state)
{
    (void)state;
    static const halves_case all[] = {{50, 8, 8, 20},      {300, 32, 10, 5},   {301, 32, 32, 120},
                                      {700, 72, 60, 699},  {400, 136, 136, 1}, {90, 1088, 1088, 40},
                                      {9000, 32, 12, 4000}};
    test_wrong = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        halves_case_run(&all[i]);
    }
    printf("halves put aside, points of the other set drawn: %d differences\n", test_wrong);
    assert_int_equal(test_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fill_rounded),
                                       cmocka_unit_test(test_fill_given),
                                       cmocka_unit_test(test_halves)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
