/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_signal.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came = 0;

static void note(int number)
{
    (void)number;
    came = 1;
}

static void install(int number)
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
    install(SIGINT);
    install(SIGTERM);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file beyond ulimit -f is then an error of the write */
}

bool cli_signal_came(void)
{
    return came != 0;
}
