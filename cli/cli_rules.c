/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_options.h"
#include "kith/kith_papers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Options that need or exclude each other. `other` is needed when needs is true, else excluded; a
 * command that does not have it is not meant. */
typedef struct rule {
    cli_option_id option;
    bool needs;
    cli_option_id other;
} rule;

static const rule rules[] = {
    {CLI_OPT_RADIUS, false, CLI_OPT_BOTH},         {CLI_OPT_RADIUS, false, CLI_OPT_MUTUAL},
    {CLI_OPT_MUTUAL, false, CLI_OPT_BOTH},         {CLI_OPT_MUTUAL, false, CLI_OPT_FORMAT},
    {CLI_OPT_MUTUAL, false, CLI_OPT_DISTANCES},    {CLI_OPT_BOTH, false, CLI_OPT_DISTANCES},
    {CLI_OPT_OUTPUT_BACK, true, CLI_OPT_BOTH},     {CLI_OPT_OUTPUT_BACK, true, CLI_OPT_OUTPUT},
    {CLI_OPT_SAMPLE, true, CLI_OPT_POINTS},        {CLI_OPT_SEED, true, CLI_OPT_POINTS},
    {CLI_OPT_VERIFY, true, CLI_OPT_POINTS},        {CLI_OPT_KTH, false, CLI_OPT_UNSORTED},
    {CLI_OPT_SELECT, true, CLI_OPT_PIPELINE},      {CLI_OPT_HEAP_SAMPLE, true, CLI_OPT_PIPELINE},
    {CLI_OPT_TREE_HEIGHT, false, CLI_OPT_BOTH},    {CLI_OPT_TREE_HEIGHT, false, CLI_OPT_MUTUAL},
    {CLI_OPT_STREAM, true, CLI_OPT_OUTPUT},        {CLI_OPT_STREAM, false, CLI_OPT_BOTH},
    {CLI_OPT_STREAM, false, CLI_OPT_MUTUAL},       {CLI_OPT_STREAM, false, CLI_OPT_DISTANCES},
    {CLI_OPT_CHUNK, true, CLI_OPT_OUTPUT},         {CLI_OPT_CHUNK, false, CLI_OPT_BOTH},
    {CLI_OPT_CHUNK, false, CLI_OPT_MUTUAL},        {CLI_OPT_CHUNK, false, CLI_OPT_DISTANCES},
    {CLI_OPT_RESTART, true, CLI_OPT_OUTPUT},       {CLI_OPT_RESTART, false, CLI_OPT_BOTH},
    {CLI_OPT_RESTART, false, CLI_OPT_MUTUAL},      {CLI_OPT_RESTART, false, CLI_OPT_DISTANCES},
    {CLI_OPT_RECALL, false, CLI_OPT_RADIUS},       {CLI_OPT_INIT, false, CLI_OPT_START},
    {CLI_OPT_INIT, false, CLI_OPT_START_SHARE},    {CLI_OPT_RECALL, false, CLI_OPT_WIDTH},
    {CLI_OPT_RESTART, true, CLI_OPT_SHARDS},       {CLI_OPT_SHARD_COUNT, true, CLI_OPT_SHARDS},
    {CLI_OPT_KEEP_SHARDS, true, CLI_OPT_SHARDS},   {CLI_OPT_SHARDS, true, CLI_OPT_OUTPUT},
    {CLI_OPT_SHARDS, false, CLI_OPT_RADIUS},       {CLI_OPT_SHARDS, false, CLI_OPT_DISTANCES},
    {CLI_OPT_SHARDS, false, CLI_OPT_INIT},         {CLI_OPT_SYMMETRIC, false, CLI_OPT_RADIUS},
    {CLI_OPT_SYMMETRIC, false, CLI_OPT_DISTANCES}, {CLI_OPT_SHARDS, false, CLI_OPT_SYMMETRIC},
    {CLI_OPT_SHARDS, false, CLI_OPT_TREE_HEIGHT},  {CLI_OPT_SHARDS, false, CLI_OPT_PIPELINE},
    {CLI_OPT_PARTS, true, CLI_OPT_SHARDS},         {CLI_OPT_LEAF_BUFFER, true, CLI_OPT_PIPELINE},
    {CLI_OPT_COUNT, false, CLI_OPT_OUTPUT},        {CLI_OPT_KEPT, true, CLI_OPT_KEEP},
};

/* What a radius has beside -k alone. */
static const cli_option_id of_k[] = {CLI_OPT_DISTANCES,   CLI_OPT_DRY_RUN, CLI_OPT_PIPELINE,
                                     CLI_OPT_TREE_HEIGHT, CLI_OPT_STREAM,  CLI_OPT_CHUNK,
                                     CLI_OPT_RESTART,     CLI_OPTION_COUNT};

static bool has(const cli_args *args, cli_option_id id)
{
    const cli_option *option = cli_option_get(id);
    return cli_option_is_plain(option, args->command) || cli_option_is_tune(option, args->command);
}

static bool refuse(cli_error *error, const char *where, const char *text)
{
    (void)snprintf(error->where, sizeof error->where, "%s", where);
    (void)snprintf(error->text, sizeof error->text, "%s", text);
    return false;
}

/* The same of an option as this command has it. */
static bool refuse_option(const cli_args *args, cli_error *error, cli_option_id id,
                          const char *text)
{
    char written[CLI_WRITTEN_BYTES];
    return refuse(error, cli_option_written(id, args->command, written), text);
}

/* Options that none of may be given, to CLI_OPTION_COUNT. */
static bool check_none(const cli_args *args, cli_error *error, const cli_option_id *ids,
                       const char *text)
{
    for (; *ids != CLI_OPTION_COUNT; ids++) {
        if (cli_given(args, *ids)) {
            return refuse_option(args, error, *ids, text);
        }
    }
    return true;
}

/* Options beside which another, or its value, cannot stand. */
static bool check_beside(const cli_args *args, cli_error *error, const cli_option_id *ids,
                         const char *where, const char *value, const char *remedy)
{
    char written[CLI_WRITTEN_BYTES];
    char text[160];
    for (; *ids != CLI_OPTION_COUNT; ids++) {
        if (cli_given(args, *ids)) {
            (void)snprintf(text, sizeof text, "%sdoes not go together with %s (%s)", value,
                           cli_option_written(*ids, args->command, written), remedy);
            return refuse(error, where, text);
        }
    }
    return true;
}

static bool check_pairs(const cli_args *args, cli_error *error)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (!has(args, r->other) || !cli_given(args, r->option) ||
            cli_given(args, r->other) == r->needs) {
            continue;
        }
        char other[CLI_WRITTEN_BYTES];
        char text[128];
        (void)snprintf(text, sizeof text,
                       r->needs ? "means nothing without %s (give both)"
                                : "does not go together with %s (leave one out)",
                       cli_option_written(r->other, args->command, other));
        return refuse_option(args, error, r->option, text);
    }
    return true;
}

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* ---- What values say ------------------------------------------------------------------------- */

/* What is wrong where `when` holds. option CLI_OPTION_COUNT: the command is named. */
typedef struct mistake {
    bool when;
    cli_option_id option;
    const char *text;
} mistake;

/* The first that holds is told. */
static bool check_mistakes(const cli_args *args, cli_error *error, const mistake *list,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].when) {
            return list[i].option == CLI_OPTION_COUNT
                       ? refuse(error, cli_command_get(args->command)->name, list[i].text)
                       : refuse_option(args, error, list[i].option, list[i].text);
        }
    }
    return true;
}

#define CHECK_MISTAKES(args, error, list) \
    check_mistakes(args, error, list, sizeof(list) / sizeof(list)[0])

static bool check_wants(const cli_args *args, cli_error *error)
{
    const cli_command *command = cli_command_get(args->command);
    const bool k = cli_given(args, CLI_OPT_K);
    const bool changes =
        args->command == CLI_MERGE || args->command == CLI_ADD || args->command == CLI_REMOVE;
    const bool solves =
        args->command == CLI_GRAPH || args->command == CLI_SEARCH || args->command == CLI_PREDICT;
    const bool eval = args->command == CLI_EVAL;
    char usage[192];
    (void)snprintf(usage, sizeof usage, "a file is missing (usage: kith %s %s)", command->name,
                   command->usage);
    const mistake list[] = {
        {args->path_count < command->paths_min, CLI_OPTION_COUNT, usage},
        {solves && !k && !cli_given(args, CLI_OPT_RADIUS), CLI_OPTION_COUNT,
         "-k is missing (say how many neighbours, for example -k 10)"},
        {args->command == CLI_PAIRS && !cli_given(args, CLI_OPT_RADIUS), CLI_OPTION_COUNT,
         "--radius is missing (say how far the rows of a pair may be apart)"},
        {args->command == CLI_SELECT && !k, CLI_OPTION_COUNT,
         "-k is missing (say how many values, for example -k 10)"},
        {eval && args->path_count == 2 && args->points != NULL, CLI_OPTION_COUNT,
         "--points goes with one GRAPH (leave TRUTH or --points out)"},
        {eval && args->path_count == 1 && args->points == NULL, CLI_OPTION_COUNT,
         "TRUTH is missing (give a second file, or --points FILE)"},
        {changes && args->output == NULL, CLI_OPTION_COUNT,
         "-o is missing (say where the graph is to be written)"},
    };
    return CHECK_MISTAKES(args, error, list);
}

/* Whether the answer is text: by its format, or by the name of the file. */
static bool writes_text(const cli_args *args)
{
    if (cli_given(args, CLI_OPT_FORMAT)) {
        return args->format >= KITH_FORMAT_CSV && args->format <= KITH_FORMAT_TSV_WIDE;
    }
    const char *ending = args->output != NULL ? strrchr(args->output, '.') : NULL;
    return same(args->output, "-") ||
           (ending != NULL && (strcasecmp(ending, ".csv") == 0 || strcasecmp(ending, ".tsv") == 0));
}

/* Standard input is read once, and no name is written twice. */
static bool check_names(const cli_args *args, cli_error *error)
{
    const char *const outputs[] = {args->output,     args->output_back, args->distances,
                                   args->points_out, args->map,         args->components,
                                   args->kept,       args->ties};
    enum { OUTPUTS = sizeof outputs / sizeof outputs[0] };
    int inputs = same(args->points, "-") + same(args->truth, "-") + same(args->init, "-");
    inputs += same(args->allow, "-") + same(args->groups, "-") + same(args->query_groups, "-");
    const int paths = args->command == CLI_CONVERT ? 1 : args->path_count;
    for (int i = 0; i < paths; i++) {
        inputs += same(args->paths[i], "-");
    }
    if (inputs > 1) {
        return refuse(error, "-", "standard input is named for two files (give one by its name)");
    }
    for (int i = 0; i < OUTPUTS; i++) {
        for (int j = 0; j < i; j++) {
            if (same(outputs[i], outputs[j])) {
                return refuse(error, outputs[i], "is named for two outputs (give two names)");
            }
        }
    }
    return true;
}

static bool check_outputs(const cli_args *args, cli_error *error)
{
    static const cli_option_id pieces[] = {CLI_OPT_STREAM, CLI_OPT_CHUNK, CLI_OPT_SHARDS,
                                           CLI_OPTION_COUNT};
    const bool text = writes_text(args);
    const bool formatted = cli_given(args, CLI_OPT_FORMAT);
    const bool lists = cli_is_radius_search(args) || cli_given(args, CLI_OPT_SYMMETRIC);
    const mistake list[] = {
        {same(args->output, "-") && !text, CLI_OPT_OUTPUT,
         "standard output takes text alone (give --format csv or tsv)"},
        {cli_given(args, CLI_OPT_BOTH) && args->output != NULL && args->output_back == NULL,
         CLI_OPT_BOTH, "has two answers to write (give --output-back FILE too)"},
        {formatted && args->command != CLI_CONVERT && args->output == NULL, CLI_OPT_FORMAT,
         "means nothing without -o FILE (give both)"},
        {formatted && lists && args->format != KITH_FORMAT_CSR, CLI_OPT_FORMAT,
         "lists of different lengths are written as the name of FILE says, .npz .kith .csv .tsv "
         "(leave it out)"},
        {text && args->command == CLI_PAIRS && cli_given(args, CLI_OPT_RESTART), CLI_OPT_RESTART,
         "means nothing for text, which begins anew in any case (leave it out)"},
        {formatted && cli_given(args, CLI_OPT_PARTS) && args->format != KITH_FORMAT_KITH,
         CLI_OPT_PARTS, "are written as .kith alone (leave --format out)"},
    };
    return CHECK_MISTAKES(args, error, list) &&
           (!text || check_none(args, error, pieces,
                                "does not go together with text, which is written at once (write "
                                ".npz or .kith)"));
}

static bool check_radius(const cli_args *args, cli_error *error)
{
    const bool given = cli_given(args, CLI_OPT_RADIUS);
    const mistake list[] = {
        {given && args->radius < 0 && args->metric != KITH_INNER_PRODUCT, CLI_OPT_RADIUS,
         "is negative, no distance is (give a number from 0)"},
    };
    return (!cli_is_radius_search(args) ||
            check_beside(args, error, of_k, "--radius", "", "leave one out, or give -k too")) &&
           CHECK_MISTAKES(args, error, list);
}

/* The engine that a method, a pipeline or a mode names, beside what is another one's. */
static bool check_method(const cli_args *args, cli_error *error)
{
    /* The tree answers in one direction. */
    static const cli_option_id others[] = {CLI_OPT_BOTH, CLI_OPT_MUTUAL, CLI_OPTION_COUNT};
    const bool buffered = args->pipeline == KITH_PIPELINE_BUFFER_TREE;
    const bool papers = args->pipeline != KITH_PIPELINE_FUSED && !buffered;
    const bool descent = args->method == KITH_METHOD_DESCENT;
    const bool lists = args->command == CLI_GRAPH || args->command == CLI_SEARCH;
    const mistake list[] = {
        {descent && args->command != CLI_GRAPH, CLI_OPT_METHOD,
         "descent is for kith graph alone (leave it out, or use another)"},
        {args->tree_height != 0 && !buffered &&
             (args->method == KITH_METHOD_EXACT || descent || papers),
         CLI_OPT_TREE_HEIGHT, "goes with --method tree or auto alone (leave it out, or the other)"},
        {cli_given(args, CLI_OPT_LEAF_BUFFER) && !buffered, CLI_OPT_LEAF_BUFFER,
         "goes with pipeline=buffer_tree alone (give that, or leave it out)"},
        {lists && cli_given(args, CLI_OPT_SELECT) && args->pipeline != KITH_PIPELINE_MATRIX,
         CLI_OPT_SELECT, "goes with pipeline=matrix alone (give that, or leave it out)"},
        {lists && cli_given(args, CLI_OPT_HEAP_SAMPLE) && args->pipeline != KITH_PIPELINE_HYBRID,
         CLI_OPT_HEAP_SAMPLE, "goes with pipeline=hybrid alone (give that, or leave it out)"},
        {cli_given(args, CLI_OPT_BATCH) && args->pipeline != KITH_PIPELINE_HYBRID, CLI_OPT_BATCH,
         "goes with pipeline=hybrid alone (give that, or leave it out)"},
        /* A product says how near two rows are, not how far. */
        {cli_weighs(args) && args->metric == KITH_INNER_PRODUCT, CLI_OPT_MODE,
         "divides by distances, inner_product has none (take another metric or mode)"},
    };
    return (args->method != KITH_METHOD_TREE ||
            check_beside(args, error, others, "--method", "tree ", "leave one out")) &&
           CHECK_MISTAKES(args, error, list);
}

/* Numbers of a descent, and of a recall, beside the others. */
static bool check_descent_numbers(const cli_args *args, cli_error *error)
{
    const bool k = cli_given(args, CLI_OPT_K);
    const mistake list[] = {
        {k && cli_given(args, CLI_OPT_LIST) && args->list <= args->k, CLI_OPT_LIST,
         "must be above k (give a larger one, or leave it out)"},
        {k && args->recall_at > args->k, CLI_OPT_RECALL,
         "is of more neighbours than k (give an @K of at most k)"},
        {(args->start == KITH_START_RANDOM || args->start == KITH_START_GGM) &&
             cli_given(args, CLI_OPT_START_SHARE),
         CLI_OPT_START_SHARE, "goes with start=screen or auto alone (leave one out)"},
        {cli_given(args, CLI_OPT_RECALL) && args->sample == 0, CLI_OPT_RECALL,
         "is not known without a sample (leave sample=0 out)"},
    };
    return CHECK_MISTAKES(args, error, list);
}

/* NN-Descent makes graphs of the k nearest, and is asked for by its name or by a recall. */
static bool check_descent(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_SAMPLE,     CLI_OPT_SEED,        CLI_OPT_ROUNDS,
                                        CLI_OPT_CANDIDATES, CLI_OPT_LIST,        CLI_OPT_DELTA,
                                        CLI_OPT_START,      CLI_OPT_START_SHARE, CLI_OPT_UPDATES,
                                        CLI_OPT_INIT,       CLI_OPTION_COUNT};
    const bool named = args->method == KITH_METHOD_DESCENT;
    const bool wanted = named || cli_given(args, CLI_OPT_RECALL);
    const mistake list[] = {
        {named && cli_given(args, CLI_OPT_RADIUS), CLI_OPT_METHOD,
         "descent does not go together with --radius (leave one out)"},
        {wanted && args->pipeline != KITH_PIPELINE_FUSED, CLI_OPT_PIPELINE,
         "goes with exact methods alone (leave it out, or the descent)"},
        {wanted && !named && args->method != KITH_METHOD_AUTO, CLI_OPT_RECALL,
         "goes with --method descent or auto alone (leave one out)"},
    };
    return args->command != CLI_GRAPH ||
           (CHECK_MISTAKES(args, error, list) &&
            (wanted || check_none(args, error, own,
                                  "goes with --method descent, or with --recall (give one of "
                                  "these)")));
}

/* Walks on a graph have options of their own, and go at once, in one direction. */
static bool check_walk(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_RECALL, CLI_OPT_SAMPLE, CLI_OPT_SEED, CLI_OPT_WIDTH,
                                        CLI_OPTION_COUNT};
    static const cli_option_id others[] = {
        CLI_OPT_TREE_HEIGHT, CLI_OPT_PIPELINE, CLI_OPT_SELECT,  CLI_OPT_HEAP_SAMPLE,
        CLI_OPT_OUTPUT_BACK, CLI_OPT_RADIUS,   CLI_OPT_BOTH,    CLI_OPT_MUTUAL,
        CLI_OPT_STREAM,      CLI_OPT_CHUNK,    CLI_OPT_RESTART, CLI_OPT_DRY_RUN,
        CLI_OPTION_COUNT};
    const mistake list[] = {{cli_given(args, CLI_OPT_WIDTH) && args->width < args->k, CLI_OPT_WIDTH,
                             "must be at least k (give more, or leave it out)"},
                            {cli_given(args, CLI_OPT_METHOD) && args->method != KITH_METHOD_GRAPH,
                             CLI_OPT_METHOD,
                             "does not go together with a search on a graph (leave it out)"}};
    if (args->command != CLI_SEARCH) {
        return true;
    }
    return cli_is_graph_search(args)
               ? check_none(args, error, others,
                            "does not go together with a search on a graph (leave it out)") &&
                     CHECK_MISTAKES(args, error, list)
               : check_none(args, error, own,
                            "goes with a search on a graph (give GRAPH POINTS QUERIES, or --method "
                            "graph)");
}

/* A filter is of the k nearest, at once and in one direction; exactly, but for walks. */
static bool check_filter(const cli_args *args, cli_error *error)
{
    static const cli_option_id others[] = {CLI_OPT_BOTH,      CLI_OPT_MUTUAL,   CLI_OPT_STREAM,
                                           CLI_OPT_CHUNK,     CLI_OPT_PIPELINE, CLI_OPT_TREE_HEIGHT,
                                           CLI_OPT_SYMMETRIC, CLI_OPTION_COUNT};
    static const cli_option_id approximate[] = {CLI_OPT_RECALL, CLI_OPTION_COUNT};
    const bool groups = cli_given(args, CLI_OPT_GROUPS);
    const bool asked = cli_given(args, CLI_OPT_QUERY_GROUPS);
    const bool each = args->rule == KITH_RULE_EACH;
    const bool pairs = args->command == CLI_PAIRS;
    const bool truth = args->command == CLI_TRUTH;
    const bool descent = args->method == KITH_METHOD_DESCENT;
    const bool one_set = pairs || args->command == CLI_GRAPH;
    const cli_option_id named = groups ? CLI_OPT_GROUPS : CLI_OPT_ALLOW;
    const mistake list[] = {
        {cli_given(args, CLI_OPT_RULE) && !groups, CLI_OPT_RULE,
         "means nothing without groups (give both)"},
        {asked && (!groups || each), CLI_OPT_QUERY_GROUPS,
         "goes with groups, and rule same or other (leave it out)"},
        {groups && !asked && !each && !one_set, CLI_OPT_GROUPS,
         "needs --query-groups, the groups of queries (or --rule each)"},
        {pairs && each, CLI_OPT_RULE, "each is of lists (use same or other)"},
        {each && cli_given(args, CLI_OPT_SHARDS), CLI_OPT_RULE,
         "each has k of every group, and lists of shards have k entries (use same or other)"},
        {truth && each, CLI_OPT_RULE, "each has many lists a query (use same or other)"},
        {pairs && groups && asked != (args->path_count == 2), CLI_OPT_GROUPS,
         "goes with --query-groups of two files, and alone of one (give both, or leave it out)"},
        {each && cli_is_radius_search(args), CLI_OPT_RULE,
         "each is of lists of k (use same or other, or give -k too)"},
        {cli_is_filtered(args) && descent, CLI_OPT_METHOD,
         "descent finds some neighbours, under a filter all are found (leave it out)"},
    };
    char written[CLI_WRITTEN_BYTES];
    return CHECK_MISTAKES(args, error, list) &&
           (!cli_is_filtered(args) ||
            (check_beside(args, error, others, cli_option_written(named, args->command, written),
                          "", "leave one out") &&
             (cli_is_graph_search(args) ||
              check_beside(args, error, approximate,
                           cli_option_written(named, args->command, written), "",
                           "leave one out"))));
}

static bool is_hdf5(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcasecmp(dot, ".hdf5") == 0 || strcasecmp(dot, ".h5") == 0);
}

/* A truth is made, or held against its certificate, which says what it was made of. */
static bool check_truth(const cli_args *args, cli_error *error)
{
    /* The first one stands in names of a runbook's files. */
    static const cli_option_id of_making[] = {CLI_OPT_K,      CLI_OPT_METRIC,  CLI_OPT_METHOD,
                                              CLI_OPT_OUTPUT, CLI_OPT_TIES,    CLI_OPT_RESTART,
                                              CLI_OPT_RADIUS, CLI_OPTION_COUNT};
    static const cli_option_id of_verifying[] = {CLI_OPT_SAMPLE, CLI_OPT_SEED, CLI_OPTION_COUNT};
    const bool verifies = cli_verifies_truth(args);
    const bool within = cli_given(args, CLI_OPT_RADIUS);
    const bool book = cli_given(args, CLI_OPT_RUNBOOK);
    const mistake list[] = {
        {verifies && args->path_count == 2, CLI_OPT_VERIFY,
         "takes FILE, or FILE CORPUS QUERIES (give one file, or three)"},
        {verifies && args->path_count == 1 && cli_is_filtered(args), CLI_OPT_VERIFY,
         "under a filter takes FILE CORPUS QUERIES (give three files)"},
        {!verifies && args->path_count != 2 && (args->path_count != 1 || !is_hdf5(args->paths[0])),
         CLI_OPTION_COUNT,
         "takes two names, CORPUS and QUERIES, or one .hdf5 with train and test (several files of "
         "a corpus have commas between)"},
        {(!verifies || book) && !cli_given(args, CLI_OPT_K) && !within, CLI_OPTION_COUNT,
         "-k is missing (say how many neighbours, for example -k 100, or --radius R)"},
        {within && cli_given(args, CLI_OPT_K), CLI_OPT_RADIUS,
         "is a truth of its own (leave -k out)"},
        {within && cli_given(args, CLI_OPT_TIES), CLI_OPT_TIES,
         "are of lists of k (leave it out with --radius)"},
        {book && (within || cli_given(args, CLI_OPT_TIES)), CLI_OPT_RUNBOOK,
         "has a file of -k neighbours for each search (leave --radius and --ties out)"},
        {book && args->allow != NULL, CLI_OPT_RUNBOOK,
         "says itself which rows may be found (leave --allow out)"},
        {book && verifies && args->path_count != 3, CLI_OPT_RUNBOOK,
         "is verified by its folder, CORPUS and QUERIES (give three names)"},
        {!verifies && args->output == NULL, CLI_OPTION_COUNT,
         "-o is missing (say where the truth is to be written)"},
    };
    return args->command != CLI_TRUTH ||
           ((verifies ? check_none(args, error, of_making + book,
                                   "is what the certificate says (leave it out)")
                      : check_none(args, error, of_verifying, "goes with --verify (give both)")) &&
            CHECK_MISTAKES(args, error, list));
}

/* Components are of one set. */
static bool check_components(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_COMPONENTS, CLI_OPT_KEEP, CLI_OPTION_COUNT};
    return args->command != CLI_PAIRS || args->path_count == 1 ||
           check_none(args, error, own, "is of the rows of one file (leave OTHERS out)");
}

/* The first word of kith index says what to do with the files behind it. */
static bool check_index(const cli_args *args, cli_error *error)
{
    static const cli_option_id of_build[] = {CLI_OPT_METRIC,  CLI_OPT_METHOD, CLI_OPT_TREE_HEIGHT,
                                             CLI_OPT_K,       CLI_OPT_RECALL, CLI_OPT_SEED,
                                             CLI_OPTION_COUNT};
    static const cli_option_id of_graph[] = {CLI_OPT_K, CLI_OPT_RECALL, CLI_OPT_SEED,
                                             CLI_OPTION_COUNT};
    if (args->command != CLI_INDEX) {
        return true;
    }
    const char *action = args->paths[0];
    const bool build = strcmp(action, "build") == 0;
    const bool stands = strcmp(action, "add") == 0 || strcmp(action, "remove") == 0;
    char unknown[CLI_ERROR_BYTES];
    (void)snprintf(unknown, sizeof unknown, "'%.64s' is no action (use build, add or remove)",
                   action);
    const mistake list[] = {
        {!build && !stands, CLI_OPTION_COUNT, unknown},
        {build && args->path_count != 2, CLI_OPTION_COUNT,
         "build takes one file, the points (leave the other out)"},
        {stands && args->path_count != 3, CLI_OPTION_COUNT,
         "add, or remove, takes two files, an index and points or ids (give both)"},
        {args->output == NULL, CLI_OPTION_COUNT,
         "-o is missing (say where the index is to be written)"},
        {build && cli_given(args, CLI_OPT_TREE_HEIGHT) && args->method != KITH_METHOD_TREE,
         CLI_OPT_TREE_HEIGHT, "goes with --method tree alone (leave it out, or add that)"},
    };
    return CHECK_MISTAKES(args, error, list) &&
           (build || check_none(args, error, of_build,
                                "goes with kith index build alone, an index that stands has its "
                                "own (leave it out)")) &&
           (args->method == KITH_METHOD_GRAPH ||
            check_none(args, error, of_graph,
                       "goes with --method graph alone (leave it out, or add that)"));
}

/* Pairs that are all looked at need no descent. */
static bool check_exact(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_RECALL,      CLI_OPT_ROUNDS,  CLI_OPT_CANDIDATES,
                                        CLI_OPT_LIST,        CLI_OPT_DELTA,   CLI_OPT_START,
                                        CLI_OPT_START_SHARE, CLI_OPT_UPDATES, CLI_OPTION_COUNT};
    return !cli_given(args, CLI_OPT_EXACT) ||
           check_none(args, error, own, "does not go together with --exact (leave one out)");
}

/* A switch of selection, that methods with `switches` have. */
static bool check_switch(const cli_args *args, cli_option_id option, uint32_t switches,
                         cli_error *error)
{
#define ROW(NAME, number, name, switches) {KITH_SELECT_##NAME, #name, switches},
    static const struct {
        kith_select_method method;
        const char *name;
        uint32_t switches;
    } methods[] = {KITH_PAPERS_SELECT_MAP(ROW)};
#undef ROW
    char list[128] = "";
    char text[CLI_ERROR_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const bool has = (methods[i].switches & switches) != 0;
        if (has && methods[i].method == args->select) {
            return true;
        }
        if (has && used < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                                     methods[i].name);
        }
    }
    (void)snprintf(text, sizeof text, "goes with --select %s alone (give that, or leave it out)",
                   list);
    return refuse_option(args, error, option, text);
}

static bool check_switches(const cli_args *args, cli_error *error)
{
    static const struct {
        cli_option_id option;
        uint32_t switches;
    } rows[] = {{CLI_OPT_BUFFER, KITH_SWITCH_QUEUE},      {CLI_OPT_GROUP, KITH_SWITCH_QUEUE},
                {CLI_OPT_BUFFER_SIZE, KITH_SWITCH_QUEUE}, {CLI_OPT_LEVEL, KITH_SWITCH_MERGE},
                {CLI_OPT_MERGE, KITH_SWITCH_MERGE},       {CLI_OPT_ALIGNED, KITH_SWITCH_ALIGNED},
                {CLI_OPT_HEAP_SAMPLE, KITH_SWITCH_SAMPLE}};
    const bool none = args->buffer == KITH_BUFFER_NONE;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && args->command == CLI_SELECT; i++) {
        const cli_option_id id = rows[i].option;
        if (!cli_given(args, id) || (id == CLI_OPT_BUFFER && none)) {
            continue;
        }
        if (!check_switch(args, id, rows[i].switches, error)) {
            return false;
        }
        if (id == CLI_OPT_BUFFER_SIZE && none) {
            return refuse_option(args, error, id,
                                 "goes with --buffer plain, full or sorted (give that, or leave it "
                                 "out)");
        }
    }
    return true;
}

bool cli_rules_check(const cli_args *args, cli_error *error)
{
    return check_wants(args, error) && check_pairs(args, error) && check_names(args, error) &&
           check_outputs(args, error) && check_radius(args, error) && check_method(args, error) &&
           check_descent(args, error) && check_walk(args, error) &&
           check_descent_numbers(args, error) && check_switches(args, error) &&
           check_index(args, error) && check_exact(args, error) && check_filter(args, error) &&
           check_components(args, error) && check_truth(args, error);
}
