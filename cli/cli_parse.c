/* SPDX-License-Identifier: Apache-2.0
 * From words to cli_args, by the tables of cli_options.c. */
#include "cli_options.h"

#include "cli_nearest.h"
#include "cli_read.h"

#include <limits.h>
#include <stdio.h>

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
} parser;

static bool find_command(const char *word, cli_args *args, cli_error *error)
{
    int nearest = 0;
    int nearest_distance = INT_MAX;
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const int distance = cli_nearest_distance(word, command_name(i));
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = i;
        }
    }
    args->command = (cli_command_id)nearest;
    if (nearest_distance == 0 && strcmp(word, command_name(nearest)) == 0) {
        return true;
    }
    (void)snprintf(error->where, sizeof error->where, "%s", word);
    return cli_refuse(error, "unknown command (nearest: %s; kith --help lists all)",
                      command_name(nearest));
}

static bool belongs(const cli_option *option, cli_command_id command)
{
    return (option->commands >> command & 1u) != 0;
}

/* The command that does have an option of this name, NULL if none. */
static const cli_command *find_owner(const char *name)
{
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = option_at(i);
        if (option->name == NULL || strcmp(option->name, name) != 0) {
            continue;
        }
        for (int command = 0; command < CLI_COMMAND_COUNT; command++) {
            if (belongs(option, (cli_command_id)command)) {
                return cli_command_get((cli_command_id)command);
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
        const cli_option *option = option_at(i);
        if (option->name == NULL || !belongs(option, command)) {
            continue;
        }
        const int distance = cli_nearest_distance(name, option->name);
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = option->name;
        }
    }
    return nearest;
}

/* Why `word`, with its dashes, is no option here: it is another command's, or nobody's. */
static bool refuse_option(const char *word, const char *name, const cli_args *args,
                          cli_error *error)
{
    const char *command = command_name((int)args->command);
    const cli_command *owner = find_owner(name);
    const char *nearest = find_nearest(name, args->command);
    (void)snprintf(error->where, sizeof error->where, "%s", word);
    if (owner != NULL) {
        return cli_refuse(error,
                          "kith %s has no such option, kith %s has (kith %s --help lists all)",
                          command, owner->name, command);
    }
    if (nearest == NULL) {
        return cli_refuse(error, "unknown option (kith %s --help lists all)", command);
    }
    return cli_refuse(error, "unknown option (nearest: --%s; kith %s --help lists all)", nearest,
                      command);
}

static bool apply(parser *p, cli_option_id id, const char *word, const char *value)
{
    const cli_option *option = cli_option_get(id);
    (void)snprintf(p->error->where, sizeof p->error->where, "%s", word);
    if (option->value == NULL && value != NULL) {
        return cli_refuse(p->error, "takes no value, got '%s' (leave it out)", value);
    }
    if (option->value != NULL && value == NULL) {
        if (p->next == p->argc) {
            return cli_refuse(p->error, "its value is missing (give %s)", option->value);
        }
        value = p->argv[p->next++];
    }
    p->args->given |= (uint64_t)1 << id;
    return cli_read_value(id, value, p->args, p->error);
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
        const cli_option *option = option_at(i);
        if (option->name != NULL && strcmp(plain + 2, option->name) == 0 &&
            belongs(option, p->args->command)) {
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
        const cli_option *option = option_at(i);
        if (option->letter == word[1] && belongs(option, p->args->command)) {
            return apply(p, (cli_option_id)i, plain, word[2] != '\0' ? word + 2 : NULL);
        }
    }
    return refuse_option(word, word + 1, p->args, p->error);
}

static bool parse_path(parser *p, const char *word)
{
    cli_args *args = p->args;
    const cli_command *command = cli_command_get(args->command);
    (void)snprintf(p->error->where, sizeof p->error->where, "%s", command->name);
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
        (void)cli_refuse(error, "a command is missing (kith --help lists them)");
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
        (void)cli_refuse(error, "the command comes first (usage: kith COMMAND FILES [options])");
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
