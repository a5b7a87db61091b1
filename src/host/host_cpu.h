/* SPDX-License-Identifier: Apache-2.0
 * What this processor is: instruction sets, caches, number of processors; and the mode it is in. */
#ifndef KIN_HOST_CPU_H
#define KIN_HOST_CPU_H

#include "base/base_ctx.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Whether processor and kernel together can run code of this level. For AMX this asks the kernel
 * for permission to use the tile registers (once a process; harmless). */
bool kin_cpu_has(kin_isa isa);
/* The best level that the processor has. */
kin_isa kin_cpu_best(void);
/* Whether the bodies of level `body` are part of level `isa`, as its row says: avx2vnni
 * of none but itself, since a machine may have AVX-512 without it. */
bool kin_isa_includes(kin_isa isa, kin_isa body);
/* By level: the body of `isa`, or else of the next level that is part of it and has one. Where the
 * portable level has none, and no other, it is NULL. */
const void *kin_isa_pick(kin_isa isa, const void *const bodies[KIN_ISA_COUNT]);
/* The names of KIN_ISA_MAP; false if no such name. */
const char *kin_isa_name(kin_isa isa);
bool kin_isa_parse(const char *name, kin_isa *isa);

/* Bytes of the second-level cache of one core; 512 KiB where unknown. */
int64_t kin_cpu_l2_bytes(void);
/* Processors that this process may run on (affinity and cgroup quota, at least 1). */
int32_t kin_cpu_count(void);
/* "AMD EPYC", for people; never NULL. */
const char *kin_cpu_model(char *text, size_t bytes);

/* ---- The floating-point mode ----------------------------------------------------------------- */

/* What kith computes in: round to nearest even, subnormals kept, no traps. One library linked with
 * -ffast-math puts a process under flush-to-zero, and threads keep the mode they were born with; so
 * every entry point and every thread sets the mode and puts back what it found. */
#if defined(__x86_64__)
typedef uint32_t kin_fpenv;
enum { KIN_FPENV_STANDARD = 0x1F80 };

static inline kin_fpenv kin_fpenv_enter(void)
{
    const kin_fpenv found = _mm_getcsr();
    _mm_setcsr(KIN_FPENV_STANDARD);
    return found;
}

static inline void kin_fpenv_leave(kin_fpenv found)
{
    _mm_setcsr(found);
}
#elif defined(__aarch64__)
typedef uint64_t kin_fpenv;

static inline kin_fpenv kin_fpenv_enter(void)
{
    kin_fpenv found;
    __asm__ volatile("mrs %0, fpcr" : "=r"(found));
    __asm__ volatile("msr fpcr, %0" : : "r"((kin_fpenv)0));
    return found;
}

static inline void kin_fpenv_leave(kin_fpenv found)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(found));
}
#else
#error "kith needs to set the floating-point mode; this processor is not known to it"
#endif

#endif
