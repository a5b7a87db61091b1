/* SPDX-License-Identifier: Apache-2.0
 * Packets, boxes and leaves: portable, and which body a machine gets. Contract: tree_walk.h. */
#include "tree/tree_walk.h"

#include <string.h>

#define LEAF_BODIES kin_tree_bodies_portable
#if defined(__x86_64__) /* for processors of before 2013: compiling dozens of bodies is not worth \
                           it */
#define LEAF_FEW
#endif

/* Four registers of four: what every machine has. */
enum { QUARTERS = 4 };
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef struct lanes {
    f32x4 of[QUARTERS];
} lanes;

/* Written out: a loop of four in each of thousands of copies would take a compiler longest. */
#define LANES_OF_TWO(name, op)                                                            \
    KIN_TEMPLATE lanes name(lanes a, lanes b)                                             \
    {                                                                                     \
        return (lanes){{op(a.of[0], b.of[0]), op(a.of[1], b.of[1]), op(a.of[2], b.of[2]), \
                        op(a.of[3], b.of[3])}};                                           \
    }

#define SUB(a, b) ((a) - (b))
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))

KIN_TEMPLATE f32x4 min_f32x4(f32x4 a, f32x4 b)
{
    const i32x4 less = a < b;
    return (f32x4)(((i32x4)a & less) | ((i32x4)b & ~less));
}

KIN_TEMPLATE f32x4 max_f32x4(f32x4 a, f32x4 b)
{
    const i32x4 more = a > b;
    return (f32x4)(((i32x4)a & more) | ((i32x4)b & ~more));
}

KIN_TEMPLATE f32x4 square_f32x4(f32x4 x, f32x4 acc)
{
    return acc + x * x;
}

LANES_OF_TWO(lanes_sub, SUB)
LANES_OF_TWO(lanes_add, ADD)
LANES_OF_TWO(lanes_mul, MUL)
LANES_OF_TWO(lanes_min, min_f32x4)
LANES_OF_TWO(lanes_max, max_f32x4)
LANES_OF_TWO(lanes_square, square_f32x4)

KIN_TEMPLATE lanes lanes_load(const float *from)
{
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

KIN_TEMPLATE void lanes_store(float *to, lanes x)
{
    memcpy(to, &x, sizeof x);
}

KIN_TEMPLATE lanes lanes_all(float x)
{
    const f32x4 four = {x, x, x, x};
    return (lanes){{four, four, four, four}};
}

KIN_TEMPLATE lanes lanes_zero(void)
{
    return lanes_all(0.0F);
}

KIN_TEMPLATE f32x4 abs_f32x4(f32x4 x)
{
    return (f32x4)((i32x4)x & 0x7fffffff);
}

KIN_TEMPLATE lanes lanes_abs(lanes x)
{
    return (lanes){
        {abs_f32x4(x.of[0]), abs_f32x4(x.of[1]), abs_f32x4(x.of[2]), abs_f32x4(x.of[3])}};
}

/* A bit for each lane of what the comparison left. A function of its own, as most looks need none
 * of it. */
static __attribute__((noinline)) uint32_t bits_of(const i32x4 *within)
{
    uint32_t bits = 0;
    for (int lane = 0; lane < KIN_PACKET; lane++) {
        bits |= (uint32_t)(within[lane / 4][lane % 4] & 1) << lane;
    }
    return bits;
}

/* Mostly all lanes are above: four comparisons and one look tell. */
KIN_TEMPLATE uint32_t lanes_not_above(lanes a, lanes b)
{
    const i32x4 within[QUARTERS] = {~(a.of[0] > b.of[0]), ~(a.of[1] > b.of[1]),
                                    ~(a.of[2] > b.of[2]), ~(a.of[3] > b.of[3])};
    uint64_t any[2];
    const i32x4 all = (within[0] | within[1]) | (within[2] | within[3]);
    memcpy(any, &all, sizeof any);
    return (any[0] | any[1]) != 0 ? bits_of(within) : 0;
}

#include "tree/tree_leaf_body.inc"
