/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_options.h"

#include "cli_nearest.h"
#include "cli_values.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

static bool refuse(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(cli_error *error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

/* ---- What each value means ------------------------------------------------------------------ */

static bool read_k(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_int(value, 1, INT64_MAX, &args->k) ||
           refuse(error, "'%s' is no number of neighbours (give a whole number from 1)", value);
}

static bool read_metric(const char *value, cli_args *args, cli_error *error)
{
    args->metric = kith_metric_parse(value);
    if (args->metric != KITH_METRIC_DEFAULT && args->metric != KITH_CUSTOM) {
        return true;
    }
    size_t used =
        (size_t)snprintf(error->text, sizeof error->text, "'%s' is no metric (known:", value);
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM && used < sizeof error->text; metric++) {
        used += (size_t)snprintf(error->text + used, sizeof error->text - used, "%s %s",
                                 metric == KITH_EUCLIDEAN ? "" : ",",
                                 kith_metric_name((kith_metric)metric));
    }
    if (used < sizeof error->text) {
        (void)snprintf(error->text + used, sizeof error->text - used, ")");
    }
    return false;
}

static bool read_method(const char *value, cli_args *args, cli_error *error)
{
    (void)args; /* auto and exact are one: this version has the exact engine alone */
    if (strcmp(value, "auto") == 0 || strcmp(value, "exact") == 0) {
        return true;
    }
    if (strcmp(value, "tree") == 0 || strcmp(value, "descent") == 0) {
        return refuse(error, "'%s' is not in this version (use auto or exact)", value);
    }
    return refuse(error, "'%s' is no method (use auto or exact)", value);
}

static bool read_path(const char *value, const char **path, cli_error *error)
{
    *path = value;
    return value[0] != '\0' || refuse(error, "the name is empty (give the name of a file)");
}

static bool read_output(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->output, error);
}

static bool read_output_back(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->output_back, error);
}

static bool read_distances(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->distances, error);
}

static bool read_points(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->points, error);
}

static bool read_format(const char *value, cli_args *args, cli_error *error)
{
    args->format = kith_format_parse(value);
    return args->format != KITH_FORMAT_AUTO ||
           refuse(error, "'%s' is no format (known: npz, csr, ivecs, ibin, knn, kith)", value);
}

static bool read_radius(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_number(value, &args->radius) ||
           refuse(error, "'%s' is no radius (give a finite number)", value);
}

static bool read_sample(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_int(value, 1, INT64_MAX, &args->sample) ||
           refuse(error, "'%s' is no number of rows (give a whole number from 1)", value);
}

static bool read_seed(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_uint(value, &args->seed) ||
           refuse(error, "'%s' is no seed (give a whole number from 0 to 2^64-1)", value);
}

static bool read_device(const char *value, cli_args *args, cli_error *error)
{
    args->device = value;
    return cli_value_is_device(value) ||
           refuse(error, "'%s' is no device (use auto, cpu, cuda or cuda:N)", value);
}

static bool read_threads(const char *value, cli_args *args, cli_error *error)
{
    int64_t threads = 0;
    if (!cli_value_int(value, 1, INT32_MAX, &threads)) {
        return refuse(error, "'%s' is no number of threads (give a whole number from 1)", value);
    }
    args->threads = (int32_t)threads;
    return true;
}

static bool read_memory(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_bytes(value, &args->memory_bytes) ||
           refuse(error, "'%s' is no amount of memory (give bytes, or 512M, 8G, 1.5T)", value);
}

static bool read_gpu_memory(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_bytes(value, &args->gpu_memory_bytes) ||
           refuse(error, "'%s' is no amount of memory (give bytes, or 512M, 8G, 1.5T)", value);
}

/* ---- The tables ----------------------------------------------------------------------------- */

enum {
    GRAPH = 1u << CLI_GRAPH,
    SEARCH = 1u << CLI_SEARCH,
    EVAL = 1u << CLI_EVAL,
    INFO = 1u << CLI_INFO,
    CONVERT = 1u << CLI_CONVERT,
    DEVICES = 1u << CLI_DEVICES,
    SOLVES = GRAPH | SEARCH,
    COMPUTES = GRAPH | SEARCH | EVAL,
    ALL = COMPUTES | INFO | CONVERT | DEVICES
};

static const cli_option options[CLI_OPTION_COUNT] = {
    [CLI_OPT_K] = {NULL, 'k', "N", COMPUTES, "neighbours a row (no default)", read_k},
    [CLI_OPT_METRIC] = {"metric", 0, "NAME", COMPUTES,
                        "one of those below (default: euclidean; eval: what the files say)",
                        read_metric},
    [CLI_OPT_METHOD] = {"method", 0, "NAME", SOLVES, "auto (default) or exact", read_method},
    [CLI_OPT_OUTPUT] = {"output", 'o', "FILE", SOLVES,
                        "write the answer here: .npz .ivecs .ibin .knn .kith", read_output},
    [CLI_OPT_OUTPUT_BACK] = {"output-back", 0, "FILE", SEARCH,
                             "with --both: the answer of the corpus' rows", read_output_back},
    [CLI_OPT_FORMAT] = {"format", 0, "NAME", SOLVES | CONVERT,
                        "npz csr ivecs ibin knn kith, whatever the file is called", read_format},
    [CLI_OPT_DISTANCES] = {"distances", 0, "FILE", SOLVES | CONVERT,
                           "write the distances here: .fbin .fvecs .npy", read_distances},
    [CLI_OPT_RADIUS] = {"radius", 0, "R", SOLVES,
                        "all neighbours within R instead of k; written as csr in .npz",
                        read_radius},
    [CLI_OPT_BOTH] = {"both", 0, NULL, SEARCH,
                      "also the corpus' rows among the queries (--output-back)", NULL},
    [CLI_OPT_MUTUAL] = {"mutual", 0, NULL, SEARCH,
                        "pairs that choose each other: .ivecs .ibin .csv .tsv", NULL},
    [CLI_OPT_INCLUDE_SELF] = {"include-self", 0, NULL, GRAPH,
                              "let a point compete for its own list like any other", NULL},
    [CLI_OPT_POINTS] = {"points", 0, "FILE", EVAL,
                        "the points of the graph: estimate recall from exact answers", read_points},
    [CLI_OPT_SAMPLE] = {"sample", 0, "N", EVAL,
                        "with --points: rows to solve exactly (default 1000)", read_sample},
    [CLI_OPT_SEED] = {"seed", 0, "S", EVAL, "with --points: draws the rows (default 0)", read_seed},
    [CLI_OPT_DEVICE] = {"device", 0, "NAME", SOLVES,
                        "auto (default: a GPU where it pays), cpu, cuda, cuda:N", read_device},
    [CLI_OPT_THREADS] = {"threads", 0, "N", COMPUTES, "default: all processors", read_threads},
    [CLI_OPT_MEMORY] = {"memory", 0, "SIZE", COMPUTES,
                        "keep to this much host memory, or refuse: 512M, 8G", read_memory},
    [CLI_OPT_GPU_MEMORY] = {"gpu-memory", 0, "SIZE", SOLVES,
                            "keep to this much GPU memory (default: what is free, less a margin)",
                            read_gpu_memory},
    [CLI_OPT_DRY_RUN] = {"dry-run", 0, NULL, SOLVES, "print the plan and stop", NULL},
    [CLI_OPT_QUIET] = {"quiet", 'q', NULL, COMPUTES | CONVERT,
                       "no progress and no report; errors and --json stay", NULL},
    [CLI_OPT_JSON] = {"json", 0, NULL, ALL, "print one JSON object instead of the report", NULL},
    [CLI_OPT_HELP] = {"help", 'h', NULL, ALL, "print this", NULL},
};

#define DIGITS "examples/data/digits.u8bin"

static const cli_command commands[CLI_COMMAND_COUNT] = {
    [CLI_GRAPH] =
        {"graph", "POINTS -k N [options]", 1, 1, "the k nearest neighbours of each point",
         "Builds the exact k-NN graph of the points in a file. Neighbours are ordered by "
         "distance,\n"
         "then by id; a point is not its own neighbour. The answer is certified: every pair that\n"
         "was not compared in full precision was ruled out by proof. Without -o nothing is\n"
         "written.\n",
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith graph " DIGITS " -k 5 --metric cosine --json\n"
         "  kith graph " DIGITS " --radius 20 -o near.npz\n"},
    [CLI_SEARCH] =
        {"search", "CORPUS QUERIES -k N [options]", 2, 2,
         "the k nearest rows of a corpus for each query",
         "Finds for each row of QUERIES the k nearest rows of CORPUS, exactly. With --both the\n"
         "same product also gives each row of CORPUS its nearest among QUERIES; with --mutual the\n"
         "pairs (row of CORPUS, row of QUERIES) that have each other among their k nearest are\n"
         "written. Without -o nothing is written.\n",
         "  kith search " DIGITS " " DIGITS " -k 3 -o found.npz\n"
         "  kith search " DIGITS " " DIGITS " -k 3 --both -o found.npz --output-back back.npz\n"
         "  kith search " DIGITS " " DIGITS " -k 1 --mutual -o pairs.csv\n"},
    [CLI_EVAL] =
        {"eval", "RESULT TRUTH | GRAPH --points FILE [options]", 1, 2,
         "recall of a result, from the truth or estimated",
         "Compares a result with the true one, both with their distances; or estimates the recall\n"
         "of a graph by solving some of its rows exactly. The first K neighbours count, K being\n"
         "min(10, k) unless -k says otherwise.\n",
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith eval graph.npz --points " DIGITS " --sample 1000\n"
         "  kith eval graph.npz graph.npz -k 5\n"},
    [CLI_INFO] =
        {"info", "FILE [--json]", 1, 1, "what a file holds",
         "Says what a file of points, a graph, a result or a prepared corpus holds, from its\n"
         "header and its size.\n",
         "  kith info " DIGITS "\n"},
    [CLI_CONVERT] =
        {"convert", "IN OUT [options]", 2, 2, "points or results to another format",
         "Writes points, or a graph or result, in the format that the name of OUT ends in. Values\n"
         "that the new format cannot hold exactly are refused.\n"
         "  points   .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .ibin .npy .csv .tsv .kith\n"
         "  results  .npz .ivecs .ibin .knn .kith\n"
         "An .ivecs or .ibin file is taken as ids where OUT or --format asks for a result.\n",
         "  kith convert " DIGITS " digits.npy\n"
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith convert graph.npz graph.ibin --distances graph.fbin\n"},
    [CLI_DEVICES] = {"devices", "[--json]", 0, 0, "what kith can compute on",
                     "Lists the processor and the GPUs, and why one is not used.\n",
                     "  kith devices\n"},
};

const cli_option *cli_option_get(cli_option_id id)
{
    return &options[id];
}

const cli_command *cli_command_get(cli_command_id id)
{
    return &commands[id];
}

/* ---- The parser ----------------------------------------------------------------------------- */

typedef struct parser {
    int argc;
    const char *const *argv;
    int next;
    cli_args *args;
    cli_error *error;
} parser;

static bool find_command(const char *word, cli_args *args, cli_error *error)
{
    int nearest = 0;
    int nearest_distance = INT_MAX;
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const int distance = cli_nearest_distance(word, commands[i].name);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = i;
        }
    }
    args->command = (cli_command_id)nearest;
    if (nearest_distance == 0 && strcmp(word, commands[nearest].name) == 0) {
        return true;
    }
    (void)snprintf(error->where, sizeof error->where, "%s", word);
    return refuse(error, "unknown command (nearest: %s; kith --help lists all)",
                  commands[nearest].name);
}

static bool belongs(const cli_option *option, cli_command_id command)
{
    return (option->commands >> command & 1u) != 0;
}

/* The command that does have an option of this name, NULL if none. */
static const cli_command *find_owner(const char *name)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (options[i].name == NULL || strcmp(options[i].name, name) != 0) {
            continue;
        }
        for (int command = 0; command < CLI_COMMAND_COUNT; command++) {
            if (belongs(&options[i], (cli_command_id)command)) {
                return &commands[command];
            }
        }
    }
    return NULL;
}

/* The option of this command that is spelled most like it; NULL if none shares a letter. */
static const char *find_nearest(const char *name, cli_command_id command)
{
    const char *nearest = NULL;
    int nearest_distance = (int)strlen(name);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (options[i].name == NULL || !belongs(&options[i], command)) {
            continue;
        }
        const int distance = cli_nearest_distance(name, options[i].name);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = options[i].name;
        }
    }
    return nearest;
}

/* Why `word`, with its dashes, is no option here: it is another command's, or nobody's. */
static bool refuse_option(const char *word, const char *name, const cli_args *args,
                          cli_error *error)
{
    const char *command = commands[args->command].name;
    const cli_command *owner = find_owner(name);
    const char *nearest = find_nearest(name, args->command);
    (void)snprintf(error->where, sizeof error->where, "%s", word);
    if (owner != NULL) {
        return refuse(error, "kith %s has no such option, kith %s has (kith %s --help lists all)",
                      command, owner->name, command);
    }
    if (nearest == NULL) {
        return refuse(error, "unknown option (kith %s --help lists all)", command);
    }
    return refuse(error, "unknown option (nearest: --%s; kith %s --help lists all)", nearest,
                  command);
}

static bool apply(parser *p, cli_option_id id, const char *word, const char *value)
{
    const cli_option *option = &options[id];
    (void)snprintf(p->error->where, sizeof p->error->where, "%s", word);
    if (option->value == NULL && value != NULL) {
        return refuse(p->error, "takes no value, got '%s' (leave it out)", value);
    }
    if (option->value != NULL && value == NULL) {
        if (p->next == p->argc) {
            return refuse(p->error, "its value is missing (give %s)", option->value);
        }
        value = p->argv[p->next++];
    }
    p->args->given |= 1u << id;
    return option->read == NULL || option->read(value, p->args, p->error);
}

/* --name, --name value, --name=value */
static bool parse_long(parser *p, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    char plain[64];
    (void)snprintf(plain, sizeof plain, "--%.*s", (int)(length < 60 ? length : 60), name);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (options[i].name != NULL && strcmp(plain + 2, options[i].name) == 0 &&
            belongs(&options[i], p->args->command)) {
            return apply(p, (cli_option_id)i, plain, equals != NULL ? equals + 1 : NULL);
        }
    }
    return refuse_option(plain, plain + 2, p->args, p->error);
}

/* -k 10, -k10 */
static bool parse_letter(parser *p, const char *word)
{
    const char plain[3] = {'-', word[1], '\0'};
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        if (options[i].letter == word[1] && belongs(&options[i], p->args->command)) {
            return apply(p, (cli_option_id)i, plain, word[2] != '\0' ? word + 2 : NULL);
        }
    }
    return refuse_option(word, word + 1, p->args, p->error);
}

static bool parse_path(parser *p, const char *word)
{
    cli_args *args = p->args;
    const cli_command *command = &commands[args->command];
    (void)snprintf(p->error->where, sizeof p->error->where, "%s", command->name);
    if (word[0] == '\0') {
        return refuse(p->error, "a file name is empty (usage: kith %s %s)", command->name,
                      command->usage);
    }
    if (args->path_count == command->paths_max) {
        return refuse(p->error, "'%s' is one file too many (usage: kith %s %s)", word,
                      command->name, command->usage);
    }
    args->paths[args->path_count++] = word;
    return true;
}

static bool parse_words(parser *p)
{
    bool only_paths = false;
    while (p->next < p->argc) {
        const char *word = p->argv[p->next++];
        bool understood = true;
        if (!only_paths && strcmp(word, "--") == 0) {
            only_paths = true;
        } else if (!only_paths && word[0] == '-' && word[1] == '-') {
            understood = parse_long(p, word);
        } else if (!only_paths && word[0] == '-' && word[1] != '\0') {
            understood = parse_letter(p, word);
        } else {
            understood = parse_path(p, word);
        }
        if (!understood) {
            return false;
        }
        if (cli_given(p->args, CLI_OPT_HELP)) {
            return true;
        }
    }
    return true;
}

cli_request cli_parse(int argc, const char *const *argv, cli_args *args, cli_error *error)
{
    memset(args, 0, sizeof *args);
    memset(error, 0, sizeof *error);
    args->sample = 1000;
    parser p = {.argc = argc, .argv = argv, .next = 2, .args = args, .error = error};
    const char *first = argc > 1 ? argv[1] : "";
    if (first[0] == '\0') {
        (void)refuse(error, "a command is missing (kith --help lists them)");
        return CLI_REQUEST_WRONG;
    }
    if (strcmp(first, "--version") == 0) {
        return CLI_REQUEST_VERSION;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        return CLI_REQUEST_HELP;
    }
    if (strcmp(first, "help") == 0) {
        if (argc == 2) {
            return CLI_REQUEST_HELP;
        }
        return find_command(argv[2], args, error) ? CLI_REQUEST_COMMAND_HELP : CLI_REQUEST_WRONG;
    }
    if (first[0] == '-') {
        (void)snprintf(error->where, sizeof error->where, "%s", first);
        (void)refuse(error, "the command comes first (usage: kith COMMAND FILES [options])");
        return CLI_REQUEST_WRONG;
    }
    if (!find_command(first, args, error) || !parse_words(&p)) {
        return CLI_REQUEST_WRONG;
    }
    if (cli_given(args, CLI_OPT_HELP)) {
        return CLI_REQUEST_COMMAND_HELP;
    }
    return cli_rules_check(args, error) ? CLI_REQUEST_RUN : CLI_REQUEST_WRONG;
}
