/* SPDX-License-Identifier: Apache-2.0
 * Each tile kernel that this processor runs, against a plain loop: the logs hold exactly the pairs
 * that the contract of screen_tile.h demands. For float types a pair whose cost is within the
 * proven error of its limit may be on either side; nothing else may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base_random.h"
#include "host/host_cpu.h"
#include "screen/screen_set.h"
#include "support/support_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROWS = 3 * KIN_BLOCK_STEP,
    COLS = KIN_BLOCK_STEP,
    PANELS = COLS / KIN_PANEL,
    PADDING = 5,
    LONG_ROWS = 500
};

typedef enum pattern {
    PATTERN_RANDOM = 0,
    PATTERN_SMALL,   /* -1, 0, 1: costs tie */
    PATTERN_EXTREME, /* the largest components of either sign that the ranges allow */
    PATTERN_CANCEL,  /* floats: one product of 1 and many just too small to be seen beside it */
    PATTERN_COUNT
} pattern;

typedef enum limit_plan {
    LIMITS_ALL = 0,
    LIMITS_NONE,
    LIMITS_ROWS, /* at the cost of some pair, rows alone */
    LIMITS_MIXED,
    LIMITS_COUNT
} limit_plan;

/* Kernels of one type, which are run on the same points: an instruction set may have that of a
 * lower one. */
typedef struct kernels {
    const kin_tile_kernel *of[KIN_ISA_COUNT];
    int count;
} kernels;

/* Two sets of points and all that a job says of them. What depends on the kernel stands apart: it
 * is as large as that kernel wants, so that a sanitizer sees what is read beyond. */
typedef struct bench {
    kin_tile_type type;
    bool is_float;
    bool product; /* cost = -2 x.y, else |x - y|^2 */
    int32_t dims;
    int32_t call_rows;  /* of a call of the kernel, */
    int32_t real_rows;  /* and how many of them it has to look at */
    double *row_values; /* ROWS x dims */
    double *col_values;
    kin_bound_row row_norm[ROWS];
    kin_bound_row col_norm[COLS];
    double cost[ROWS][COLS];
    const kin_tile_kernel *kernel;
    int32_t groups;
    double kappa;
    uint32_t *row_panels;
    uint32_t *col_panels;
    uint32_t *packed;
    double slack[ROWS][COLS];
    _Alignas(64) kin_word half_term[ROWS], row_term[ROWS], row_limit[ROWS], row_half[ROWS],
        test[2 * ROWS];
    kin_word start[COLS], odd[COLS], col_limit[COLS], panel_half[PANELS];
    uint8_t row_seen[ROWS][COLS];
    uint8_t col_seen[ROWS][COLS];
    kin_tile_log row_log;
    kin_tile_log col_log;
} bench;

static void *take(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(block);
    memset(block, 0, (bytes + 63) / 64 * 64);
    return block;
}

/* ---- Points --------------------------------------------------------------------------------- */

/* Integer points have a norm of at most 2^14; of products, 2^29 (screen_tile.h, ranges). */
static double extreme(const bench *b, bool row, int32_t i, uint64_t *seed)
{
    const double sign = kin_random_below(seed, 2) == 0 ? 1.0 : -1.0;
    if (b->type == KIN_TILE_S8) {
        return sign > 0.0 ? 127.0 : b->dims < 16000 ? -128.0 : -127.0;
    }
    if (b->type == KIN_TILE_S16) {
        if (b->product) {
            return i > 0 ? 0.0 : sign * (row ? 32767.0 : 16384.0);
        }
        return sign * floor(16383.0 / sqrt((double)b->dims));
    }
    return sign * 0x1p15;
}

static double component(const bench *b, pattern p, bool row, int32_t i, uint64_t *seed)
{
    const double sign = kin_random_below(seed, 2) == 0 ? 1.0 : -1.0;
    switch (p) {
    case PATTERN_SMALL:
        return (double)kin_random_below(seed, 3) - 1.0;
    case PATTERN_EXTREME:
        return extreme(b, row, i, seed);
    case PATTERN_CANCEL:
        return i == 0 ? 1.0 : sign * 0x1p-13 * (1.0 + 0x1p-7 * (double)kin_random_below(seed, 128));
    default:
        break;
    }
    const double x = test_gauss(seed);
    if (b->type == KIN_TILE_S8) {
        return fmax(fmin(rint(50.0 * x), 127.0), -128.0);
    }
    if (b->type == KIN_TILE_S16) {
        return rint(fmin(2500.0, 2700.0 / sqrt((double)b->dims)) * x);
    }
    return 8.0 * fmax(fmin(rint(64.0 * x), 255.0), -255.0); /* 8 bits, as bf16 has */
}

static void fill(const bench *b, pattern p, bool row, double *values, uint64_t *seed)
{
    const int32_t count = row ? ROWS : COLS;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < b->dims; j++) {
            values[i * b->dims + j] = i < count - PADDING ? component(b, p, row, j, seed) : 0.0;
        }
    }
}

/* The word that holds components [4g, 4g + 4) or what the type has of them. */
static uint32_t word_of(const bench *b, const double *x, int32_t g)
{
    const int32_t size = kin_tile_group_size(b->type);
    uint32_t word = b->type == KIN_TILE_S8 ? 0x80808080u : 0;
    for (int32_t i = 0; i < size && g * size + i < b->dims; i++) {
        const double v = x[g * size + i];
        const kin_word f = {.f = (float)v};
        switch (b->type) {
        case KIN_TILE_S8:
            word ^= ((uint32_t)(int32_t)v & 0xff) << (8 * i);
            break;
        case KIN_TILE_S16:
            word |= ((uint32_t)(int32_t)v & 0xffff) << (16 * i);
            break;
        case KIN_TILE_BF16:
            word |= (f.u >> 16) << (16 * i);
            break;
        default:
            word = f.u;
        }
    }
    return word;
}

static void to_panels(const bench *b, const double *values, int32_t count, uint32_t *panels)
{
    for (int32_t i = 0; i < count; i++) {
        for (int32_t g = 0; g < b->groups; g++) {
            const uint32_t word = word_of(b, values + i * b->dims, g);
            panels[((i / KIN_PANEL) * b->groups + g) * KIN_PANEL + i % KIN_PANEL] =
                i < count - PADDING ? word : 0;
        }
    }
}

/* ---- Terms, costs, limits ------------------------------------------------------------------- */

static double sum_of(const bench *b, const double *x, bool squares)
{
    double sum = 0.0;
    for (int32_t j = 0; j < b->dims; j++) {
        sum += squares ? x[j] * x[j] : x[j];
    }
    return sum;
}

static void set_terms(bench *b)
{
    const double unsigned_panels = b->type == KIN_TILE_S8 ? 256.0 : 0.0;
    for (int32_t i = 0; i < ROWS; i++) {
        const double *x = b->row_values + i * b->dims;
        const double term = b->product ? 0.0 : sum_of(b, x, true);
        if (b->is_float) {
            b->row_term[i].f = i < ROWS - PADDING ? (float)term : KIN_PAD_TERM_F;
            b->half_term[i].f = i < ROWS - PADDING ? 0.5F * (float)term : KIN_PAD_TERM_F;
        } else {
            const int32_t all = (int32_t)(term + unsigned_panels * sum_of(b, x, false));
            b->row_term[i].i = i < ROWS - PADDING ? all : KIN_PAD_TERM;
            b->half_term[i].i = i < ROWS - PADDING ? all >> 1 : KIN_PAD_TERM;
        }
    }
    for (int32_t j = 0; j < COLS; j++) {
        const double term = b->product ? 0.0 : sum_of(b, b->col_values + j * b->dims, true);
        if (b->is_float) {
            b->start[j].f = j < COLS - PADDING ? -0.5F * (float)term : KIN_PAD_START_F;
        } else {
            const int32_t all = (int32_t)term;
            b->start[j].i = j < COLS - PADDING ? -(all >> 1) : KIN_PAD_START;
            b->odd[j].i = j < COLS - PADDING ? all & 1 : 0;
        }
    }
}

static void set_costs(bench *b)
{
    for (int32_t j = 0; j < COLS; j++) {
        b->col_norm[j] = (kin_bound_row){sqrt(sum_of(b, b->col_values + j * b->dims, true)), 0.0};
    }
    for (int32_t i = 0; i < ROWS; i++) {
        const double *x = b->row_values + i * b->dims;
        b->row_norm[i] = (kin_bound_row){sqrt(sum_of(b, x, true)), 0.0};
        for (int32_t j = 0; j < COLS; j++) {
            const double *y = b->col_values + j * b->dims;
            double sum = 0.0;
            for (int32_t d = 0; d < b->dims; d++) {
                sum += b->product ? x[d] * y[d] : (x[d] - y[d]) * (x[d] - y[d]);
            }
            b->cost[i][j] = b->product ? -2.0 * sum : sum;
        }
    }
}

static void set_slack(bench *b)
{
    for (int32_t i = 0; i < ROWS; i++) {
        for (int32_t j = 0; j < COLS; j++) {
            b->slack[i][j] = kin_bound_error(b->kappa, b->row_norm[i], b->col_norm[j]);
        }
    }
}

static void set_limit(const bench *b, double limit, kin_word *word, kin_word *half)
{
    if (b->is_float) {
        word->f = (float)limit;
        half->f = 0.5F * word->f;
    } else {
        word->i = (int32_t)limit;
        half->i = (word->i >> 1) + (word->i & 1);
    }
}

/* A limit for a row or a column that is at the cost of some pair of it, or one below. */
static double limit_at(const bench *b, limit_plan plan, double cost, uint64_t *seed)
{
    const double none = b->is_float ? -(double)KIN_LIMIT_ALL_F : (double)KIN_LIMIT_NONE;
    const double all = b->is_float ? (double)KIN_LIMIT_ALL_F : (double)KIN_LIMIT_ALL;
    const uint64_t dice = kin_random_below(seed, 10);
    if (plan == LIMITS_ALL || (plan == LIMITS_MIXED && dice == 0)) {
        return all;
    }
    if (plan == LIMITS_NONE || (plan == LIMITS_MIXED && dice < 4)) {
        return none;
    }
    return fmax(fmin(dice % 2 == 0 ? cost : cost - 1.0, all), none);
}

static void set_limits(bench *b, limit_plan plan, uint64_t *seed)
{
    const kin_word no_half = b->is_float ? (kin_word){.f = -0.5F * KIN_LIMIT_ALL_F}
                                         : (kin_word){.i = KIN_LIMIT_NONE / 2};
    for (int32_t i = 0; i < ROWS; i++) {
        const double cost = b->cost[i][kin_random_below(seed, COLS - PADDING)];
        const double limit = limit_at(b, i < ROWS - PADDING ? plan : LIMITS_NONE, cost, seed);
        set_limit(b, limit, &b->row_limit[i], &b->row_half[i]);
    }
    for (int32_t panel = 0; panel < PANELS; panel++) {
        b->panel_half[panel] = no_half;
        for (int32_t j = panel * KIN_PANEL; j < (panel + 1) * KIN_PANEL; j++) {
            const double cost = b->cost[kin_random_below(seed, ROWS - PADDING)][j];
            kin_word half;
            set_limit(b, limit_at(b, j < COLS - PADDING ? plan : LIMITS_NONE, cost, seed),
                      &b->col_limit[j], &half);
            kin_word *most = &b->panel_half[panel];
            if (plan == LIMITS_ROWS) {
                continue; /* columns are not collected */
            }
            *most =
                b->is_float ? (half.f > most->f ? half : *most) : (half.i > most->i ? half : *most);
        }
    }
}

/* ---- One run -------------------------------------------------------------------------------- */

static void note(const bench *b, const kin_tile_log *log, uint8_t seen[ROWS][COLS])
{
    for (int64_t n = 0; n < log->count; n++) {
        const uint32_t row = log->pair[n] >> 16;
        const uint32_t col = log->pair[n] & 0xffff;
        assert_true(row < ROWS - PADDING && col < COLS - PADDING);
        assert_int_equal(seen[row][col], 0);
        seen[row][col] = 1;
        const double cost =
            b->is_float ? (double)kin_float_from_order(log->order[n]) : (double)log->order[n];
        if (!(fabs(cost - b->cost[row][col]) <= b->slack[row][col])) {
            fail_msg("%s: cost %.17g of (%u, %u) should be %.17g within %g", b->kernel->name, cost,
                     (unsigned)row, (unsigned)col, b->cost[row][col], b->slack[row][col]);
        }
    }
}

typedef enum ends { END_ROW = 1, END_COL, END_EITHER } ends;

static double limit_of(const bench *b, int32_t row, int32_t col, ends of)
{
    const double of_row = b->is_float ? (double)b->row_limit[row].f : (double)b->row_limit[row].i;
    const double of_col = b->is_float ? (double)b->col_limit[col].f : (double)b->col_limit[col].i;
    return of == END_ROW ? of_row : of == END_COL ? of_col : fmax(of_row, of_col);
}

static void check_seen(const bench *b, uint8_t seen[ROWS][COLS], ends of)
{
    for (int32_t i = 0; i < ROWS - PADDING; i++) {
        for (int32_t j = 0; i % b->call_rows < b->real_rows && j < COLS - PADDING; j++) {
            const double limit = limit_of(b, i, j, of);
            /* The quick test's own roundings are relative to the limit and the terms. */
            const double slack =
                b->is_float && fabs(limit) < 0x1p90 ? b->slack[i][j] + 0x1p-22 * fabs(limit) : 0.0;
            const bool must = b->cost[i][j] + slack <= limit;
            const bool must_not = b->cost[i][j] - slack > limit;
            if ((must && seen[i][j] == 0) || (must_not && seen[i][j] != 0)) {
                fail_msg("%s, %d columns: (%d, %d) of cost %.17g, limit %.17g, is %s the log",
                         b->kernel->name, (int)b->dims, (int)i, (int)j, b->cost[i][j], limit,
                         must ? "not in" : "in");
            }
        }
    }
}

/* The whole block in calls of `rows` rows, of which the first `real` are no padding, and `panels`
 * panels. */
static void run_block(bench *b, int32_t rows, int32_t real, int32_t panels, kin_tile_log *col_log)
{
    b->call_rows = rows;
    b->real_rows = real;
    memset(b->row_seen, 0, sizeof b->row_seen);
    memset(b->col_seen, 0, sizeof b->col_seen);
    kin_tile_job job = {.panels = b->col_panels,
                        .groups = b->groups,
                        .row_count = rows,
                        .real_rows = real,
                        .enough = ROWS,
                        .start = b->start,
                        .odd = b->odd,
                        .col_limit = b->col_limit,
                        .panel_half = b->panel_half,
                        .test = b->test,
                        .row_log = &b->row_log,
                        .col_log = col_log};
    for (job.first_row = 0; job.first_row < ROWS; job.first_row += rows) {
        job.rows = b->packed + (int64_t)job.first_row * b->groups;
        job.half_term = b->half_term + job.first_row;
        job.row_term = b->row_term + job.first_row;
        job.row_limit = b->row_limit + job.first_row;
        job.row_half = b->row_half + job.first_row;
        int32_t taken = 0;
        for (job.first_panel = 0; job.first_panel < PANELS; job.first_panel += taken) {
            job.panel_count = panels < PANELS - job.first_panel ? panels : PANELS - job.first_panel;
            taken = job.panel_count;
            job.taken = panels > 2 ? &taken : NULL; /* AMX ends early */
            b->row_log.count = 0;
            b->col_log.count = 0;
            b->kernel->run(&job);
            assert_true(taken > 0 && taken <= job.panel_count);
            note(b, &b->row_log, b->row_seen);
            note(b, &b->col_log, b->col_seen);
        }
    }
    check_seen(b, b->row_seen, col_log == &b->row_log ? END_EITHER : END_ROW);
    if (col_log == &b->col_log) {
        check_seen(b, b->col_seen, END_COL);
    }
}

static bench *bench_make(kin_tile_type type, int32_t dims)
{
    bench *b = take(sizeof *b);
    b->type = type;
    b->is_float = kin_tile_is_float(type);
    b->dims = dims;
    b->row_values = take(sizeof(double) * ROWS * (size_t)dims);
    b->col_values = take(sizeof(double) * COLS * (size_t)dims);
    b->row_log.order = take(sizeof(int32_t) * (ROWS * COLS + KIN_PANEL));
    b->row_log.pair = take(sizeof(uint32_t) * (ROWS * COLS + KIN_PANEL));
    b->col_log.order = take(sizeof(int32_t) * (ROWS * COLS + KIN_PANEL));
    b->col_log.pair = take(sizeof(uint32_t) * (ROWS * COLS + KIN_PANEL));
    return b;
}

static void bench_free(bench *b)
{
    free(b->row_values);
    free(b->col_values);
    free(b->row_log.order);
    free(b->row_log.pair);
    free(b->col_log.order);
    free(b->col_log.pair);
    free(b);
}

static void kernel_enter(bench *b, const kin_tile_kernel *kernel)
{
    const kin_distance distance = {.metric = KITH_EUCLIDEAN, .cols = b->dims};
    const kin_frame_stats stats = {.largest = 0x1p11, .largest_norm = 0x1p11};
    const kin_frame frame = kin_frame_make(&distance, kernel, false, &stats);
    b->kernel = kernel;
    b->groups = frame.groups;
    b->kappa = frame.kappa;
    b->row_panels = take(sizeof(uint32_t) * ROWS * (size_t)b->groups);
    b->packed = take(sizeof(uint32_t) * ROWS * (size_t)b->groups);
    b->col_panels = take(sizeof(uint32_t) * COLS * (size_t)b->groups);
    to_panels(b, b->row_values, ROWS, b->row_panels);
    to_panels(b, b->col_values, COLS, b->col_panels);
    kernel->pack(b->row_panels, b->groups, ROWS, b->packed);
    set_slack(b);
}

static void kernel_leave(bench *b)
{
    free(b->row_panels);
    free(b->packed);
    free(b->col_panels);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Points of panels, one behind another. */
static uint32_t *to_lines(const bench *b, const uint32_t *panels, int32_t count, int32_t words)
{
    uint32_t *lines = take((size_t)count * (size_t)words * sizeof *lines);
    for (int32_t i = 0; i < count; i++) {
        for (int32_t g = 0; g < b->groups; g++) {
            lines[i * words + g] =
                panels[((i / KIN_PANEL) * b->groups + g) * KIN_PANEL + i % KIN_PANEL];
        }
    }
    return lines;
}

static double cost_of_line(const bench *b, int32_t row, int32_t col, kin_word product)
{
    if (b->is_float) {
        return (double)(b->row_term[row].f - 2.0F * (product.f + b->start[col].f));
    }
    return (double)(int32_t)(b->row_term[row].u + b->odd[col].u -
                             2 * (product.u + b->start[col].u));
}

/* Rows against none, one, some and all of the points, each in an order of its own. */
static void run_lines(const bench *b)
{
    const int32_t words = (b->groups + KIN_LINE_STEP - 1) / KIN_LINE_STEP * KIN_LINE_STEP;
    uint32_t *rows = to_lines(b, b->row_panels, ROWS, words);
    uint32_t *cols = to_lines(b, b->col_panels, COLS, words);
    uint16_t which[COLS];
    kin_word product[COLS + 1];
    for (int32_t row = 0; row < ROWS - PADDING; row += 7) {
        const int32_t count = row % (COLS - PADDING + 1);
        for (int32_t i = 0; i < count; i++) {
            which[i] = (uint16_t)((i * 5 + row) % (COLS - PADDING));
        }
        product[count].u = 0x5a5a5a5a;
        const kin_line_job job = {.row = rows + row * words,
                                  .lines = cols,
                                  .which = which,
                                  .count = count,
                                  .words = words,
                                  .product = product};
        b->kernel->lines(&job);
        assert_int_equal(product[count].u, 0x5a5a5a5a);
        for (int32_t i = 0; i < count; i++) {
            const double cost = cost_of_line(b, row, which[i], product[i]);
            if (!(fabs(cost - b->cost[row][which[i]]) <= b->slack[row][which[i]])) {
                fail_msg("%s: cost %.17g of line (%d, %d) should be %.17g", b->kernel->name, cost,
                         (int)row, (int)which[i], b->cost[row][which[i]]);
            }
        }
    }
    free(rows);
    free(cols);
}

/* What the kernel finds under limits of every plan; in a slow build, where rows are long, of the
 * first and the last. */
static void run_plans(bench *b, uint64_t seed)
{
    const int32_t tile = b->kernel->tile_rows;
    const int step = b->dims >= LONG_ROWS && test_is_slow_build() ? LIMITS_COUNT - 1 : 1;
    for (int plan = 0; plan < LIMITS_COUNT; plan += step) {
        set_limits(b, (limit_plan)plan, &seed);
        const bool collects = plan != LIMITS_ROWS;
        run_block(b, ROWS, ROWS, PANELS, collects ? &b->col_log : NULL);
        run_block(b, KIN_BLOCK_STEP, KIN_BLOCK_STEP, 2, collects ? &b->col_log : NULL);
        run_block(b, tile, 1, 2, collects ? &b->col_log : NULL);
        run_block(b, KIN_BLOCK_STEP, KIN_BLOCK_STEP - 2 * tile + 1, PANELS, NULL);
        if (collects) {
            run_block(b, KIN_BLOCK_STEP, KIN_BLOCK_STEP, 2, &b->row_log);
        }
    }
}

/* The loop's costs are found once, as they are those of each kernel. */
static void run_pattern(bench *b, const kernels *all, pattern p, uint64_t *seed)
{
    fill(b, p, true, b->row_values, seed);
    fill(b, p, false, b->col_values, seed);
    for (int32_t j = 0; j < b->dims; j++) { /* a pair at distance 0 */
        b->col_values[7 * b->dims + j] = b->row_values[100 * b->dims + j];
        if (b->type == KIN_TILE_S16 && b->product && p == PATTERN_EXTREME) {
            b->col_values[7 * b->dims + j] = 0.0;
        }
    }
    set_terms(b);
    set_costs(b);
    for (int i = 0; i < all->count; i++) {
        kernel_enter(b, all->of[i]);
        run_lines(b);
        run_plans(b, *seed);
        kernel_leave(b);
    }
}

/* Those that are here. */
static kernels kernels_of(kin_tile_type type)
{
    kernels all = {.count = 0};
    for (int isa = 0; isa < KIN_ISA_COUNT; isa++) {
        const kin_tile_kernel *kernel =
            kin_cpu_has((kin_isa)isa) ? kin_tile_get((kin_isa)isa, type) : NULL;
        bool seen = kernel == NULL;
        for (int i = 0; i < all.count; i++) {
            seen = seen || all.of[i] == kernel;
        }
        if (!seen) {
            assert_int_equal(kernel->type, type);
            assert_int_equal(KIN_BLOCK_STEP % kernel->tile_rows, 0);
            all.of[all.count++] = kernel;
        }
    }
    return all;
}

static void tell(const kernels *all, const char *what)
{
    for (int i = 0; i < all->count; i++) {
        printf("%s: %s\n", all->of[i]->name, what);
    }
}

static void all_kernels(void **state)
{
    (void)state;
    static const int32_t dims[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 129, 784};
    const size_t step =
        test_is_slow_build() ? 4 : 1; /* then 4, 15, 33 and 129 columns: with a rest, but one */
    int count = 0;
    for (int type = 0; type < KIN_TILE_TYPES; type++) {
        const kernels all = kernels_of((kin_tile_type)type);
        uint64_t seed = 7;
        for (size_t i = step - 1; i < sizeof dims / sizeof *dims; i += step) {
            bench *b = bench_make((kin_tile_type)type, dims[i]);
            for (int p = 0; p < PATTERN_COUNT; p++) {
                for (int product = 0; product < 2 && (p != PATTERN_CANCEL || b->is_float);
                     product++) {
                    b->product = product != 0;
                    run_pattern(b, &all, (pattern)p, &seed);
                }
            }
            bench_free(b);
        }
        tell(&all, "its logs hold the pairs of the contract, and no others");
        count += all.count;
    }
    assert_true(count >= 3);
}

/* The longest integer rows that costs of 32 bits allow (screen_frame.c). */
static void longest_bytes(void **state)
{
    (void)state;
    const kernels all = kernels_of(KIN_TILE_S8);
    uint64_t seed = 11;
    bench *b = bench_make(KIN_TILE_S8, 8192);
    run_pattern(b, &all, PATTERN_EXTREME, &seed);
    b->product = true;
    run_pattern(b, &all, PATTERN_EXTREME, &seed);
    bench_free(b);
    tell(&all, "8,192 columns of +127 and -128 overflow nothing");
}

static void orders_of_floats(void **state)
{
    (void)state;
    static const float rising[] = {-0x1p120F, -3.0F,     -1.0F, -0x1p-149F, 0.0F,
                                   0x1p-149F, 0x1p-126F, 1.0F,  3.0F,       0x1p100F};
    for (size_t i = 0; i < sizeof rising / sizeof *rising; i++) {
        const float back = kin_float_from_order(kin_order_float(rising[i]));
        assert_memory_equal(&back, &rising[i], sizeof back);
        assert_true(i == 0 || kin_order_float(rising[i - 1]) < kin_order_float(rising[i]));
    }
    assert_int_equal(kin_order_float(-0.0F), kin_order_float(0.0F));
    printf("floats sort like the integers that stand for them, and both zeros are one\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_kernels),
                                       cmocka_unit_test(longest_bytes),
                                       cmocka_unit_test(orders_of_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
