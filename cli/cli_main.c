/* SPDX-License-Identifier: Apache-2.0
 * kith: the command-line tool. Finds out what is wanted and calls it. */
#include "cli.h"

#include <errno.h>
#include <string.h>

static int run(const cli_args *args)
{
#define ROW(COMMAND, function) cli_##function,
    static int (*const commands[])(const cli_args *) = {CLI_COMMAND_MAP(ROW)};
#undef ROW
    return commands[args->command](args);
}

static int answer(cli_request request, const cli_args *args, const cli_error *error)
{
    switch (request) {
    case CLI_REQUEST_HELP:
        cli_help_print(stdout);
        return CLI_DONE;
    case CLI_REQUEST_COMMAND_HELP:
        cli_help_print_command(stdout, args->command);
        return CLI_DONE;
    case CLI_REQUEST_TUNE_HELP:
        cli_help_print_tunes(stdout, args->command);
        return CLI_DONE;
    case CLI_REQUEST_VERSION:
        (void)printf("kith %s (%s)\n", kith_version(), kith_commit());
        return CLI_DONE;
    case CLI_REQUEST_WRONG:
        return cli_wrong(error->where[0] != '\0' ? error->where : NULL, "%s", error->text);
    case CLI_REQUEST_RUN:
        break;
    }
    return run(args);
}

int main(int argc, char **argv)
{
    cli_args args;
    cli_error error;
    const cli_request request = cli_parse(argc, (const char *const *)argv, &args, &error);
    const int code = answer(request, &args, &error);
    cli_keep_end();
    /* A report that did not arrive, on a full disk for example, is a failure too. */
    CLI_FAIL_IF((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE, "standard output",
                "cannot be written: %s (send it to a place that takes it)", strerror(errno));
    return code;
}
