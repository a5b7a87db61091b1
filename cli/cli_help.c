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
        out, "Points are read from .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .ibin .npy .hdf5 .csv\n"
             ".tsv and .kith; answers are written to .npz .ivecs .ibin .knn and .kith.\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n\n"
             "Examples:\n"
             "  kith graph examples/data/digits.u8bin -k 10 -o graph.npz\n"
             "  kith info graph.npz\n"
             "  kith graph --help\n");
}

static void print_option(FILE *out, const cli_option *option)
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
    (void)fprintf(out, "  %-20s %s\n", left, option->help);
}

static void print_metrics(FILE *out)
{
    (void)fprintf(out, "\nMetrics:");
    for (int metric = KITH_EUCLIDEAN; metric < KITH_CUSTOM; metric++) {
        (void)fprintf(out, "%s%s", metric == KITH_MANHATTAN ? "\n  " : " ",
                      kith_metric_name((kith_metric)metric));
    }
    (void)fprintf(out, "\n");
}

void cli_help_print_command(FILE *out, cli_command_id id)
{
    const cli_command *command = cli_command_get(id);
    (void)fprintf(out, "usage: kith %s %s\n\n%s\nOptions:\n", command->name, command->usage,
                  command->text);
    bool metrics = false;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = cli_option_get((cli_option_id)i);
        if ((option->commands >> id & 1u) != 0) {
            print_option(out, option);
            metrics = metrics || i == CLI_OPT_METRIC;
        }
    }
    if (metrics) {
        print_metrics(out);
    }
    (void)fprintf(out, "\nExamples:\n%s", command->examples);
}
