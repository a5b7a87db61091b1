/* SPDX-License-Identifier: Apache-2.0
 * Instruction sets, a row each. Numbers, names and messages, what is part of what, bodies by level
 * (host_cpu.h), what a processor must have, the compiler's flags (CMakeLists.txt reads the rows)
 * and the lists of the documents (tools/write_rows.py) are made of them. A new one is a row, its
 * words in the two maps of bodies, and the bodies: files name_SUFFIX.c. */
#ifndef KIN_BASE_ISA_H
#define KIN_BASE_ISA_H

/* NAME, name and suffix of files, the level that is part of it (a row above), multiply-accumulates
 * a second, the compiler's flags beside that level's, what it needs beside that (host_cpu.c). */
#define KIN_ISA_X86_MAP(X)                                                                   \
    X(AVX2, avx2, PORTABLE, 8e10, "-mavx2 -mfma -mf16c -mbmi -mbmi2", .saved = 0x6,          \
      .c1 = 1u << 12 | 1u << 28 | 1u << 29 /* FMA, AVX, F16C */,                             \
      .b7 = 1u << 5 | 1u << 3 | 1u << 8 /* AVX2, BMI1, BMI2 */)                              \
    X(AVX2VNNI, avx2vnni, AVX2, 2e11, "-mavxvnni", .a7_1 = 1u << 4)                          \
    X(AVX512, avx512, AVX2, 1e11,                                                            \
      "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512", .saved = 0xe6, \
      .b7 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31 /* F, DQ, BW, VL */)                   \
    X(AVX512VNNI, avx512vnni, AVX512, 3e11, "-mavx512vnni", .c7 = 1u << 11)                  \
    X(AMX, amx, AVX512VNNI, 8e11, "-mamx-tile -mamx-int8 -mamx-bf16", .saved = 0x60000,      \
      .d7 = 1u << 24 | 1u << 25 | 1u << 22 /* TILE, INT8, BF16 */)
/* Flags are what follows the name of the architecture: every one of them has NEON. */
#define KIN_ISA_ARM_MAP(X)                                                       \
    X(NEON, neon, PORTABLE, 4e10, "", .hwcap = 1u << 1 /* ASIMD */)              \
    X(DOTPROD, dotprod, NEON, 1e11, "+dotprod", .hwcap = 1u << 20 /* ASIMDDP */) \
    X(I8MM, i8mm, DOTPROD, 2e11, "+i8mm", .hwcap2 = 1u << 13 /* I8MM */)
#define KIN_ISA_MAP(X) \
    X(PORTABLE, portable, PORTABLE, 5e9, "", ) KIN_ISA_X86_MAP(X) KIN_ISA_ARM_MAP(X)

#define KIN_ISA_NUMBER(NAME, ...) KIN_ISA_##NAME,
typedef enum kin_isa { KIN_ISA_MAP(KIN_ISA_NUMBER) KIN_ISA_COUNT } kin_isa;

/* Who has a body in vectors for distances, words, rounding, leaves and scans beside the portable
 * one: X(what, NAME, suffix). KIN_WIDE_MAP is of a source in vectors of any width: compiled for ARM
 * without a flag it is made of NEON's instructions already, and has no other body there.
 * Who has kernels of products, tiles and joins: X(TYPE, type, NAME, suffix). */
#if defined(__x86_64__)
#define KIN_WIDE_MAP(X, what) X(what, AVX2, avx2) X(what, AVX512, avx512)
#define KIN_VECTOR_MAP KIN_WIDE_MAP
#define KIN_PRODUCT_OWN_MAP(X)          \
    X(S16, s16, AVX2, avx2)             \
    X(F32, f32, AVX2, avx2)             \
    X(S8, s8, AVX2VNNI, avx2vnni)       \
    X(S16, s16, AVX2VNNI, avx2vnni)     \
    X(S16, s16, AVX512, avx512)         \
    X(F32, f32, AVX512, avx512)         \
    X(S8, s8, AVX512VNNI, avx512vnni)   \
    X(S16, s16, AVX512VNNI, avx512vnni) \
    X(S8, s8, AMX, amx)                 \
    X(BF16, bf16, AMX, amx)
#elif defined(__aarch64__)
#define KIN_WIDE_MAP(X, what)
#define KIN_VECTOR_MAP(X, what) X(what, NEON, neon)
#define KIN_PRODUCT_OWN_MAP(X)  \
    X(S16, s16, NEON, neon)     \
    X(F32, f32, NEON, neon)     \
    X(S8, s8, DOTPROD, dotprod) \
    X(S8, s8, I8MM, i8mm)
#else
#define KIN_WIDE_MAP(X, what)
#define KIN_VECTOR_MAP KIN_WIDE_MAP
#define KIN_PRODUCT_OWN_MAP(X)
#endif
#define KIN_PRODUCT_MAP(X)          \
    X(S8, s8, PORTABLE, portable)   \
    X(S16, s16, PORTABLE, portable) \
    X(F32, f32, PORTABLE, portable) \
    KIN_PRODUCT_OWN_MAP(X)

/* A table of bodies by level, name_SUFFIX each; their declarations, of type_SUFFIX. */
#define KIN_BODY_AT(name, NAME, isa) [KIN_ISA_##NAME] = &name##_##isa,
#define KIN_BODIES(name)                                                        \
    {                                                                           \
        KIN_BODY_AT(name, PORTABLE, portable) KIN_VECTOR_MAP(KIN_BODY_AT, name) \
    }
#define KIN_BODIES_WIDE(name)                                                 \
    {                                                                         \
        KIN_BODY_AT(name, PORTABLE, portable) KIN_WIDE_MAP(KIN_BODY_AT, name) \
    }
#define KIN_BODY_OF(type, NAME, isa) extern const type type##_##isa;
#define KIN_BODIES_OF(type) KIN_BODY_OF(type, PORTABLE, portable) KIN_VECTOR_MAP(KIN_BODY_OF, type)
#define KIN_BODIES_OF_WIDE(type) \
    KIN_BODY_OF(type, PORTABLE, portable) KIN_WIDE_MAP(KIN_BODY_OF, type)

/* A body that is written once is inlined with constant arguments. Not under a sanitizer
 * (CMakeLists.txt), which watches the same lines, and where the compiler then has a tenth to do. */
#define KIN_PRAGMA(words) _Pragma(#words)
#ifdef KIN_SANITIZED
#define KIN_TEMPLATE static inline
#define KIN_UNROLL_BY(times)
#define KIN_UNROLL
#else
#define KIN_TEMPLATE static inline __attribute__((always_inline))
#define KIN_UNROLL_BY(times) KIN_PRAGMA(GCC unroll times)
#ifdef __clang__
#define KIN_UNROLL KIN_PRAGMA(clang loop unroll(full))
#else
#define KIN_UNROLL KIN_UNROLL_BY(16)
#endif
#endif

#endif
