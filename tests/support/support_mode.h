/* SPDX-License-Identifier: Apache-2.0
 * Floating-point modes that a caller of kith may be in (host/host_cpu.h): one that flushes
 * subnormals to zero, one that rounds upward. kin_fpenv_leave sets a mode, kin_fpenv_enter says
 * which there was. */
#ifndef SUPPORT_MODE_H
#define SUPPORT_MODE_H

#include "host/host_cpu.h"

enum { TEST_MODES = 2 };
#if defined(__x86_64__)
/* The low six bits are flags that operations raise. */
enum { TEST_MODE_FLAGS = 0x3f };
static const kin_fpenv test_modes[TEST_MODES] = {0x1F80 | 0x8000 | 0x0040, 0x1F80 | 0x4000};
#else
enum { TEST_MODE_FLAGS = 0 };
static const kin_fpenv test_modes[TEST_MODES] = {1u << 24, 1u << 22};
#endif

#endif
