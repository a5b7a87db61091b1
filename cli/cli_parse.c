/* SPDX-License-Identifier: Apache-2.0
 * From words to cli_args, by the tables of cli_options.c. */
#include "cli_options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- Which known word was meant -------------------------------------------------------------- */

enum { WORD_MAX = 32 };

static int least(int a, int b, int c)
{
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Insertions, deletions and replacements between two words; long words count by their start.
 * Levenshtein's table, one row at a time. */
static int distance_of(const char *a, const char *b)
{
    const int a_length = (int)strnlen(a, WORD_MAX);
    const int b_length = (int)strnlen(b, WORD_MAX);
    int row[WORD_MAX + 1];
    for (int j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (int i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            const int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[b_length];
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static const char *command_name(int command)
{
    return cli_command_get((cli_command_id)command)->name;
}

static const cli_option *option_at(int option)
{
    return cli_option_get((cli_option_id)option);
}

typedef struct parser {
    int argc;
    const char *const *argv;
    int next;
    cli_args *args;
    cli_error *error;
    bool tune_help; /* --tune help */
} parser;

/* With the nearest, where one is spelled so that it may be meant. */
static bool find_command(const char *word, cli_args *args, cli_error *error)
{
    int nearest = 0;
    int nearest_distance = INT_MAX;
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const int distance = distance_of(word, command_name(i));
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = i;
        }
    }
    args->command = (cli_command_id)nearest;
    if (strcmp(word, command_name(nearest)) == 0) {
        return true;
    }
    (void)cli_error_at(error, word);
    return 2 * nearest_distance <= (int)strlen(word)
               ? cli_refuse(error, "unknown command (nearest: %s; kith --help lists all)",
                            command_name(nearest))
               : cli_refuse(error, "unknown command (kith --help lists all)");
}

/* Whether a command has an option, as one or as a key of --tune. */
typedef bool belonging(const cli_option *option, cli_command_id command);

static bool is_either(const cli_option *option, cli_command_id command)
{
    return cli_option_is_plain(option, command) || cli_option_is_tune(option, command);
}

/* The option of this command that has the name, or for NULL the letter; CLI_OPTION_COUNT: none. */
static cli_option_id find_option(const char *name, char letter, cli_command_id command,
                                 belonging *belongs)
{
    int i = 0;
    for (; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = option_at(i);
        const bool named = name == NULL ? option->letter == letter
                                        : option->name != NULL && strcmp(option->name, name) == 0;
        if (named && belongs(option, command)) {
            break;
        }
    }
    return (cli_option_id)i;
}

/* A command that does have an option, or a key, of this name; NULL: none has. */
static const char *find_owner(const char *name)
{
    for (int command = 0; command < CLI_COMMAND_COUNT; command++) {
        if (find_option(name, 0, (cli_command_id)command, is_either) != CLI_OPTION_COUNT) {
            return command_name(command);
        }
    }
    return NULL;
}

/* The one that is spelled most like it; NULL if none shares a letter. */
static const char *find_nearest(const char *name, cli_command_id command, belonging *belongs)
{
    const char *nearest = NULL;
    int nearest_distance = (int)strlen(name);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = option_at(i);
        if (option->name == NULL || !belongs(option, command)) {
            continue;
        }
        const int distance = distance_of(name, option->name);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = option->name;
        }
    }
    return nearest;
}

/* Why `word`, with its dashes, is no option here: it is a key of --tune, another command's, or
 * unknown. */
static bool refuse_option(const char *word, const char *name, const cli_args *args,
                          cli_error *error)
{
    const char *command = command_name((int)args->command);
    const cli_option_id key = find_option(name, 0, args->command, cli_option_is_tune);
    const char *owner = find_owner(name);
    const char *nearest = find_nearest(name, args->command, cli_option_is_plain);
    const bool letter =
        name[0] != '\0' && name[1] == '\0' &&
        find_option(NULL, name[0], args->command, cli_option_is_plain) != CLI_OPTION_COUNT;
    (void)cli_error_at(error, word);
    if (key != CLI_OPTION_COUNT) {
        const char *value = option_at((int)key)->value;
        return cli_refuse(error, "is a key of --tune (give --tune %s%s%s)", name,
                          value != NULL ? "=" : "", value != NULL ? value : "");
    }
    if (strcmp(name, "deterministic") == 0) {
        return cli_refuse(error, "is no option, answers always are (leave it out)");
    }
    if (owner != NULL) {
        return cli_refuse(error,
                          "kith %s has no such option, kith %s has (kith %s --help lists all)",
                          command, owner, command);
    }
    if (!letter && nearest == NULL) {
        return cli_refuse(error, "unknown option (kith %s --help lists all)", command);
    }
    return cli_refuse(error, "unknown option (nearest: %s%s; kith %s --help lists all)",
                      letter ? "-" : "--", letter ? name : nearest, command);
}

/* ---- --tune --------------------------------------------------------------------------------- */

static bool refuse_key(const char *key, const cli_args *args, cli_error *error)
{
    const char *command = command_name((int)args->command);
    const char *nearest = find_nearest(key, args->command, cli_option_is_tune);
    const char *owner = find_owner(key);
    if (find_option(key, 0, args->command, cli_option_is_plain) != CLI_OPTION_COUNT) {
        return cli_refuse(error, "'%s' is an option of its own (give --%s)", key, key);
    }
    if (owner != NULL) {
        return cli_refuse(error,
                          "kith %s has no key '%s', kith %s has it (kith %s --tune help lists all)",
                          command, key, owner, command);
    }
    return cli_refuse(error, "'%s' is no key (%s%s%skith %s --tune help lists all)", key,
                      nearest != NULL ? "nearest: " : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "; " : "", command);
}

/* To its field. key: as it stands before the value; "": nothing does. */
static bool set(parser *p, cli_option_id id, const char *value, const char *key)
{
    const cli_option *option = cli_option_get(id);
    if (option->value == NULL && value != NULL) {
        return cli_refuse(p->error, "takes no value, got '%s' (leave it out)", value);
    }
    if (option->value != NULL && value == NULL) {
        return cli_refuse(p->error, "its value is missing (give %s%s%s)", key,
                          key[0] != '\0' ? "=" : "", option->value);
    }
    p->args->given[id] = true;
    return cli_read_value(&option->reads, value, p->args, p->error);
}

/* "rounds=4", "keep-shards" */
static bool apply_key(parser *p, char *piece)
{
    char *equals = strchr(piece, '=');
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (equals != NULL) {
        *equals = '\0';
    }
    const cli_option_id id = find_option(piece, 0, p->args->command, cli_option_is_tune);
    if (id == CLI_OPTION_COUNT) {
        return refuse_key(piece, p->args, p->error);
    }
    (void)snprintf(p->error->where, sizeof p->error->where, "--tune %s", piece);
    return set(p, id, value, piece);
}

/* key=value[,key=value]: no value keeps a pointer to the text, which is a copy. */
static bool read_tunes(parser *p, const char *text)
{
    enum { PIECE_BYTES = 80 };
    char piece[PIECE_BYTES];
    while (strcmp(text, "help") != 0) {
        const size_t length = strcspn(text, ",");
        (void)snprintf(piece, sizeof piece, "%.*s",
                       (int)(length < sizeof piece ? length : sizeof piece), text);
        (void)cli_error_at(p->error, "--tune");
        if (!apply_key(p, piece)) {
            return false;
        }
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
    p->tune_help = true;
    return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static bool apply(parser *p, cli_option_id id, const char *word, const char *value)
{
    (void)cli_error_at(p->error, word);
    if (cli_option_get(id)->value != NULL && value == NULL && p->next < p->argc) {
        value = p->argv[p->next++];
    }
    return set(p, id, value, "") && (id != CLI_OPT_TUNE || read_tunes(p, value));
}

/* --name, --name value, --name=value */
static bool parse_long(parser *p, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    char plain[64];
    (void)snprintf(plain, sizeof plain, "--%.*s", (int)(length < 60 ? length : 60), name);
    const cli_option_id id = find_option(plain + 2, 0, p->args->command, cli_option_is_plain);
    return id != CLI_OPTION_COUNT ? apply(p, id, plain, equals != NULL ? equals + 1 : NULL)
                                  : refuse_option(plain, plain + 2, p->args, p->error);
}

/* -k 10, -k10, -qv: letters without a value may stand together, the last one may have one. */
static bool parse_letters(parser *p, const char *word)
{
    bool understood = true;
    for (const char *at = word + 1; *at != '\0' && understood; at++) {
        const char plain[3] = {'-', *at, '\0'};
        const cli_option_id id = find_option(NULL, *at, p->args->command, cli_option_is_plain);
        if (id == CLI_OPTION_COUNT) {
            return at == word + 1 ? refuse_option(word, word + 1, p->args, p->error)
                                  : refuse_option(plain, plain + 1, p->args, p->error);
        }
        if (option_at((int)id)->value != NULL) {
            return apply(p, id, plain, at[1] != '\0' ? at + 1 : NULL);
        }
        understood = apply(p, id, plain, NULL);
    }
    return understood;
}

static bool parse_path(parser *p, const char *word)
{
    cli_args *args = p->args;
    const cli_command *command = cli_command_get(args->command);
    (void)cli_error_at(p->error, command->name);
    if (word[0] == '\0') {
        return cli_refuse(p->error, "a file name is empty (usage: kith %s %s)", command->name,
                          command->usage);
    }
    if (args->path_count == command->paths_max) {
        return cli_refuse(p->error, "'%s' is one file too many (usage: kith %s %s)", word,
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
            understood = parse_letters(p, word);
        } else {
            understood = parse_path(p, word);
        }
        if (!understood) {
            return false;
        }
        if (cli_given(p->args, CLI_OPT_HELP) || p->tune_help) {
            return true;
        }
    }
    return true;
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* kith help, and kith help COMMAND; --help and -h are the same word. */
static cli_request parse_help(int argc, const char *const *argv, cli_args *args, cli_error *error)
{
    const char *command = argc > 2 ? argv[2] : "help";
    if (is_help(command)) {
        return CLI_REQUEST_HELP;
    }
    if (argc > 3 && !is_help(argv[3])) {
        (void)cli_refuse(cli_error_at(error, argv[1]),
                         "'%s' is one word too many (usage: kith help COMMAND)", argv[3]);
        return CLI_REQUEST_WRONG;
    }
    return find_command(command, args, error) ? CLI_REQUEST_COMMAND_HELP : CLI_REQUEST_WRONG;
}

cli_request cli_parse(int argc, const char *const *argv, cli_args *args, cli_error *error)
{
    memset(args, 0, sizeof *args);
    memset(error, 0, sizeof *error);
    args->sample = 1000;
    parser p = {.argc = argc, .argv = argv, .next = 2, .args = args, .error = error};
    const char *first = argc > 1 ? argv[1] : "";
    if (first[0] == '\0') {
        (void)cli_refuse(error, "a command is missing (kith --help lists them)");
        return CLI_REQUEST_WRONG;
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "version") == 0 ||
        strcmp(first, "-V") == 0) {
        return CLI_REQUEST_VERSION;
    }
    if (is_help(first)) {
        return parse_help(argc, argv, args, error);
    }
    if (first[0] == '-') {
        (void)cli_refuse(cli_error_at(error, first),
                         "the command comes first (usage: kith COMMAND FILES [options])");
        return CLI_REQUEST_WRONG;
    }
    if (!find_command(first, args, error) || !parse_words(&p)) {
        return CLI_REQUEST_WRONG;
    }
    if (cli_given(args, CLI_OPT_HELP)) {
        return CLI_REQUEST_COMMAND_HELP;
    }
    if (p.tune_help) {
        return CLI_REQUEST_TUNE_HELP;
    }
    return cli_rules_check(args, error) ? CLI_REQUEST_RUN : CLI_REQUEST_WRONG;
}
