/* SPDX-License-Identifier: Apache-2.0
 * Packets, boxes and leaves: portable, and which body a machine gets. Contract: tree_leaf.h. */
#include "tree/tree_leaf.h"

#include "host/host_cpu.h"

#include <string.h>

#define LEAF_BODIES kin_tree_bodies_portable
#define PORTABLE static inline __attribute__((always_inline))

/* Four registers of four: what every machine has. */
enum { QUARTERS = 4 };
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef struct lanes {
    f32x4 of[QUARTERS];
} lanes;

#define LANES_OF_TWO(name, op)               \
    PORTABLE lanes name(lanes a, lanes b)    \
    {                                        \
        lanes r;                             \
        for (int i = 0; i < QUARTERS; i++) { \
            r.of[i] = op(a.of[i], b.of[i]);  \
        }                                    \
        return r;                            \
    }

PORTABLE f32x4 sub_f32x4(f32x4 a, f32x4 b)
{
    return a - b;
}

PORTABLE f32x4 add_f32x4(f32x4 a, f32x4 b)
{
    return a + b;
}

PORTABLE f32x4 mul_f32x4(f32x4 a, f32x4 b)
{
    return a * b;
}

PORTABLE f32x4 min_f32x4(f32x4 a, f32x4 b)
{
    const i32x4 less = a < b;
    return (f32x4)(((i32x4)a & less) | ((i32x4)b & ~less));
}

PORTABLE f32x4 max_f32x4(f32x4 a, f32x4 b)
{
    const i32x4 more = a > b;
    return (f32x4)(((i32x4)a & more) | ((i32x4)b & ~more));
}

PORTABLE f32x4 square_f32x4(f32x4 x, f32x4 acc)
{
    return acc + x * x;
}

LANES_OF_TWO(lanes_sub, sub_f32x4)
LANES_OF_TWO(lanes_add, add_f32x4)
LANES_OF_TWO(lanes_mul, mul_f32x4)
LANES_OF_TWO(lanes_min, min_f32x4)
LANES_OF_TWO(lanes_max, max_f32x4)
LANES_OF_TWO(lanes_square, square_f32x4)

PORTABLE lanes lanes_load(const float *from)
{
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

PORTABLE void lanes_store(float *to, lanes x)
{
    memcpy(to, &x, sizeof x);
}

PORTABLE lanes lanes_all(float x)
{
    const f32x4 four = {x, x, x, x};
    return (lanes){{four, four, four, four}};
}

PORTABLE lanes lanes_zero(void)
{
    return lanes_all(0.0F);
}

PORTABLE lanes lanes_abs(lanes x)
{
    for (int i = 0; i < QUARTERS; i++) {
        x.of[i] = (f32x4)((i32x4)x.of[i] & 0x7fffffff);
    }
    return x;
}

/* Mostly all lanes are above: four comparisons and one look tell. */
PORTABLE uint32_t lanes_not_above(lanes a, lanes b)
{
    i32x4 within[QUARTERS];
    uint64_t any[2];
    uint32_t bits = 0;
    for (int i = 0; i < QUARTERS; i++) {
        within[i] = ~(a.of[i] > b.of[i]);
    }
    const i32x4 all = (within[0] | within[1]) | (within[2] | within[3]);
    memcpy(any, &all, sizeof any);
    for (int lane = 0; lane < KIN_PACKET && (any[0] | any[1]) != 0; lane++) {
        bits |= (uint32_t)(within[lane / 4][lane % 4] & 1) << lane;
    }
    return bits;
}

#include "tree/tree_leaf_body.inc"

const kin_tree_body *kin_tree_body_get(kin_isa isa, kin_tree_norm norm, int32_t cols)
{
    static const void *const tables[KIN_ISA_COUNT] = KIN_BODIES_WIDE(kin_tree_bodies);
    const kin_tree_bodies *bodies = kin_isa_pick(isa, tables);
    return &bodies->of[norm][cols <= KIN_TREE_CONST_COLS ? cols : 0];
}
