/* SPDX-License-Identifier: Apache-2.0
 * Scan for AVX2. This file is short because a machine's flags are a file's. */
#if defined(__x86_64__)
#include "select/select_scan_x86.inc"

SCAN_MACHINE(avx2, 96);
#endif
