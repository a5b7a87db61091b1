/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- Time and memory ------------------------------------------------------------------------- */

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

/* ---- Signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t came = 0;

static void note(int number)
{
    (void)number;
    came = 1;
}

static void install_one(int number)
{
    struct sigaction found;
    if (sigaction(number, NULL, &found) != 0 || found.sa_handler == SIG_IGN) {
        return;
    }
    struct sigaction action = {.sa_handler = note};
    (void)sigemptyset(&action.sa_mask);
    /* RESETHAND makes the second signal deadly; RESTART spares the library's reads and writes. */
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
    (void)sigaction(number, &action, NULL);
}

void cli_signal_install(void)
{
    install_one(SIGINT);
    install_one(SIGTERM);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file beyond ulimit -f is then an error of the write */
}

bool cli_signal_came(void)
{
    return came != 0;
}

/* ---- Progress -------------------------------------------------------------------------------- */

enum { BAR_CELLS = 30 };

static const double first_second = 1.0;
static const double between_bars = 0.1;
static const double between_lines = 5.0;

void cli_progress_start(cli_progress *progress, bool quiet)
{
    progress->quiet = quiet;
    progress->terminal = isatty(STDERR_FILENO) == 1;
    progress->drawn = false;
    progress->done = 0.0;
    progress->part = 1.0;
    progress->start = cli_clock_now();
    /* The first line comes after the first second, not five. */
    progress->shown = progress->start + first_second - between_lines;
}

static void draw_bar(const char *phase, double share, double elapsed)
{
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = (double)i < share * BAR_CELLS ? '#' : '.';
    }
    bar[BAR_CELLS] = '\0';
    (void)fprintf(stderr, "\r\033[K%-10s [%s] %3.0f %% %6.1f s", phase, bar, 100.0 * share,
                  elapsed);
    (void)fflush(stderr);
}

static void show(cli_progress *progress, const char *phase, double share)
{
    const double now = cli_clock_now();
    const double elapsed = now - progress->start;
    const double pause = progress->terminal ? between_bars : between_lines;
    if (elapsed < first_second || now - progress->shown < pause) {
        return;
    }
    progress->shown = now;
    if (progress->terminal) {
        draw_bar(phase, share, elapsed);
        progress->drawn = true;
    } else {
        (void)fprintf(stderr, "kith: %s %.0f %%, %.0f s\n", phase, 100.0 * share, elapsed);
    }
}

void cli_progress_part(cli_progress *progress, double done, double part)
{
    progress->done = done;
    progress->part = part;
}

int cli_progress_tick(void *arg, const char *phase, double done, double total)
{
    cli_progress *progress = arg;
    if (!progress->quiet) {
        const double share = total > 0.0 ? done / total : 0.0;
        const double known = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
        show(progress, phase, progress->done + progress->part * known);
    }
    return cli_signal_came() ? 1 : 0;
}

void cli_progress_clear(cli_progress *progress)
{
    if (progress->drawn) {
        (void)fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
        progress->drawn = false;
    }
}
