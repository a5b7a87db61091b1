/* SPDX-License-Identifier: Apache-2.0
 * How far a job is: a bar on a terminal, a line every few seconds elsewhere; nothing in the first
 * second, and nothing at all under --quiet. All of it goes to stderr. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cli_progress {
    bool quiet;
    bool terminal;
    bool drawn; /* a bar stands on the terminal's last line */
    double start;
    double shown; /* when something was shown last */
    double done;  /* share of the job before this call of the library, */
    double part;  /*   and that of the call: 0 and 1 where there is one call */
} cli_progress;

void cli_progress_start(cli_progress *progress, bool quiet);
/* The next call of the library does this part of a job, behind what is done. */
void cli_progress_part(cli_progress *progress, double done, double part);
/* A kith_progress_fn; arg is the cli_progress. Also asks whether a signal came. */
int cli_progress_tick(void *arg, const char *phase, double done, double total);
/* Takes the bar away, so that other text can follow. */
void cli_progress_clear(cli_progress *progress);

/* ---- Time and memory ------------------------------------------------------------------------- */

/* The two figures that only the system knows: time, and the memory of this process. */

/* Seconds of a clock that only goes forward. */
double cli_clock_now(void);
/* Adds the seconds that a call takes. */
#define CLI_TIMED(seconds, call)               \
    do {                                       \
        const double start_ = cli_clock_now(); \
        (call);                                \
        (seconds) += cli_clock_now() - start_; \
    } while (0)
/* The most bytes of memory that this process had resident, by the kernel's own count. */
uint64_t cli_clock_peak_bytes(void);

/* ---- Signals --------------------------------------------------------------------------------- */

/* Ctrl-C. The first SIGINT or SIGTERM sets a flag that the progress callback hands to the library,
 * so that a job ends cleanly; the second kills at once, as the system does by default. A file that
 * grows beyond the process's limit kills nobody: the write fails, and says so. */

/* A signal that the parent had ignored (nohup, a background job) stays ignored. */
void cli_signal_install(void);
bool cli_signal_came(void);

#endif
