/* SPDX-License-Identifier: Apache-2.0
 * What the table of options cannot say: lists of mistakes, of which the first one that is made is
 * told. */
#include "cli_options.h"
#include "kith/kith_papers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Options by their short names, from 1 on: 0 ends a list. */
#define OPTION(ID, ...) ID = CLI_OPT_##ID + 1,
typedef enum short_id {
#include "cli_options.inc"
} short_id;

#define GIVEN(option) cli_given(args, CLI_OPT_##option)

static bool refuse(cli_error *error, const char *where, const char *text)
{
    return cli_refuse(cli_error_at(error, where), "%s", text);
}

/* As this command has it. */
static const char *written(const cli_args *args, short_id id, char text[CLI_WRITTEN_BYTES])
{
    return cli_option_written((cli_option_id)(id - 1), args->command, text);
}

/* The same of an option. */
static bool refuse_option(const cli_args *args, cli_error *error, short_id id, const char *text)
{
    char name[CLI_WRITTEN_BYTES];
    return refuse(error, written(args, id, name), text);
}

/* ---- Two options ----------------------------------------------------------------------------- */

/* Options that need or exclude each other. `other` is needed when needs is true, else excluded; a
 * command that does not have it is not meant. */
typedef struct rule {
    short_id option;
    bool needs;
    short_id other;
} rule;

static const rule rules[] = {
    {RADIUS, false, BOTH},         {RADIUS, false, MUTUAL},       {MUTUAL, false, BOTH},
    {MUTUAL, false, FORMAT},       {MUTUAL, false, DISTANCES},    {BOTH, false, DISTANCES},
    {OUTPUT_BACK, true, BOTH},     {OUTPUT_BACK, true, OUTPUT},   {SAMPLE, true, POINTS},
    {SEED, true, POINTS},          {VERIFY, true, POINTS},        {KTH, false, UNSORTED},
    {SELECT, true, PIPELINE},      {HEAP_SAMPLE, true, PIPELINE}, {TREE_HEIGHT, false, BOTH},
    {TREE_HEIGHT, false, MUTUAL},  {STREAM, true, OUTPUT},        {STREAM, false, BOTH},
    {STREAM, false, MUTUAL},       {STREAM, false, DISTANCES},    {CHUNK, true, OUTPUT},
    {CHUNK, false, BOTH},          {CHUNK, false, MUTUAL},        {CHUNK, false, DISTANCES},
    {RESTART, true, OUTPUT},       {RESTART, false, BOTH},        {RESTART, false, MUTUAL},
    {RESTART, false, DISTANCES},   {RECALL, false, RADIUS},       {INIT, false, START},
    {INIT, false, START_SHARE},    {RECALL, false, WIDTH},        {RESTART, true, SHARDS},
    {SHARD_COUNT, true, SHARDS},   {KEEP_SHARDS, true, SHARDS},   {SHARDS, true, OUTPUT},
    {SHARDS, false, RADIUS},       {SHARDS, false, DISTANCES},    {SHARDS, false, INIT},
    {SYMMETRIC, false, RADIUS},    {SYMMETRIC, false, DISTANCES}, {SHARDS, false, SYMMETRIC},
    {SHARDS, false, TREE_HEIGHT},  {SHARDS, false, PIPELINE},     {PARTS, true, SHARDS},
    {LEAF_BUFFER, true, PIPELINE}, {COUNT, false, OUTPUT},        {KEPT, true, KEEP},
};

static bool has(const cli_args *args, short_id id)
{
    const cli_option *option = cli_option_get((cli_option_id)(id - 1));
    return cli_option_is_plain(option, args->command) || cli_option_is_tune(option, args->command);
}

static bool check_pairs(const cli_args *args, cli_error *error)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (!has(args, r->other) || !args->given[r->option - 1] ||
            args->given[r->other - 1] == r->needs) {
            continue;
        }
        char other[CLI_WRITTEN_BYTES];
        char text[128];
        (void)snprintf(text, sizeof text,
                       r->needs ? "means nothing without %s (give both)"
                                : "does not go together with %s (leave one out)",
                       written(args, r->other, other));
        return refuse_option(args, error, r->option, text);
    }
    return true;
}

/* ---- Lists of mistakes ----------------------------------------------------------------------- */

/* What is wrong where `when` holds: the command, an option that is given of a list, or an option,
 * or its value, beside one of a list. */
enum { OPTIONS_MAX = 14 }; /* and the 0 behind them */
typedef struct mistake {
    bool when;
    const char *text; /* of BESIDE what to do */
    short_id beside;
    const char *value;
    short_id options[OPTIONS_MAX];
} mistake;

#define ROW(...)    \
    {               \
        __VA_ARGS__ \
    }
#define COMMAND(holds, words) ROW(.when = (holds), .text = (words))
#define NAMED(holds, words, ...) ROW(.when = (holds), .text = (words), .options = ROW(__VA_ARGS__))
#define BESIDE(holds, option, its_value, words, ...)                                \
    ROW(.when = (holds), .text = (words), .beside = (option), .value = (its_value), \
        .options = ROW(__VA_ARGS__))

static bool refuse_beside(const cli_args *args, cli_error *error, const mistake *m, short_id other)
{
    char name[CLI_WRITTEN_BYTES];
    char text[160];
    (void)snprintf(text, sizeof text, "%sdoes not go together with %s (%s)", m->value,
                   written(args, other, name), m->text);
    return refuse_option(args, error, m->beside, text);
}

/* The first that is made is told. */
static bool check_list(const cli_args *args, cli_error *error, const mistake *list, size_t count)
{
    for (const mistake *m = list; m < list + count; m++) {
        if (m->when && m->options[0] == 0) {
            return refuse(error, cli_command_get(args->command)->name, m->text);
        }
        for (const short_id *id = m->options; m->when && *id != 0; id++) {
            if (args->given[*id - 1]) {
                return m->beside != 0 ? refuse_beside(args, error, m, *id)
                                      : refuse_option(args, error, *id, m->text);
            }
        }
    }
    return true;
}

#define CHECK_LIST(args, error, list) check_list(args, error, list, sizeof(list) / sizeof(list)[0])

/* ---- What a command wants -------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool is_one_of(const cli_args *args, cli_command_id a, cli_command_id b, cli_command_id c)
{
    return args->command == a || args->command == b || args->command == c;
}

static bool check_wants(const cli_args *args, cli_error *error)
{
    const cli_command *command = cli_command_get(args->command);
    const bool none = !GIVEN(K) && !GIVEN(RADIUS);
    const bool eval = args->command == CLI_EVAL;
    char usage[192];
    (void)snprintf(usage, sizeof usage, "a file is missing (usage: kith %s %s)", command->name,
                   command->usage);
    const mistake list[] = {
        COMMAND(args->path_count < command->paths_min, usage),
        COMMAND(none && is_one_of(args, CLI_GRAPH, CLI_SEARCH, CLI_PREDICT),
                "-k is missing (say how many neighbours, for example -k 10)"),
        COMMAND(args->command == CLI_PAIRS && !GIVEN(RADIUS),
                "--radius is missing (say how far the rows of a pair may be apart)"),
        COMMAND(args->command == CLI_SELECT && !GIVEN(K),
                "-k is missing (say how many values, for example -k 10)"),
        COMMAND(eval && args->path_count == 2 && args->points != NULL,
                "--points goes with one GRAPH (leave TRUTH or --points out)"),
        COMMAND(eval && args->path_count == 1 && args->points == NULL,
                "TRUTH is missing (give a second file, or --points FILE)"),
        COMMAND(args->output == NULL && is_one_of(args, CLI_MERGE, CLI_ADD, CLI_REMOVE),
                "-o is missing (say where the graph is to be written)"),
    };
    return CHECK_LIST(args, error, list);
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

/* ---- What values say ------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending, const char *other)
{
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    return dot != NULL && (strcasecmp(dot, ending) == 0 || strcasecmp(dot, other) == 0);
}

static bool check_outputs(const cli_args *args, cli_error *error)
{
    /* By its format, or by the name of the file. */
    const bool text = GIVEN(FORMAT)
                          ? args->format >= KITH_FORMAT_CSV && args->format <= KITH_FORMAT_TSV_WIDE
                          : same(args->output, "-") || ends_in(args->output, ".csv", ".tsv");
    const bool loose = cli_is_radius_search(args) || GIVEN(SYMMETRIC);
    const mistake list[] = {
        NAMED(same(args->output, "-") && !text,
              "standard output takes text alone (give --format csv or tsv)", OUTPUT),
        NAMED(args->output != NULL && args->output_back == NULL,
              "has two answers to write (give --output-back FILE too)", BOTH),
        NAMED(args->command != CLI_CONVERT && args->output == NULL,
              "means nothing without -o FILE (give both)", FORMAT),
        NAMED(
            loose && args->format != KITH_FORMAT_CSR,
            "lists of different lengths are written as the name of FILE says, .npz .kith .csv .tsv "
            "(leave it out)",
            FORMAT),
        NAMED(text && args->command == CLI_PAIRS,
              "means nothing for text, which begins anew in any case (leave it out)", RESTART),
        NAMED(GIVEN(FORMAT) && args->format != KITH_FORMAT_KITH,
              "are written as .kith alone (leave --format out)", PARTS),
        NAMED(text,
              "does not go together with text, which is written at once (write .npz or .kith)",
              STREAM, CHUNK, SHARDS),
        BESIDE(cli_is_radius_search(args), RADIUS, "", "leave one out, or give -k too", DISTANCES,
               DRY_RUN, PIPELINE, TREE_HEIGHT, STREAM, CHUNK, RESTART),
        NAMED(args->radius < 0 && args->metric != KITH_INNER_PRODUCT,
              "is negative, no distance is (give a number from 0)", RADIUS),
    };
    return CHECK_LIST(args, error, list);
}

/* The engine that a method, a pipeline or a mode names, beside what is another one's. */
static bool check_method(const cli_args *args, cli_error *error)
{
    const bool buffered = args->pipeline == KITH_PIPELINE_BUFFER_TREE;
    const bool papers = args->pipeline != KITH_PIPELINE_FUSED && !buffered;
    const bool matrix = args->pipeline == KITH_PIPELINE_MATRIX;
    const bool hybrid = args->pipeline == KITH_PIPELINE_HYBRID;
    const bool descent = args->method == KITH_METHOD_DESCENT;
    const bool lists = args->command == CLI_GRAPH || args->command == CLI_SEARCH;
    const mistake list[] = {
        /* The tree answers in one direction. */
        BESIDE(args->method == KITH_METHOD_TREE, METHOD, "tree ", "leave one out", BOTH, MUTUAL),
        NAMED(descent && args->command != CLI_GRAPH,
              "descent is for kith graph alone (leave it out, or use another)", METHOD),
        NAMED(!buffered && (args->method == KITH_METHOD_EXACT || descent || papers),
              "goes with --method tree or auto alone (leave it out, or the other)", TREE_HEIGHT),
        NAMED(!buffered, "goes with pipeline=buffer_tree alone (give that, or leave it out)",
              LEAF_BUFFER),
        NAMED(lists && !matrix, "goes with pipeline=matrix alone (give that, or leave it out)",
              SELECT),
        NAMED(lists && !hybrid, "goes with pipeline=hybrid alone (give that, or leave it out)",
              HEAP_SAMPLE),
        NAMED(!hybrid, "goes with pipeline=hybrid alone (give that, or leave it out)", BATCH),
        /* A product says how near two rows are, not how far. */
        NAMED(cli_weighs(args) && args->metric == KITH_INNER_PRODUCT,
              "divides by distances, inner_product has none (take another metric or mode)", MODE),
    };
    return CHECK_LIST(args, error, list);
}

/* NN-Descent makes graphs of the k nearest, and is asked for by its name or by a recall. */
static bool check_descent(const cli_args *args, cli_error *error)
{
    const bool graph = args->command == CLI_GRAPH;
    const bool named = graph && args->method == KITH_METHOD_DESCENT;
    const bool wanted = named || (graph && GIVEN(RECALL));
    const mistake list[] = {
        NAMED(named && GIVEN(RADIUS), "descent does not go together with --radius (leave one out)",
              METHOD),
        NAMED(wanted && args->pipeline != KITH_PIPELINE_FUSED,
              "goes with exact methods alone (leave it out, or the descent)", PIPELINE),
        NAMED(graph && !named && args->method != KITH_METHOD_AUTO,
              "goes with --method descent or auto alone (leave one out)", RECALL),
        NAMED(graph && !wanted, "goes with --method descent, or with --recall (give one of these)",
              SAMPLE, SEED, ROUNDS, CANDIDATES, LIST, DELTA, START, START_SHARE, UPDATES, INIT),
    };
    return CHECK_LIST(args, error, list);
}

/* Walks on a graph have options of their own, and go at once, in one direction. Numbers of a
 * descent, and of a recall, beside the others. */
static bool check_walk(const cli_args *args, cli_error *error)
{
    const bool walks = cli_is_graph_search(args);
    const bool at_once = args->start == KITH_START_RANDOM || args->start == KITH_START_GGM;
    const mistake list[] = {
        NAMED(walks, "does not go together with a search on a graph (leave it out)", TREE_HEIGHT,
              PIPELINE, SELECT, HEAP_SAMPLE, OUTPUT_BACK, RADIUS, BOTH, MUTUAL, STREAM, CHUNK,
              RESTART, DRY_RUN, PERIOD),
        NAMED(walks && args->width < args->k, "must be at least k (give more, or leave it out)",
              WIDTH),
        NAMED(walks && args->method != KITH_METHOD_GRAPH,
              "does not go together with a search on a graph (leave it out)", METHOD),
        NAMED(args->command == CLI_SEARCH && !walks,
              "goes with a search on a graph (give GRAPH POINTS QUERIES, or --method graph)",
              RECALL, SAMPLE, SEED, WIDTH),
        NAMED(GIVEN(K) && args->list <= args->k,
              "must be above k (give a larger one, or leave it out)", LIST),
        NAMED(GIVEN(K) && args->recall_at > args->k,
              "is of more neighbours than k (give an @K of at most k)", RECALL),
        NAMED(at_once, "goes with start=screen or auto alone (leave one out)", START_SHARE),
        NAMED(args->sample == 0, "is not known without a sample (leave sample=0 out)", RECALL),
    };
    return CHECK_LIST(args, error, list);
}

/* The first word of kith index says what to do with the files behind it. */
static bool check_index(const cli_args *args, cli_error *error)
{
    const bool index = args->command == CLI_INDEX;
    const char *action = index ? args->paths[0] : "";
    const bool build = strcmp(action, "build") == 0;
    const bool stands = strcmp(action, "add") == 0 || strcmp(action, "remove") == 0;
    char unknown[CLI_ERROR_BYTES];
    (void)snprintf(unknown, sizeof unknown, "'%.64s' is no action (use build, add or remove)",
                   action);
    const mistake list[] = {
        COMMAND(index && !build && !stands, unknown),
        COMMAND(build && args->path_count != 2,
                "build takes one file, the points (leave the other out)"),
        COMMAND(stands && args->path_count != 3,
                "add, or remove, takes two files, an index and points or ids (give both)"),
        COMMAND(index && args->output == NULL,
                "-o is missing (say where the index is to be written)"),
        NAMED(build && args->method != KITH_METHOD_TREE,
              "goes with --method tree alone (leave it out, or add that)", TREE_HEIGHT),
        NAMED(stands,
              "goes with kith index build alone, an index that stands has its own (leave it out)",
              METRIC, METHOD, TREE_HEIGHT, K, RECALL, SEED),
        NAMED(index && args->method != KITH_METHOD_GRAPH,
              "goes with --method graph alone (leave it out, or add that)", K, RECALL, SEED),
        /* Pairs that are all looked at need no descent. */
        NAMED(GIVEN(EXACT), "does not go together with --exact (leave one out)", RECALL, ROUNDS,
              CANDIDATES, LIST, DELTA, START, START_SHARE, UPDATES),
    };
    return CHECK_LIST(args, error, list);
}

/* A filter is of the k nearest, at once and in one direction; exactly, but for walks. */
static bool check_filter(const cli_args *args, cli_error *error)
{
    const bool filtered = cli_is_filtered(args);
    const bool groups = GIVEN(GROUPS);
    const bool asked = GIVEN(QUERY_GROUPS);
    const bool each = args->rule == KITH_RULE_EACH;
    const bool pairs = args->command == CLI_PAIRS;
    const bool one_set = pairs || args->command == CLI_GRAPH;
    const short_id named = groups ? GROUPS : ALLOW;
    const mistake list[] = {
        NAMED(!groups, "means nothing without groups (give both)", RULE),
        NAMED(!groups || each, "goes with groups, and rule same or other (leave it out)",
              QUERY_GROUPS),
        NAMED(!asked && !each && !one_set,
              "needs --query-groups, the groups of queries (or --rule each)", GROUPS),
        NAMED(pairs && each, "each is of lists (use same or other)", RULE),
        NAMED(each && GIVEN(SHARDS),
              "each has k of every group, and lists of shards have k entries (use same or other)",
              RULE),
        NAMED(each && args->command == CLI_TRUTH, "each has many lists a query (use same or other)",
              RULE),
        NAMED(
            pairs && asked != (args->path_count == 2),
            "goes with --query-groups of two files, and alone of one (give both, or leave it out)",
            GROUPS),
        NAMED(each && cli_is_radius_search(args),
              "each is of lists of k (use same or other, or give -k too)", RULE),
        NAMED(filtered && args->method == KITH_METHOD_DESCENT,
              "descent finds some neighbours, under a filter all are found (leave it out)", METHOD),
        BESIDE(filtered, named, "", "leave one out", BOTH, MUTUAL, STREAM, CHUNK, PIPELINE,
               TREE_HEIGHT, SYMMETRIC),
        BESIDE(filtered && !cli_is_graph_search(args), named, "", "leave one out", RECALL),
        /* Components are of one set. */
        NAMED(pairs && args->path_count != 1, "is of the rows of one file (leave OTHERS out)",
              COMPONENTS, KEEP),
    };
    return CHECK_LIST(args, error, list);
}

/* A truth is made, or held against its certificate, which says what it was made of. */
static bool check_truth(const cli_args *args, cli_error *error)
{
    const bool verifies = cli_verifies_truth(args);
    const bool makes = args->command == CLI_TRUTH && !verifies;
    const bool within = GIVEN(RADIUS);
    const bool book = GIVEN(RUNBOOK);
    const bool hdf5 = args->path_count == 1 && ends_in(args->paths[0], ".hdf5", ".h5");
    const mistake list[] = {
        NAMED(verifies && !book, "is what the certificate says (leave it out)", K),
        /* else in names */
        NAMED(verifies, "is what the certificate says (leave it out)", METRIC, METHOD, OUTPUT, TIES,
              RESTART, RADIUS),
        NAMED(makes, "goes with --verify (give both)", SAMPLE, SEED),
        NAMED(verifies && args->path_count == 2,
              "takes FILE, or FILE CORPUS QUERIES (give one file, or three)", VERIFY),
        NAMED(verifies && args->path_count == 1 && cli_is_filtered(args),
              "under a filter takes FILE CORPUS QUERIES (give three files)", VERIFY),
        COMMAND(makes && args->path_count != 2 && !hdf5,
                "takes two names, CORPUS and QUERIES, or one .hdf5 with train and test (several "
                "files of "
                "a corpus have commas between)"),
        COMMAND((makes || (verifies && book)) && !GIVEN(K) && !within,
                "-k is missing (say how many neighbours, for example -k 100, or --radius R)"),
        NAMED(makes && GIVEN(K), "is a truth of its own (leave -k out)", RADIUS),
        NAMED(within, "are of lists of k (leave it out with --radius)", TIES),
        NAMED(within || GIVEN(TIES),
              "has a file of -k neighbours for each search (leave --radius and --ties out)",
              RUNBOOK),
        NAMED(args->allow != NULL, "says itself which rows may be found (leave --allow out)",
              RUNBOOK),
        NAMED(verifies && args->path_count != 3,
              "is verified by its folder, CORPUS and QUERIES (give three names)", RUNBOOK),
        COMMAND(makes && args->output == NULL,
                "-o is missing (say where the truth is to be written)"),
    };
    return CHECK_LIST(args, error, list);
}

/* ---- Switches of selection ------------------------------------------------------------------- */

/* Whether a method of selection has one of these switches; text: which methods do. */
static bool has_switch(kith_select_method method, uint32_t switches, char text[CLI_ERROR_BYTES])
{
#define METHOD_ROW(NAME, number, name, switches) {KITH_SELECT_##NAME, #name, switches},
    static const struct {
        kith_select_method method;
        const char *name;
        uint32_t switches;
    } methods[] = {KITH_PAPERS_SELECT_MAP(METHOD_ROW)};
#undef METHOD_ROW
    bool found = false;
    char list[128] = "";
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const size_t used = strlen(list);
        if ((methods[i].switches & switches) != 0) {
            found = found || methods[i].method == method;
            (void)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                           methods[i].name);
        }
    }
    (void)snprintf(text, CLI_ERROR_BYTES,
                   "goes with --select %s alone (give that, or leave it out)", list);
    return found;
}

static bool check_switches(const cli_args *args, cli_error *error)
{
    char queue[CLI_ERROR_BYTES];
    char merge[CLI_ERROR_BYTES];
    char aligned[CLI_ERROR_BYTES];
    char sample[CLI_ERROR_BYTES];
    const bool none = args->buffer == KITH_BUFFER_NONE;
    const bool queues = has_switch(args->select, KITH_SWITCH_QUEUE, queue);
    const mistake list[] = {
        NAMED(!queues && !none, queue, BUFFER),
        NAMED(!queues, queue, GROUP, BUFFER_SIZE),
        NAMED(none, "goes with --buffer plain, full or sorted (give that, or leave it out)",
              BUFFER_SIZE),
        NAMED(!has_switch(args->select, KITH_SWITCH_MERGE, merge), merge, LEVEL, MERGE),
        NAMED(!has_switch(args->select, KITH_SWITCH_ALIGNED, aligned), aligned, ALIGNED),
        NAMED(!has_switch(args->select, KITH_SWITCH_SAMPLE, sample), sample, HEAP_SAMPLE),
    };
    return args->command != CLI_SELECT || CHECK_LIST(args, error, list);
}

bool cli_rules_check(const cli_args *args, cli_error *error)
{
    return check_wants(args, error) && check_pairs(args, error) && check_names(args, error) &&
           check_outputs(args, error) && check_method(args, error) && check_descent(args, error) &&
           check_walk(args, error) && check_switches(args, error) && check_index(args, error) &&
           check_filter(args, error) && check_truth(args, error);
}
