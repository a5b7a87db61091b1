/* SPDX-License-Identifier: Apache-2.0
 * Runs one command and writes what it cost: bench_clocked REPORT COMMAND ARGUMENTS...
 *
 * REPORT gets "seconds peak_kib exit_code". The kernel counts the memory of whoever starts a
 * process as that process' own until it has replaced its image, so a benchmark in Python would see
 * its own arrays in everyone's peak; this program is small. */
#include "host/host_clock.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_clocked REPORT COMMAND ARGUMENTS...\n");
        return 2;
    }
    pid_t pid = 0;
    const int64_t start = kin_clock_ns();
    const int failed = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
    if (failed != 0) {
        fprintf(stderr, "clocked: %s: %s\n", argv[2], strerror(failed));
        return 2;
    }
    const int code = wait_for(pid);
    const double seconds = kin_clock_since(start);
    struct rusage usage;
    FILE *report = fopen(argv[1], "w");
    if (report == NULL || getrusage(RUSAGE_CHILDREN, &usage) != 0) {
        fprintf(stderr, "clocked: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    fprintf(report, "%.6f %ld %d\n", seconds, usage.ru_maxrss, code);
    return fclose(report) == 0 ? code : 2;
}
