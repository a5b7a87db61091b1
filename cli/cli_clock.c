/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

double cli_clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* VmHWM rather than ru_maxrss: the latter survives exec, and would be that of a large parent that
 * started us. */
static uint64_t high_water_mark(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    if (status == NULL) {
        return 0;
    }
    char line[256];
    uint64_t kib = 0;
    while (kib == 0 && fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmHWM: %" SCNu64 " kB", &kib) != 1) {
            kib = 0;
        }
    }
    (void)fclose(status);
    return kib * 1024;
}

uint64_t cli_clock_peak_bytes(void)
{
    const uint64_t bytes = high_water_mark();
    if (bytes != 0) {
        return bytes;
    }
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}
