/* SPDX-License-Identifier: Apache-2.0 */
#include "host/host_clock.h"

#include <time.h>

int64_t kin_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double kin_clock_since(int64_t start_ns)
{
    return (double)(kin_clock_ns() - start_ns) * 1e-9;
}
