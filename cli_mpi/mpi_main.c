/* SPDX-License-Identifier: Apache-2.0
 * kith-mpi: kith graph --shards, kith search and kith predict by many processes, on one machine or
 * many. Each rank does what kith does, with its part of its machine; the library tells the ranks of
 * a graph apart, and cli_part.h those of a search. */
#include "mpi_team.h"

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "Usage: mpirun -n RANKS kith-mpi graph POINTS -k K -o FILE [--shards FOLDER] [OPTION]...\n"
    "       mpirun -n RANKS kith-mpi search CORPUS QUERIES -k K -o FILE [OPTION]...\n"
    "       mpirun -n RANKS kith-mpi predict CATALOGUE LABELS QUERIES -k K -o FILE [OPTION]...\n"
    "\n"
    "The answer of kith graph --shards, kith search or kith predict, byte for byte, by many\n"
    "processes. A graph: all see POINTS, FOLDER and the folder of FILE; without --shards FOLDER "
    "is\n"
    "FILE.shards. A search, also in an index: the queries are divided (--divide corpus: the rows\n"
    "that are searched), and rank 0 writes FILE.\n"
    "Options are those of kith; --threads, --memory and --tune gpu-memory are each rank's own. "
    "See\n"
    "man kith-mpi.\n";

enum { MOST_WORDS = 512 };

typedef struct request {
    cli_request what;
    cli_args args;
    cli_error error;
    const char *words[MOST_WORDS];
    char folder[4096];   /* where none was given */
    bool divides;        /* --divide was given, */
    const char *divided; /* what it names; NULL: nothing */
} request;

/* --divide is an option of kith-mpi alone, and is taken out of the words. Returns how many are
 * left.
 */
static int take_divide(int count, char **words, request *r)
{
    static const char option[] = "--divide";
    const size_t bytes = sizeof option - 1;
    for (int i = 1; i < count; i++) {
        const bool with = strncmp(words[i], option, bytes) == 0 && words[i][bytes] == '=';
        if (!with && strcmp(words[i], option) != 0) {
            continue;
        }
        const int taken = with || i + 1 == count ? 1 : 2;
        r->divides = true;
        r->divided = with ? words[i] + bytes + 1 : taken == 2 ? words[i + 1] : NULL;
        for (count -= taken; i < count; i++) {
            words[i] = words[i + taken];
        }
    }
    return count;
}

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

/* Ranks read a file each for itself, and as often as there are ranks. */
static int check_file(const char *path)
{
    struct stat info;
    const bool once = path != NULL && (strcmp(path, "-") == 0 ||
                                       (stat(path, &info) == 0 && S_ISFIFO(info.st_mode)));
    return once ? cli_wrong(path, "is a pipe, which one process alone can read (give a file)")
                : CLI_DONE;
}

/* Options that none of may be given, to CLI_OPTION_COUNT. */
static int refuse(const cli_args *args, const cli_option_id *ids, const char *why)
{
    char written[CLI_WRITTEN_BYTES];
    for (; *ids != CLI_OPTION_COUNT; ids++) {
        if (cli_given(args, *ids)) {
            return cli_wrong(cli_option_written(*ids, args->command, written), "%s", why);
        }
    }
    return CLI_DONE;
}

/* Of a search: each query has its lists, all of one length, and nothing depends on other queries.
 */
static int check_search(const cli_args *args)
{
    static const cli_option_id others[] = {CLI_OPT_BOTH,  CLI_OPT_MUTUAL,  CLI_OPT_STREAM,
                                           CLI_OPT_CHUNK, CLI_OPT_RESTART, CLI_OPTION_COUNT};
    const char *const more[] = {args->allow, args->groups, args->query_groups, args->truth};
    CLI_TRY(refuse(args, others, "is not divided among ranks (leave it out, or use kith)"));
    if (cli_is_radius_search(args)) {
        return cli_wrong("--radius", "without -k is not divided among ranks (give -k too, or use "
                                     "kith)");
    }
    if (cli_is_graph_search(args)) {
        return cli_wrong("kith-mpi", "does not walk on graphs (give CORPUS QUERIES without "
                                     "--method graph, or use kith)");
    }
    for (int i = 0; i < args->path_count; i++) {
        CLI_TRY(check_file(args->paths[i]));
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        CLI_TRY(check_file(more[i]));
    }
    return CLI_DONE;
}

static bool is_search(const cli_args *args)
{
    return args->command == CLI_SEARCH || args->command == CLI_PREDICT;
}

static bool divides(const request *r, const char *what)
{
    return r->divides && r->divided != NULL && strcmp(r->divided, what) == 0;
}

/* Lists of parts are merged by their distances: a filter, or a radius, is not known to do for
 * parts.
 */
static int check_divide(const request *r)
{
    static const cli_option_id others[] = {CLI_OPT_RADIUS, CLI_OPT_ALLOW, CLI_OPT_GROUPS,
                                           CLI_OPTION_COUNT};
    const bool corpus = divides(r, "corpus");
    if (r->divides && !corpus && !divides(r, "queries")) {
        return cli_wrong("--divide", "names nothing that is divided (give queries or corpus)");
    }
    if (r->divides && !is_search(&r->args)) {
        return cli_wrong("--divide", "is of searches (leave it out)");
    }
    if (!corpus) {
        return CLI_DONE;
    }
    if (r->args.command != CLI_SEARCH) {
        return cli_wrong("--divide", "corpus is of search alone (leave it out)");
    }
    return refuse(&r->args, others, "does not go together with --divide corpus (leave one out)");
}

static int check_job(const request *r)
{
    const cli_args *args = &r->args;
    CLI_TRY(check_divide(r));
    if (is_search(args)) {
        return check_search(args);
    }
    return args->command == CLI_GRAPH && cli_given(args, CLI_OPT_SHARDS)
               ? CLI_DONE
               : cli_wrong("kith-mpi", "makes graphs that are written to a file, searches and "
                                       "predicts (give graph and --output, search or predict, or "
                                       "use kith)");
}

/* What is wrong with a request before anything is done. */
static int check(const request *r)
{
    const cli_error *error = &r->error;
    if (r->what == CLI_REQUEST_WRONG) {
        return cli_wrong(error->where[0] != '\0' ? error->where : NULL, "%s", error->text);
    }
    return r->what == CLI_REQUEST_RUN ? check_job(r) : CLI_DONE;
}

/* A number for all that ranks do alike. */
static int way_of(const request *r)
{
    _Static_assert(CLI_COMMAND_COUNT <= 16, "a way is a byte");
    const bool runs = r->what == CLI_REQUEST_RUN;
    return (runs ? (int)r->args.command << 4 : 0) | (int)r->what << 1 |
           (runs && cli_given(&r->args, CLI_OPT_DRY_RUN) ? 1 : 0);
}

/* Rank 0 reports, and writes what was found for queries: no other one has to be able to. */
static void silence(cli_args *args)
{
    args->given[CLI_OPT_QUIET] = true;
    args->given[CLI_OPT_JSON] = false;
    if (is_search(args)) {
        args->output = NULL;
        args->distances = NULL;
        args->truth = NULL;
    }
}

static int work(mpi_team *team, request *r)
{
    cli_args *args = &r->args;
    team->team.divides_corpus = divides(r, "corpus");
    args->team = &team->team;
    if (team->team.shards.worker > 0) {
        silence(args);
    }
    mpi_team_divide(team, args);
    const bool idle = cli_given(args, CLI_OPT_DRY_RUN) && team->team.shards.worker > 0;
    const int code = idle                           ? CLI_DONE
                     : args->command == CLI_SEARCH  ? cli_search(args)
                     : args->command == CLI_PREDICT ? cli_predict(args)
                                                    : cli_graph(args);
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
        return work(team, r);
    }
    return CLI_WRONG_USAGE;
}

int main(int argc, char **argv)
{
    static request r;
    mpi_team team;
    mpi_team_begin(&argc, &argv, &team);
    read_words(take_divide(argc, argv, &r), argv, &r);
    int code = mpi_team_start(&team, check(&r), way_of(&r));
    if (code == CLI_DONE) {
        code = answer(&team, &r);
    }
    cli_keep_end();
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE) {
        code =
            cli_fail("standard output", "cannot be written: %s (send it to a place that takes it)",
                     strerror(errno));
    }
    mpi_team_end(&team);
    return code;
}
