/* SPDX-License-Identifier: Apache-2.0
 * The screen's inner contract: products of a block of rows with a block of points, each compared
 * with a limit, survivors written to a log. The product matrix never reaches memory.
 *
 * Points are stored in a cheap type as *panels* of 16, in groups of 4 bytes (4 x s8, 2 x s16,
 * 2 x bf16, 1 x f32):
 *
 *     panel p:   group 0 | point 16p .. 16p+15 |      each cell: 4 bytes of one point
 *                group 1 | point 16p .. 16p+15 |
 *                ...
 *
 * which is what a vector unit wants (16 points a register, one group a step) and also, unchanged,
 * the second operand of AMX. Rows (the other operand) are repacked from panels by kernel->pack.
 * s8 points lie in panels with 128 added, because VNNI multiplies unsigned by signed; rows are
 * signed. What that adds to a product depends on the row alone and stands in its term.
 *
 *     cost(i, j) = term_i + term_j - 2 product(i, j)       (|x_i - x_j|^2, or -2 x_i.x_j)
 *
 * A pair survives for its row if cost <= row limit, for its column if cost <= column limit.
 * With the column's half folded into the accumulator from the start, both tests together are one
 * comparison:
 *
 *     acc = product - floor(term_j / 2)                    start_j = -floor(term_j / 2)
 *     cost <= max(L_i, L_j)  implies  acc >= half_term_i - max(half_i, half_j)
 *
 * half_term = floor(term_i / 2), half = ceil(limit / 2): rounded so that nothing is lost; a pair
 * that passes is then tested precisely. Integer costs are exact. Float costs carry an error that
 * the limits contain (screen_bound.h).
 *
 *   ranges     integer: |term| and |product| < 2^29 * 1.5, limits in [KIN_LIMIT_NONE,
 * KIN_LIMIT_ALL] padding    rows: half_term = KIN_PAD_TERM; points: start = KIN_PAD_START. Neither
 * ever survives log        room for all pairs of one call must be left by the caller; of a call
 * that may end early, for those of two panels and KIN_TILE_KEPT more
 */
#ifndef KIN_SCREEN_TILE_H
#define KIN_SCREEN_TILE_H

#include "base/base_ctx.h"

#include <math.h>

enum {
    KIN_PANEL = 16,
    KIN_BLOCK_STEP = 96, /* a multiple of every kernel's tile and of a panel */
    KIN_LINE_STEP = 16,
    KIN_TILE_KEPT = 16 * 256, /* pairs that a kernel may keep back until it ends */
    KIN_TILE_SOME = 8,        /* rows that a kernel takes some of together, at most */
    KIN_MULTIPLY_PANELS = 2,
    KIN_GATE_GROUPS = 16,
    KIN_GATE_STRIP = 16,
    KIN_GATE_PANELS = 2,
    KIN_GATE_ROWS = 64 * KIN_GATE_STRIP
};

typedef enum kin_tile_type {
    KIN_TILE_S8 = 0,
    KIN_TILE_S16,
    KIN_TILE_BF16,
    KIN_TILE_F32,
    KIN_TILE_TYPES
} kin_tile_type;

/* A lane of 32 bits: an integer or a float, by the kernel's type. */
typedef union kin_word {
    int32_t i;
    uint32_t u;
    float f;
} kin_word;

/* Integer limits: nobody passes, everybody passes. */
#define KIN_LIMIT_NONE (-(1 << 30))
#define KIN_LIMIT_ALL (1 << 30)
#define KIN_PAD_TERM (INT32_MAX - KIN_LIMIT_ALL / 2)
#define KIN_PAD_START (-INT32_MAX)
/* The same for float types: above and below all costs, which are at most 2^60. */
#define KIN_LIMIT_ALL_F 0x1p100F
#define KIN_PAD_TERM_F 0x1p110F
#define KIN_PAD_START_F (-0x1p120F)

/* Names of what a body makes: type_part. */
#define TILE_NAME_(name, part) TILE_JOIN(name, part)
#define TILE_JOIN(name, part) name##_##part
#define TILE_TEXT(name) TILE_TEXT_OF(name)
#define TILE_TEXT_OF(name) #name

/* What bodies call the registers and operations of a type, which is TILE_NAME while they are read
 * and forgotten at their end. A machine's header has KIND_ of a type, the kind of register that
 * holds it; vec_ of a kind, which is the register, and load_, splat_, store_, sums_, pass_, orders_
 * of a kind; dot_ and pair_ of a type; TILE_MACHINE and TILE_ISA, whose kernels they make. */
#define TILE_KIND TILE_NAME_(KIND, TILE_NAME)
#define TILE_VEC TILE_NAME_(vec, TILE_KIND)
#define VEC_LOAD TILE_NAME_(load, TILE_KIND)
#define VEC_SPLAT TILE_NAME_(splat, TILE_KIND)
#define VEC_DOT TILE_NAME_(dot, TILE_NAME)

/* What turns a panel's word into a row's. */
#define TILE_FLIP TILE_NAME_(FLIP, TILE_NAME)
#define FLIP_s8 0x80808080u
#define FLIP_s16 0u
#define FLIP_f32 0u

#define TYPE_s8 KIN_TILE_S8
#define TYPE_s16 KIN_TILE_S16
#define TYPE_f32 KIN_TILE_F32

/* Survivors. order[] holds costs as integers that sort like them (kin_order_float for floats);
 * pair[] holds row << 16 | column, both counted from the first of their block, below 65,536. */
typedef struct kin_tile_log {
    int32_t *order;
    uint32_t *pair;
    int64_t count;
} kin_tile_log;

typedef struct kin_tile_job {
    const uint32_t *rows;   /* from pack() */
    const uint32_t *panels; /* the block's first panel */
    int32_t groups;
    int32_t first_row;   /* of the block: the log counts rows from the block's first */
    int32_t row_count;   /* a multiple of the kernel's tile_rows */
    int32_t real_rows;   /* the first of them; the others are padding, which may be left out */
    int32_t first_panel; /* of the block */
    int32_t panel_count;
    const kin_word *half_term; /* by row, from first_row on, as all row arrays */
    const kin_word *row_term;
    const kin_word *row_limit;
    const kin_word *row_half;
    const kin_word *start;      /* by column of the block */
    const kin_word *odd;        /* term_j - 2 floor(term_j / 2): 0 or 1; float types: not read */
    const kin_word *col_limit;  /* by column */
    const kin_word *col_half;   /* sieve, some: by column */
    const kin_word *panel_half; /* by panel: the largest half of its columns */
    kin_word *test;             /* scratch: two a row */
    kin_tile_log *row_log;
    kin_tile_log *col_log; /* NULL: columns are not collected; row_log: what survives for either
                              goes there once */
    int32_t *taken;        /* AMX: out: panels that were taken; NULL: all are */
    int64_t enough;        /* pairs in a log, with which no two further panels are begun */
    /* AMX, more steps than stay in tiles: by two panels of the block, which of its 16 rows are
     * multiplied, a bit each (gate); NULL: all */
    const uint64_t *strips;
    /* some: rows that meet the first panel, and how many; KIN_TILE_SOME more of any behind them */
    const uint16_t *which;
    int32_t which_count;
} kin_tile_job;

/* One row against points that lie as lines: their words one behind another. */
typedef struct kin_line_job {
    const uint32_t *row;   /* a line */
    const uint32_t *lines; /* of a block of points */
    const uint16_t *which; /* of them */
    int64_t count;
    int64_t behind;    /* further ones of `which`, which the next call takes */
    int32_t words;     /* of a line, a multiple of KIN_LINE_STEP; zeros behind the groups */
    kin_word *product; /* out: without the point's start */
} kin_line_job;

typedef struct kin_tile_kernel {
    const char *name;
    kin_tile_type type;
    kin_isa isa;
    int32_t tile_rows;
    int32_t group_step; /* groups are rounded up to this */
    /* rows: room for row_count * groups words. Reads panels of row_count points. */
    void (*pack)(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t *rows);
    /* Those of AMX fetch the panels behind the job's beside their work. */
    void (*run)(const kin_tile_job *job);
    void (*lines)(const kin_line_job *job);
    double word_cost; /* of a word of a pair, beside a unit that broadcasts and multiplies them */
    /* NULL, or for rows of KIN_GATE_GROUPS groups, blocks of at most KIN_GATE_ROWS: strips of a job
     * whose pairs are these, those left out of which none survives. No log is written. */
    void (*gate)(const kin_tile_job *job, uint64_t *strips);
    /* NULL, or of integers that are broadcast (screen_tile_body.inc). Pairs by row and panel, a
     * bit each, from the job's first on: those that survive. No log is written. */
    void (*sieve)(const kin_tile_job *job, uint16_t *passed);
    /* As run, of some rows with one panel; rows from pack_some, as pack, one behind another. */
    void (*pack_some)(const uint32_t *panels, int32_t groups, int32_t row_count, uint32_t *rows);
    void (*some)(const kin_tile_job *job);
    /* NULL, or of integers: products of all rows with the job's first KIN_MULTIPLY_PANELS panels,
     * whose starts are zeros, by panel, row and point. No log is written. */
    void (*multiply)(const kin_tile_job *job, kin_word *products);
} kin_tile_kernel;

#define KIN_TILE_KERNEL(TYPE, type, NAME, isa) extern const kin_tile_kernel kin_tile_##type##_##isa;
KIN_PRODUCT_MAP(KIN_TILE_KERNEL)

/* The fastest kernel of a type that level `isa` includes; NULL where it has none. */
const kin_tile_kernel *kin_tile_get(kin_isa isa, kin_tile_type type);
const char *kin_tile_type_name(kin_tile_type type);
/* Lines of memory that will be read soon. Inlined by order: gcc 12 drops calls of functions that do
 * nothing else. */
static inline __attribute__((always_inline)) void kin_tile_fetch(const void *from, int64_t bytes)
{
    enum { CACHE_LINE = 64 };
    for (int64_t at = 0; at < bytes; at += CACHE_LINE) {
        __builtin_prefetch((const char *)from + at, 0, 2);
    }
}

/* Components in a group: 4, 2, 2, 1. */
int32_t kin_tile_group_size(kin_tile_type type);
static inline bool kin_tile_is_float(kin_tile_type type)
{
    return type == KIN_TILE_BF16 || type == KIN_TILE_F32;
}

/* Floats as integers of the same order (no NaN). */
static inline int32_t kin_order_float(float value)
{
    const kin_word w = {.f = value + 0.0F};
    return w.i ^ (int32_t)((uint32_t)(w.i >> 31) & 0x7fffffffu);
}

static inline float kin_float_from_order(int32_t order)
{
    const kin_word w = {.i = order ^ (int32_t)((uint32_t)(order >> 31) & 0x7fffffffu)};
    return w.f;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* A limit in double as the word that a tile kernel compares with, rounded so that nothing is lost.
 */

static inline kin_word kin_limit_integer(double limit)
{
    if (!(limit < (double)KIN_LIMIT_ALL)) { /* a NaN keeps everything */
        return (kin_word){.i = KIN_LIMIT_ALL};
    }
    const double kept = limit > (double)KIN_LIMIT_NONE ? limit : (double)KIN_LIMIT_NONE;
    const int32_t whole = (int32_t)kept; /* towards zero */
    return (kin_word){.i = whole - (kept < (double)whole)};
}

static inline kin_word kin_limit_float(double limit)
{
    if (!(limit < (double)KIN_LIMIT_ALL_F)) {
        return (kin_word){.f = KIN_LIMIT_ALL_F};
    }
    return (kin_word){.f = nextafterf((float)limit, INFINITY)};
}

/* The limit and its half (screen_tile.h). */
static inline void kin_limit_set(bool is_float, double value, kin_word *limit, kin_word *half)
{
    if (is_float) {
        *limit = kin_limit_float(value);
        half->f = 0.5F * limit->f;
    } else {
        *limit = kin_limit_integer(value);
        half->i = (limit->i >> 1) + (limit->i & 1);
    }
}

/* Nobody passes. */
static inline void kin_limit_close(bool is_float, kin_word *limit, kin_word *half)
{
    if (is_float) {
        limit->f = -KIN_LIMIT_ALL_F;
        half->f = -0.5F * KIN_LIMIT_ALL_F;
    } else {
        limit->i = KIN_LIMIT_NONE;
        half->i = KIN_LIMIT_NONE / 2;
    }
}

/* ---- Rounding -------------------------------------------------------------------------------- */

/* One row into a cheap type: what the screen sees of it, and what the rounding lost.
 * Bodies: screen_round_portable.c, _avx2.c, _avx512.c, the same source for three machines. */

/* values, mean: `wide` doubles, a multiple of 8; u[i] = (values[i] - mean[i]) * inverse. */
typedef struct kin_round_input {
    const double *values;
    const double *mean;
    double inverse;
    int64_t wide;
} kin_round_input;

/* Sums over the row, to a relative error far below 2^-30: of the squares of what is stored, of what
 * rounding lost of the clamped row, of u itself, and of what clamping cut off it; and the plain sum
 * of what is stored. */
typedef struct kin_round_sums {
    double stored_sq;
    double lost_sq;
    double given_sq;
    double cut_sq;
    double stored;
} kin_round_sums;

enum { KIN_PROJECT_ROWS = 8, KIN_PROJECT_STEP = 64, KIN_PROJECT_AXES = 32 };

typedef struct kin_round_ops {
    /* out[i] = u[i] rounded to the nearest integer within +-most. */
    kin_round_sums (*to_integer)(const kin_round_input *in, double most, int32_t *out);
    /* out[i] = u[i] as fp32 within +-2^15, 0 below 2^-14 in magnitude. */
    kin_round_sums (*to_f32)(const kin_round_input *in, float *out);
    /* The same, rounded to bf16 (nearest even) and given as fp32. */
    kin_round_sums (*to_bf16)(const kin_round_input *in, float *out);
    /* out[i] = values[i] in either type that is returned, wide a multiple of 8; 0: in none. */
    unsigned (*to_bytes)(const double *values, int64_t wide, uint8_t *out);
    /* Sum of (a[i] - b[i])^2 over `wide` floats, a multiple of 16, in fp32: 16 partial sums. */
    float (*distance_sq)(const float *a, const float *b, int64_t wide);
    /* The same of doubles, in double; wide a multiple of 8. */
    double (*distance_sq64)(const double *a, const double *b, int64_t wide);
    /* Sum of a[i] b[i], and own[i] -= times * from[i]; wide a multiple of 8. */
    double (*dot64)(const double *a, const double *b, int64_t wide);
    void (*subtract64)(double times, const double *from, int64_t wide, double *own);
    /* out[r * axes + j] = sum over i of rows[r * wide + i] basis[i * axes + j] for
     * KIN_PROJECT_ROWS; axes a multiple of 32, wide of KIN_PROJECT_STEP. Each KIN_PROJECT_STEP
     * products are summed in fp32, one behind the other, their sums in double. */
    void (*project)(const float *rows, const float *basis, int64_t wide, int64_t axes, double *out);
} kin_round_ops;

KIN_BODIES_OF_WIDE(kin_round_ops)

const kin_round_ops *kin_round_get(kin_isa isa);

#endif
