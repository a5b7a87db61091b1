/* SPDX-License-Identifier: Apache-2.0
 * short because two lines are all there is to a clock. */
#ifndef KIN_HOST_CLOCK_H
#define KIN_HOST_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that only goes forward. */
static inline int64_t kin_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Seconds since an earlier kin_clock_ns(). */
static inline double kin_clock_since(int64_t start_ns)
{
    return (double)(kin_clock_ns() - start_ns) * 1e-9;
}

#endif
