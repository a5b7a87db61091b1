/* SPDX-License-Identifier: Apache-2.0
 * Ctrl-C. The first SIGINT or SIGTERM sets a flag that the progress callback hands to the library,
 * so that a job ends cleanly; the second kills at once, as the system does by default. A file that
 * grows beyond the process's limit kills nobody: the write fails, and says so. */
#ifndef CLI_SIGNAL_H
#define CLI_SIGNAL_H

#include <stdbool.h>

/* A signal that the parent had ignored (nohup, a background job) stays ignored. */
void cli_signal_install(void);
bool cli_signal_came(void);

#endif
