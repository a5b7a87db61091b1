/* SPDX-License-Identifier: Apache-2.0
 * Bodies that are written once and inlined with constant arguments. */
#ifndef KIN_BASE_TEMPLATE_H
#define KIN_BASE_TEMPLATE_H

#ifdef KIN_SANITIZED /* the same lines are watched, and the compiler has a tenth to do */
#define KIN_TEMPLATE static inline
#define KIN_UNROLL
#else
#define KIN_TEMPLATE static inline __attribute__((always_inline))
#if defined(__clang__)
#define KIN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KIN_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

#endif
