/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the argument parser of the command line. The input is the words, one a line.
 *
 * With libFuzzer (KITH_LIBFUZZER) only LLVMFuzzerTestOneInput counts. Built plainly, the program
 * replays the files that it is given, or without any makes up a few hundred thousand command lines
 * out of known words and their ruins, the same ones every time. */
#include "../../cli/cli_options.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 64, WORD_BYTES = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A promise of the parser that does not hold ends the program, which is what fuzzers look for. */
static void demand(bool holds, const char *promise)
{
    if (!holds) {
        (void)fprintf(stderr, "fuzz_arguments: broken: %s\n", promise);
        abort();
    }
}

static void check_error(const cli_error *error)
{
    demand(memchr(error->text, '\0', sizeof error->text) != NULL, "the sentence ends");
    demand(memchr(error->where, '\0', sizeof error->where) != NULL, "its place ends");
    demand(error->text[0] != '\0', "wrong usage is explained");
}

static void check_args(const cli_args *args)
{
    demand((int)args->command >= 0 && args->command < CLI_COMMAND_COUNT, "the command is known");
    const cli_command *command = cli_command_get(args->command);
    demand(args->path_count >= command->paths_min && args->path_count <= command->paths_max,
           "as many files as the command takes");
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = cli_option_get((cli_option_id)i);
        demand(!cli_given(args, (cli_option_id)i) || cli_option_is_plain(option, args->command) ||
                   cli_option_is_tune(option, args->command),
               "only options that the command has");
    }
    const bool solves = args->command == CLI_GRAPH || args->command == CLI_SEARCH;
    demand(!solves || cli_given(args, CLI_OPT_RADIUS) || args->k >= 1, "k, a radius, or both");
    demand(!solves || !cli_given(args, CLI_OPT_K) || args->k >= 1, "a k that is given is one");
    demand(args->command != CLI_SELECT || args->k >= 1, "k of a selection");
    demand(args->group == 0 || args->select != KITH_SELECT_AUTO, "switches with their method");
    demand(args->k >= 0 && args->sample >= 0 && args->threads >= 0, "numbers in their range");
    demand(args->sample >= 1 || args->command != CLI_EVAL, "rows to estimate recall from");
    demand(args->heap_sample >= 0 && args->heap_sample <= 1024, "a heap's sample in its range");
    demand(args->batch >= 0 && args->batch <= 1 << 22, "queries of a batch in their range");
    demand(args->leaf_buffer == 0 || (args->leaf_buffer >= 2 && args->leaf_buffer <= 1 << 22),
           "a leaf's buffer in its range");
    demand(args->heap_sample == 0 || args->command != CLI_EVAL, "two samples, two options");
    demand(args->command != CLI_PREDICT || args->k >= 1, "k of a prediction");
    demand(args->metric >= KITH_METRIC_DEFAULT && args->metric < KITH_CUSTOM, "a known metric");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return 0;
    }
    if (bytes > 0) {
        memcpy(text, data, bytes);
    }
    text[bytes] = '\0';
    const char *words[WORDS_MAX + 1] = {"kith"};
    int count = 1;
    for (char *word = text; word != NULL && count < WORDS_MAX; count++) {
        words[count] = word;
        char *end = strchr(word, '\n');
        if (end != NULL) {
            *end++ = '\0';
        }
        word = end;
    }
    cli_args args;
    cli_error error;
    const cli_request request = cli_parse(count, words, &args, &error);
    if (request == CLI_REQUEST_WRONG) {
        check_error(&error);
    } else if (request == CLI_REQUEST_RUN) {
        check_args(&args);
    }
    free(text);
    return 0;
}

#ifndef KITH_LIBFUZZER

enum { MADE_UP = 300000 };

/* SplitMix64, as everywhere in kith. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int below(uint64_t *state, int bound)
{
    return (int)(next(state) % (uint64_t)bound);
}

static const char *const values[] = {
    "1",        "10",     "0",     "-1",        "99999999999999999999",
    "1.5",      "1e309",  "nan",   "8G",        "8GB",
    "cpu",      "cuda:1", "ip",    "euclidean", "exact",
    "tree",     "points", "b",     "c",         "--",
    "-",        "",       "x.npz", "npz",       "csr",
    "\xff\xfe", "-k10",   "heap",  "quick",     "merge_queue",
    "full",     "2",      "8",     "auto",      "threshold_heap",
};
enum { VALUES = sizeof values / sizeof values[0] };

/* A word that a command line may hold, now and then with a letter changed or lost. */
static size_t make_word(uint64_t *state, char word[WORD_BYTES])
{
    const int kind = below(state, 10);
    int length = 0;
    if (kind < 4) {
        const cli_option *option = cli_option_get((cli_option_id)below(state, CLI_OPTION_COUNT));
        length = option->name == NULL || kind == 0
                     ? snprintf(word, WORD_BYTES, "-%c", option->letter != 0 ? option->letter : 'x')
                     : snprintf(word, WORD_BYTES, "--%s%s%s", option->tunes != 0 ? "tune=" : "",
                                option->name, kind == 1 || option->tunes != 0 ? "=" : "");
    } else {
        length = snprintf(word, WORD_BYTES, "%s", values[below(state, VALUES)]);
    }
    if (length > 0 && below(state, 8) == 0) {
        word[below(state, length)] = (char)next(state);
    }
    return (size_t)length;
}

static void make_up(void)
{
    uint64_t state = 1;
    for (int i = 0; i < MADE_UP; i++) {
        char line[16 * WORD_BYTES];
        const cli_command *command =
            cli_command_get((cli_command_id)below(&state, CLI_COMMAND_COUNT));
        size_t used = (size_t)snprintf(line, sizeof line, "%s", command->name);
        for (int words = below(&state, 12); words > 0; words--) {
            /* After "--name=" no new word begins. */
            if (line[used - 1] != '=') {
                line[used++] = '\n';
            }
            used += make_word(&state, line + used);
        }
        (void)LLVMFuzzerTestOneInput((const uint8_t *)line, used);
    }
    (void)printf("%d made-up command lines are parsed or explained\n", MADE_UP);
}

static int replay(const char *path)
{
    enum { INPUT_BYTES = 1 << 16 };
    static uint8_t input[INPUT_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)fprintf(stderr, "fuzz_arguments: %s cannot be read\n", path);
        return EXIT_FAILURE;
    }
    const size_t bytes = fread(input, 1, sizeof input, file);
    (void)fclose(file);
    return LLVMFuzzerTestOneInput(input, bytes);
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= replay(argv[i]);
    }
    if (argc == 1) {
        make_up();
    }
    return failed;
}

#endif
