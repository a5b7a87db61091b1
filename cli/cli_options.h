/* SPDX-License-Identifier: Apache-2.0
 * The command line, understood: what a command finds of its options. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "kith/kith.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(COMMAND, function), which does it whole, prints its own errors, and returns the exit code. */
#define CLI_COMMAND_MAP(X) \
    X(GRAPH, graph)        \
    X(SEARCH, search)      \
    X(PAIRS, pairs)        \
    X(TRUTH, truth)        \
    X(EVAL, eval)          \
    X(SELECT, select)      \
    X(PREDICT, predict)    \
    X(INDEX, index)        \
    X(MERGE, merge)        \
    X(ADD, merge)          \
    X(REMOVE, remove)      \
    X(INFO, info)          \
    X(CONVERT, convert)    \
    X(DEVICES, devices)

#define CLI_COMMAND_ID(COMMAND, function) CLI_##COMMAND,
typedef enum cli_command_id { CLI_COMMAND_MAP(CLI_COMMAND_ID) CLI_COMMAND_COUNT } cli_command_id;

#define OPTION(ID, ...) CLI_OPT_##ID,
typedef enum cli_option_id {
#include "cli_options.inc"
    CLI_OPTION_COUNT
} cli_option_id;

enum { CLI_MAX_PATHS = 4, CLI_ERROR_BYTES = 768 };

/* What kinds of values are kept in. */
#define CLI_FIELD_FLAG
#define CLI_FIELD_PATH(member) const char *member;
#define CLI_FIELD_BYTES(member) uint64_t member;
#define CLI_FIELD_SHARE(member) double member;
#define CLI_FIELD_NUMBER(member, what) double member;
#define CLI_FIELD_SEED(member, what) uint64_t member;
#define CLI_FIELD_COUNT(member, ...) int64_t member;
#define CLI_FIELD_COUNT32(member, ...) int32_t member;
#define CLI_FIELD_POWER(member, ...) int32_t member;
#define CLI_FIELD_NAME(type, member, ...) type member;
#define CLI_FIELD_NAMES(type, member, ...) type member;
#define CLI_FIELD_OTHER(type, member, read) type member;

/* The command line, understood: a field for each option that has a value. Text points into argv. A
 * field without its option keeps the value that cli_parse gave it: 0 or NULL, but for sample. */
typedef struct cli_args {
    cli_command_id command;
    bool given[CLI_OPTION_COUNT];
    int path_count;
    const char *paths[CLI_MAX_PATHS];
#define OPTION(ID, name, letter, value, commands, tunes, section, help, reads) CLI_FIELD_##reads
#include "cli_options.inc"
    int64_t recall_at;           /* 0: min(10, k) */
    const struct cli_team *team; /* of kith-mpi (cli_job.h); NULL: kith */
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

/* Whether points compete for their own lists. */
static inline uint32_t cli_self(const cli_args *args)
{
    return cli_given(args, CLI_OPT_INCLUDE_SELF) ? (uint32_t)KITH_INCLUDE_SELF : 0;
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
    CLI_KIND_POWER,    /* the same of powers of two */
    CLI_KIND_SEED,     /* any uint64_t */
    CLI_KIND_NUMBER,   /* a finite double */
    CLI_KIND_SHARE,    /* a double above 0, at most 1 */
    CLI_KIND_BYTES,    /* 512M */
    CLI_KIND_PATH,
    CLI_KIND_NAME, /* a word, whose number is from least to most, in an int */
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
    const char *const *words;  /* that numbers from least on have; */
    const char *(*names)(int); /*   or who says them; NULL: a number without a word */
    cli_reader *read;
} cli_value;

const char *cli_value_word(const cli_value *value, int number);

/* From the word to its field; false with error->text set. */
bool cli_read_value(const cli_value *value, const char *text, cli_args *args, cli_error *error);

/* Sets error->where; returns the error. */
cli_error *cli_error_at(cli_error *error, const char *where);
/* Sets error->text; false, for a caller to return. */
bool cli_refuse(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- What no kind says ---------------------------------------------------------------------- */

bool cli_read_k(const char *text, cli_args *args, cli_error *error);
bool cli_read_metric(const char *text, cli_args *args, cli_error *error);
bool cli_read_group(const char *text, cli_args *args, cli_error *error);
enum { CLI_PERIOD_BYTES = 512 };
bool cli_read_period(const char *text, cli_args *args, cli_error *error);
bool cli_read_sample(const char *text, cli_args *args, cli_error *error);
bool cli_read_recall(const char *text, cli_args *args, cli_error *error);
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
    CLI_FILTER,   /* which rows may be found, and in what box */
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
/* Of an option whose value is a word. */
const char *cli_option_word(cli_option_id id, int number);

/* Values as people write them on a command line. The whole word counts: no blanks, no rest. */

/* auto, cpu, cuda, cuda:N, cuda:N,M,... or cuda:all. */
bool cli_value_is_device(const char *text);
/* The number, of at least 0, before a comma or the end; *next stands behind the comma, NULL: there
 * is none. */
bool cli_value_length(const char *text, const char **next, double *length);

/* ---- Help ------------------------------------------------------------------------------------ */

/* What `kith --help` prints. */
void cli_help_print(FILE *out);
/* What `kith COMMAND --help` prints: usage, options of the table, examples. */
void cli_help_print_command(FILE *out, cli_command_id id);
/* What `kith COMMAND --tune help` prints. */
void cli_help_print_tunes(FILE *out, cli_command_id id);

#endif
