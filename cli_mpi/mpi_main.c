/* SPDX-License-Identifier: Apache-2.0
 * kith-mpi: kith graph --shards by many processes, on one machine or many. Each rank does what kith
 * does, with its part of its machine; the library tells them apart. */
#include "mpi_team.h"

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: mpirun -n RANKS kith-mpi graph POINTS -k K -o FILE [--shards FOLDER] [OPTION]...\n"
    "\n"
    "The graph of kith graph --shards, byte for byte, by many processes. All see POINTS, FOLDER "
    "and\n"
    "the folder of FILE. Without --shards FOLDER is FILE.shards. Options are those of kith graph;\n"
    "--threads, --memory and --tune gpu-memory are each rank's own. See man kith-mpi.\n";

enum { MOST_WORDS = 512 };

typedef struct request {
    cli_request what;
    cli_args args;
    cli_error error;
    const char *words[MOST_WORDS];
    char folder[4096]; /* where none was given */
} request;

/* FILE.shards where no folder is given: parsed once more, since it is not for every option, and
 * some mean nothing without it. */
static void read_words(int count, char **words, request *r)
{
    r->what = cli_parse(count, (const char *const *)words, &r->args, &r->error);
    const cli_args *args = &r->args;
    if ((r->what != CLI_REQUEST_RUN && r->what != CLI_REQUEST_WRONG) ||
        args->command != CLI_GRAPH || args->output == NULL || cli_given(args, CLI_OPT_SHARDS) ||
        count + 2 > MOST_WORDS ||
        strlen(args->output) + sizeof "--shards=.shards" > sizeof r->folder) {
        return;
    }
    (void)snprintf(r->folder, sizeof r->folder, "--shards=%s.shards", args->output);
    memcpy(r->words, words, (size_t)count * sizeof *words);
    memmove(r->words + 3, r->words + 2, (size_t)(count - 2) * sizeof *r->words);
    r->words[2] = r->folder;
    r->what = cli_parse(count + 1, r->words, &r->args, &r->error);
    if (strcmp(r->error.where, "--shards") == 0) { /* nobody has written that */
        (void)snprintf(r->error.where, sizeof r->error.where, "kith-mpi");
    }
}

/* What is wrong with a request before anything is done. */
static int check(const request *r)
{
    const cli_error *error = &r->error;
    if (r->what == CLI_REQUEST_WRONG) {
        return cli_wrong(error->where[0] != '\0' ? error->where : NULL, "%s", error->text);
    }
    if (r->what == CLI_REQUEST_RUN &&
        (r->args.command != CLI_GRAPH || !cli_given(&r->args, CLI_OPT_SHARDS))) {
        return cli_wrong("kith-mpi", "makes graphs that are written to a file (give graph and "
                                     "--output, or use kith)");
    }
    return CLI_DONE;
}

/* A number for all that ranks do alike. */
static int way_of(const request *r)
{
    return (int)r->what << 1 | cli_given(&r->args, CLI_OPT_DRY_RUN);
}

/* Rank 0 reports. */
static int graph(mpi_team *team, cli_args *args)
{
    args->team = &team->team;
    if (team->team.shards.worker > 0) {
        args->given[CLI_OPT_QUIET] = true;
        args->given[CLI_OPT_JSON] = false;
    }
    mpi_team_divide(team, args);
    const bool idle = cli_given(args, CLI_OPT_DRY_RUN) && team->team.shards.worker > 0;
    const int code = idle ? CLI_DONE : cli_graph(args);
    if (team->is_ready) {
        return code;
    }
    const int all = team->team.ready(team, code);
    return code != CLI_DONE ? code : all;
}

static int answer(mpi_team *team, request *r)
{
    const bool speaks = team->team.shards.worker == 0;
    switch (r->what) {
    case CLI_REQUEST_HELP:
    case CLI_REQUEST_COMMAND_HELP:
        (void)(speaks && fputs(usage, stdout));
        return CLI_DONE;
    case CLI_REQUEST_TUNE_HELP:
        if (speaks) {
            cli_help_print_tunes(stdout, r->args.command);
        }
        return CLI_DONE;
    case CLI_REQUEST_VERSION:
        (void)(speaks && printf("kith-mpi %s (%s)\n", kith_version(), kith_commit()));
        return CLI_DONE;
    case CLI_REQUEST_WRONG:
        break; /* was told */
    case CLI_REQUEST_RUN:
        return graph(team, &r->args);
    }
    return CLI_WRONG_USAGE;
}

int main(int argc, char **argv)
{
    static request r;
    mpi_team team;
    mpi_team_begin(&argc, &argv, &team);
    read_words(argc, argv, &r);
    int code = mpi_team_start(&team, check(&r), way_of(&r));
    if (code == CLI_DONE) {
        code = answer(&team, &r);
    }
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE) {
        code = cli_fail("standard output", "cannot be written: %s (send it to a place that takes it)",
                        strerror(errno));
    }
    mpi_team_end(&team);
    return code;
}
