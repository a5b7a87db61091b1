/* SPDX-License-Identifier: Apache-2.0
 * The command line, understood: what a command finds of its options. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "kith/kith.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum cli_command_id {
    CLI_GRAPH = 0,
    CLI_SEARCH,
    CLI_PAIRS,
    CLI_TRUTH,
    CLI_EVAL,
    CLI_SELECT,
    CLI_PREDICT,
    CLI_INDEX,
    CLI_MERGE,
    CLI_ADD,
    CLI_REMOVE,
    CLI_INFO,
    CLI_CONVERT,
    CLI_DEVICES,
    CLI_COMMAND_COUNT
} cli_command_id;

typedef enum cli_option_id {
    CLI_OPT_K = 0,
    CLI_OPT_METRIC,
    CLI_OPT_METHOD,
    CLI_OPT_TREE_HEIGHT,
    CLI_OPT_PIPELINE,
    CLI_OPT_LEAF_BUFFER,
    CLI_OPT_BATCH,
    CLI_OPT_SELECT,
    CLI_OPT_BUFFER,
    CLI_OPT_GROUP,
    CLI_OPT_BUFFER_SIZE,
    CLI_OPT_LEVEL,
    CLI_OPT_MERGE,
    CLI_OPT_ALIGNED,
    CLI_OPT_HEAP_SAMPLE,
    CLI_OPT_LARGEST,
    CLI_OPT_UNSORTED,
    CLI_OPT_KTH,
    CLI_OPT_MODE,
    CLI_OPT_TRUTH,
    CLI_OPT_OUTPUT,
    CLI_OPT_OUTPUT_BACK,
    CLI_OPT_FORMAT,
    CLI_OPT_DISTANCES,
    CLI_OPT_RADIUS,
    CLI_OPT_ALLOW,
    CLI_OPT_GROUPS,
    CLI_OPT_QUERY_GROUPS,
    CLI_OPT_RULE,
    CLI_OPT_COUNT,
    CLI_OPT_LIMIT,
    CLI_OPT_COMPONENTS,
    CLI_OPT_KEEP,
    CLI_OPT_KEPT,
    CLI_OPT_TIES,
    CLI_OPT_RUNBOOK,
    CLI_OPT_BOTH,
    CLI_OPT_MUTUAL,
    CLI_OPT_INCLUDE_SELF,
    CLI_OPT_SYMMETRIC,
    CLI_OPT_POINTS,
    CLI_OPT_EXACT,
    CLI_OPT_VERIFY,
    CLI_OPT_POINTS_OUT,
    CLI_OPT_MAP,
    CLI_OPT_HTML,
    CLI_OPT_RECALL,
    CLI_OPT_SAMPLE,
    CLI_OPT_SEED,
    CLI_OPT_ROUNDS,
    CLI_OPT_CANDIDATES,
    CLI_OPT_LIST,
    CLI_OPT_WIDTH,
    CLI_OPT_DELTA,
    CLI_OPT_START,
    CLI_OPT_START_SHARE,
    CLI_OPT_INIT,
    CLI_OPT_UPDATES,
    CLI_OPT_HEADER,
    CLI_OPT_DELIMITER,
    CLI_OPT_COLUMNS,
    CLI_OPT_DEVICE,
    CLI_OPT_THREADS,
    CLI_OPT_MEMORY,
    CLI_OPT_GPU_MEMORY,
    CLI_OPT_STREAM,
    CLI_OPT_CHUNK,
    CLI_OPT_RESTART,
    CLI_OPT_SHARDS,
    CLI_OPT_SHARD_COUNT,
    CLI_OPT_KEEP_SHARDS,
    CLI_OPT_PARTS,
    CLI_OPT_TUNE,
    CLI_OPT_DRY_RUN,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
    CLI_OPT_JSON,
    CLI_OPT_HELP,
    CLI_OPTION_COUNT
} cli_option_id;

enum { CLI_MAX_PATHS = 4, CLI_ERROR_BYTES = 768 };

/* The command line, understood. Text points into argv. A field without its option keeps the value
 * that cli_parse gave it: 0 or NULL, but for sample. */
typedef struct cli_args {
    cli_command_id command;
    bool given[CLI_OPTION_COUNT];
    int path_count;
    const char *paths[CLI_MAX_PATHS];
    int64_t k;
    kith_metric metric;
    kith_method method;
    int32_t tree_height;
    kith_pipeline pipeline;
    int32_t leaf_buffer;
    int32_t batch;
    kith_select_method select;
    kith_select_buffer buffer;
    int32_t group;
    int32_t buffer_size;
    int32_t level;
    int32_t merge;       /* 1: by merge path */
    int32_t heap_sample; /* in multiples of k */
    kith_predict_mode mode;
    kith_format format;
    kith_symmetry symmetry; /* 0: lists as they are */
    const char *output;
    const char *output_back;
    const char *distances;
    const char *points;
    const char *points_out;
    const char *map;
    const char *html;
    const char *truth;
    const char *device;
    double radius;
    const char *allow; /* files; NULL: not given */
    const char *groups;
    const char *query_groups;
    kith_rule rule;
    int64_t limit;          /* pairs; 0: all */
    const char *components; /* files; NULL: not given */
    const char *kept;
    const char *ties;
    const char *runbook;
    kith_keep keep;
    double recall;     /* wanted; 0: no word of it */
    int64_t recall_at; /* 0: min(10, k) */
    int64_t sample;    /* 0: none */
    int32_t rounds;
    int32_t candidates;
    int32_t list;
    int32_t width; /* 0: by k, or by a recall */
    double delta;
    kith_start start;
    int32_t all_updates; /* as kith_descent_params */
    double start_share;
    const char *init;
    kith_header header; /* of text; so are the next two */
    int32_t delimiter;  /* 0: as the lines have it */
    const char *columns;
    int64_t chunk; /* rows */
    const char *shards;
    int32_t shard_count;
    int32_t parts; /* as kith_shard_params */
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t gpu_memory_bytes;
    int32_t threads;
    const struct cli_team *team; /* of kith-mpi (cli_shards.h); NULL: kith */
} cli_args;

typedef struct cli_error {
    char where[128]; /* the option or command */
    char text[CLI_ERROR_BYTES];
} cli_error;

static inline bool cli_given(const cli_args *args, cli_option_id id)
{
    return args->given[id];
}

/* All neighbours within a radius; with -k the radius limits the k nearest. */
static inline bool cli_is_radius_search(const cli_args *args)
{
    return cli_given(args, CLI_OPT_RADIUS) && !cli_given(args, CLI_OPT_K) &&
           args->command != CLI_PAIRS;
}

/* The k nearest, as far as they are within a radius. */
static inline bool cli_cuts_lists(const cli_args *args)
{
    return cli_given(args, CLI_OPT_RADIUS) && cli_given(args, CLI_OPT_K);
}

/* Some rows alone may be found. */
static inline bool cli_is_filtered(const cli_args *args)
{
    return cli_given(args, CLI_OPT_ALLOW) || cli_given(args, CLI_OPT_GROUPS);
}

/* A truth that stands is held against its certificate. */
static inline bool cli_verifies_truth(const cli_args *args)
{
    return args->command == CLI_TRUTH && cli_given(args, CLI_OPT_VERIFY);
}

/* By walks on a graph that the first file holds, or an index. */
static inline bool cli_is_graph_search(const cli_args *args)
{
    return args->command == CLI_SEARCH &&
           (args->path_count == 3 || args->method == KITH_METHOD_GRAPH);
}

/* A class is predicted, not a number. */
static inline bool cli_votes(const cli_args *args)
{
    return args->mode == KITH_PREDICT_VOTE || args->mode == KITH_PREDICT_WEIGHTED_VOTE;
}

/* Near neighbours count more than far ones. */
static inline bool cli_weighs(const cli_args *args)
{
    return args->mode == KITH_PREDICT_WEIGHTED || args->mode == KITH_PREDICT_WEIGHTED_VOTE;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* What the value of an option means. */

typedef enum cli_kind {
    CLI_KIND_FLAG = 0, /* there is no value */
    CLI_KIND_COUNT,    /* int64_t from least to most */
    CLI_KIND_COUNT32,  /* the same in an int32_t */
    CLI_KIND_SEED,     /* any uint64_t */
    CLI_KIND_NUMBER,   /* a finite double */
    CLI_KIND_SHARE,    /* a double above 0, at most 1 */
    CLI_KIND_BYTES,    /* 512M */
    CLI_KIND_PATH,
    CLI_KIND_NAME, /* one of names, whose number is from least to most, in an int */
    CLI_KIND_OTHER /* by read */
} cli_kind;

typedef bool cli_reader(const char *text, cli_args *args, cli_error *error);

/* How the word behind an option is read. */
typedef struct cli_value {
    cli_kind kind;
    size_t field;     /* of cli_args */
    const char *what; /* it is, for people: "number of rows" */
    int64_t least;
    int64_t most;
    const char *(*names)(int);
    cli_reader *read;
} cli_value;

/* From the word to its field; false with error->text set. */
bool cli_read_value(const cli_value *value, const char *text, cli_args *args, cli_error *error);

/* Sets error->text; false, for a caller to return. */
bool cli_refuse(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- What no kind says ---------------------------------------------------------------------- */

bool cli_read_k(const char *text, cli_args *args, cli_error *error);
bool cli_read_metric(const char *text, cli_args *args, cli_error *error);
bool cli_read_group(const char *text, cli_args *args, cli_error *error);
bool cli_read_buffer_size(const char *text, cli_args *args, cli_error *error);
bool cli_read_level(const char *text, cli_args *args, cli_error *error);
bool cli_read_format(const char *text, cli_args *args, cli_error *error);
bool cli_read_sample(const char *text, cli_args *args, cli_error *error);
bool cli_read_recall(const char *text, cli_args *args, cli_error *error);
bool cli_read_updates(const char *text, cli_args *args, cli_error *error);
bool cli_read_parts(const char *text, cli_args *args, cli_error *error);
bool cli_read_delimiter(const char *text, cli_args *args, cli_error *error);
bool cli_read_columns(const char *text, cli_args *args, cli_error *error);
bool cli_read_device(const char *text, cli_args *args, cli_error *error);

/* ---- Tables ---------------------------------------------------------------------------------- */

/* What may stand on the command line: one table of commands, one table of options. The parser, the
 * help texts, and the tests of the man pages and of the shell completion all read these two.
 *
 * Parsing prints nothing and touches no file: words in, cli_args or a sentence out. */

typedef enum cli_request {
    CLI_REQUEST_RUN = 0,
    CLI_REQUEST_HELP,         /* of kith itself */
    CLI_REQUEST_COMMAND_HELP, /* of args.command */
    CLI_REQUEST_TUNE_HELP,    /* the keys of its --tune */
    CLI_REQUEST_VERSION,
    CLI_REQUEST_WRONG /* the error says why */
} cli_request;

/* The groups of a help text. */
typedef enum cli_section {
    CLI_WHAT = 0, /* is asked for */
    CLI_HOW,      /* it is found */
    CLI_WHERE,    /* it is computed */
    CLI_OUTPUT,   /* what is written and said */
    CLI_FILTER,   /* which rows may be found */
    CLI_TEXT,     /* how text is read */
    CLI_SECTION_COUNT
} cli_section;

/* An option of a command is written --name, or, where it is rarely needed, as a key of --tune. */
typedef struct cli_option {
    const char *name;  /* without its dashes; NULL: has a letter only */
    char letter;       /* 0: none */
    const char *value; /* what follows it, for people; NULL: nothing does */
    uint32_t commands; /* bit i: command i has it as an option */
    uint32_t tunes;    /* bit i: command i has it as a key of --tune */
    cli_section section;
    const char *help;
    cli_value reads;
} cli_option;

typedef struct cli_command {
    const char *name;
    const char *usage; /* the words behind the name */
    int paths_min;
    int paths_max;
    const char *summary;  /* half a line */
    const char *text;     /* a paragraph */
    const char *examples; /* whole lines, each works at the root of the repository */
} cli_command;

const cli_option *cli_option_get(cli_option_id id);
const cli_command *cli_command_get(cli_command_id id);
/* What an option is for, in the words of this command. */
const char *cli_option_help(cli_option_id id, cli_command_id command);

static inline bool cli_option_is_plain(const cli_option *option, cli_command_id command)
{
    return (option->commands >> command & 1u) != 0;
}

static inline bool cli_option_is_tune(const cli_option *option, cli_command_id command)
{
    return (option->tunes >> command & 1u) != 0;
}

/* "--radius", "-k", "--tune rounds": as this command has it. */
enum { CLI_WRITTEN_BYTES = 40 };
const char *cli_option_written(cli_option_id id, cli_command_id command,
                               char text[CLI_WRITTEN_BYTES]);

/* argv[0] is the program. */
cli_request cli_parse(int argc, const char *const *argv, cli_args *args, cli_error *error);

/* What the table cannot say: options that need or exclude each other. False with error set. */
bool cli_rules_check(const cli_args *args, cli_error *error);

/* ---- Words ----------------------------------------------------------------------------------- */

/* The words that options have for numbers of the library; NULL: a metric that has none. */
const char *cli_name_metric(int metric);
/* Of the metric that has a number in its name. */
#define CLI_POWERS "P: 1 to 3355.4431 by 0.0001, or inf"
const char *cli_name_format(int format);
#define CLI_ONE(NAME, number, name) +1
enum { CLI_FORMAT_COUNT = 0 KITH_FORMAT_MAP(CLI_ONE) };
#undef CLI_ONE
const char *cli_name_method(int method);
const char *cli_name_pipeline(int pipeline);
const char *cli_name_select(int method);
const char *cli_name_buffer(int buffer);
const char *cli_name_merge(int merge);
const char *cli_name_mode(int mode);
const char *cli_name_symmetry(int symmetry);
const char *cli_name_start(int start);
const char *cli_name_rule(int rule);
const char *cli_name_keep(int keep);
const char *cli_name_header(int header);
/* 0, 1 and 2 are -1 (nearest), 0 (auto) and 1 (all) of the library. */
const char *cli_name_updates(int updates);

/* Values as people write them on a command line. The whole word counts: no blanks, no rest. */

/* A decimal integer in [low, high]. */
bool cli_value_int(const char *text, int64_t low, int64_t high, int64_t *value);
/* Any unsigned 64-bit integer, decimal. */
bool cli_value_uint(const char *text, uint64_t *value);
/* A finite decimal number. */
bool cli_value_number(const char *text, double *value);
/* Bytes: "1000000", "512K", "1.5G"; K, M, G, T are powers of 1024. At least 1 byte. */
bool cli_value_bytes(const char *text, uint64_t *value);
/* auto, cpu, cuda, cuda:N, cuda:N,M,... or cuda:all. */
bool cli_value_is_device(const char *text);

/* ---- Help ------------------------------------------------------------------------------------ */

/* What `kith --help` prints. */
void cli_help_print(FILE *out);
/* What `kith COMMAND --help` prints: usage, options of the table, examples. */
void cli_help_print_command(FILE *out, cli_command_id id);
/* What `kith COMMAND --tune help` prints. */
void cli_help_print_tunes(FILE *out, cli_command_id id);

#endif
