/* SPDX-License-Identifier: Apache-2.0
 * Points and candidate lists in device memory, as the kernels of the exact engine see them. Plain
 * structs that host and device compilers both read; pointers are device pointers.
 *
 *   row        a row of the matrix as given; its number is its id
 *   position   a row's place in a set: position p holds the row ids[p]
 *   tile       128 consecutive positions; a *block* of rows is two tiles
 *
 * Cost of a pair of positions, as in docs/notes/numerics.md:
 *     cost(i, j) = term_i + term_j - 2 product(i, j)
 * float (F16) or int32 (S8); term is |x^|^2 for distances, 0 for products; u8 products carry the
 * correction of their shift by 128 in the term. What a screen tests is
 *     v = product - half_j,   cost = term_i + odd_j - 2 v
 * with half = term / 2 and odd = 0 for floats, half = floor(term / 2) and odd = term & 1 for
 * integers. Bounds and reaches: screen/screen_bound.h.
 */
#ifndef KIN_SCREEN_SET_GPU_H
#define KIN_SCREEN_SET_GPU_H

#include "kith/kith.h"
#include "screen/screen_bound.h"

enum {
    KIN_SCREEN_GPU_TILE = 128,
    KIN_SCREEN_GPU_BLOCK = 256,
    KIN_SCREEN_GPU_QUAD = 32, /* columns whose products with a row four threads have, */
    KIN_SCREEN_GPU_GATE = 8,  /* so many each, which share a gate (kin_screen_gpu_worst) */
    KIN_SCREEN_GPU_PART =
        4, /* columns of a tile of which a screen may write the least cost alone */
    KIN_SCREEN_GPU_RUN = 512,   /* positions that are sorted by reach among themselves */
    KIN_SCREEN_GPU_SLICE = 128, /* bytes: rounded rows are a multiple of this wide, zeros behind */
    KIN_SCREEN_GPU_PAD_INT = INT32_MAX - (1 << 29)
};
#define KIN_SCREEN_GPU_PAD_FLOAT 0x1p110F

typedef enum kin_screen_gpu_type {
    KIN_SCREEN_GPU_F16 = 0, /* products and costs in fp32 */
    KIN_SCREEN_GPU_S8       /* products and costs in int32, exact */
} kin_screen_gpu_type;

typedef union kin_screen_gpu_word {
    int32_t i;
    uint32_t u;
    float f;
} kin_screen_gpu_word;

/* A matrix as given, in device memory, with transforms where the metric has them. Keys of a pair
 * take the periods of the corpus. */
typedef struct kin_screen_gpu_rows {
    const void *data;
    const kin_row_transform *transforms; /* by row, or NULL */
    const double *period;                /* by column, 0: it has none; NULL: none has */
    int64_t rows;
    int64_t stride_bytes;
    int32_t cols;
    kith_dtype dtype;
    kith_metric metric;
} kin_screen_gpu_rows;

/* The frame of a corpus and of the queries that are brought into it (screen/screen_set.h). */
typedef struct kin_screen_gpu_frame {
    kin_screen_gpu_type type;
    kin_bound_kind bound;
    int32_t cols;
    int32_t row_bytes;  /* of a rounded row */
    int32_t shift;      /* integer bounds of float rows, which are whole numbers: these less so many
                           are bytes, 128 or 0 */
    double scale;       /* 1 for integer bounds */
    double kappa;       /* the tensor cores' error for this many columns; 0 for S8 */
    double key_scale;   /* the metric's */
    double reach_scale; /* a shadow's: the lists' reaches times this are in its units; else 1 */
    const double *mean; /* device: cols doubles; NULL where nothing is shifted */
} kin_screen_gpu_frame;

/* A reach of the lists in the frame's units. Bounds are wide enough for its rounding. */
KIN_HD double kin_screen_gpu_reach(const kin_screen_gpu_frame *frame, double reach)
{
    return reach * frame->reach_scale;
}

/* What the screen needs of a position beside its rounded row. 16 bytes, read as one. */
typedef struct kin_screen_gpu_facts {
    kin_screen_gpu_word term;
    float norm; /* kin_bound_row, rounded up; both 0 for integer bounds */
    float lost;
    float unused;
} kin_screen_gpu_facts;

/* The worst of a tile of 128 positions, for one test a tile (screen_gate.h). */
typedef struct kin_screen_gpu_worst {
    float norm;
    float lost;
    float far; /* max (reach + lost) of the tile's rows, rounded up; products: max reach; +inf while
                  a row has no reach */
    int32_t integer; /* integer bounds: the largest reach, INT32_MAX while a row has none */
    /* What its own reach adds to a column's threshold, the most of the positions of a gate
     * (kin_screen_gpu_gate_of), rounded up: far^2 (1 + 2^-20) / 2 for distances, reach / 2 for
     * products, ceil(reach / 2) for integers; -2^110 or -2^29 where all are padding, +inf or 2^29
     * while a row has no reach. Rows stand sorted by reach (kin_screen_gpu_arrange), so that
     * sixteen numbers tell nearly as much as 128. */
    kin_screen_gpu_word gate[KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_GATE];
} kin_screen_gpu_worst;

/* The gate of a position of a tile. Thread q of a quad has products with the columns 2 q and
 * 2 q + 1 of each eight; its gates, one of each 32 columns, stand side by side. */
KIN_HD int32_t kin_screen_gpu_gate_of(int32_t position)
{
    return position % 8 / 2 * (KIN_SCREEN_GPU_TILE / KIN_SCREEN_GPU_QUAD) +
           position / KIN_SCREEN_GPU_QUAD;
}

/* Where of 32 positions the one stands that is number i by reach: each eight in a row share a gate.
 */
KIN_HD int32_t kin_screen_gpu_gate_place(int32_t i)
{
    return i % KIN_SCREEN_GPU_GATE / 2 * 8 + i / KIN_SCREEN_GPU_GATE * 2 + i % 2;
}

typedef struct kin_screen_gpu_set {
    kin_screen_gpu_frame frame;
    int64_t points; /* positions in use */
    int64_t padded; /* a multiple of KIN_SCREEN_GPU_BLOCK; padding never passes a test */
    const unsigned char *rounded;      /* padded x row_bytes, halves or signed bytes */
    const kin_screen_gpu_facts *facts; /* padded */
    /* padded: half_j of the comment above; of padding KIN_SCREEN_GPU_PAD_*, like its term: twice it
     * is beyond 32 bits */
    const kin_screen_gpu_word *half;
    const unsigned char *starts; /* padded x KIN_START_BYTES, columns of bytes alone; or NULL */
    int32_t start_shift;         /* screen_start.h */
    const uint32_t *ids;         /* points: position -> row */
    kin_bound_row worst;         /* over all positions */
    /* Balls around tiles: |a - centre| <= radius for every row a (not x^) of the tile. NULL for
     * products and for sets that are too small to skip anything. */
    const float *centres; /* padded / 128 x cols */
    const float *radii;
} kin_screen_gpu_set;

/* Candidates of each position of a row set: a word is order(cost) << 32 | position of the
 * candidate, order being unsigned and ascending like the cost. Every position that was screened
 * against a row and is not in its list has been proven to come after k others, unless counts >
 * capacity: that row lost candidates, and must be screened again. */
typedef struct kin_screen_gpu_lists {
    int64_t rows;     /* padded positions of the row set */
    int32_t k;        /* candidates wanted: ids, one more where a row's own id is left out */
    int32_t capacity; /* above k */
    uint64_t *words;  /* rows x capacity */
    int32_t *counts;  /* rows; what was pushed, also beyond the capacity */
    double *reach;    /* rows; +inf until k were seen; padding: -inf (integers: -1) */
    uint8_t *lost;    /* rows: 1 where candidates were lost for want of room */
} kin_screen_gpu_lists;

/* A candidate with its canonical key. */
typedef struct kin_screen_gpu_pair {
    double key;
    uint32_t id;
    uint32_t unused;
} kin_screen_gpu_pair;

/* Work of the screen: a block of rows against some of its tiles of columns. */
typedef struct kin_screen_gpu_unit {
    uint32_t block; /* of rows */
    uint32_t first; /* of the block's tiles: index into kin_screen_gpu_screen.tiles */
    uint32_t count;
    uint32_t unused;
} kin_screen_gpu_unit;

#endif
