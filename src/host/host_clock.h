/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KIN_HOST_CLOCK_H
#define KIN_HOST_CLOCK_H

#include <stdint.h>

/* Nanoseconds of a clock that only goes forward. */
int64_t kin_clock_ns(void);
/* Seconds since an earlier kin_clock_ns(). */
double kin_clock_since(int64_t start_ns);

#endif
