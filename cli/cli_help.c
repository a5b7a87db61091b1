/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_help.h"

void cli_help_print(FILE *out)
{
    (void)fprintf(out,
                  "kith %s: exact nearest neighbours and k-NN graphs\n\n"
                  "usage: kith COMMAND FILES [options]\n\n",
                  kith_version());
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const cli_command *command = cli_command_get((cli_command_id)i);
        (void)fprintf(out, "  %-9s %s\n", command->name, command->summary);
    }
    (void)fprintf(out, "  %-9s %s\n  %-9s %s\n\n", "help", "what kith help COMMAND says",
                  "--version", "version and commit");
    (void)fprintf(
        out,
        "Points are read from .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .ibin .npy .hdf5 .csv\n"
        ".txt .tsv and .kith; answers are written to .npz .ivecs .ibin .knn .kith .csv .tsv.\n"
        "Text and .npy may come from a pipe, - is standard input; -o - writes to standard output.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n\n"
        "Examples:\n"
        "  kith graph examples/data/digits.u8bin -k 10 -o graph.npz\n"
        "  kith info graph.npz\n"
        "  kith graph --help\n");
}

static void print_option(FILE *out, const cli_option *option, const char *help)
{
    char left[40];
    if (option->name == NULL) {
        (void)snprintf(left, sizeof left, "-%c %s", option->letter, option->value);
    } else {
        const char letter[5] = {'-', option->letter, ',', ' ', '\0'};
        (void)snprintf(left, sizeof left, "%s--%s%s%s", option->letter != 0 ? letter : "",
                       option->name, option->value != NULL ? " " : "",
                       option->value != NULL ? option->value : "");
    }
    (void)fprintf(out, "  %-20s %s\n", left, help);
}

static void print_section(FILE *out, cli_section section, cli_command_id command)
{
    static const char *const titles[CLI_SECTION_COUNT] = {"What", "How", "Where", "Output", "Text"};
    bool titled = false;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = cli_option_get((cli_option_id)i);
        if (option->section != section || !cli_option_is_plain(option, command)) {
            continue;
        }
        if (!titled) {
            (void)fprintf(out, "%s:\n", titles[section]);
            titled = true;
        }
        print_option(out, option, cli_option_help((cli_option_id)i, command));
    }
}

/* How text is read is the same for all: the two commands that files are looked at with explain it,
 * the others name it. */
static void print_text(FILE *out, cli_command_id id)
{
    if (id == CLI_CONVERT || id == CLI_INFO) {
        print_section(out, CLI_TEXT, id);
    } else if (cli_option_is_plain(cli_option_get(CLI_OPT_HEADER), id)) {
        (void)fprintf(out,
                      "Text: --header, --delimiter, --columns as kith help convert has them\n");
    }
}

static void print_metrics(FILE *out)
{
    (void)fprintf(out, "Metrics:");
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        (void)fprintf(out, "%s%s", metric == KITH_CHEBYSHEV ? "\n  " : " ",
                      kith_metric_name((kith_metric)metric));
    }
    (void)fprintf(out, "\n");
}

void cli_help_print_command(FILE *out, cli_command_id id)
{
    const cli_command *command = cli_command_get(id);
    (void)fprintf(out, "usage: kith %s %s\n\n%s\n", command->name, command->usage, command->text);
    for (int section = 0; section < CLI_TEXT; section++) {
        print_section(out, (cli_section)section, id);
    }
    print_text(out, id);
    if (cli_option_is_plain(cli_option_get(CLI_OPT_METRIC), id)) {
        print_metrics(out);
    }
    (void)fprintf(out, "\nExamples:\n%s", command->examples);
}

void cli_help_print_tunes(FILE *out, cli_command_id id)
{
    (void)fprintf(out, "usage: kith %s ... --tune KEY=VALUE[,KEY=VALUE]...\n\n",
                  cli_command_get(id)->name);
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = cli_option_get((cli_option_id)i);
        char left[40];
        if (cli_option_is_tune(option, id)) {
            (void)snprintf(left, sizeof left, "%s%s%s", option->name,
                           option->value != NULL ? "=" : "",
                           option->value != NULL ? option->value : "");
            (void)fprintf(out, "  %-17s %s\n", left, cli_option_help((cli_option_id)i, id));
        }
    }
}
