/* SPDX-License-Identifier: Apache-2.0
 * What this processor is: instruction sets, caches, number of processors. */
#ifndef KIN_HOST_CPU_H
#define KIN_HOST_CPU_H

#include "base/base_ctx.h"

/* Whether processor and kernel together can run code of this level. For AMX this asks the kernel
 * for permission to use the tile registers (once a process; harmless). */
bool kin_cpu_has(kin_isa isa);
/* The best level that the processor has. */
kin_isa kin_cpu_best(void);
/* Whether the bodies of level `body` are part of level `isa`: avx2 is part of all of its family
 * above it, avx2vnni of none but itself (a machine may have AVX-512 without it); neon is part of
 * dotprod, and dotprod of i8mm. */
bool kin_isa_includes(kin_isa isa, kin_isa body);
/* By level: the body of the highest one below or at `isa` that is part of it and has one. Where the
 * portable level has none, and no other, it is NULL. */
const void *kin_isa_pick(kin_isa isa, const void *const bodies[KIN_ISA_COUNT]);
/* Bodies of one contract: name_portable, and name_avx2 and name_avx512, or name_neon.
 * KIN_BODIES_WIDE is for a source in vectors of any width: compiled for ARM without a flag it is
 * made of NEON's instructions already, and has no other body there. */
#if defined(__x86_64__)
#define KIN_BODIES(name)                                                      \
    {                                                                         \
        [KIN_ISA_PORTABLE] = &name##_portable, [KIN_ISA_AVX2] = &name##_avx2, \
        [KIN_ISA_AVX512] = &name##_avx512                                     \
    }
#define KIN_BODIES_WIDE KIN_BODIES
#else
#define KIN_BODIES_WIDE(name)                 \
    {                                         \
        [KIN_ISA_PORTABLE] = &name##_portable \
    }
#if defined(__aarch64__)
#define KIN_BODIES(name)                                                     \
    {                                                                        \
        [KIN_ISA_PORTABLE] = &name##_portable, [KIN_ISA_NEON] = &name##_neon \
    }
#else
#define KIN_BODIES KIN_BODIES_WIDE
#endif
#endif
/* The names of KIN_ISA_MAP; false if no such name. */
const char *kin_isa_name(kin_isa isa);
bool kin_isa_parse(const char *name, kin_isa *isa);

/* Bytes of the second-level cache of one core; 512 KiB where unknown. */
int64_t kin_cpu_l2_bytes(void);
/* Processors that this process may run on (affinity and cgroup quota, at least 1). */
int32_t kin_cpu_count(void);
/* "AMD EPYC", for people; never NULL. */
const char *kin_cpu_model(char *text, size_t bytes);

#endif
