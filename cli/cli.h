/* SPDX-License-Identifier: Apache-2.0
 * The command line: exit codes and the entry point of each command. Everything in cli/ knows the
 * library by its public header alone. */
#ifndef CLI_H
#define CLI_H

#include "cli_options.h"

enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_WRONG_USAGE = 2,
    CLI_INTERRUPTED = 130 /* 128 + SIGINT, as shells count */
};

/* Each does one command whole, prints its own errors, and returns the exit code. */
int cli_graph(const cli_args *args);
int cli_search(const cli_args *args);
int cli_select(const cli_args *args);
int cli_predict(const cli_args *args);
int cli_tree(const cli_args *args);
int cli_merge(const cli_args *args); /* and kith add */
int cli_remove(const cli_args *args);
int cli_eval(const cli_args *args);
int cli_info(const cli_args *args);
int cli_convert(const cli_args *args);
int cli_devices(const cli_args *args);

#endif
