/* SPDX-License-Identifier: Apache-2.0
 * The two figures that only the system knows: time, and the memory of this process. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>

/* Seconds of a clock that only goes forward. */
double cli_clock_now(void);
/* The most bytes of memory that this process had resident, by the kernel's own count. */
uint64_t cli_clock_peak_bytes(void);

#endif
