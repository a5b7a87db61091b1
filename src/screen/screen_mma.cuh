/* SPDX-License-Identifier: Apache-2.0
 * The words of the tensor cores that every chip from sm_80 on understands: copies into shared
 * memory that run beside other work, fragments, products. Thin: one PTX instruction a function.
 *
 * A fragment of A is 16 rows, of B 8 columns, of 32 bytes each: 16 halves or 32 signed bytes. Lane
 * 4 g + t of a warp holds of the 16 x 8 products acc[2 i + e]: row 8 i + g, column 2 t + e. */
#ifndef KIN_SCREEN_MMA_CUH
#define KIN_SCREEN_MMA_CUH

#include <cuda_runtime.h>

#include <stdint.h>

static __device__ __forceinline__ uint32_t mma_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* BYTES: 4, 8, or 16; both sides are aligned to them. */
template <int BYTES> static __device__ __forceinline__ void mma_copy(void *to, const void *from)
{
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(mma_shared(to)),
                     "l"(__cvta_generic_to_global(from))
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(mma_shared(to)),
                     "l"(__cvta_generic_to_global(from)), "n"(BYTES)
                     : "memory");
    }
}

/* Copies of this thread since the last call are a group. */
static __device__ __forceinline__ void mma_close_copies(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most MOST groups of this thread are under way. */
template <int MOST> static __device__ __forceinline__ void mma_wait_copies(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(MOST) : "memory");
}

/* ---- Fragments and products ----------------------------------------------------------------- */

/* Four matrices of 8 rows of 16 bytes; lane l names row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void mma_load(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* Halves, added up in fp32. */
static __device__ __forceinline__ void mma_multiply(float (&c)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Signed bytes, exact. */
static __device__ __forceinline__ void mma_multiply(int32_t (&c)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
