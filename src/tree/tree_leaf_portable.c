/* SPDX-License-Identifier: Apache-2.0
 * Packets, boxes and leaves: portable, and which body a machine gets. Contract: tree_leaf.h. */
#include "tree/tree_leaf.h"

#include "host/host_cpu.h"

#include <string.h>

/* Everything below is inlined; no vector crosses a call, so no calling convention matters. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define LEAF_BODIES kin_tree_portable

typedef float lanes __attribute__((vector_size(64)));
typedef int32_t flags __attribute__((vector_size(64)));

#define lanes_sub(a, b) ((a) - (b))
#define lanes_add(a, b) ((a) + (b))
#define lanes_mul(a, b) ((a) * (b))
#define lanes_square(x, acc) ((acc) + (x) * (x))

static inline lanes lanes_load(const float *from)
{
    lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void lanes_store(float *to, lanes x)
{
    memcpy(to, &x, sizeof x);
}

static inline lanes lanes_all(float x)
{
    return (lanes){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

static inline lanes lanes_zero(void)
{
    return lanes_all(0.0F);
}

static inline lanes lanes_max(lanes a, lanes b)
{
    const flags more = a > b;
    return (lanes)(((flags)a & more) | ((flags)b & ~more));
}

static inline lanes lanes_abs(lanes x)
{
    return (lanes)((flags)x & 0x7fffffff);
}

static inline uint32_t lanes_not_above(lanes a, lanes b)
{
    const flags above = a > b;
    uint32_t bits = 0;
    for (int32_t lane = 0; lane < KIN_PACKET; lane++) {
        bits |= above[lane] != 0 ? 0 : 1u << lane;
    }
    return bits;
}

#include "tree/tree_leaf_body.inc"

const kin_tree_body *kin_tree_body_get(kin_isa isa, kin_tree_norm norm, int32_t cols)
{
    const int32_t exact = cols <= KIN_TREE_CONST_COLS ? cols : 0;
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return &kin_tree_avx512.of[norm][exact];
    }
    if (kin_isa_includes(isa, KIN_ISA_AVX2)) {
        return &kin_tree_avx2.of[norm][exact];
    }
#else
    (void)isa;
#endif
    return &kin_tree_portable.of[norm][exact];
}
