/* SPDX-License-Identifier: Apache-2.0
 * Packets, boxes and leaves: AVX2, sixteen lanes in two registers. Contract: tree_walk.h. */
#include "tree/tree_walk.h"

#include <immintrin.h>
#include <string.h>

#define LEAF_BODIES kin_tree_bodies_avx2

typedef struct lanes {
    __m256 low;
    __m256 high;
} lanes;

#define LANES_OF_TWO(name, op)                                \
    KIN_TEMPLATE lanes name(lanes a, lanes b)                 \
    {                                                         \
        return (lanes){op(a.low, b.low), op(a.high, b.high)}; \
    }
LANES_OF_TWO(lanes_sub, _mm256_sub_ps)
LANES_OF_TWO(lanes_add, _mm256_add_ps)
LANES_OF_TWO(lanes_mul, _mm256_mul_ps)
LANES_OF_TWO(lanes_min, _mm256_min_ps)
LANES_OF_TWO(lanes_max, _mm256_max_ps)

KIN_TEMPLATE lanes lanes_load(const float *from)
{
    return (lanes){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

KIN_TEMPLATE void lanes_store(float *to, lanes x)
{
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}

KIN_TEMPLATE lanes lanes_all(float x)
{
    return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

KIN_TEMPLATE lanes lanes_zero(void)
{
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

KIN_TEMPLATE lanes lanes_abs(lanes x)
{
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return (lanes){_mm256_andnot_ps(sign, x.low), _mm256_andnot_ps(sign, x.high)};
}

KIN_TEMPLATE lanes lanes_square(lanes x, lanes acc)
{
    return (lanes){_mm256_fmadd_ps(x.low, x.low, acc.low),
                   _mm256_fmadd_ps(x.high, x.high, acc.high)};
}

KIN_TEMPLATE uint32_t lanes_not_above(lanes a, lanes b)
{
    const uint32_t low = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_NGT_UQ));
    const uint32_t high = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_NGT_UQ));
    return low | high << 8;
}

#include "tree/tree_leaf_body.inc"
