/* SPDX-License-Identifier: Apache-2.0
 * Packets, boxes and leaves: AVX-512. Contract: tree_walk.h. */
#include "tree/tree_walk.h"

#include <immintrin.h>
#include <string.h>

#define LEAF_BODIES kin_tree_bodies_avx512

typedef __m512 lanes;
#define lanes_load(from) _mm512_loadu_ps(from)
#define lanes_store(to, x) _mm512_storeu_ps(to, x)
#define lanes_all(x) _mm512_set1_ps(x)
#define lanes_zero() _mm512_setzero_ps()
#define lanes_sub(a, b) _mm512_sub_ps(a, b)
#define lanes_add(a, b) _mm512_add_ps(a, b)
#define lanes_mul(a, b) _mm512_mul_ps(a, b)
#define lanes_min(a, b) _mm512_min_ps(a, b)
#define lanes_max(a, b) _mm512_max_ps(a, b)
#define lanes_abs(x) _mm512_abs_ps(x)
#define lanes_square(x, acc) _mm512_fmadd_ps(x, x, acc)
#define lanes_not_above(a, b) (uint32_t) _mm512_cmp_ps_mask(a, b, _CMP_NGT_UQ)

#include "tree/tree_leaf_body.inc"
