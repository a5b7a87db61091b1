/* SPDX-License-Identifier: Apache-2.0
 * The table of options, and the words that they have for numbers of the library. */
#include "cli_options.h"

#include "kith/kith_papers.h"

#include <stdio.h>

enum {
    GRAPH = 1u << CLI_GRAPH,
    SEARCH = 1u << CLI_SEARCH,
    PAIRS = 1u << CLI_PAIRS,
    TRUTH = 1u << CLI_TRUTH,
    EVAL = 1u << CLI_EVAL,
    INFO = 1u << CLI_INFO,
    CONVERT = 1u << CLI_CONVERT,
    DEVICES = 1u << CLI_DEVICES,
    SELECT = 1u << CLI_SELECT,
    PREDICT = 1u << CLI_PREDICT,
    INDEX = 1u << CLI_INDEX,
    REMOVE = 1u << CLI_REMOVE,
    GROWS = 1u << CLI_MERGE | 1u << CLI_ADD,
    CHANGES = GROWS | REMOVE,
    SOLVES = GRAPH | SEARCH,
    LISTS = SOLVES | SELECT | PREDICT,
    PLANS = LISTS | PAIRS,
    ANSWERS = PLANS | TRUTH,
    COMPUTES = ANSWERS | EVAL,
    READS = COMPUTES | INDEX | CHANGES | INFO | CONVERT,
    ALL = COMPUTES | INDEX | CHANGES | INFO | CONVERT | DEVICES
};

/* ---- How values are read -------------------------------------------------------------------- */

#define READS(...)  \
    {               \
        __VA_ARGS__ \
    }
#define FIELD(member) .field = offsetof(cli_args, member)
#define FLAG READS(.kind = CLI_KIND_FLAG)
#define PATH(member) READS(.kind = CLI_KIND_PATH, FIELD(member))
#define BYTES(member) READS(.kind = CLI_KIND_BYTES, FIELD(member))
#define SHARE(member) READS(.kind = CLI_KIND_SHARE, FIELD(member))
#define NUMBER(member, words) READS(.kind = CLI_KIND_NUMBER, FIELD(member), .what = (words))
#define SEED(member, words) READS(.kind = CLI_KIND_SEED, FIELD(member), .what = (words))
/* last 0: as many as the field can hold */
#define RANGE(words, first, last) .what = (words), .least = (first), .most = (last)
#define COUNT(member, words, first, last) \
    READS(.kind = CLI_KIND_COUNT, FIELD(member), RANGE(words, first, last))
#define COUNT32(member, words, first, last) \
    READS(.kind = CLI_KIND_COUNT32, FIELD(member), RANGE(words, first, last))
#define NAME(member, words, name, first, last) \
    READS(.kind = CLI_KIND_NAME, FIELD(member), RANGE(words, first, last), .names = (name))
#define OTHER(reader) READS(.kind = CLI_KIND_OTHER, .read = (reader))

/* ---- Options: name, letter, value, commands, keys of --tune, section, help, reading --------- */

static const cli_option options[CLI_OPTION_COUNT] = {
    [CLI_OPT_K] = {NULL, 'k', "N", LISTS | TRUTH | EVAL | CHANGES | INDEX, 0, CLI_WHAT,
                   "neighbours a row", OTHER(cli_read_k)},
    [CLI_OPT_METRIC] = {"metric", 0, "NAME",
                        SOLVES | PAIRS | TRUTH | PREDICT | EVAL | INDEX | CHANGES, 0, CLI_WHAT,
                        "one of those below (default: euclidean)", OTHER(cli_read_metric)},
    [CLI_OPT_METHOD] = {"method", 0, "NAME", SOLVES | PAIRS | TRUTH | PREDICT | INDEX, 0, CLI_HOW,
                        "auto (default), exact, tree: the same answer",
                        NAME(method, "method", cli_name_method, KITH_METHOD_AUTO,
                             KITH_METHOD_GRAPH)},
    [CLI_OPT_TREE_HEIGHT] = {"tree-height", 0, "H", INDEX, SOLVES | PREDICT, CLI_HOW,
                             "of a tree: 2^H leaves (default: by the number of columns)",
                             COUNT32(tree_height, "height of a tree", 1, 28)},
    [CLI_OPT_PIPELINE] =
        {"pipeline", 0, "NAME", 0, SOLVES, CLI_HOW,
         "fused (default), matrix, hybrid (with a GPU), buffer_tree: the same answer",
         NAME(pipeline, "pipeline", cli_name_pipeline, KITH_PIPELINE_FUSED,
              KITH_PIPELINE_COUNT - 1)},
    [CLI_OPT_LEAF_BUFFER] = {"leaf-buffer", 0, "B", 0, SOLVES, CLI_HOW,
                             "of pipeline=buffer_tree: queries that may wait for a leaf",
                             COUNT32(leaf_buffer, "number of queries", 2, 1 << 22)},
    [CLI_OPT_SELECT] = {"select", 0, "NAME", SELECT, SOLVES, CLI_HOW,
                        "of pipeline=matrix: auto, scan, heap, merge_queue, quick, radix ...",
                        NAME(select, "method of selection", cli_name_select, KITH_SELECT_AUTO,
                             KITH_SELECT_METHOD_COUNT - 1)},
    [CLI_OPT_BUFFER] = {"buffer", 0, "NAME", SELECT, 0, CLI_HOW,
                        "none, plain, full, sorted: how a queue gets candidates",
                        NAME(buffer, "buffer", cli_name_buffer, KITH_BUFFER_NONE,
                             KITH_BUFFER_SORTED)},
    [CLI_OPT_GROUP] = {"group", 0, "G", SELECT, 0, CLI_HOW,
                       "2, 4 or 8: a queue's hierarchical partition", OTHER(cli_read_group)},
    [CLI_OPT_BUFFER_SIZE] = {"buffer-size", 0, "N", SELECT, 0, CLI_HOW,
                             "8 to 64: candidates that --buffer holds back",
                             OTHER(cli_read_buffer_size)},
    [CLI_OPT_LEVEL] = {"level", 0, "M", SELECT, 0, CLI_HOW,
                       "merge_queue: places of its first level, 4 to 64", OTHER(cli_read_level)},
    [CLI_OPT_MERGE] = {"merge", 0, "NAME", SELECT, 0, CLI_HOW,
                       "merge_queue: network (default), path: how it merges levels",
                       NAME(merge, "merge", cli_name_merge, 0, 1)},
    [CLI_OPT_ALIGNED] = {"aligned", 0, NULL, SELECT, 0, CLI_HOW,
                         "merge_queue: all rows of a warp merge together", FLAG},
    [CLI_OPT_HEAP_SAMPLE] = {"heap-sample", 0, "N", SELECT, SOLVES, CLI_HOW,
                             "of pipeline=hybrid: the sample of a threshold, in k",
                             COUNT32(heap_sample, "sample in multiples of k", 1, 1024)},
    [CLI_OPT_BATCH] = {"batch", 0, "N", 0, SOLVES, CLI_HOW,
                       "of pipeline=hybrid: queries of a batch, at most",
                       COUNT32(batch, "number of queries", 1, 1 << 22)},
    [CLI_OPT_LARGEST] = {"largest", 0, NULL, SELECT, 0, CLI_WHAT, "the k largest, largest first",
                         FLAG},
    [CLI_OPT_UNSORTED] = {"unsorted", 0, NULL, SELECT, 0, CLI_WHAT, "the same k, in any order",
                          FLAG},
    [CLI_OPT_KTH] = {"kth", 0, NULL, SELECT, 0, CLI_WHAT,
                     "the k-th value of each row alone; written to .npy", FLAG},
    [CLI_OPT_MODE] = {"mode", 0, "NAME", PREDICT, 0, CLI_WHAT,
                      "mean (default), weighted, median; of classes: vote, weighted_vote",
                      NAME(mode, "mode", cli_name_mode, KITH_PREDICT_MEAN,
                           KITH_PREDICT_WEIGHTED_VOTE)},
    [CLI_OPT_TRUTH] = {"truth", 0, "FILE", PREDICT, 0, CLI_WHAT,
                       "the queries' own labels: report how far the predictions are off",
                       PATH(truth)},
    [CLI_OPT_OUTPUT] = {"output", 'o', "FILE", ANSWERS | INDEX | CHANGES, 0, CLI_OUTPUT,
                        "write the answer here: {lists} -", PATH(output)},
    [CLI_OPT_OUTPUT_BACK] = {"output-back", 0, "FILE", SEARCH, 0, CLI_OUTPUT,
                             "with --both: the answer of the corpus' rows", PATH(output_back)},
    [CLI_OPT_FORMAT] = {"format", 0, "NAME", SOLVES | CONVERT | CHANGES, 0, CLI_OUTPUT,
                        "{names}, by any name", OTHER(cli_read_format)},
    [CLI_OPT_DISTANCES] = {"distances", 0, "FILE", SOLVES | CONVERT, 0, CLI_OUTPUT,
                           "write the distances here: .fbin .fvecs .npy", PATH(distances)},
    [CLI_OPT_RADIUS] = {"radius", 0, "R", SOLVES | PAIRS | TRUTH, 0, CLI_WHAT,
                        "all within R, as csr in .npz, .range or .csv; with -k the k nearest",
                        NUMBER(radius, "radius")},
    [CLI_OPT_ALLOW] = {"allow", 0, "FILE", SOLVES | PAIRS | TRUTH, 0, CLI_FILTER,
                       "a column of 0 and 1: whether a row of the corpus may be found",
                       PATH(allow)},
    [CLI_OPT_GROUPS] = {"groups", 0, "FILE", SOLVES | PAIRS | TRUTH, 0, CLI_FILTER,
                        "a column of whole numbers: the group of each row of the corpus",
                        PATH(groups)},
    [CLI_OPT_QUERY_GROUPS] = {"query-groups", 0, "FILE", SEARCH | PAIRS | TRUTH, 0, CLI_FILTER,
                              "the same of the queries, with rule same or other",
                              PATH(query_groups)},
    [CLI_OPT_RULE] = {"rule", 0, "NAME", SOLVES | PAIRS | TRUTH, 0, CLI_FILTER,
                      "of groups: same (default), other, each (k of every group)",
                      NAME(rule, "rule", cli_name_rule, KITH_RULE_SAME, KITH_RULE_EACH)},
    [CLI_OPT_COUNT] = {"count", 0, NULL, PAIRS, 0, CLI_WHAT,
                       "count pairs alone, as without -o anyway", FLAG},
    [CLI_OPT_LIMIT] = {"limit", 0, "N", PAIRS, 0, CLI_WHAT, "stop before there are more pairs",
                       COUNT(limit, "number of pairs", 1, INT64_MAX)},
    [CLI_OPT_COMPONENTS] = {"components", 0, "FILE", PAIRS, 0, CLI_OUTPUT,
                            "write the smallest id of each row's component: .ibin .npy .csv .tsv",
                            PATH(components)},
    [CLI_OPT_KEEP] = {"keep", 0, "NAME", PAIRS, 0, CLI_WHAT,
                      "of near rows: first, by rising id, or central, one a component",
                      NAME(keep, "choice", cli_name_keep, KITH_KEEP_FIRST, KITH_KEEP_CENTRAL)},
    [CLI_OPT_KEPT] = {"kept", 0, "FILE", PAIRS, 0, CLI_OUTPUT,
                      "with --keep: write the ids that are kept: .ibin .npy .csv .tsv", PATH(kept)},
    [CLI_OPT_TIES] = {"ties", 0, "FILE", TRUTH, 0, CLI_OUTPUT,
                      "write how many rows are as near as each k-th: .ibin .npy .csv .tsv",
                      PATH(ties)},
    [CLI_OPT_RUNBOOK] =
        {"runbook", 0, "FILE", TRUTH, 0, CLI_WHAT,
         "a truth for each search of it, in a folder: JSON lines, or YAML[:DATASET]",
         PATH(runbook)},
    [CLI_OPT_BOTH] = {"both", 0, NULL, SEARCH, 0, CLI_WHAT,
                      "also the corpus' rows among the queries (--output-back)", FLAG},
    [CLI_OPT_MUTUAL] = {"mutual", 0, NULL, SEARCH, 0, CLI_WHAT,
                        "pairs that choose each other: .ivecs .ibin .csv .tsv", FLAG},
    [CLI_OPT_INCLUDE_SELF] = {"include-self", 0, NULL, GRAPH | CHANGES, 0, CLI_WHAT,
                              "let a point compete for its own list like any other", FLAG},
    [CLI_OPT_SYMMETRIC] = {"symmetric", 0, "NAME", GRAPH, 0, CLI_WHAT,
                           "edges both ways, as csr in .npz: union, or mutual (both have it)",
                           NAME(symmetry, "symmetry", cli_name_symmetry, KITH_SYMMETRY_UNION,
                                KITH_SYMMETRY_MUTUAL)},
    [CLI_OPT_POINTS] = {"points", 0, "FILE", EVAL, 0, CLI_WHAT,
                        "the points of the graph: estimate recall from exact answers",
                        PATH(points)},
    [CLI_OPT_EXACT] = {"exact", 0, NULL, GROWS, 0, CLI_HOW,
                       "meet all pairs across the sets, as of certified graphs anyway", FLAG},
    [CLI_OPT_VERIFY] = {"verify", 0, NULL, CHANGES | EVAL | TRUTH, 0, CLI_HOW,
                        "solve what is not certified anew, and see if it is exact", FLAG},
    [CLI_OPT_POINTS_OUT] = {"points-out", 0, "FILE", CHANGES, 0, CLI_OUTPUT,
                            "write the points of the new graph here, in a format of points",
                            PATH(points_out)},
    [CLI_OPT_MAP] = {"map", 0, "FILE", REMOVE, 0, CLI_OUTPUT,
                     "write each row's new id here, -1: it left: .ibin .npy .csv .tsv", PATH(map)},
    [CLI_OPT_HTML] = {"html", 0, "FILE", EVAL, 0, CLI_OUTPUT,
                      "write the report here, too, as a page: .html .htm", PATH(html)},
    [CLI_OPT_RECALL] = {"recall", 0, "R[@K]", SOLVES | GROWS | INDEX, 0, CLI_HOW,
                        "approximate: until a sample has this recall, 0.99 or 0.99@10",
                        OTHER(cli_read_recall)},
    [CLI_OPT_SAMPLE] = {"sample", 0, "N", EVAL | TRUTH, SOLVES | PAIRS | CHANGES, CLI_HOW,
                        "rows to solve exactly, by which recall is told (1000)",
                        OTHER(cli_read_sample)},
    [CLI_OPT_SEED] = {"seed", 0, "S", EVAL | TRUTH | INDEX, SOLVES | PAIRS | CHANGES, CLI_HOW,
                      "draws these rows, and what descent and walks try (0)", SEED(seed, "seed")},
    [CLI_OPT_ROUNDS] = {"rounds", 0, "N", 0, GRAPH | GROWS, CLI_HOW,
                        "of descent: at most so many; 0: what the start finds",
                        COUNT32(rounds, "number of rounds", 0, 0)},
    [CLI_OPT_CANDIDATES] = {"candidates", 0, "P", 0, GRAPH | GROWS, CLI_HOW,
                            "of descent: new, and old, entries of a list that meet in a round",
                            COUNT32(candidates, "number of candidates", 1, 0)},
    [CLI_OPT_LIST] = {"list", 0, "L", 0, GRAPH | GROWS, CLI_HOW,
                      "of descent: entries of a list while it descends, more than k",
                      COUNT32(list, "number of entries", 2, 0)},
    [CLI_OPT_WIDTH] = {"width", 0, "W", 0, SEARCH, CLI_HOW,
                       "of walks on a graph: nearest points that one keeps (64, or 2 k)",
                       COUNT32(width, "number of points", 1, 0)},
    [CLI_OPT_DELTA] = {"delta", 0, "D", 0, GRAPH | GROWS, CLI_HOW,
                       "of descent: end when less than this share changes (0.001)", SHARE(delta)},
    [CLI_OPT_START] = {"start", 0, "NAME", 0, GRAPH | GROWS, CLI_HOW,
                       "of descent: auto (default), random, screen (of near blocks); of a merge "
                       "also ggm",
                       NAME(start, "start", cli_name_start, KITH_START_AUTO, KITH_START_GGM)},
    [CLI_OPT_START_SHARE] = {"start-share", 0, "X", 0, GRAPH | GROWS, CLI_HOW,
                             "of descent: share of all pairs that the screen may look at",
                             SHARE(start_share)},
    [CLI_OPT_INIT] = {"init", 0, "GRAPH", GRAPH, 0, CLI_HOW,
                      "descent: start from this graph, and refine it", PATH(init)},
    [CLI_OPT_UPDATES] = {"updates", 0, "NAME", 0, GRAPH | GROWS, CLI_HOW,
                         "of descent: auto (default), all pairs that met are offered, or nearest",
                         OTHER(cli_read_updates)},
    [CLI_OPT_HEADER] = {"header", 0, "yes|no", READS, 0, CLI_TEXT,
                        "whether line 1 names the columns (default: by its words)",
                        NAME(header, "answer", cli_name_header, KITH_HEADER_YES, KITH_HEADER_NO)},
    [CLI_OPT_DELIMITER] = {"delimiter", 0, "CHAR", READS, 0, CLI_TEXT,
                           ", ; tab or blank (default: as the lines have it)",
                           OTHER(cli_read_delimiter)},
    [CLI_OPT_COLUMNS] = {"columns", 0, "LIST", READS, 0, CLI_TEXT,
                         "the columns of points: 1,4-6,9-,NAME, from 0", OTHER(cli_read_columns)},
    [CLI_OPT_DEVICE] = {"device", 0, "NAME", ANSWERS | CHANGES, 0, CLI_WHERE,
                        "auto (default: a GPU where it pays), cpu, cuda, cuda:N, cuda:all",
                        OTHER(cli_read_device)},
    [CLI_OPT_THREADS] = {"threads", 0, "N", COMPUTES | INDEX | CHANGES, 0, CLI_WHERE,
                         "default: all processors", COUNT32(threads, "number of threads", 1, 0)},
    [CLI_OPT_MEMORY] = {"memory", 0, "SIZE", COMPUTES | INDEX | CHANGES, 0, CLI_WHERE,
                        "keep to this much host memory, or refuse: 512M, 8GB", BYTES(memory_bytes)},
    [CLI_OPT_GPU_MEMORY] = {"gpu-memory", 0, "SIZE", 0, ANSWERS | CHANGES, CLI_WHERE,
                            "of a GPU, to keep to (default: what is free, less a margin)",
                            BYTES(gpu_memory_bytes)},
    [CLI_OPT_STREAM] = {"stream", 0, NULL, SEARCH, 0, CLI_WHERE,
                        "solve and write in chunks, and go on where such a job was left", FLAG},
    [CLI_OPT_CHUNK] = {"chunk", 0, "ROWS", SEARCH, 0, CLI_WHERE,
                       "with --stream, which it means: so many queries at a time",
                       COUNT(chunk, "number of rows", 1, UINT32_MAX - 1)},
    [CLI_OPT_RESTART] = {"restart", 0, NULL, SOLVES | TRUTH, 0, CLI_WHERE,
                         "begin anew, whatever such a job has left", FLAG},
    [CLI_OPT_SHARDS] = {"shards", 0, "DIR", GRAPH, 0, CLI_WHERE,
                        "from parts, with lists in DIR; goes on where such a job was left",
                        PATH(shards)},
    [CLI_OPT_SHARD_COUNT] = {"shard-count", 0, "N", 0, GRAPH, CLI_WHERE,
                             "of --shards: so many (default: as few as --memory allows)",
                             COUNT32(shard_count, "number of shards", 1, 4096)},
    [CLI_OPT_KEEP_SHARDS] = {"keep-shards", 0, NULL, 0, GRAPH, CLI_WHERE,
                             "of --shards: do not empty DIR at the end", FLAG},
    [CLI_OPT_PARTS] = {"parts", 0, "N", 0, GRAPH, CLI_OUTPUT,
                       "of --shards: FILE names up to N others (auto: one a shard)",
                       OTHER(cli_read_parts)},
    [CLI_OPT_TUNE] = {"tune", 0, "KEY=VALUE,..", ANSWERS | CHANGES, 0, CLI_HOW,
                      "rarely needed; --tune help lists the keys", FLAG},
    [CLI_OPT_DRY_RUN] = {"dry-run", 0, NULL, PLANS | CHANGES, 0, CLI_OUTPUT,
                         "print the plan and stop", FLAG},
    [CLI_OPT_QUIET] = {"quiet", 'q', NULL, COMPUTES | INDEX | CHANGES | CONVERT, 0, CLI_OUTPUT,
                       "no progress and no report; errors and --json stay", FLAG},
    [CLI_OPT_VERBOSE] = {"verbose", 'v', NULL, ANSWERS | INDEX | CHANGES, 0, CLI_OUTPUT,
                         "report method, memory and the seconds of each step, too", FLAG},
    [CLI_OPT_JSON] = {"json", 0, NULL, ALL, 0, CLI_OUTPUT,
                      "print one JSON object, with all of that, instead of the report", FLAG},
    [CLI_OPT_HELP] = {"help", 'h', NULL, ALL, 0, CLI_OUTPUT, "print this", FLAG},
};

const cli_option *cli_option_get(cli_option_id id)
{
    return &options[id];
}

/* ---- What differs by command ---------------------------------------------------------------- */

static const struct {
    cli_option_id option;
    uint32_t commands;
    const char *help;
} particular[] = {
    {CLI_OPT_K, CHANGES, "neighbours a row (default: as the graphs have)"},
    {CLI_OPT_K, EVAL, "compare the nearest N of each row (default: min(10, k))"},
    {CLI_OPT_K, SELECT, "values a row"},
    {CLI_OPT_METRIC, EVAL, "one of those below (default: what the files say)"},
    {CLI_OPT_METRIC, CHANGES, "one of those below (default: what the graphs say)"},
    {CLI_OPT_METHOD, INDEX, "of build: exact (default), tree, graph"},
    {CLI_OPT_METHOD, SEARCH, "auto (default), exact, tree: the same answer; graph"},
    {CLI_OPT_K, INDEX, "of build by graph: its neighbours a row (24)"},
    {CLI_OPT_RECALL, INDEX, "of build by graph: the recall of the graph (0.95)"},
    {CLI_OPT_SEED, INDEX, "of build by graph: what its descent tries (0)"},
    {CLI_OPT_METHOD, GRAPH, "auto (default), exact, tree: the same answer; descent"},
    {CLI_OPT_SELECT, SELECT, "auto (default), scan, heap, merge_queue, quick, radix ..."},
    {CLI_OPT_HEAP_SAMPLE, SELECT, "threshold_heap: the sample of its threshold, in k (8)"},
    {CLI_OPT_OUTPUT, SELECT, "write the answer here: .npz (with --kth .npy)"},
    {CLI_OPT_OUTPUT, PREDICT, "write the predictions here: .npy .csv .tsv .fbin -, of votes .ibin"},
    {CLI_OPT_OUTPUT, INDEX, "write the index here: .kith"},
    {CLI_OPT_OUTPUT, CHANGES, "write the graph here: {lists} -"},
    {CLI_OPT_RECALL, SEARCH, "on a graph: walks wide enough for this recall, 0.99 or 0.99@10"},
    {CLI_OPT_SAMPLE, SEARCH, "of walks: queries to solve exactly, by which recall is told (1000)"},
    {CLI_OPT_SEED, EVAL, "draws these rows (0)"},
    {CLI_OPT_VERIFY, EVAL, "with --points: solve all rows, and see if the graph is exact"},
    {CLI_OPT_SEED, SEARCH, "of walks: draws these queries, and where walks begin (0)"},
    {CLI_OPT_SEED, REMOVE | PAIRS, "draws these rows (0)"},
    {CLI_OPT_SAMPLE, PAIRS, "of --dry-run: rows by which it tells the number of pairs (1000)"},
    {CLI_OPT_OUTPUT, TRUTH,
     "write the truth here: .knn .ivecs .ibin .npz .kith .npy .hdf5; of a radius .range .kith"},
    {CLI_OPT_RADIUS, TRUTH, "instead of -k: all within R (inner_product: at least R)"},
    {CLI_OPT_VERIFY, TRUTH, "hold FILE against its certificate, and compute some queries anew"},
    {CLI_OPT_SAMPLE, TRUTH, "with --verify: queries that are computed anew (10)"},
    {CLI_OPT_SEED, TRUTH, "with --verify: draws these queries (0)"},
    {CLI_OPT_RULE, TRUTH, "of groups: rows of the same one (default), or of other ones"},
    {CLI_OPT_RADIUS, PAIRS, "a pair's distance is at most R (inner_product: at least)"},
    {CLI_OPT_OUTPUT, PAIRS, "write i, j and distance here: .npy .csv .tsv -"},
    {CLI_OPT_ALLOW, PAIRS, "a column of 0 and 1: whether a row of the last file may be in one"},
    {CLI_OPT_GROUPS, PAIRS, "a column of whole numbers: the group of each row of the last file"},
    {CLI_OPT_QUERY_GROUPS, PAIRS, "of two files: the groups of the first one's rows"},
    {CLI_OPT_RULE, PAIRS, "of groups: pairs in the same one (default), or other ones"},
    {CLI_OPT_JSON, EVAL | INFO | CONVERT | DEVICES, "print one JSON object instead of the report"},
};

const char *cli_option_help(cli_option_id id, cli_command_id command)
{
    for (size_t i = 0; i < sizeof particular / sizeof particular[0]; i++) {
        if (particular[i].option == id && (particular[i].commands >> command & 1u) != 0) {
            return particular[i].help;
        }
    }
    return options[id].help;
}

const char *cli_option_written(cli_option_id id, cli_command_id command,
                               char text[CLI_WRITTEN_BYTES])
{
    const cli_option *option = &options[id];
    if (option->name == NULL) {
        (void)snprintf(text, CLI_WRITTEN_BYTES, "-%c", option->letter);
    } else {
        (void)snprintf(text, CLI_WRITTEN_BYTES, "--%s%s",
                       cli_option_is_tune(option, command) ? "tune " : "", option->name);
    }
    return text;
}

/* ---- Words of the library -------------------------------------------------------------------- */

const char *cli_name_metric(int metric)
{
    return metric == KITH_MINKOWSKI ? "minkowski:P"
           : metric != KITH_CUSTOM  ? kith_metric_name((kith_metric)metric)
                                    : NULL;
}

const char *cli_name_method(int method)
{
    static const char *const names[] = {[KITH_METHOD_AUTO] = "auto",
                                        [KITH_METHOD_EXACT] = "exact",
                                        [KITH_METHOD_TREE] = "tree",
                                        [KITH_METHOD_DESCENT] = "descent",
                                        [KITH_METHOD_GRAPH] = "graph"};
    return names[method];
}

const char *cli_name_pipeline(int pipeline)
{
#define ROW(NAME, number, name) [number] = #name,
    static const char *const names[] = {[KITH_PIPELINE_FUSED] = "fused",
                                        KITH_PAPERS_PIPELINE_MAP(ROW)};
#undef ROW
    return names[pipeline];
}

const char *cli_name_select(int method)
{
    return kith_select_method_name((kith_select_method)method);
}

const char *cli_name_buffer(int buffer)
{
    static const char *const names[] = {[KITH_BUFFER_NONE] = "none",
                                        [KITH_BUFFER_PLAIN] = "plain",
                                        [KITH_BUFFER_FULL] = "full",
                                        [KITH_BUFFER_SORTED] = "sorted"};
    return names[buffer];
}

const char *cli_name_merge(int merge)
{
    return merge == 1 ? "path" : "network";
}

const char *cli_name_mode(int mode)
{
    return kith_predict_mode_name((kith_predict_mode)mode);
}

const char *cli_name_symmetry(int symmetry)
{
    return symmetry == KITH_SYMMETRY_UNION ? "union" : "mutual";
}

const char *cli_name_rule(int rule)
{
    static const char *const names[] = {
        [KITH_RULE_SAME] = "same", [KITH_RULE_OTHER] = "other", [KITH_RULE_EACH] = "each"};
    return names[rule];
}

const char *cli_name_keep(int keep)
{
    return keep == KITH_KEEP_FIRST ? "first" : "central";
}

const char *cli_name_start(int start)
{
    static const char *const names[] = {[KITH_START_AUTO] = "auto",
                                        [KITH_START_RANDOM] = "random",
                                        [KITH_START_SCREEN] = "screen",
                                        [KITH_START_GGM] = "ggm",
                                        [KITH_START_GRAPH] = "graph"};
    return names[start];
}

const char *cli_name_updates(int updates)
{
    static const char *const names[] = {"nearest", "auto", "all"};
    return names[updates];
}

const char *cli_name_header(int header)
{
    return header == KITH_HEADER_YES ? "yes" : "no";
}

const char *cli_name_format(int format)
{
#define ROW(NAME, number, name) [number] = (name),
    static const char *const names[] = {KITH_FORMAT_MAP(ROW)};
#undef ROW
    return names[format];
}
