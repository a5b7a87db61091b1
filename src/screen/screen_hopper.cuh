/* SPDX-License-Identifier: Apache-2.0
 * The words of Hopper that the screen speaks: barriers in shared memory, the bulk copy engine,
 * warpgroup products. Thin: one PTX instruction a function (PTX ISA 8.0, sections 9.7.12
 * to 9.7.15).
 */
#ifndef KIN_SCREEN_HOPPER_CUH
#define KIN_SCREEN_HOPPER_CUH

#include <cuda.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t hopper_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- Barriers ------------------------------------------------------------------------------- */

__device__ __forceinline__ void hopper_barrier_make(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(hopper_shared(barrier)),
                 "r"(arrivals));
}

/* One arrival, and `bytes` of copies that must land as well. */
__device__ __forceinline__ void hopper_barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(hopper_shared(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void hopper_barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(hopper_shared(barrier))
                 : "memory");
}

/* Waits for the end of the phase of this parity. */
__device__ __forceinline__ void hopper_barrier_wait(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra AGAIN;\n"
                 "}" ::"r"(hopper_shared(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Named barriers of hardware: two warpgroups hand a turn to each other. */
__device__ __forceinline__ void hopper_turn_wait(int name)
{
    asm volatile("bar.sync %0, 256;" ::"r"(name) : "memory");
}

__device__ __forceinline__ void hopper_turn_give(int name)
{
    asm volatile("bar.arrive %0, 256;" ::"r"(name) : "memory");
}

__device__ __forceinline__ void hopper_group_sync(int name)
{
    asm volatile("bar.sync %0, 128;" ::"r"(name) : "memory");
}

/* A warpgroup takes more registers than it was born with, or gives some away. */
template <int COUNT> __device__ __forceinline__ void hopper_take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void hopper_give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* The box at (x, y) of a tensor map into shared memory. */
__device__ __forceinline__ void hopper_copy_box(void *to, const CUtensorMap *map, uint64_t *barrier,
                                                int32_t x, int32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(hopper_shared(to)),
                 "l"(map), "r"(hopper_shared(barrier)), "r"(x), "r"(y)
                 : "memory");
}

/* bytes: a multiple of 16, both ends aligned to 16. */
__device__ __forceinline__ void hopper_copy(void *to, const void *from, uint64_t *barrier,
                                            uint32_t bytes)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %3, [%2];" ::"r"(hopper_shared(to)),
                 "l"(from), "r"(hopper_shared(barrier)), "r"(bytes)
                 : "memory");
}

/* ---- Products ------------------------------------------------------------------------------- */

/* A matrix in shared memory whose rows are 128 bytes, swizzled by the copy engine (128-byte mode):
 * groups of 8 rows are 1,024 bytes apart. Adding 2 goes 32 bytes along the row. */
__device__ __forceinline__ uint64_t hopper_matrix(const void *p)
{
    return (uint64_t)((hopper_shared(p) & 0x3ffff) >> 4) | 1ull << 16 |
           (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

/* A matrix of rows of 32 bytes as blocks of 8 rows x 16 bytes, without swizzle: the two of the same
 * rows are 128 bytes apart, those of the next 8 rows 256. */
__device__ __forceinline__ uint64_t hopper_blocks(const void *p)
{
    return (uint64_t)((hopper_shared(p) & 0x3ffff) >> 4) | (uint64_t)(128 >> 4) << 16 |
           (uint64_t)(256 >> 4) << 32;
}

__device__ __forceinline__ void hopper_products_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void hopper_products_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void hopper_products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* Nothing that reads d is moved before what stands before this. */
__device__ __forceinline__ void hopper_products_settle(int32_t (&d)[64])
{
#pragma unroll
    for (int i = 0; i < 64; i++) {
        asm volatile("" : "+r"(d[i])::"memory");
    }
}

/* d[64 x 128] (+)= a[64 x 16] b[128 x 16]^T in halves; the old d counts where `more` is not 0.
 * Thread t of a warpgroup holds of row 16 (t / 32) + t % 32 / 4 + 8 h the columns 8 j + 2 (t % 4) +
 * e, in d[4 j + 2 h + e]. */
__device__ __forceinline__ void hopper_multiply(float (&d)[64], uint64_t a, uint64_t b, int more)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, %64, %65, p, 1, 1, 0, 0;\n"
                 "}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(more));
}

/* The same of 32 signed bytes. */
__device__ __forceinline__ void hopper_multiply(int32_t (&d)[64], uint64_t a, uint64_t b, int more)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                 "%62, %63"
                 "}, %64, %65, p;\n"
                 "}\n"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),
                   "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
                   "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
                   "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
                   "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),
                   "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
                   "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
                   "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
                   "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]),
                   "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]),
                   "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
                 : "l"(a), "l"(b), "r"(more));
}

#endif
