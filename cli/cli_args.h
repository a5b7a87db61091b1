/* SPDX-License-Identifier: Apache-2.0
 * The command line, understood: what a command finds of its options. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "kith/kith.h"

#include <stdbool.h>

typedef enum cli_command_id {
    CLI_GRAPH = 0,
    CLI_SEARCH,
    CLI_EVAL,
    CLI_SELECT,
    CLI_PREDICT,
    CLI_TREE,
    CLI_MERGE,
    CLI_ADD,
    CLI_REMOVE,
    CLI_INFO,
    CLI_CONVERT,
    CLI_DEVICES,
    CLI_COMMAND_COUNT
} cli_command_id;

typedef enum cli_option_id {
    CLI_OPT_K = 0,
    CLI_OPT_METRIC,
    CLI_OPT_METHOD,
    CLI_OPT_TREE_HEIGHT,
    CLI_OPT_PIPELINE,
    CLI_OPT_SELECT,
    CLI_OPT_BUFFER,
    CLI_OPT_GROUP,
    CLI_OPT_ALIGNED,
    CLI_OPT_HEAP_SAMPLE,
    CLI_OPT_LARGEST,
    CLI_OPT_UNSORTED,
    CLI_OPT_KTH,
    CLI_OPT_MODE,
    CLI_OPT_TRUTH,
    CLI_OPT_OUTPUT,
    CLI_OPT_OUTPUT_BACK,
    CLI_OPT_FORMAT,
    CLI_OPT_DISTANCES,
    CLI_OPT_RADIUS,
    CLI_OPT_BOTH,
    CLI_OPT_MUTUAL,
    CLI_OPT_INCLUDE_SELF,
    CLI_OPT_SYMMETRIC,
    CLI_OPT_POINTS,
    CLI_OPT_EXACT,
    CLI_OPT_VERIFY,
    CLI_OPT_POINTS_OUT,
    CLI_OPT_MAP,
    CLI_OPT_RECALL,
    CLI_OPT_SAMPLE,
    CLI_OPT_SEED,
    CLI_OPT_ROUNDS,
    CLI_OPT_CANDIDATES,
    CLI_OPT_LIST,
    CLI_OPT_WIDTH,
    CLI_OPT_DELTA,
    CLI_OPT_START,
    CLI_OPT_START_SHARE,
    CLI_OPT_INIT,
    CLI_OPT_UPDATES,
    CLI_OPT_HEADER,
    CLI_OPT_DELIMITER,
    CLI_OPT_COLUMNS,
    CLI_OPT_DEVICE,
    CLI_OPT_THREADS,
    CLI_OPT_MEMORY,
    CLI_OPT_GPU_MEMORY,
    CLI_OPT_STREAM,
    CLI_OPT_CHUNK,
    CLI_OPT_RESTART,
    CLI_OPT_SHARDS,
    CLI_OPT_SHARD_COUNT,
    CLI_OPT_KEEP_SHARDS,
    CLI_OPT_PARTS,
    CLI_OPT_TUNE,
    CLI_OPT_DRY_RUN,
    CLI_OPT_QUIET,
    CLI_OPT_VERBOSE,
    CLI_OPT_JSON,
    CLI_OPT_HELP,
    CLI_OPTION_COUNT
} cli_option_id;

enum { CLI_MAX_PATHS = 4, CLI_ERROR_BYTES = 768 };

/* The command line, understood. Text points into argv. A field without its option keeps the value
 * that cli_parse gave it: 0 or NULL, but for sample. */
typedef struct cli_args {
    cli_command_id command;
    bool given[CLI_OPTION_COUNT];
    int path_count;
    const char *paths[CLI_MAX_PATHS];
    int64_t k;
    kith_metric metric;
    kith_method method;
    int32_t tree_height;
    kith_pipeline pipeline;
    kith_select_method select;
    kith_select_buffer buffer;
    int32_t group;
    int32_t heap_sample; /* in multiples of k */
    kith_predict_mode mode;
    kith_format format;
    kith_symmetry symmetry; /* 0: lists as they are */
    const char *output;
    const char *output_back;
    const char *distances;
    const char *points;
    const char *points_out;
    const char *map;
    const char *truth;
    const char *device;
    double radius;
    double recall;     /* wanted; 0: no word of it */
    int64_t recall_at; /* 0: min(10, k) */
    int64_t sample;    /* 0: none */
    int32_t rounds;
    int32_t candidates;
    int32_t list;
    int32_t width; /* 0: by k, or by a recall */
    double delta;
    kith_start start;
    int32_t all_updates; /* as kith_descent_params */
    double start_share;
    const char *init;
    kith_header header; /* of text; so are the next two */
    int32_t delimiter;  /* 0: as the lines have it */
    const char *columns;
    int64_t chunk; /* rows */
    const char *shards;
    int32_t shard_count;
    int32_t parts; /* as kith_shard_params */
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t gpu_memory_bytes;
    int32_t threads;
    const struct cli_team *team; /* of kith-mpi (cli_shards.h); NULL: kith */
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
    return cli_given(args, CLI_OPT_RADIUS) && !cli_given(args, CLI_OPT_K);
}

/* By walks on a graph that the first file holds. */
static inline bool cli_is_graph_search(const cli_args *args)
{
    return args->command == CLI_SEARCH && args->path_count == 3;
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

#endif
