/* SPDX-License-Identifier: Apache-2.0
 * The floating-point mode that kith computes in: round to nearest even, subnormals kept, no traps.
 * One library linked with -ffast-math puts a process under flush-to-zero, and threads keep the mode
 * they were born with; so every entry point and every thread sets the mode and puts back what it
 * found. */
#ifndef KIN_HOST_FPENV_H
#define KIN_HOST_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
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
