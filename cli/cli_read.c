/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_read.h"

#include "cli_values.h"

#include <stdarg.h>
#include <stdio.h>

bool cli_refuse(cli_error *error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

static bool read_k(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_int(value, 1, INT64_MAX, &args->k) ||
           cli_refuse(error, "'%s' is no number of %s (give a whole number from 1)", value,
                      args->command == CLI_SELECT ? "values" : "neighbours");
}

/* "'x' is no metric (known: a, b)": the names of first .. last. */
static bool refuse_name(cli_error *error, const char *value, const char *what,
                        const char *(*name)(int), int first, int last)
{
    size_t used =
        (size_t)snprintf(error->text, sizeof error->text, "'%s' is no %s (known:", value, what);
    for (int i = first; i <= last && used < sizeof error->text; i++) {
        used += (size_t)snprintf(error->text + used, sizeof error->text - used, "%s %s",
                                 i == first ? "" : ",", name(i));
    }
    if (used < sizeof error->text) {
        (void)snprintf(error->text + used, sizeof error->text - used, ")");
    }
    return false;
}

static const char *metric_name(int metric)
{
    return kith_metric_name((kith_metric)metric);
}

static const char *select_name(int method)
{
    return kith_select_method_name((kith_select_method)method);
}

static const char *buffer_name(int buffer)
{
    static const char *const names[] = {[KITH_BUFFER_NONE] = "none",
                                        [KITH_BUFFER_PLAIN] = "plain",
                                        [KITH_BUFFER_FULL] = "full",
                                        [KITH_BUFFER_SORTED] = "sorted"};
    return names[buffer];
}

static bool read_metric(const char *value, cli_args *args, cli_error *error)
{
    args->metric = kith_metric_parse(value);
    if (args->metric != KITH_METRIC_DEFAULT && args->metric != KITH_CUSTOM) {
        return true;
    }
    return refuse_name(error, value, "metric", metric_name, KITH_EUCLIDEAN, KITH_CUSTOM - 1);
}

static const char *method_name(int method)
{
    static const char *const names[] = {[KITH_METHOD_AUTO] = "auto",
                                        [KITH_METHOD_EXACT] = "exact",
                                        [KITH_METHOD_TREE] = "tree",
                                        [KITH_METHOD_DESCENT] = "descent"};
    return names[method];
}

static bool read_method(const char *value, cli_args *args, cli_error *error)
{
    for (int method = KITH_METHOD_AUTO; method <= KITH_METHOD_DESCENT; method++) {
        if (strcmp(value, method_name(method)) == 0) {
            args->method = (kith_method)method;
            return true;
        }
    }
    return refuse_name(error, value, "method", method_name, KITH_METHOD_AUTO, KITH_METHOD_DESCENT);
}

static bool read_tree_height(const char *value, cli_args *args, cli_error *error)
{
    int64_t height = 0;
    if (!cli_value_int(value, 1, 28, &height)) {
        return cli_refuse(error, "'%s' is no height of a tree (give 1 to 28)", value);
    }
    args->tree_height = (int32_t)height;
    return true;
}

static const char *pipeline_name(int pipeline)
{
    static const char *const names[] = {[KITH_PIPELINE_FUSED] = "fused",
                                        [KITH_PIPELINE_MATRIX] = "matrix",
                                        [KITH_PIPELINE_HYBRID] = "hybrid"};
    return names[pipeline];
}

static bool read_pipeline(const char *value, cli_args *args, cli_error *error)
{
    for (int pipeline = KITH_PIPELINE_FUSED; pipeline <= KITH_PIPELINE_HYBRID; pipeline++) {
        if (strcmp(value, pipeline_name(pipeline)) == 0) {
            args->pipeline = (kith_pipeline)pipeline;
            return true;
        }
    }
    return refuse_name(error, value, "pipeline", pipeline_name, KITH_PIPELINE_FUSED,
                       KITH_PIPELINE_HYBRID);
}

static bool read_select(const char *value, cli_args *args, cli_error *error)
{
    const int method = kith_select_method_parse(value);
    args->select = (kith_select_method)method;
    return method >= 0 || refuse_name(error, value, "method of selection", select_name,
                                      KITH_SELECT_AUTO, KITH_SELECT_THRESHOLD_HEAP);
}

static bool read_buffer(const char *value, cli_args *args, cli_error *error)
{
    for (int buffer = KITH_BUFFER_NONE; buffer <= KITH_BUFFER_SORTED; buffer++) {
        if (strcmp(value, buffer_name(buffer)) == 0) {
            args->buffer = (kith_select_buffer)buffer;
            return true;
        }
    }
    return refuse_name(error, value, "buffer", buffer_name, KITH_BUFFER_NONE, KITH_BUFFER_SORTED);
}

static bool read_group(const char *value, cli_args *args, cli_error *error)
{
    int64_t group = 0;
    if (!cli_value_int(value, 2, 8, &group) || (group & (group - 1)) != 0) {
        return cli_refuse(error, "'%s' is no size of a group (use 2, 4 or 8)", value);
    }
    args->group = (int32_t)group;
    return true;
}

static bool read_heap_sample(const char *value, cli_args *args, cli_error *error)
{
    int64_t sample = 0;
    if (!cli_value_int(value, 1, 1024, &sample)) {
        return cli_refuse(error, "'%s' is no sample in multiples of k (give 1 to 1024)", value);
    }
    args->heap_sample = (int32_t)sample;
    return true;
}

static const char *mode_name(int mode)
{
    return kith_predict_mode_name((kith_predict_mode)mode);
}

static bool read_mode(const char *value, cli_args *args, cli_error *error)
{
    const int mode = kith_predict_mode_parse(value);
    args->mode = (kith_predict_mode)mode;
    return mode >= 0 || refuse_name(error, value, "mode", mode_name, KITH_PREDICT_MEAN,
                                    KITH_PREDICT_WEIGHTED_VOTE);
}

static bool read_path(const char *value, const char **path, cli_error *error)
{
    *path = value;
    return value[0] != '\0' || cli_refuse(error, "the name is empty (give the name of a file)");
}

static bool read_output(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->output, error);
}

static bool read_output_back(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->output_back, error);
}

static bool read_distances(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->distances, error);
}

static bool read_points(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->points, error);
}

static bool read_points_out(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->points_out, error);
}

static bool read_map(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->map, error);
}

static bool read_truth(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->truth, error);
}

static bool read_format(const char *value, cli_args *args, cli_error *error)
{
    args->format = kith_format_parse(value);
    return args->format != KITH_FORMAT_AUTO ||
           cli_refuse(error, "'%s' is no format (known: npz, csr, ivecs, ibin, knn, kith)", value);
}

static bool read_radius(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_number(value, &args->radius) ||
           cli_refuse(error, "'%s' is no radius (give a finite number)", value);
}

/* A graph may do without. */
static bool read_sample(const char *value, cli_args *args, cli_error *error)
{
    const int64_t least = args->command == CLI_EVAL ? 1 : 0;
    return cli_value_int(value, least, INT64_MAX, &args->sample) ||
           cli_refuse(error, "'%s' is no number of rows (give a whole number from %d)", value,
                      (int)least);
}

/* "0.99", "0.99@10" */
static bool read_recall(const char *value, cli_args *args, cli_error *error)
{
    char number[32];
    const char *at = strchr(value, '@');
    const size_t length = at != NULL ? (size_t)(at - value) : strlen(value);
    const bool fits = length < sizeof number;
    (void)snprintf(number, sizeof number, "%.*s", fits ? (int)length : 0, value);
    if (cli_value_number(number, &args->recall) && args->recall > 0.0 && args->recall <= 1.0 &&
        (at == NULL || cli_value_int(at + 1, 1, INT64_MAX, &args->recall_at))) {
        return true;
    }
    return cli_refuse(
        error,
        "'%s' is no recall (give a share from 0 to 1, and of how many neighbours if you "
        "like: 0.99, 0.99@10)",
        value);
}

static bool read_count(const char *value, int64_t least, int32_t *count, cli_error *error)
{
    int64_t number = 0;
    if (!cli_value_int(value, least, INT32_MAX, &number)) {
        return cli_refuse(error, "'%s' is no such number (give a whole number from %d)", value,
                          (int)least);
    }
    *count = (int32_t)number;
    return true;
}

static bool read_rounds(const char *value, cli_args *args, cli_error *error)
{
    return read_count(value, 0, &args->rounds, error);
}

static bool read_candidates(const char *value, cli_args *args, cli_error *error)
{
    return read_count(value, 1, &args->candidates, error);
}

static bool read_list(const char *value, cli_args *args, cli_error *error)
{
    return read_count(value, 2, &args->list, error);
}

static bool read_width(const char *value, cli_args *args, cli_error *error)
{
    return read_count(value, 1, &args->width, error);
}

static bool read_share(const char *value, double *share, cli_error *error)
{
    return (cli_value_number(value, share) && *share > 0.0 && *share <= 1.0) ||
           cli_refuse(error, "'%s' is no share (give a number above 0, at most 1)", value);
}

static bool read_delta(const char *value, cli_args *args, cli_error *error)
{
    return read_share(value, &args->delta, error);
}

static bool read_start_share(const char *value, cli_args *args, cli_error *error)
{
    return read_share(value, &args->start_share, error);
}

static bool read_init(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->init, error);
}

const char *cli_start_name(kith_start start)
{
    static const char *const names[] = {[KITH_START_AUTO] = "auto",
                                        [KITH_START_RANDOM] = "random",
                                        [KITH_START_SCREEN] = "screen",
                                        [KITH_START_GRAPH] = "graph"};
    return names[start];
}

static const char *start_name(int start)
{
    return cli_start_name((kith_start)start);
}

static bool read_start(const char *value, cli_args *args, cli_error *error)
{
    for (int start = KITH_START_AUTO; start <= KITH_START_SCREEN; start++) {
        if (strcmp(value, start_name(start)) == 0) {
            args->start = (kith_start)start;
            return true;
        }
    }
    return refuse_name(error, value, "start", start_name, KITH_START_AUTO, KITH_START_SCREEN);
}

/* 0, 1 and 2 are -1 (nearest), 0 (auto) and 1 (all) of the library. */
static const char *updates_name(int updates)
{
    static const char *const names[] = {"nearest", "auto", "all"};
    return names[updates];
}

static bool read_updates(const char *value, cli_args *args, cli_error *error)
{
    for (int updates = 0; updates < 3; updates++) {
        if (strcmp(value, updates_name(updates)) == 0) {
            args->all_updates = updates - 1;
            return true;
        }
    }
    return refuse_name(error, value, "choice of updates", updates_name, 0, 2);
}

static const char *symmetry_name(int symmetry)
{
    return symmetry == KITH_SYMMETRY_UNION ? "union" : "mutual";
}

static bool read_symmetric(const char *value, cli_args *args, cli_error *error)
{
    for (int symmetry = KITH_SYMMETRY_UNION; symmetry <= KITH_SYMMETRY_MUTUAL; symmetry++) {
        if (strcmp(value, symmetry_name(symmetry)) == 0) {
            args->symmetry = (kith_symmetry)symmetry;
            return true;
        }
    }
    return refuse_name(error, value, "symmetry", symmetry_name, KITH_SYMMETRY_UNION,
                       KITH_SYMMETRY_MUTUAL);
}

static bool read_chunk(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_int(value, 1, UINT32_MAX - 1, &args->chunk) ||
           cli_refuse(error, "'%s' is no number of rows (give a whole number from 1)", value);
}

static bool read_shards(const char *value, cli_args *args, cli_error *error)
{
    return read_path(value, &args->shards, error);
}

static bool read_shard_count(const char *value, cli_args *args, cli_error *error)
{
    int64_t count = 0;
    if (!cli_value_int(value, 1, 4096, &count)) {
        return cli_refuse(error, "'%s' is no number of shards (give 1 to 4096)", value);
    }
    args->shard_count = (int32_t)count;
    return true;
}

static bool read_parts(const char *value, cli_args *args, cli_error *error)
{
    int64_t count = KITH_PARTS_AUTO;
    if (strcmp(value, "auto") != 0 && !cli_value_int(value, 1, KITH_PARTS_MAX, &count)) {
        return cli_refuse(error, "'%s' is no number of files (give 1 to 256, or auto)", value);
    }
    args->parts = (int32_t)count;
    return true;
}

static bool read_seed(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_uint(value, &args->seed) ||
           cli_refuse(error, "'%s' is no seed (give a whole number from 0 to 2^64-1)", value);
}

static bool read_device(const char *value, cli_args *args, cli_error *error)
{
    args->device = value;
    return cli_value_is_device(value) ||
           cli_refuse(error,
                      "'%s' is no device (use auto, cpu, cuda, cuda:N, cuda:N,M or cuda:all)",
                      value);
}

static bool read_threads(const char *value, cli_args *args, cli_error *error)
{
    int64_t threads = 0;
    if (!cli_value_int(value, 1, INT32_MAX, &threads)) {
        return cli_refuse(error, "'%s' is no number of threads (give a whole number from 1)",
                          value);
    }
    args->threads = (int32_t)threads;
    return true;
}

static bool read_memory(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_bytes(value, &args->memory_bytes) ||
           cli_refuse(error, "'%s' is no amount of memory (give bytes, or 512M, 8G, 1.5T)", value);
}

static bool read_gpu_memory(const char *value, cli_args *args, cli_error *error)
{
    return cli_value_bytes(value, &args->gpu_memory_bytes) ||
           cli_refuse(error, "'%s' is no amount of memory (give bytes, or 512M, 8G, 1.5T)", value);
}

/* ---- Which option has which ----------------------------------------------------------------- */

typedef bool reader(const char *value, cli_args *args, cli_error *error);

bool cli_read_value(cli_option_id id, const char *value, cli_args *args, cli_error *error)
{
    static reader *const readers[CLI_OPTION_COUNT] = {
        [CLI_OPT_K] = read_k,
        [CLI_OPT_METRIC] = read_metric,
        [CLI_OPT_METHOD] = read_method,
        [CLI_OPT_TREE_HEIGHT] = read_tree_height,
        [CLI_OPT_PIPELINE] = read_pipeline,
        [CLI_OPT_SELECT] = read_select,
        [CLI_OPT_BUFFER] = read_buffer,
        [CLI_OPT_GROUP] = read_group,
        [CLI_OPT_HEAP_SAMPLE] = read_heap_sample,
        [CLI_OPT_MODE] = read_mode,
        [CLI_OPT_TRUTH] = read_truth,
        [CLI_OPT_OUTPUT] = read_output,
        [CLI_OPT_OUTPUT_BACK] = read_output_back,
        [CLI_OPT_FORMAT] = read_format,
        [CLI_OPT_DISTANCES] = read_distances,
        [CLI_OPT_RADIUS] = read_radius,
        [CLI_OPT_SYMMETRIC] = read_symmetric,
        [CLI_OPT_POINTS] = read_points,
        [CLI_OPT_POINTS_OUT] = read_points_out,
        [CLI_OPT_MAP] = read_map,
        [CLI_OPT_RECALL] = read_recall,
        [CLI_OPT_SAMPLE] = read_sample,
        [CLI_OPT_SEED] = read_seed,
        [CLI_OPT_ROUNDS] = read_rounds,
        [CLI_OPT_CANDIDATES] = read_candidates,
        [CLI_OPT_LIST] = read_list,
        [CLI_OPT_WIDTH] = read_width,
        [CLI_OPT_DELTA] = read_delta,
        [CLI_OPT_START] = read_start,
        [CLI_OPT_START_SHARE] = read_start_share,
        [CLI_OPT_INIT] = read_init,
        [CLI_OPT_UPDATES] = read_updates,
        [CLI_OPT_DEVICE] = read_device,
        [CLI_OPT_THREADS] = read_threads,
        [CLI_OPT_MEMORY] = read_memory,
        [CLI_OPT_GPU_MEMORY] = read_gpu_memory,
        [CLI_OPT_CHUNK] = read_chunk,
        [CLI_OPT_SHARDS] = read_shards,
        [CLI_OPT_SHARD_COUNT] = read_shard_count,
        [CLI_OPT_PARTS] = read_parts,
    };
    return readers[id] == NULL || readers[id](value, args, error);
}
