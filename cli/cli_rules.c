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
    {CLI_OPT_PARTS, true, CLI_OPT_SHARDS},
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

static bool check_text(const cli_args *args, cli_error *error)
{
    static const cli_option_id pieces[] = {CLI_OPT_STREAM, CLI_OPT_CHUNK, CLI_OPT_SHARDS};
    if (same(args->output, "-") && !writes_text(args)) {
        return refuse(error, "-o", "standard output takes text alone (give --format csv or tsv)");
    }
    for (size_t i = 0; writes_text(args) && i < sizeof pieces / sizeof pieces[0]; i++) {
        if (cli_given(args, pieces[i])) {
            return refuse_option(
                args, error, pieces[i],
                "does not go together with text, which is written at once (write .npz "
                "or .kith)");
        }
    }
    return true;
}

/* Standard input is read once. */
static bool check_inputs(const cli_args *args, cli_error *error)
{
    int count = same(args->points, "-") + same(args->truth, "-") + same(args->init, "-");
    const int paths = args->command == CLI_CONVERT ? 1 : args->path_count;
    for (int i = 0; i < paths; i++) {
        count += same(args->paths[i], "-");
    }
    return count <= 1 ||
           refuse(error, "-", "standard input is named for two files (give one by its name)");
}

static bool check_outputs(const cli_args *args, cli_error *error)
{
    if (same(args->output, args->output_back) || same(args->output, args->distances)) {
        return refuse(error, args->output, "is named for two outputs (give two names)");
    }
    if (cli_given(args, CLI_OPT_BOTH) && args->output != NULL && args->output_back == NULL) {
        return refuse(error, "--both", "has two answers to write (give --output-back FILE too)");
    }
    if (cli_given(args, CLI_OPT_FORMAT) && args->command != CLI_CONVERT && args->output == NULL) {
        return refuse(error, "--format", "means nothing without -o FILE (give both)");
    }
    if (cli_is_radius_search(args) && cli_given(args, CLI_OPT_FORMAT) &&
        args->format != KITH_FORMAT_CSR) {
        return refuse(error, "--format", "a radius search is written as csr alone (leave it out)");
    }
    if (cli_given(args, CLI_OPT_PARTS) && cli_given(args, CLI_OPT_FORMAT) &&
        args->format != KITH_FORMAT_KITH) {
        return refuse_option(args, error, CLI_OPT_PARTS,
                             "are written as .kith alone (leave --format out)");
    }
    if (cli_given(args, CLI_OPT_SYMMETRIC) && cli_given(args, CLI_OPT_FORMAT) &&
        args->format != KITH_FORMAT_CSR) {
        return refuse(error, "--format",
                      "a symmetric graph is written as csr alone (leave it out)");
    }
    return true;
}

static bool check_radius(const cli_args *args, cli_error *error)
{
    if (!cli_given(args, CLI_OPT_RADIUS)) {
        return true;
    }
    if (cli_is_radius_search(args) &&
        !check_beside(args, error, of_k, "--radius", "", "leave one out, or give -k too")) {
        return false;
    }
    if (args->radius < 0 && args->metric != KITH_INNER_PRODUCT) {
        return refuse(error, "--radius", "is negative, no distance is (give a number from 0)");
    }
    if (args->radius == 0 && cli_given(args, CLI_OPT_K)) {
        return refuse(error, "--radius",
                      "is 0, which is no limit of the k nearest (leave it or -k out)");
    }
    return true;
}

/* The tree answers in one direction. */
static bool check_method(const cli_args *args, cli_error *error)
{
    static const cli_option_id others[] = {CLI_OPT_BOTH, CLI_OPT_MUTUAL, CLI_OPTION_COUNT};
    return args->method != KITH_METHOD_TREE ||
           check_beside(args, error, others, "--method", "tree ", "leave one out");
}

/* What the start of a descent, and a recall, need of the others. */
static bool check_sample(const cli_args *args, cli_error *error)
{
    if (args->start == KITH_START_RANDOM && cli_given(args, CLI_OPT_START_SHARE)) {
        return refuse_option(args, error, CLI_OPT_START_SHARE,
                             "goes with start=screen or auto alone (leave one out)");
    }
    if (cli_given(args, CLI_OPT_RECALL) && args->sample == 0) {
        return refuse(error, "--recall", "is not known without a sample (leave sample=0 out)");
    }
    return true;
}

/* Numbers of a descent beside the others. */
static bool check_descent_numbers(const cli_args *args, cli_error *error)
{
    if (cli_given(args, CLI_OPT_LIST) && args->list <= args->k) {
        return refuse_option(args, error, CLI_OPT_LIST,
                             "must be above k (give a larger one, or leave it out)");
    }
    if (args->recall_at > args->k) {
        return refuse(error, "--recall", "is of more neighbours than k (give an @K of at most k)");
    }
    return check_sample(args, error);
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
    if (args->command != CLI_GRAPH) {
        return !named || refuse(error, "--method",
                                "descent is for kith graph alone (use auto, exact or tree)");
    }
    if (named && cli_given(args, CLI_OPT_RADIUS)) {
        return refuse(error, "--method",
                      "descent does not go together with --radius (leave one out)");
    }
    if (wanted && args->pipeline != KITH_PIPELINE_FUSED) {
        return refuse_option(args, error, CLI_OPT_PIPELINE,
                             "goes with exact methods alone (leave it out, or the descent)");
    }
    if (!named && wanted && args->method != KITH_METHOD_AUTO) {
        return refuse(error, "--recall",
                      "goes with --method descent or auto alone (leave one out)");
    }
    if (!wanted &&
        !check_none(args, error, own,
                    "goes with --method descent, or with --recall (give one of these)")) {
        return false;
    }
    return check_descent_numbers(args, error);
}

/* Walks on a graph have options of their own, and go at once, in one direction. */
static bool check_walk(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_RECALL, CLI_OPT_SAMPLE, CLI_OPT_SEED, CLI_OPT_WIDTH,
                                        CLI_OPTION_COUNT};
    static const cli_option_id others[] = {
        CLI_OPT_METHOD,      CLI_OPT_TREE_HEIGHT, CLI_OPT_PIPELINE, CLI_OPT_SELECT,
        CLI_OPT_HEAP_SAMPLE, CLI_OPT_OUTPUT_BACK, CLI_OPT_RADIUS,   CLI_OPT_BOTH,
        CLI_OPT_MUTUAL,      CLI_OPT_STREAM,      CLI_OPT_CHUNK,    CLI_OPT_RESTART,
        CLI_OPT_DRY_RUN,     CLI_OPTION_COUNT};
    if (args->command != CLI_SEARCH) {
        return true;
    }
    if (!cli_is_graph_search(args)) {
        return check_none(args, error, own,
                          "goes with a search on a graph (give GRAPH POINTS QUERIES)");
    }
    if (!check_none(args, error, others,
                    "does not go together with a search on a graph (leave it out)")) {
        return false;
    }
    if (cli_given(args, CLI_OPT_WIDTH) && args->width < args->k) {
        return refuse_option(args, error, CLI_OPT_WIDTH,
                             "must be at least k (give more, or leave it out)");
    }
    return check_descent_numbers(args, error);
}

/* Only a tree has a height. */
static bool check_height(const cli_args *args, cli_error *error)
{
    if (args->tree_height != 0 &&
        (args->method == KITH_METHOD_EXACT || args->method == KITH_METHOD_DESCENT ||
         args->pipeline != KITH_PIPELINE_FUSED)) {
        return refuse_option(args, error, CLI_OPT_TREE_HEIGHT,
                             "goes with --method tree or auto alone (leave it out, or the other)");
    }
    return true;
}

/* The first word of kith tree says what to do with the files behind it. */
static bool check_tree(const cli_args *args, cli_error *error)
{
    if (args->command != CLI_TREE) {
        return true;
    }
    const char *action = args->paths[0];
    const bool build = same(action, "build");
    char text[CLI_ERROR_BYTES];
    if (!build && !same(action, "add") && !same(action, "remove")) {
        (void)snprintf(text, sizeof text, "'%.64s' is no action (use build, add or remove)",
                       action);
        return refuse(error, "tree", text);
    }
    if (args->path_count != (build ? 2 : 3)) {
        (void)snprintf(text, sizeof text, "%s takes %s", action,
                       build ? "one file, the points (leave the other out)"
                             : "two files, a tree and points or ids (give both)");
        return refuse(error, "tree", text);
    }
    if (args->output == NULL) {
        return refuse(error, "tree", "-o is missing (say where the tree is to be written)");
    }
    if (!build && (cli_given(args, CLI_OPT_METRIC) || cli_given(args, CLI_OPT_TREE_HEIGHT))) {
        return refuse(error, cli_given(args, CLI_OPT_METRIC) ? "--metric" : "--tree-height",
                      "goes with kith tree build alone, a tree that stands has its own (leave it "
                      "out)");
    }
    return true;
}

/* Commands that change a graph write it; pairs that are all looked at need no descent. */
static bool check_grow(const cli_args *args, cli_error *error)
{
    static const cli_option_id own[] = {CLI_OPT_RECALL,      CLI_OPT_ROUNDS,  CLI_OPT_CANDIDATES,
                                        CLI_OPT_LIST,        CLI_OPT_DELTA,   CLI_OPT_START,
                                        CLI_OPT_START_SHARE, CLI_OPT_UPDATES, CLI_OPTION_COUNT};
    if (args->command != CLI_MERGE && args->command != CLI_ADD && args->command != CLI_REMOVE) {
        return true;
    }
    if (args->output == NULL) {
        return refuse(error, cli_command_get(args->command)->name,
                      "-o is missing (say where the graph is to be written)");
    }
    if (cli_given(args, CLI_OPT_EXACT) &&
        !check_none(args, error, own, "does not go together with --exact (leave one out)")) {
        return false;
    }
    if (same(args->output, args->points_out) || same(args->output, args->map) ||
        same(args->points_out, args->map)) {
        return refuse(error, same(args->points_out, args->map) ? args->map : args->output,
                      "is named for two outputs (give two names)");
    }
    return check_sample(args, error);
}

/* A product says how near two rows are, not how far. */
static bool check_mode(const cli_args *args, cli_error *error)
{
    return !cli_weighs(args) || args->metric != KITH_INNER_PRODUCT ||
           refuse(error, "--mode",
                  "divides by distances, inner_product has none (take another metric or mode)");
}

/* What a pipeline has for itself. */
static bool check_pipeline(const cli_args *args, cli_error *error)
{
    if (args->command != CLI_GRAPH && args->command != CLI_SEARCH) {
        return true;
    }
    if (cli_given(args, CLI_OPT_SELECT) && args->pipeline != KITH_PIPELINE_MATRIX) {
        return refuse_option(args, error, CLI_OPT_SELECT,
                             "goes with pipeline=matrix alone (give that, or leave it out)");
    }
    if (cli_given(args, CLI_OPT_HEAP_SAMPLE) && args->pipeline != KITH_PIPELINE_HYBRID) {
        return refuse_option(args, error, CLI_OPT_HEAP_SAMPLE,
                             "goes with pipeline=hybrid alone (give that, or leave it out)");
    }
    return true;
}

/* A switch of selection, that methods with `switches` have. */
static bool check_switch(const cli_args *args, const char *option, uint32_t switches,
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
    (void)snprintf(error->where, sizeof error->where, "%s", option);
    (void)snprintf(error->text, sizeof error->text,
                   "goes with --select %s alone (give that, or leave it out)", list);
    return false;
}

static bool check_switches(const cli_args *args, cli_error *error)
{
    if (args->command != CLI_SELECT) {
        return true;
    }
    return (args->buffer == KITH_BUFFER_NONE ||
            check_switch(args, "--buffer", KITH_SWITCH_QUEUE, error)) &&
           (args->group == 0 || check_switch(args, "--group", KITH_SWITCH_QUEUE, error)) &&
           (!cli_given(args, CLI_OPT_ALIGNED) ||
            check_switch(args, "--aligned", KITH_SWITCH_ALIGNED, error)) &&
           (!cli_given(args, CLI_OPT_HEAP_SAMPLE) ||
            check_switch(args, "--heap-sample", KITH_SWITCH_SAMPLE, error));
}

static bool check_wants(const cli_args *args, cli_error *error)
{
    const cli_command *command = cli_command_get(args->command);
    char usage[192];
    if (args->path_count < command->paths_min) {
        (void)snprintf(usage, sizeof usage, "a file is missing (usage: kith %s %s)", command->name,
                       command->usage);
        return refuse(error, command->name, usage);
    }
    const bool solves =
        args->command == CLI_GRAPH || args->command == CLI_SEARCH || args->command == CLI_PREDICT;
    if (solves && !cli_given(args, CLI_OPT_K) && !cli_given(args, CLI_OPT_RADIUS)) {
        return refuse(error, command->name,
                      "-k is missing (say how many neighbours, for example -k 10)");
    }
    if (args->command == CLI_SELECT && !cli_given(args, CLI_OPT_K)) {
        return refuse(error, command->name,
                      "-k is missing (say how many values, for example -k 10)");
    }
    if (args->command == CLI_EVAL && (args->path_count == 1) != (args->points != NULL)) {
        return refuse(error, command->name,
                      args->points != NULL
                          ? "--points goes with one GRAPH (leave TRUTH or --points out)"
                          : "TRUTH is missing (give a second file, or --points FILE)");
    }
    return true;
}

bool cli_rules_check(const cli_args *args, cli_error *error)
{
    return check_wants(args, error) && check_pairs(args, error) && check_inputs(args, error) &&
           check_text(args, error) && check_outputs(args, error) && check_radius(args, error) &&
           check_method(args, error) && check_descent(args, error) && check_walk(args, error) &&
           check_height(args, error) && check_pipeline(args, error) &&
           check_switches(args, error) && check_mode(args, error) && check_tree(args, error) &&
           check_grow(args, error);
}
