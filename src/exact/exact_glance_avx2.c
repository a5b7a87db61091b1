/* SPDX-License-Identifier: Apache-2.0
 * Shadows at a glance: avx2. Contract: exact_glance.h. */
#if defined(__x86_64__)
#define GLANCE_OPS kin_glance_ops_avx2
#include "exact/exact_glance_body.inc"
#endif
