/* SPDX-License-Identifier: Apache-2.0
 * What may stand on the command line: one table of commands, one table of options. The parser, the
 * help texts, and the tests of the man pages and of the shell completion all read these two.
 *
 * Parsing prints nothing and touches no file: words in, cli_args or a sentence out. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli_args.h"
#include "cli_read.h"

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

#endif
