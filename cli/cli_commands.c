/* SPDX-License-Identifier: Apache-2.0
 * The table of commands, and what help prints of it and of the table of options. */
#include "cli_options.h"
#include "cli_output.h"

#include <string.h>

#define DIGITS "examples/data/digits.u8bin"
#define DIGIT_LABELS "examples/data/digit_labels.u8bin"

static const cli_command commands[CLI_COMMAND_COUNT] = {
    [CLI_GRAPH] =
        {"graph", "POINTS -k N [options]", 1, 1, "the k nearest neighbours of each point",
         "Builds the k-NN graph of the points in a file: neighbours by distance, then by id,\n"
         "never a point itself. Exact and certified; with --method descent, or with --recall\n"
         "where that is sooner, approximate (NN-Descent), its recall measured and printed.\n",
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith graph " DIGITS " -k 5 --metric cosine --json\n"
         "  kith graph " DIGITS " -k 10 --symmetric union -o both.npz\n"
         "  kith graph " DIGITS " -k 10 --recall 0.99 -o graph.kith\n"
         "  kith graph " DIGITS " -k 10 --method descent --init graph.kith --tune rounds=2\n"
         "  kith graph " DIGITS " -k 10 --memory 64M --shards work -o graph.kith\n"},
    [CLI_SEARCH] =
        {"search", "CORPUS QUERIES | GRAPH POINTS QUERIES -k N [options]", 2, 3,
         "the k nearest rows of a corpus for each query",
         "Finds for each row of QUERIES the k nearest rows of CORPUS, exactly; CORPUS may be\n"
         "one that kith index build has made. With --both the same product also gives each row of\n"
         "CORPUS its nearest among QUERIES; with --mutual the pairs (row of CORPUS, row of\n"
         "QUERIES) that have each other among their k nearest are written. Without -o nothing is\n"
         "written. With --stream, and where the answer does not fit --memory, queries are solved\n"
         "and written in chunks; interrupted, the same command goes on behind the last chunk.\n"
         "With a GRAPH of POINTS in front, or an index by graph and --method graph, neighbours "
         "are\n"
         "found approximately, by walks wide enough for --recall, which is measured and printed.\n",
         "  kith search " DIGITS " " DIGITS " -k 3 -o found.npz\n"
         "  kith search " DIGITS " " DIGITS " -k 3 --chunk 500 -o chunked.npz\n"
         "  kith search " DIGITS " " DIGITS " -k 3 --both -o found.npz --output-back back.npz\n"
         "  kith search " DIGITS " " DIGITS " -k 1 --mutual -o pairs.csv\n"
         "  kith graph " DIGITS " -k 10 -o graph.kith\n"
         "  kith search graph.kith " DIGITS " " DIGITS " -k 3 --recall 0.99 -o walked.npz\n"},
    [CLI_PAIRS] =
        {"pairs", "POINTS [OTHERS] --radius R [options]", 1, 2,
         "every pair of rows within a distance, once",
         "Finds all pairs (i, j) of rows within R of each other, exactly: of one file i < j, of "
         "two\n"
         "i of POINTS and j of OTHERS. They come by i, then by distance, then by j, and are "
         "written\n"
         "as they are found, so that memory does not grow with their number; without -o they are\n"
         "counted. --components labels rows that pairs connect, --keep says which rows to keep of\n"
         "those that are near each other. --dry-run tells the number of pairs from a sample.\n",
         "  kith pairs " DIGITS " --radius 15 -o pairs.csv\n"
         "  kith pairs " DIGITS " --radius 20 --dry-run\n"
         "  kith pairs " DIGITS " --radius 15 --keep first --kept kept.csv\n"
         "  kith pairs " DIGITS " --radius 20 --groups " DIGIT_LABELS " --rule other -o mixed.npy\n"
         "  kith pairs " DIGITS " " DIGITS " --radius 0.01 --metric cosine --limit 1000\n"},
    [CLI_TRUTH] =
        {"truth", "CORPUS[,...] QUERIES -k N | --radius R -o OUT | --verify OUT [options]", 1, 3,
         "exact ground truth of a corpus larger than memory",
         "Finds for each row of QUERIES the k nearest rows of all CORPUS files, whose rows are\n"
         "numbered one behind the other, exactly. The corpus is read once, in parts that fit\n"
         "--memory; interrupted or killed, the same command goes on behind what was stored, to\n"
         "the same bytes. Ties are told: for how many queries other rows are exactly as near as "
         "the\n"
         "k-th. With --radius all rows within it are found instead, as big-ann-benchmarks' "
         ".range.\n"
         "Of FILE.hdf5, ann-benchmarks' file, train is the corpus and test has the queries.\n"
         "OUT.json is a certificate: checksums of inputs and output, counts. --verify "
         "holds\n"
         "all of these against it; CORPUS and QUERIES behind OUT stand for the files it names.\n",
         "  kith truth " DIGITS " " DIGITS " -k 10 -o truth.knn --ties ties.npy\n"
         "  kith truth --verify truth.knn --sample 100\n"
         "  kith truth " DIGITS " " DIGITS " --radius 20 -o truth.range\n"
         "  kith truth " DIGITS "," DIGITS " " DIGITS " -k 5 --memory 32M -o twice.ivecs\n"
         "  kith truth " DIGITS " " DIGITS " -k 5 --groups " DIGIT_LABELS
         " --query-groups " DIGIT_LABELS " -o same.ibin\n"},
    [CLI_EVAL] =
        {"eval", "RESULT TRUTH | GRAPH --points FILE [options]", 1, 2,
         "recall of a result, from the truth or estimated",
         "Compares a result with the true one, both with their distances; or estimates the recall\n"
         "of a graph by solving some of its rows exactly. The first K neighbours count, K being\n"
         "min(10, k) unless -k says otherwise.\n",
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith eval graph.npz --points " DIGITS " --sample 1000 --html recall.html\n"
         "  kith eval graph.npz graph.npz -k 5\n"},
    [CLI_SELECT] =
        {"select", "MATRIX -k N [options]", 1, 1, "the k smallest values of each row of a matrix",
         "Finds in each row of MATRIX the k smallest values and where they stand, by value, then\n"
         "by place; NaN comes last. Every method gives the same answer. MATRIX is a file of\n"
         "floats with rows of any length. Without -o nothing is written.\n",
         "  kith convert " DIGITS " digits.fbin\n"
         "  kith select digits.fbin -k 3 -o smallest.npz\n"
         "  kith select digits.fbin -k 5 --largest --select radix --json\n"
         "  kith select digits.fbin -k 5 --select threshold_heap --heap-sample 16\n"
         "  kith select digits.fbin -k 32 --kth -o medians.npy\n"},
    [CLI_PREDICT] =
        {"predict", "CATALOGUE LABELS QUERIES -k N [options]", 3, 3,
         "a number for each query from the labels of its neighbours",
         "Finds for each row of QUERIES the k nearest rows of CATALOGUE, exactly, and makes one\n"
         "number of their labels, a file of one column: by default their mean. CATALOGUE may be\n"
         "one that kith index build has made. --truth compares with a second file of labels,\n"
         "those of QUERIES. Output: .npy .csv .tsv, .fbin (rounded to float32), of votes also\n"
         ".ibin. Without -o nothing is written.\n",
         "  kith predict " DIGITS " " DIGIT_LABELS " " DIGITS " -k 5 --mode vote -o digit.csv\n"
         "  kith predict " DIGITS " " DIGIT_LABELS " " DIGITS
         " -k 9 --mode median --truth " DIGIT_LABELS "\n"},
    [CLI_INDEX] =
        {"index", "build POINTS | add INDEX POINTS | remove INDEX IDS -o FILE [options]", 2, 3,
         "an index: points prepared once, kept while rows come and go",
         "build prepares POINTS and writes both to FILE, which kith search takes as its CORPUS\n"
         "and does not prepare again: for all pairs, by a k-d tree (euclidean, sqeuclidean,\n"
         "manhattan, chebyshev, haversine), or by a graph that kith search --method graph\n"
         "walks on. add writes INDEX with more points behind its own; remove writes it without\n"
         "some rows, of which later ones move up (numpy.delete). IDS is a file of row numbers in\n"
         "any format of points. Answers are those of a new index; one by graph keeps its recall.\n",
         "  kith index build " DIGITS " --method tree -o digits.kith\n"
         "  kith search digits.kith " DIGITS " -k 1 -o found.ivecs\n"
         "  kith index add digits.kith " DIGITS " -o twice.kith\n"
         "  kith index remove twice.kith found.ivecs -o rest.kith\n"
         "  kith index build " DIGITS " --method graph -o graph.kith\n"
         "  kith search graph.kith " DIGITS " -k 3 --method graph --recall 0.99\n"},
    [CLI_MERGE] =
        {"merge", "GRAPH1 POINTS1 GRAPH2 POINTS2 -o FILE [options]", 4, 4, "two graphs made one",
         "Writes the graph of the points of both files: those of POINTS1 keep their ids, those of\n"
         "POINTS2 come behind them. Of certified graphs it is the exact graph. With --recall, and\n"
         "of others where it is sooner, it is made by a descent that begins with both graphs; its\n"
         "recall is measured and printed.\n",
         "  kith graph " DIGITS " -k 10 -o one.kith\n"
         "  kith merge one.kith " DIGITS " one.kith " DIGITS " -o two.kith\n"},
    [CLI_ADD] =
        {"add", "GRAPH OLD_POINTS NEW_POINTS -o FILE [options]", 3, 3,
         "new points come into a graph",
         "Builds the graph of NEW_POINTS and merges it with GRAPH, which is one of OLD_POINTS:\n"
         "old ids stay, new points come behind them. An exact graph stays exact, unless --recall\n"
         "is given; to one that is not certified a descent adds where it is sooner.\n",
         "  kith graph " DIGITS " -k 10 -o one.kith\n"
         "  kith add one.kith " DIGITS " " DIGITS " -o two.kith --points-out two.u8bin\n"},
    [CLI_REMOVE] =
        {"remove", "GRAPH POINTS IDS -o FILE [options]", 3, 3, "points leave a graph",
         "Writes GRAPH, which is one of POINTS, without some rows, of which later ones move up.\n"
         "IDS is a file of row numbers in any format of points. Rows that lost neighbours are\n"
         "searched for again in what is left, exactly: an exact graph stays exact.\n",
         "  kith graph " DIGITS " -k 10 -o one.kith\n"
         "  kith remove one.kith " DIGITS " " DIGIT_LABELS
         " -o less.kith --points-out less.u8bin\n"},
    [CLI_INFO] =
        {"info", "FILE [--json]", 1, 1, "what a file holds",
         "Says what a file of points, a graph, a result, or an index holds, from\n"
         "its header and its size; of a graph also by how many rows a row is named, and in how\n"
         "many connected parts it falls.\n",
         "  kith info " DIGITS "\n"},
    [CLI_CONVERT] =
        {"convert", "IN OUT [options]", 2, 2, "points or results to another format",
         "Writes points, or a graph or result, in the format that the name of OUT ends in. Values\n"
         "that the new format cannot hold exactly are refused.\n"
         "  points   {points}\n"
         "  results  {lists}\n"
         "An .ivecs or .ibin file is taken as ids where OUT or --format asks for a result.\n",
         "  kith convert " DIGITS " digits.npy\n"
         "  kith graph " DIGITS " -k 10 -o graph.npz\n"
         "  kith convert graph.npz graph.ibin --distances graph.fbin\n"},
    [CLI_DEVICES] =
        {"devices", "[--json]", 0, 0, "what kith can compute on",
         "Lists the processor and the GPUs, why one is not used, and whether such a chip was\n"
         "ever measured.\n",
         "  kith devices\n"},
};

const cli_command *cli_command_get(cli_command_id id)
{
    return &commands[id];
}

/* ---- Help ------------------------------------------------------------------------------------ */

/* What a word in brackets stands for: the formats that there are, of files or by name. */
static void print_list(FILE *out, const char *word)
{
    static const struct {
        const char *word;
        unsigned holds;
    } lists[] = {{"{in}", KITH_FILE_POINTS_IN},
                 {"{points}", KITH_FILE_POINTS_OUT},
                 {"{lists}", KITH_FILE_LISTS_OUT}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (strncmp(word, lists[i].word, strlen(lists[i].word)) == 0) {
            (void)fputs(cli_output_endings(lists[i].holds), out);
            return;
        }
    }
    for (int i = 1; i <= CLI_FORMAT_COUNT; i++) {
        (void)fprintf(out, "%s%s", i > 1 ? " " : "", cli_name_format(i));
    }
}

/* Text in which {lists} and the like stand for what there is. */
static void print_lists(FILE *out, const char *text)
{
    while (*text != '\0') {
        const size_t plain = strcspn(text, "{");
        (void)fprintf(out, "%.*s", (int)plain, text);
        text += plain;
        if (*text == '{') {
            print_list(out, text);
            text += strcspn(text, "}") + 1;
        }
    }
}

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
    print_lists(
        out,
        "Points are read from\n"
        "  {in}\n"
        "and text also as .txt and packed (.csv.gz). Answers are written to\n"
        "  {lists}.\n"
        "Text and .npy may come from a pipe, - is standard input; -o - writes to standard output.\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n\n"
        "Examples:\n"
        "  kith graph examples/data/digits.u8bin -k 10 -o graph.npz\n"
        "  kith info graph.npz\n"
        "  kith graph --help\n");
}

static void print_option(FILE *out, cli_option_id id, cli_command_id command)
{
    const cli_option *option = cli_option_get(id);
    char left[40];
    if (option->name == NULL) {
        (void)snprintf(left, sizeof left, "-%c %s", option->letter, option->value);
    } else {
        const char letter[5] = {'-', option->letter, ',', ' ', '\0'};
        (void)snprintf(left, sizeof left, "%s--%s%s%s", option->letter != 0 ? letter : "",
                       option->name, option->value != NULL ? " " : "",
                       option->value != NULL ? option->value : "");
    }
    (void)fprintf(out, "  %-20s ", left);
    print_lists(out, cli_option_help(id, command));
    (void)fputc('\n', out);
}

static void print_section(FILE *out, cli_section section, cli_command_id command)
{
    static const char *const titles[CLI_SECTION_COUNT] = {"What",   "How",    "Where",
                                                          "Output", "Filter", "Text"};
    bool titled = false;
    for (int i = 0; i < CLI_OPTION_COUNT; i++) {
        const cli_option *option = cli_option_get((cli_option_id)i);
        if (option->section == section && cli_option_is_plain(option, command)) {
            if (!titled) {
                (void)fprintf(out, "%s:\n", titles[section]);
            }
            titled = true;
            print_option(out, (cli_option_id)i, command);
        }
    }
}

/* The command whose help must fit on a screen names what filters. How text is read is the same for
 * all: the two commands that files are looked at with explain it, the others name it. */
static void print_shared(FILE *out, cli_command_id id)
{
    if (id == CLI_GRAPH) {
        (void)fputs("Filter: --allow, --groups, --rule, --period as kith help search has them\n",
                    out);
    } else {
        print_section(out, CLI_FILTER, id);
    }
    if (id == CLI_CONVERT || id == CLI_INFO) {
        print_section(out, CLI_TEXT, id);
    } else if (cli_option_is_plain(cli_option_get(CLI_OPT_HEADER), id)) {
        (void)fputs("Text: --header, --delimiter, --columns as kith help convert has them\n", out);
    }
}

static void print_metrics(FILE *out)
{
    (void)fprintf(out, "Metrics:");
    for (int metric = 1; metric <= KITH_METRIC_LAST; metric++) {
        if (cli_name_metric(metric) != NULL) {
            (void)fprintf(out, "%s%s", metric == KITH_HAMMING ? "\n  " : " ",
                          cli_name_metric(metric));
        }
    }
    (void)fprintf(out, " (P: 1 to 3355, inf)\n");
}

void cli_help_print_command(FILE *out, cli_command_id id)
{
    const cli_command *command = cli_command_get(id);
    (void)fprintf(out, "usage: kith %s %s\n\n", command->name, command->usage);
    print_lists(out, command->text);
    (void)fputc('\n', out);
    for (int section = 0; section < CLI_FILTER; section++) {
        print_section(out, (cli_section)section, id);
    }
    print_shared(out, id);
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
