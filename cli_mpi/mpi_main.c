/* SPDX-License-Identifier: Apache-2.0
 * kith-mpi: kith graph --shards by many processes, on one machine or many. Each rank does what kith
 * does, with its part of its machine; the library tells them apart. */
#include "mpi_team.h"

#include "cli.h"
#include "cli_help.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: mpirun -n RANKS kith-mpi graph POINTS -k K --shards FOLDER -o FILE [OPTION]...\n"
    "\n"
    "The graph of kith graph --shards, byte for byte, by many processes. All see POINTS, FOLDER "
    "and\n"
    "the folder of FILE. Options are those of kith graph; --threads, --memory and --gpu-memory "
    "are\n"
    "each rank's own. See man kith-mpi.\n";

/* Rank 0 reports. */
static int graph(mpi_team *team, cli_args *args)
{
    args->team = &team->team;
    if (team->team.shards.worker > 0) {
        args->given |= (uint64_t)1 << CLI_OPT_QUIET;
        args->given &= ~((uint64_t)1 << CLI_OPT_JSON);
    }
    if (args->command != CLI_GRAPH || !cli_given(args, CLI_OPT_SHARDS)) {
        return cli_wrong("kith-mpi", "makes graphs from shards (give graph and --shards, or use "
                                     "kith)");
    }
    if (cli_given(args, CLI_OPT_DRY_RUN) && team->team.shards.worker > 0) {
        return CLI_DONE;
    }
    mpi_team_divide(team, args);
    return cli_graph(args);
}

static int answer(mpi_team *team, cli_request request, cli_args *args, const cli_error *error)
{
    const bool speaks = team->team.shards.worker == 0;
    switch (request) {
    case CLI_REQUEST_HELP:
    case CLI_REQUEST_COMMAND_HELP:
        (void)(speaks && fputs(usage, stdout));
        return CLI_DONE;
    case CLI_REQUEST_VERSION:
        (void)(speaks && printf("kith-mpi %s (%s)\n", kith_version(), kith_commit()));
        return CLI_DONE;
    case CLI_REQUEST_WRONG:
        return cli_wrong(error->where[0] != '\0' ? error->where : NULL, "%s", error->text);
    case CLI_REQUEST_RUN:
        break;
    }
    return graph(team, args);
}

int main(int argc, char **argv)
{
    mpi_team team;
    cli_args args;
    cli_error error;
    mpi_team_begin(&argc, &argv, &team);
    const cli_request request = cli_parse(argc, (const char *const *)argv, &args, &error);
    int code = answer(&team, request, &args, &error);
    if (!team.is_ready) {
        const int all = team.team.ready(&team, code);
        code = code != CLI_DONE ? code : all;
    }
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE) {
        code = cli_fail("standard output", "%s", strerror(errno));
    }
    mpi_team_end(&team);
    return code;
}
