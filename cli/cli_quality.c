/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_quality.h"

#include "cli.h"
#include "cli_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

/* How many pairs of parts became one; -1: an id is no row, and `row` says where. */
static int64_t count(const kith_neighbors *graph, const counted *c, int64_t *row)
{
    int64_t joined = 0;
    for (*row = 0; *row < graph->rows; *row += 1) {
        for (int64_t i = 0; i < graph->k; i++) {
            const uint32_t id = graph->ids[*row * graph->k + i];
            if (id == KITH_ID_NONE) {
                continue;
            }
            if ((int64_t)id >= graph->rows) {
                return -1;
            }
            const uint32_t a = lead_of(c->leader, (uint32_t)*row);
            const uint32_t b = lead_of(c->leader, id);
            c->leader[a > b ? a : b] = a > b ? b : a;
            c->named[id] += (int64_t)id != *row;
            joined += a != b;
        }
    }
    return joined;
}

static int by_size(const void *a, const void *b)
{
    const uint32_t *left = a;
    const uint32_t *right = b;
    return (*left > *right) - (*left < *right);
}

static int measure(const char *path, const kith_neighbors *graph, const counted *c,
                   cli_quality *quality)
{
    int64_t row = 0;
    for (int64_t i = 0; i < graph->rows; i++) {
        c->leader[i] = (uint32_t)i;
    }
    const int64_t joined = count(graph, c, &row);
    if (joined < 0) {
        return cli_fail(path,
                        "row %" PRId64 " names a row that there is not, of %" PRId64
                        " (the file is damaged, or no graph)",
                        row, graph->rows);
    }
    qsort(c->named, (size_t)graph->rows, sizeof *c->named, by_size);
    quality->rows = graph->rows;
    quality->parts = graph->rows - joined;
    quality->in_least = c->named[0];
    quality->in_median = c->named[(graph->rows - 1) / 2];
    quality->in_most = c->named[graph->rows - 1];
    while (quality->unnamed < graph->rows && c->named[quality->unnamed] == 0) {
        quality->unnamed += 1;
    }
    return CLI_DONE;
}

static int measure_open(const char *path, const kith_result *result, cli_quality *quality)
{
    const kith_neighbors *graph = kith_result_neighbors(result);
    if (graph->rows < 1) {
        return CLI_DONE;
    }
    const counted c = {calloc((size_t)graph->rows, sizeof *c.named),
                       malloc((size_t)graph->rows * sizeof *c.leader)};
    const int code = c.named != NULL && c.leader != NULL
                         ? measure(path, graph, &c, quality)
                         : cli_fail(path, "no memory to count who is named (8 bytes a row)");
    free(c.leader);
    free(c.named);
    return code;
}

int cli_quality_measure(cli_session *session, const char *path, cli_quality *quality)
{
    kith_result *result = NULL;
    int code = cli_session_check(session, kith_result_open(session->ctx, path, &result), path);
    *quality = (cli_quality){0};
    if (code == CLI_DONE) {
        code = measure_open(path, result, quality);
    }
    kith_result_free(result);
    return code;
}

void cli_quality_print(const cli_quality *quality)
{
    if (quality->rows > 0) {
        (void)printf("named by: %" PRId64 " to %" PRId64 " rows, median %" PRId64
                     "; by nobody: %" PRId64 " rows\nconnected parts: %" PRId64 "\n",
                     quality->in_least, quality->in_most, quality->in_median, quality->unnamed,
                     quality->parts);
    }
}

void cli_quality_put(const cli_quality *quality, cli_json *json)
{
    if (quality->rows > 0) {
        cli_json_open(json, "in_degree");
        cli_json_int(json, "least", quality->in_least);
        cli_json_int(json, "median", quality->in_median);
        cli_json_int(json, "most", quality->in_most);
        cli_json_int(json, "none", quality->unnamed);
        cli_json_close(json);
        cli_json_int(json, "parts", quality->parts);
    }
}
