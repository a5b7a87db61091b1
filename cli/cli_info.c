/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "cli_claim.h"
#include "cli_json.h"
#include "cli_message.h"
#include "cli_quality.h"
#include "cli_session.h"
#include "cli_tree.h"

#include <inttypes.h>

static const char *kind_name(kith_kind kind)
{
    switch (kind) {
    case KITH_KIND_POINTS:
        return "points";
    case KITH_KIND_GRAPH:
        return "graph";
    case KITH_KIND_RESULT:
        return "result";
    case KITH_KIND_CORPUS:
        return "corpus";
    case KITH_KIND_RANGES:
        return "ranges";
    case KITH_KIND_TREE:
        return "tree";
    case KITH_KIND_NONE:
        break;
    }
    return "unknown";
}

static bool is_table(kith_kind kind)
{
    return kind == KITH_KIND_GRAPH || kind == KITH_KIND_RESULT;
}

/* Neighbours of some kind: there is something to be exact. */
static bool is_found(kith_kind kind)
{
    return is_table(kind) || kind == KITH_KIND_RANGES;
}

static void print_json(const char *path, const kith_file_info *info, const cli_quality *quality)
{
    cli_json json;
    cli_json_begin(&json, "info");
    cli_json_text(&json, "file", path);
    cli_json_text(&json, "kind", kind_name(info->kind));
    cli_json_text(&json, "format", info->format);
    cli_json_text(&json, "dtype",
                  info->dtype != KITH_DTYPE_NONE ? kith_dtype_name(info->dtype) : NULL);
    cli_json_int(&json, "n", info->rows);
    cli_json_int(&json, is_table(info->kind) ? "k" : "d", info->cols);
    cli_json_text(&json, "metric",
                  info->metric != KITH_METRIC_DEFAULT ? kith_metric_name(info->metric) : NULL);
    if (is_found(info->kind)) {
        cli_claim_put(info->exact, &info->points, &json);
    }
    if (info->recall >= 0.0) {
        cli_json_open(&json, "recall");
        cli_json_int(&json, "at", info->recall_at);
        cli_json_number(&json, "estimate", info->recall);
        cli_json_close(&json);
    }
    if (info->kind == KITH_KIND_TREE) {
        cli_tree_put(info, &json);
    }
    if (info->parts > 0) {
        cli_json_int(&json, "files", info->parts);
    }
    if (info->part > 0) {
        cli_json_int(&json, "part", info->part);
        cli_json_int(&json, "first_row", info->first_row);
    }
    cli_quality_put(quality, &json);
    cli_json_uint(&json, "bytes", info->file_bytes);
    cli_json_end(&json);
}

static void print_text(const char *path, const kith_file_info *info, const cli_quality *quality)
{
    char size[CLI_SIZE_BYTES];
    (void)printf("file: %s\nkind: %s\nformat: %s\n", cli_message_safe(path), kind_name(info->kind),
                 info->format);
    (void)printf("rows: %" PRId64 "\n%s: %" PRId64 "\n", info->rows,
                 is_table(info->kind) ? "k" : "columns", info->cols);
    if (info->dtype != KITH_DTYPE_NONE) {
        (void)printf("dtype: %s\n", kith_dtype_name(info->dtype));
    }
    if (info->metric != KITH_METRIC_DEFAULT) {
        (void)printf("metric: %s\n", kith_metric_name(info->metric));
    }
    if (is_found(info->kind)) {
        cli_claim_print(info->exact, &info->points);
    }
    if (info->recall >= 0.0) {
        (void)printf("recall@%" PRId64 ": %.4f (estimate)\n", info->recall_at, info->recall);
    }
    if (info->kind == KITH_KIND_TREE) {
        cli_tree_print(info);
    }
    if (info->part > 0) {
        (void)printf("part: %" PRId32 " of %" PRId32 ", rows %" PRId64 " to %" PRId64
                     " of the graph\n",
                     info->part, info->parts, info->first_row, info->first_row + info->rows - 1);
    } else if (info->parts > 0) {
        (void)printf("parts: %" PRId32 " files, all there\n", info->parts);
    }
    cli_quality_print(quality);
    (void)printf("size: %s (%" PRIu64 " bytes)\n", cli_message_size(info->file_bytes, size),
                 info->file_bytes);
}

int cli_info(const cli_args *args)
{
    cli_session session = {.ctx = NULL};
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    cli_quality quality = {0};
    const char *path = args->paths[0];
    int code = cli_session_open(&session, args);
    if (code == CLI_DONE) {
        code = cli_session_check(&session,
                                 kith_file_inspect(session.ctx, path, &session.read, &info), path);
    }
    if (code == CLI_DONE && info.kind == KITH_KIND_GRAPH) {
        code = cli_quality_measure(&session, path, &quality);
    }
    if (code == CLI_DONE) {
        if (cli_given(args, CLI_OPT_JSON)) {
            print_json(path, &info, &quality);
        } else {
            print_text(path, &info, &quality);
        }
    }
    cli_session_close(&session);
    return code;
}
