/* SPDX-License-Identifier: Apache-2.0
 * Candidate lists on a device against plain C: thresholds from cost matrices (kth), candidates from
 * them (gather), compaction (tighten). Costs are random, tied, or padding; counts go beyond
 * capacities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "base/base_size.h"
#include "select/select_word.h"
#include "support/support_gpu.h"
#include "support/support_rows.h"
#include "support/support_screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, COLS_POINTS = 1500 };

static const kin_bound_kind kinds[] = {KIN_BOUND_INTEGER, KIN_BOUND_DISTANCE, KIN_BOUND_PRODUCT};
static const char *const kind_names[] = {"integer", "distance", "product"};

/* ---- What all tests share -------------------------------------------------------------------- */

/* A set of which only facts are read, on both sides. */
typedef struct test_facts {
    kin_screen_gpu_set host;
    kin_screen_gpu_set device;
    kin_screen_gpu_facts *facts;
} test_facts;

static test_facts make_facts(test_bench *b, kin_bound_kind kind, int64_t points)
{
    const int64_t padded = kin_round_up(points, KIN_SCREEN_GPU_BLOCK);
    test_facts t = {.facts = test_host_block((uint64_t)padded, sizeof *t.facts)};
    t.host =
        (kin_screen_gpu_set){.frame = test_screen_frame(kind), .points = points, .padded = padded};
    for (int64_t p = 0; p < points && kind != KIN_BOUND_INTEGER; p++) {
        t.facts[p].norm = (float)(50.0 + 50.0 * test_uniform(&b->seed));
        t.facts[p].lost = (float)(0.05 * test_uniform(&b->seed));
        t.host.worst.norm = fmax(t.host.worst.norm, (double)t.facts[p].norm);
        t.host.worst.lost = fmax(t.host.worst.lost, (double)t.facts[p].lost);
    }
    t.host.facts = t.facts;
    t.device = t.host;
    t.device.facts = test_bench_copy(b, t.facts, (uint64_t)padded * sizeof *t.facts);
    return t;
}

static kin_bound_row row_of(const test_facts *t, int64_t p)
{
    return (kin_bound_row){(double)t->facts[p].norm, (double)t->facts[p].lost};
}

/* Orders of costs; few different ones where they are to be tied. */
static uint32_t random_order(test_bench *b, kin_bound_kind kind, bool tied)
{
    const double x =
        tied ? floor(20.0 * test_uniform(&b->seed)) * 200.0 : 4000.0 * test_uniform(&b->seed);
    kin_screen_gpu_word w;
    if (kind == KIN_BOUND_INTEGER) {
        w.i = (int32_t)x;
        return w.u ^ 0x80000000u;
    }
    w.f = (float)(kind == KIN_BOUND_PRODUCT ? x - 2000.0 : x);
    return (w.u >> 31) != 0 ? ~w.u : w.u | 0x80000000u;
}

static double limit_of(const test_facts *rows, const test_facts *cols, int64_t row, int64_t col,
                       double reach)
{
    const kin_screen_gpu_frame *f = &rows->host.frame;
    return kin_bound_limit(f->bound, reach, f->kappa, row_of(rows, row), row_of(cols, col));
}

static double proven_by(const test_facts *rows, int64_t row, kin_bound_row col, uint32_t order)
{
    const kin_screen_gpu_frame *f = &rows->host.frame;
    return kin_bound_reach_of_cost(f->bound, test_cost_of_order(f->type, order), f->kappa, f->scale,
                                   row_of(rows, row), col);
}

static int by_order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* ---- tighten -------------------------------------------------------------------------------- */

typedef struct list_case {
    int32_t k;
    int32_t capacity;
    bool tied;
} list_case;

/* Lists on both sides. Entries of a list are different columns. */
typedef struct test_lists {
    kin_screen_gpu_lists host;
    kin_screen_gpu_lists device;
} test_lists;

static test_lists make_lists(test_bench *b, kin_bound_kind kind, const list_case *c, int64_t cols)
{
    const int64_t rows = kin_round_up(ROWS, KIN_SCREEN_GPU_BLOCK);
    test_lists t = {.host = {.rows = rows, .k = c->k, .capacity = c->capacity}};
    kin_screen_gpu_lists *l = &t.host;
    const uint64_t words = (uint64_t)(rows * c->capacity);
    l->words = test_host_block(words, sizeof *l->words);
    l->counts = test_host_block((uint64_t)rows, sizeof *l->counts);
    l->reach = test_host_block((uint64_t)rows, sizeof *l->reach);
    l->lost = test_host_block((uint64_t)rows, 1);
    for (int64_t row = 0; row < ROWS; row++) {
        const uint64_t most = (uint64_t)c->capacity + 9;
        l->counts[row] = (int32_t)(row % 5 == 0 ? most : kin_random_below(&b->seed, most));
        l->reach[row] = row % 7 == 0 ? 30.0 : INFINITY;
        const int64_t first = (int64_t)kin_random_below(&b->seed, (uint64_t)cols);
        for (int32_t i = 0; i < c->capacity; i++) {
            l->words[row * c->capacity + i] = (uint64_t)random_order(b, kind, c->tied) << 32 |
                                              (uint64_t)((first + 7 * (int64_t)i) % cols);
        }
    }
    t.device = *l;
    t.device.words = test_bench_copy(b, l->words, words * sizeof *l->words);
    t.device.counts = test_bench_copy(b, l->counts, (uint64_t)rows * sizeof *l->counts);
    t.device.reach = test_bench_copy(b, l->reach, (uint64_t)rows * sizeof *l->reach);
    t.device.lost = test_bench_copy(b, l->lost, (uint64_t)rows);
    return t;
}

static void free_lists(test_lists *t)
{
    free(t->host.words);
    free(t->host.counts);
    free(t->host.reach);
    free(t->host.lost);
}

/* What the contract says, of one row: its list is left sorted. */
static void plain_tighten(const test_facts *rows, const test_facts *cols, kin_screen_gpu_lists *l,
                          int64_t row)
{
    uint64_t *list = l->words + row * l->capacity;
    const int32_t count = l->counts[row] < l->capacity ? l->counts[row] : l->capacity;
    l->lost[row] = l->counts[row] > l->capacity ? 1 : l->lost[row];
    l->counts[row] = count;
    kin_select_sort_words(list, count);
    if (count < l->k) {
        return;
    }
    const uint32_t kth = (uint32_t)(list[l->k - 1] >> 32);
    double reach = -INFINITY;
    for (int32_t i = 0; i < count && (uint32_t)(list[i] >> 32) <= kth; i++) {
        reach = fmax(reach, proven_by(rows, row, row_of(cols, (uint32_t)list[i]),
                                      (uint32_t)(list[i] >> 32)));
    }
    l->reach[row] = fmin(reach, l->reach[row]);
    l->counts[row] = 0;
    for (int32_t i = 0; i < count; i++) {
        const double cost = test_cost_of_order(rows->host.frame.type, (uint32_t)(list[i] >> 32));
        if (!(cost > limit_of(rows, cols, row, (uint32_t)list[i], l->reach[row]))) {
            list[l->counts[row]++] = list[i];
        }
    }
}

static void compare_lists(test_bench *b, const char *kind, const test_lists *t)
{
    const kin_screen_gpu_lists *l = &t->host;
    const uint64_t rows = (uint64_t)l->rows;
    uint64_t *words = test_host_copy(b, t->device.words, rows * (uint64_t)l->capacity * 8);
    int32_t *counts = test_host_copy(b, t->device.counts, rows * sizeof *counts);
    double *reach = test_host_copy(b, t->device.reach, rows * sizeof *reach);
    uint8_t *lost = test_host_copy(b, t->device.lost, rows);
    for (int64_t row = 0; row < ROWS; row++) {
        uint64_t *list = words + row * l->capacity;
        if (reach[row] != l->reach[row]) {
            test_bench_tell(b, "reach", kind, l->k, row, l->reach[row], reach[row]);
        }
        if (lost[row] != l->lost[row]) {
            test_bench_tell(b, "lost", kind, l->k, row, l->lost[row], lost[row]);
        }
        if (counts[row] != l->counts[row]) {
            test_bench_tell(b, "count", kind, l->k, row, l->counts[row], counts[row]);
            continue;
        }
        kin_select_sort_words(list, counts[row]);
        for (int32_t i = 0; i < counts[row]; i++) {
            if (list[i] != l->words[row * l->capacity + i]) {
                test_bench_tell(b, "entry", kind, l->k, row,
                                (double)l->words[row * l->capacity + i], (double)list[i]);
                break;
            }
        }
    }
    free(lost);
    free(reach);
    free(counts);
    free(words);
}

/* Norms, losses and reaches of tiles, rounded up by no more than a float's step. */
static void compare_worst(test_bench *b, const char *kind, const test_facts *rows,
                          const test_lists *t, const kin_screen_gpu_worst *worst)
{
    const bool distance = rows->host.frame.bound == KIN_BOUND_DISTANCE;
    for (int64_t tile = 0; tile < rows->host.padded / KIN_SCREEN_GPU_TILE; tile++) {
        double norm = 0.0;
        double far = -INFINITY;
        for (int64_t p = tile * KIN_SCREEN_GPU_TILE;
             p < kin_min_i64((tile + 1) * KIN_SCREEN_GPU_TILE, rows->host.points); p++) {
            norm = fmax(norm, (double)rows->facts[p].norm);
            far = fmax(far, t->host.reach[p] + (distance ? (double)rows->facts[p].lost : 0.0));
        }
        if ((double)worst[tile].norm != norm) {
            test_bench_tell(b, "worst norm", kind, t->host.k, tile, norm, (double)worst[tile].norm);
        }
        const double got = (double)worst[tile].far;
        if (got < far || got > (double)nextafterf(test_float_above(far), INFINITY)) {
            test_bench_tell(b, "worst reach", kind, t->host.k, tile, far, got);
        }
        if (rows->host.frame.bound == KIN_BOUND_INTEGER && far < 1e9 && far >= 0.0 &&
            (double)worst[tile].integer != far) {
            test_bench_tell(b, "integer reach", kind, t->host.k, tile, far,
                            (double)worst[tile].integer);
        }
    }
}

static bool is_same_gate(kin_bound_kind kind, kin_screen_gpu_word a, kin_screen_gpu_word b)
{
    return kind == KIN_BOUND_INTEGER ? a.i == b.i : a.f == b.f;
}

/* A gate is the largest of its positions' own. */
static void compare_gates(test_bench *b, kin_bound_kind kind, const kin_screen_gpu_worst *worst,
                          const kin_screen_gpu_word *gates, int64_t padded)
{
    for (int64_t i = 0; i < padded / KIN_SCREEN_GPU_GATE; i++) {
        const int64_t among = i / 4 * KIN_SCREEN_GPU_QUAD;
        const int32_t number = (int32_t)(i % 4) * KIN_SCREEN_GPU_GATE;
        kin_screen_gpu_word most = gates[among + kin_screen_gpu_gate_place(number)];
        for (int32_t n = number + 1; n < number + KIN_SCREEN_GPU_GATE; n++) {
            const kin_screen_gpu_word own = gates[among + kin_screen_gpu_gate_place(n)];
            if (kind == KIN_BOUND_INTEGER) {
                most.i = most.i > own.i ? most.i : own.i;
            } else {
                most.f = fmaxf(most.f, own.f);
            }
        }
        const int64_t tile = among / KIN_SCREEN_GPU_TILE;
        const int32_t first =
            (int32_t)(among % KIN_SCREEN_GPU_TILE) + kin_screen_gpu_gate_place(number);
        const kin_screen_gpu_word together = worst[tile].gate[kin_screen_gpu_gate_of(first)];
        if (!is_same_gate(kind, most, together)) {
            test_bench_tell(b, "gates", kind_names[kind], 0, tile, (double)most.f,
                            (double)together.f);
        }
    }
}

static void tighten_case(test_bench *b, kin_bound_kind kind, const list_case *c)
{
    const int held = b->block_count;
    const int64_t columns = kin_max_i64(COLS_POINTS, 7 * (int64_t)c->capacity + 11);
    test_facts rows = make_facts(b, kind, ROWS);
    test_facts cols = make_facts(b, kind, columns);
    test_lists t = make_lists(b, kind, c, columns);
    const uint64_t tiles = (uint64_t)(rows.host.padded / KIN_SCREEN_GPU_TILE);
    kin_screen_gpu_worst *worst = test_bench_block(b, tiles * sizeof *worst, 0xa5);
    const uint64_t gate_bytes = (uint64_t)rows.host.padded * sizeof(kin_screen_gpu_word);
    kin_screen_gpu_word *gates = test_bench_block(b, gate_bytes, 0xa5);
    uint64_t *kept = test_bench_block(b, sizeof *kept, 0);
    const kin_screen_gpu_tighten job = {.set = rows.device,
                                        .cols_set = cols.device,
                                        .lists = t.device,
                                        .worst = worst,
                                        .gates = gates,
                                        .kept = kept};
    test_bench_launched(b, b->gpu->module->screen->tighten(b->gpu->stream, &job), "tighten");
    uint64_t total = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        plain_tighten(&rows, &cols, &t.host, row);
        total += (uint64_t)t.host.counts[row];
    }
    compare_lists(b, kind_names[kind], &t);
    kin_screen_gpu_worst *host_worst = test_host_copy(b, worst, tiles * sizeof *worst);
    compare_worst(b, kind_names[kind], &rows, &t, host_worst);
    kin_screen_gpu_word *host_gates = test_host_copy(b, gates, gate_bytes);
    compare_gates(b, kind, host_worst, host_gates, rows.host.padded);
    free(host_gates);
    uint64_t *host_kept = test_host_copy(b, kept, sizeof *kept);
    if (*host_kept != total) {
        test_bench_tell(b, "entries left", kind_names[kind], c->k, 0, (double)total,
                        (double)*host_kept);
    }
    free(host_kept);
    free(host_worst);
    free_lists(&t);
    free(cols.facts);
    free(rows.facts);
    test_give_back(b, held);
}

static void test_tighten(void **state)
{
    test_bench *b = *state;
    static const list_case cases[] = {
        {1, 8, false},      {1, 68, true},      {11, 31, false},     {11, 112, true},
        {33, 200, false},   {60, 256, true},    {11, 257, false},    {101, 472, true},
        {300, 1264, false}, {2049, 8264, true}, {2049, 8264, false},
    };
    b->wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t kind = 0; kind < 3; kind++) {
            tighten_case(b, kinds[kind], &cases[i]);
        }
    }
    printf("tighten: %zu shapes of lists, costs random and tied, counts beyond capacity: %lld "
           "differences\n",
           3 * sizeof cases / sizeof cases[0], (long long)b->wrong);
    assert_int_equal(b->wrong, 0);
}

/* ---- kth and gather ------------------------------------------------------------------------- */

typedef struct matrix_case {
    int64_t rows;
    int64_t points; /* of the columns */
    int32_t k;
    bool tied;
    bool minima;
} matrix_case;

typedef struct test_matrix {
    uint32_t *words;
    uint32_t *minima;
    uint32_t *device_words;
    uint32_t *device_minima;
    uint32_t *tiles; /* host: where a tile of the matrix stands in the columns */
    uint32_t *device_tiles;
    int64_t pitch;
    int64_t tile_count;
} test_matrix;

static test_matrix make_matrix(test_bench *b, kin_bound_kind kind, const matrix_case *c)
{
    test_matrix m = {.tile_count = kin_ceil_div(c->points, KIN_SCREEN_GPU_TILE)};
    m.pitch = m.tile_count * KIN_SCREEN_GPU_TILE;
    const uint64_t words = (uint64_t)(c->rows * m.pitch);
    m.words = test_host_block(words, sizeof *m.words);
    m.minima = test_host_block(words / KIN_SCREEN_GPU_TILE, sizeof *m.minima);
    m.tiles = test_host_block((uint64_t)m.tile_count, sizeof *m.tiles);
    for (int64_t t = 0; t < m.tile_count; t++) {
        m.tiles[t] = (uint32_t)(m.tile_count - 1 - t);
    }
    for (uint64_t i = 0; i < words; i++) {
        const int64_t place = (int64_t)i % m.pitch;
        const int64_t col = (int64_t)m.tiles[place / KIN_SCREEN_GPU_TILE] * KIN_SCREEN_GPU_TILE +
                            place % KIN_SCREEN_GPU_TILE;
        m.words[i] = col < c->points ? random_order(b, kind, c->tied) : UINT32_MAX;
        uint32_t *least = &m.minima[i / KIN_SCREEN_GPU_TILE];
        *least = place % KIN_SCREEN_GPU_TILE == 0 || m.words[i] < *least ? m.words[i] : *least;
    }
    m.device_words = test_bench_copy(b, m.words, words * sizeof *m.words);
    m.device_minima = test_bench_copy(b, m.minima, words / KIN_SCREEN_GPU_TILE * sizeof *m.minima);
    m.device_tiles = test_bench_copy(b, m.tiles, (uint64_t)m.tile_count * sizeof *m.tiles);
    return m;
}

static void free_matrix(test_matrix *m)
{
    free(m->words);
    free(m->minima);
    free(m->tiles);
}

/* The reach must be proven by k columns, and be that of hardly more of what kth reads: costs, or
 * minima where they hold k. */
static void check_reach(test_bench *b, const matrix_case *c, const test_facts *rows,
                        const test_facts *cols, const test_matrix *m, int64_t row, double got)
{
    const bool by_minima = c->minima && m->tile_count >= c->k;
    const int64_t count = by_minima ? m->tile_count : m->pitch;
    const uint32_t *from = by_minima ? m->minima + row * m->tile_count : m->words + row * m->pitch;
    const char *kind = kind_names[rows->host.frame.bound];
    uint32_t *sorted = test_host_block((uint64_t)count, sizeof *sorted);
    memcpy(sorted, from, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_order);
    const bool enough = count >= c->k && sorted[c->k - 1] != UINT32_MAX;
    if (!enough) {
        if (got != INFINITY) {
            test_bench_tell(b, "reach of too few", kind, c->k, row, INFINITY, got);
        }
    } else {
        const double least = proven_by(rows, row, cols->host.worst, sorted[c->k - 1]);
        int64_t loose = kin_min_i64(2 * (int64_t)c->k + 30, count);
        while (sorted[loose - 1] == UINT32_MAX) {
            loose -= 1;
        }
        const double most = proven_by(rows, row, cols->host.worst, sorted[loose - 1]);
        if (got < least) {
            test_bench_tell(b, "reach that is not proven", kind, c->k, row, least, got);
        } else if (got > most) {
            test_bench_tell(b, "loose reach", kind, c->k, row, most, got);
        }
    }
    free(sorted);
}

/* Exactly the columns within their limits, as far as there is room. */
static void check_gathered(test_bench *b, const matrix_case *c, const test_facts *rows,
                           const test_facts *cols, const test_matrix *m, int64_t row, double reach,
                           uint64_t *list, int32_t count, int32_t capacity)
{
    const kin_screen_gpu_type type = rows->host.frame.type;
    const char *kind = kind_names[rows->host.frame.bound];
    uint64_t *want = test_host_block((uint64_t)m->pitch, sizeof *want);
    int32_t wanted = 0;
    for (int64_t place = 0; place < m->pitch; place++) {
        const uint32_t order = m->words[row * m->pitch + place];
        const int64_t col = (int64_t)m->tiles[place / KIN_SCREEN_GPU_TILE] * KIN_SCREEN_GPU_TILE +
                            place % KIN_SCREEN_GPU_TILE;
        if (order != UINT32_MAX &&
            !(test_cost_of_order(type, order) > limit_of(rows, cols, row, col, reach))) {
            want[wanted++] = (uint64_t)order << 32 | (uint64_t)col;
        }
    }
    if (count != wanted) {
        test_bench_tell(b, "candidates", kind, c->k, row, wanted, count);
    } else if (count <= capacity) {
        kin_select_sort_words(want, wanted);
        kin_select_sort_words(list, count);
        for (int32_t i = 0; i < count; i++) {
            if (list[i] != want[i]) {
                test_bench_tell(b, "candidate", kind, c->k, row, (double)want[i], (double)list[i]);
                break;
            }
        }
    }
    free(want);
}

/* What kth, gather and tighten leave is there, and nothing that they did not gather. */
static void check_collected(test_bench *b, const matrix_case *c,
                            const kin_screen_gpu_gather *gather, const test_facts *rows,
                            const test_facts *cols)
{
    enum { GATHERED, TIGHTENED, COLLECTED, WAYS };
    const kin_screen_gpu_lists *lists = &gather->lists;
    const uint64_t n = (uint64_t)lists->rows;
    const uint64_t words = n * (uint64_t)lists->capacity * sizeof(uint64_t);
    const char *kind = kind_names[rows->host.frame.bound];
    const kin_screen_gpu_tighten tighten = {
        .set = rows->device, .cols_set = cols->device, .lists = *lists};
    kin_screen_gpu_collect collect = *gather;
    collect.lists.words = test_bench_block(b, words, 0xff);
    collect.lists.counts = test_bench_block(b, n * sizeof(int32_t), 0x11);
    collect.lists.reach = test_bench_block(b, n * sizeof(double), 0x11);
    collect.lists.lost = test_bench_block(b, n, 0x11);
    collect.told = test_bench_block(b, n * sizeof *collect.told, 0x11);
    uint64_t *held[WAYS];
    int32_t *counts[WAYS];
    for (int way = 0; way < WAYS; way++) {
        const kin_screen_gpu_lists *from = way == COLLECTED ? &collect.lists : lists;
        if (way == TIGHTENED) {
            test_bench_launched(b, b->gpu->module->screen->tighten(b->gpu->stream, &tighten),
                                "tighten");
        } else if (way == COLLECTED) {
            test_bench_launched(b, b->gpu->module->screen->collect(b->gpu->stream, &collect),
                                "collect");
        }
        held[way] = test_host_copy(b, from->words, words);
        counts[way] = test_host_copy(b, from->counts, n * sizeof(int32_t));
    }
    uint8_t *lost = test_host_copy(b, collect.lists.lost, n);
    int32_t *told = test_host_copy(b, collect.told, n * sizeof *told);
    for (int64_t row = 0; row < c->rows; row++) {
        const int32_t expected = lost[row] == 1 ? -1 : counts[COLLECTED][row];
        if (told[row] != expected) {
            test_bench_tell(b, "collected, told", kind, c->k, row, expected, told[row]);
        }
        if (lost[row] > 1 || (lost[row] == 1 && counts[GATHERED][row] <= lists->capacity)) {
            test_bench_tell(b, "collected, lost", kind, c->k, row, 0, lost[row]);
            continue;
        }
        if (counts[GATHERED][row] > lists->capacity || lost[row] == 1) {
            continue;
        }
        for (int way = 0; way < WAYS; way++) {
            kin_select_sort_words(held[way] + row * lists->capacity, counts[way][row]);
        }
        const uint64_t *least = held[TIGHTENED] + row * lists->capacity;
        const uint64_t *most = held[GATHERED] + row * lists->capacity;
        const uint64_t *own = held[COLLECTED] + row * lists->capacity;
        int32_t found = 0;
        int32_t allowed = 0;
        for (int32_t i = 0, l = 0, m = 0; i < counts[COLLECTED][row]; i++) {
            while (m < counts[GATHERED][row] && most[m] < own[i]) {
                m++;
            }
            allowed += m < counts[GATHERED][row] && most[m] == own[i] ? 1 : 0;
            found += l < counts[TIGHTENED][row] && least[l] == own[i] ? 1 : 0;
            l += l < counts[TIGHTENED][row] && least[l] == own[i] ? 1 : 0;
        }
        if (found != counts[TIGHTENED][row] || allowed != counts[COLLECTED][row]) {
            test_bench_tell(b, "collected", kind, c->k, row, counts[TIGHTENED][row], found);
        }
    }
    for (int way = 0; way < WAYS; way++) {
        free(held[way]);
        free(counts[way]);
    }
    free(told);
    free(lost);
}

static void matrix_case_run(test_bench *b, kin_bound_kind kind, const matrix_case *c)
{
    const int held = b->block_count;
    const int32_t capacity = 4 * c->k + 64;
    test_facts rows = make_facts(b, kind, c->rows);
    test_facts cols = make_facts(b, kind, c->points);
    test_matrix m = make_matrix(b, kind, c);
    const uint64_t n = (uint64_t)rows.host.padded;
    double *reach = test_host_block(n, sizeof *reach);
    for (uint64_t i = 0; i < n; i++) {
        reach[i] = INFINITY;
    }
    const kin_screen_gpu_lists lists = {
        .rows = (int64_t)n,
        .k = c->k,
        .capacity = capacity,
        .words = test_bench_block(b, n * (uint64_t)capacity * sizeof(uint64_t), 0xff),
        .counts = test_bench_block(b, n * sizeof(int32_t), 0),
        .reach = test_bench_copy(b, reach, n * sizeof *reach),
        .lost = test_bench_block(b, n, 0)};
    const kin_screen_gpu_kth kth = {.set = rows.device,
                                    .lists = lists,
                                    .rows = c->rows,
                                    .matrix = m.device_words,
                                    .minima = c->minima ? m.device_minima : NULL,
                                    .pitch = m.pitch,
                                    .count = m.pitch,
                                    .col_worst = cols.host.worst};
    const kin_screen_gpu_gather gather = {.rows_set = rows.device,
                                          .cols_set = cols.device,
                                          .lists = lists,
                                          .rows = c->rows,
                                          .matrix = m.device_words,
                                          .minima = kth.minima,
                                          .pitch = m.pitch,
                                          .count = m.pitch,
                                          .tiles = m.device_tiles};
    test_bench_launched(b, b->gpu->module->screen->kth(b->gpu->stream, &kth), "kth");
    test_bench_launched(b, b->gpu->module->screen->gather(b->gpu->stream, &gather), "gather");
    double *found = test_host_copy(b, lists.reach, n * sizeof *found);
    int32_t *counts = test_host_copy(b, lists.counts, n * sizeof *counts);
    uint64_t *words = test_host_copy(b, lists.words, n * (uint64_t)capacity * sizeof *words);
    for (int64_t row = 0; row < c->rows; row++) {
        check_reach(b, c, &rows, &cols, &m, row, found[row]);
        check_gathered(b, c, &rows, &cols, &m, row, found[row], words + row * capacity, counts[row],
                       capacity);
    }
    if (c->rows <= 64) {
        check_collected(b, c, &gather, &rows, &cols);
    }
    free(words);
    free(counts);
    free(found);
    free(reach);
    free_matrix(&m);
    free(cols.facts);
    free(rows.facts);
    test_give_back(b, held);
}

static void test_matrices(void **state)
{
    test_bench *b = *state;
    static const matrix_case cases[] = {
        {1, 100000, 11, false, true},   {3, 100000, 11, true, true},
        {2, 30000, 400, false, true},   {5, 33000, 2049, false, false},
        {40, 1000, 11, false, false},   {40, 1000, 200, true, false},
        {1500, 1280, 1, false, false},  {1500, 1280, 8, true, false},
        {1500, 1280, 11, false, false}, {1500, 1153, 20, false, true},
        {1500, 1100, 50, true, false},  {1300, 60, 64, false, false},
        {1200, 700, 100, false, false}, {1100, 9000, 11, false, true},
        {7, 5, 8, false, false},
    };
    b->wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t kind = 0; kind < 3; kind++) {
            matrix_case_run(b, kinds[kind], &cases[i]);
        }
    }
    printf(
        "kth, gather and collect: %zu matrices, long and short rows, with minima and without: %lld "
        "differences\n",
        3 * sizeof cases / sizeof cases[0], (long long)b->wrong);
    assert_int_equal(b->wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tighten),
                                       cmocka_unit_test(test_matrices)};
    return test_gpu_is_absent()
               ? TEST_SKIPPED
               : cmocka_run_group_tests(tests, test_bench_setup, test_bench_teardown);
}
