/* SPDX-License-Identifier: Apache-2.0
 * kith info: what a file says of itself; of a graph also by how many rows a row is named, and in
 * how many parts it falls. kith devices: what there is to compute on. */
#include "cli.h"
#include "cli_report.h"
#include "cli_session.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct quality {
    int64_t rows; /* 0: nothing is known */
    int64_t in_least;
    int64_t in_median; /* of an even number of rows the lower one of the middle */
    int64_t in_most;
    int64_t unnamed; /* rows that nobody names */
    int64_t parts;   /* weakly connected components */
} quality;

/* A row's number of namers, and another row of its part, or itself. */
typedef struct counted {
    uint32_t *named;
    uint32_t *leader;
} counted;

static uint32_t lead_of(uint32_t *leader, uint32_t row)
{
    while (leader[row] != row) {
        leader[row] = leader[leader[row]]; /* half the way for who comes next */
        row = leader[row];
    }
    return row;
}

static int count(const char *path, const kith_neighbors *graph, const counted *c, quality *q)
{
    q->rows = graph->rows;
    q->parts = graph->rows;
    for (int64_t i = 0; i < graph->rows * graph->k; i++) {
        const int64_t row = i / graph->k;
        const uint32_t id = graph->ids[i];
        if (id == KITH_ID_NONE) {
            continue;
        }
        CLI_FAIL_IF((int64_t)id >= graph->rows, path,
                    "row %" PRId64 " names a row that there is not, of %" PRId64
                    " (the file is damaged, or no graph)",
                    row, graph->rows);
        const uint32_t a = lead_of(c->leader, (uint32_t)row);
        const uint32_t b = lead_of(c->leader, id);
        c->leader[a > b ? a : b] = a > b ? b : a;
        c->named[id] += (int64_t)id != row;
        q->parts -= a != b;
    }
    return CLI_DONE;
}

static int by_size(const void *a, const void *b)
{
    const uint32_t *left = a;
    const uint32_t *right = b;
    return (*left > *right) - (*left < *right);
}

static int measure_file(cli_session *session, const char *path, quality *q)
{
    const kith_neighbors *graph = NULL;
    counted c = {NULL, NULL};
    CLI_TRY(cli_session_result(session, path, &graph));
    const int64_t rows = graph->rows;
    if (rows < 1) {
        return CLI_DONE;
    }
    CLI_KEEP(c.named, rows, path, "no memory to count who is named (8 bytes a row)");
    CLI_KEEP(c.leader, rows, path, "no memory to count who is named (8 bytes a row)");
    for (int64_t i = 0; i < rows; i++) {
        c.leader[i] = (uint32_t)i;
    }
    CLI_TRY(count(path, graph, &c, q));
    qsort(c.named, (size_t)rows, sizeof *c.named, by_size);
    q->in_least = c.named[0];
    q->in_median = c.named[(rows - 1) / 2];
    q->in_most = c.named[rows - 1];
    while (q->unnamed < rows && c.named[q->unnamed] == 0) {
        q->unnamed += 1;
    }
    return CLI_DONE;
}

/* ---- The report ----------------------------------------------------------------------------- */

static const char *kind_name(kith_kind kind)
{
    static const char *const names[] = {[KITH_KIND_NONE] = "unknown",
                                        [KITH_KIND_POINTS] = "points",
                                        [KITH_KIND_GRAPH] = "graph",
                                        [KITH_KIND_RESULT] = "result",
                                        [KITH_KIND_EXACT_INDEX] = "exact index",
                                        [KITH_KIND_RANGES] = "ranges",
                                        [KITH_KIND_TREE_INDEX] = "tree index",
                                        [KITH_KIND_GRAPH_INDEX] = "graph index",
                                        [KITH_KIND_PAIRS] = "pairs"};
    return names[kind];
}

static bool is_table(kith_kind kind)
{
    return kind == KITH_KIND_GRAPH || kind == KITH_KIND_RESULT;
}

static void tell_shape(cli_report *r, const kith_file_info *info)
{
    const bool table = is_table(info->kind);
    const char *dtype = info->dtype != KITH_DTYPE_NONE ? kith_dtype_name(info->dtype) : NULL;
    const char *metric =
        info->metric != KITH_METRIC_DEFAULT ? kith_metric_name(info->metric) : NULL;
    const bool loose = info->kind == KITH_KIND_RANGES || info->kind == KITH_KIND_PAIRS;
    cli_put(r, TEXT("dtype", dtype));
    cli_tell(r, "rows: {n}\n", INT("n", info->rows));
    if (!loose) { /* whose rows have different lengths */
        cli_tell(r, table ? "k: {k}\n" : "columns: {d}\n", INT(table ? "k" : "d", info->cols));
    }
    cli_tell(r, dtype != NULL ? "dtype: {dtype}\n" : "", TEXT(".dtype", dtype));
    cli_tell(r, metric != NULL ? "metric: {metric}\n" : "", TEXT("metric", metric));
}

static void tell_recall(cli_report *r, const kith_file_info *info)
{
    if (info->recall >= 0.0) {
        cli_tell_object(r, "recall", "recall@{at}: {estimate:.4f} (estimate)\n",
                        INT("at", info->recall_at), NUMBER("estimate", info->recall));
    }
}

static void tell_parts(cli_report *r, const kith_file_info *info)
{
    if (info->parts > 0) {
        cli_tell(r, info->part > 0 ? "" : "parts: {files} files, all there\n",
                 INT("files", info->parts));
    }
    if (info->part > 0) {
        cli_tell(r, "part: {part} of {parts}, rows {first_row} to {last} of the graph\n",
                 INT("part", info->part), INT(".parts", info->parts),
                 INT("first_row", info->first_row), INT(".last", info->first_row + info->rows - 1));
    }
}

static void tell_quality(cli_report *r, const quality *q)
{
    if (q->rows == 0) {
        return;
    }
    cli_tell_object(r, "in_degree",
                    "named by: {least} to {most} rows, median {median}; by nobody: {none} rows\n",
                    INT("least", q->in_least), INT("median", q->in_median), INT("most", q->in_most),
                    INT("none", q->unnamed));
    cli_tell(r, "connected parts: {parts}\n", INT("parts", q->parts));
}

static void tell(const cli_args *args, const kith_file_info *info, const quality *q, int64_t pairs)
{
    const bool of_pairs = info->kind == KITH_KIND_PAIRS;
    cli_report r = cli_report_begin(args);
    cli_tell_text(&r, "file", args->paths[0]);
    cli_tell_text(&r, "kind", kind_name(info->kind));
    cli_tell_text(&r, "format", info->format);
    tell_shape(&r, info);
    if (is_table(info->kind) || info->kind == KITH_KIND_RANGES || of_pairs) {
        cli_tell_claim(&r, info->exact, &info->points);
    }
    tell_recall(&r, info);
    if (info->kind == KITH_KIND_TREE_INDEX) {
        cli_tell_tree(&r, info);
    }
    if (info->periodic != 0) {
        cli_tell(&r, "points lie in a periodic box\n", BOOL("periodic", true));
    }
    tell_parts(&r, info);
    tell_quality(&r, q);
    if (of_pairs) {
        cli_tell(&r, "pairs: {pairs,}\n", INT("pairs", pairs));
    }
    cli_tell(&r, "size: {bytes~} ({bytes} bytes)\n", UINT("bytes", info->file_bytes));
    cli_report_end(&r);
}

static int look(cli_session *session, const cli_args *args)
{
    const char *path = args->paths[0];
    kith_file_info info;
    quality q = {0};
    kith_pairs_report pairs = {.struct_size = (uint32_t)sizeof pairs};
    CLI_TRY(cli_session_open(session, args));
    CLI_TRY(cli_session_inspect(session, path, &session->read, &info));
    CLI_TRY(info.kind == KITH_KIND_GRAPH ? measure_file(session, path, &q) : CLI_DONE);
    if (info.kind == KITH_KIND_PAIRS) {
        CLI_TRY(cli_session_check(session, kith_pairs_read(session->ctx, path, NULL, NULL, &pairs),
                                  path));
    }
    tell(args, &info, &q, pairs.count);
    return CLI_DONE;
}

int cli_info(const cli_args *args)
{
    cli_session session = {.ctx = NULL};
    const int code = look(&session, args);
    cli_session_close(&session);
    return code;
}

int cli_devices(const cli_args *args)
{
    cli_report r = cli_report_begin(args);
    cli_put_open(&r, "devices", '[');
    kith_device device = {.struct_size = (uint32_t)sizeof device};
    for (int32_t i = 0; kith_device_get(i, &device) == KITH_OK; i++) {
        cli_tell_object(&r, "", "{name}: {text}\n", TEXT("name", device.name),
                        BOOL("available", device.available != 0), TEXT("text", device.text));
    }
    cli_put_close(&r, ']');
    cli_report_end(&r);
    return CLI_DONE;
}
