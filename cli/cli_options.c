/* SPDX-License-Identifier: Apache-2.0
 * The table of options, and the words that they have for numbers of the library. */
#include "cli_options.h"

#include "kith/kith_papers.h"

#include <stdio.h>

#define BIT(COMMAND, function) COMMAND = 1u << CLI_##COMMAND,
enum { CLI_COMMAND_MAP(BIT) };
enum {
    GROWS = MERGE | ADD,
    CHANGES = GROWS | REMOVE,
    SOLVES = GRAPH | SEARCH,
    LISTS = SOLVES | SELECT | PREDICT,
    PLANS = LISTS | PAIRS,
    ANSWERS = PLANS | TRUTH,
    COMPUTES = ANSWERS | EVAL,
    READS = COMPUTES | INDEX | CHANGES | INFO | CONVERT,
    ALL = COMPUTES | INDEX | CHANGES | INFO | CONVERT | DEVICES
};

static const char *name_select(int method)
{
    return kith_select_method_name((kith_select_method)method);
}

/* ---- How values are read -------------------------------------------------------------------- */

#define READS(...)  \
    {               \
        __VA_ARGS__ \
    }
#define INTO(member) .field = offsetof(cli_args, member)
#define READ_FLAG READS(.kind = CLI_KIND_FLAG)
#define READ_PATH(member) READS(.kind = CLI_KIND_PATH, INTO(member))
#define READ_BYTES(member) READS(.kind = CLI_KIND_BYTES, INTO(member))
#define READ_SHARE(member) READS(.kind = CLI_KIND_SHARE, INTO(member))
#define READ_NUMBER(member, words) READS(.kind = CLI_KIND_NUMBER, INTO(member), .what = (words))
#define READ_SEED(member, words) READS(.kind = CLI_KIND_SEED, INTO(member), .what = (words))
/* last 0: as many as the field can hold */
#define RANGE(words, first, last) .what = (words), .least = (first), .most = (last)
#define READ_COUNT(member, ...) READS(.kind = CLI_KIND_COUNT, INTO(member), RANGE(__VA_ARGS__))
#define READ_COUNT32(member, ...) READS(.kind = CLI_KIND_COUNT32, INTO(member), RANGE(__VA_ARGS__))
#define READ_POWER(member, ...) READS(.kind = CLI_KIND_POWER, INTO(member), RANGE("", __VA_ARGS__))
#define READ_NAME(type, member, what, first, last, ...)                  \
    READS(.kind = CLI_KIND_NAME, INTO(member), RANGE(what, first, last), \
          .words = (const char *const[]){__VA_ARGS__})
#define READ_NAMES(type, member, what, said, first, last) \
    READS(.kind = CLI_KIND_NAME, INTO(member), RANGE(what, first, last), .names = (said))
#define READ_OTHER(type, member, reader) READS(.kind = CLI_KIND_OTHER, .read = (reader))
#define CLI_QUOTED(NAME, number, name) #name,

static const cli_option options[CLI_OPTION_COUNT] = {
#define OPTION(ID, name, letter, value, commands, tunes, section, help, reads) \
    {name, letter, value, commands, tunes, CLI_##section, help, READ_##reads},
#include "cli_options.inc"
};

const cli_option *cli_option_get(cli_option_id id)
{
    return &options[id];
}

/* ---- What differs by command ---------------------------------------------------------------- */

static const struct {
    cli_option_id option;
    uint32_t commands;
    const char *help;
} particular[] = {
    {CLI_OPT_K, CHANGES, "neighbours a row (default: as the graphs have)"},
    {CLI_OPT_K, EVAL, "compare the nearest N of each row (default: min(10, k))"},
    {CLI_OPT_K, SELECT, "values a row"},
    {CLI_OPT_METRIC, EVAL, "one of those below (default: what the files say)"},
    {CLI_OPT_METRIC, CHANGES, "one of those below (default: what the graphs say)"},
    {CLI_OPT_METHOD, INDEX, "of build: exact (default), tree, graph"},
    {CLI_OPT_METHOD, SEARCH, "auto (default), exact, tree: the same answer; graph"},
    {CLI_OPT_K, INDEX, "of build by graph: its neighbours a row (24)"},
    {CLI_OPT_RECALL, INDEX, "of build by graph: the recall of the graph (0.95)"},
    {CLI_OPT_SEED, INDEX, "of build by graph: what its descent tries (0)"},
    {CLI_OPT_METHOD, GRAPH, "auto (default), exact, tree: the same answer; descent"},
    {CLI_OPT_SELECT, SELECT, "auto (default), scan, heap, merge_queue, quick, radix ..."},
    {CLI_OPT_HEAP_SAMPLE, SELECT, "threshold_heap: the sample of its threshold, in k (8)"},
    {CLI_OPT_OUTPUT, SELECT, "write the answer here: .npz (with --kth .npy)"},
    {CLI_OPT_OUTPUT, PREDICT, "write the predictions here: .npy .csv .tsv .fbin -, of votes .ibin"},
    {CLI_OPT_OUTPUT, INDEX, "write the index here: .kith"},
    {CLI_OPT_OUTPUT, CHANGES, "write the graph here: {lists} -"},
    {CLI_OPT_RECALL, SEARCH, "on a graph: walks wide enough for this recall, 0.99 or 0.99@10"},
    {CLI_OPT_SAMPLE, SEARCH, "of walks: queries to solve exactly, by which recall is told (1000)"},
    {CLI_OPT_SEED, EVAL, "draws these rows (0)"},
    {CLI_OPT_VERIFY, EVAL, "with --points: solve all rows, and see if the graph is exact"},
    {CLI_OPT_SEED, SEARCH, "of walks: draws these queries, and where walks begin (0)"},
    {CLI_OPT_SEED, REMOVE | PAIRS, "draws these rows (0)"},
    {CLI_OPT_SAMPLE, PAIRS, "of --dry-run: rows by which it tells the number of pairs (1000)"},
    {CLI_OPT_OUTPUT, TRUTH, "write the truth here: .knn .npy .hdf5 ...; of a radius .range .kith"},
    {CLI_OPT_RADIUS, TRUTH, "instead of -k: all within R (inner_product: at least R)"},
    {CLI_OPT_VERIFY, TRUTH, "hold FILE against its certificate, and compute some queries anew"},
    {CLI_OPT_SAMPLE, TRUTH, "with --verify: queries that are computed anew (10)"},
    {CLI_OPT_SEED, TRUTH, "with --verify: draws these queries (0)"},
    {CLI_OPT_RULE, TRUTH, "of groups: rows of the same one (default), or of other ones"},
    {CLI_OPT_RADIUS, PAIRS, "a pair's distance is at most R (inner_product: at least)"},
    {CLI_OPT_OUTPUT, PAIRS, "write i, j and distance here: .npy .csv .tsv -"},
    {CLI_OPT_ALLOW, PAIRS, "a column of 0 and 1: whether a row of the last file may be in one"},
    {CLI_OPT_GROUPS, PAIRS, "a column of whole numbers: the group of each row of the last file"},
    {CLI_OPT_QUERY_GROUPS, PAIRS, "of two files: the groups of the first one's rows"},
    {CLI_OPT_RULE, PAIRS, "of groups: pairs in the same one (default), or other ones"},
    {CLI_OPT_JSON, EVAL | INFO | CONVERT | DEVICES, "print one JSON object instead of the report"},
};

const char *cli_option_help(cli_option_id id, cli_command_id command)
{
    for (size_t i = 0; i < sizeof particular / sizeof particular[0]; i++) {
        if (particular[i].option == id && (particular[i].commands >> command & 1u) != 0) {
            return particular[i].help;
        }
    }
    return options[id].help;
}

const char *cli_option_word(cli_option_id id, int number)
{
    return cli_value_word(&options[id].reads, number);
}

const char *cli_option_written(cli_option_id id, cli_command_id command,
                               char text[CLI_WRITTEN_BYTES])
{
    const cli_option *option = &options[id];
    if (option->name == NULL) {
        (void)snprintf(text, CLI_WRITTEN_BYTES, "-%c", option->letter);
    } else {
        (void)snprintf(text, CLI_WRITTEN_BYTES, "--%s%s",
                       cli_option_is_tune(option, command) ? "tune " : "", option->name);
    }
    return text;
}

/* ---- Words of the library -------------------------------------------------------------------- */

const char *cli_name_metric(int metric)
{
    return metric == KITH_MINKOWSKI ? "minkowski:P"
           : metric != KITH_CUSTOM  ? kith_metric_name((kith_metric)metric)
                                    : NULL;
}

const char *cli_name_format(int format)
{
#define ROW(NAME, number, name) [number] = (name),
    static const char *const names[] = {KITH_FORMAT_MAP(ROW)};
#undef ROW
    return names[format];
}
