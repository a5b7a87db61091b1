/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_claim.h"

#include "cli.h"
#include "cli_message.h"
#include "cli_output.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHORT_BITS = 32 };

const char *cli_claim_grouped(int64_t number, char text[CLI_GROUPED_BYTES])
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, number);
    int used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *cli_claim_name(const kith_fingerprint *points, char text[CLI_CLAIM_BYTES])
{
    char rows[CLI_GROUPED_BYTES];
    (void)snprintf(text, CLI_CLAIM_BYTES, "%s x %" PRId32 " %s, %08" PRIx32,
                   cli_claim_grouped(points->rows, rows), points->cols,
                   kith_dtype_name(points->dtype), (uint32_t)(points->checksum >> SHORT_BITS));
    return text;
}

int cli_claim_make(cli_session *session, const cli_points *points, kith_fingerprint *out)
{
    return cli_session_check(session, kith_fingerprint_make(session->ctx, points->matrix, out),
                             points->path);
}

bool cli_claim_equal(const kith_fingerprint *a, const kith_fingerprint *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->dtype == b->dtype &&
           a->checksum == b->checksum;
}

int cli_claim_check(cli_session *session, const char *path, const kith_result_meta *meta,
                    const cli_points *points)
{
    char texts[2][CLI_CLAIM_BYTES];
    kith_fingerprint given;
    if (meta->points.rows == 0) {
        return CLI_DONE;
    }
    const int code = cli_claim_make(session, points, &given);
    if (code != CLI_DONE || cli_claim_equal(&meta->points, &given)) {
        return code;
    }
    return cli_fail(path,
                    "was made of points %s, %s holds %s (give the points that it was made of, in "
                    "their type)",
                    cli_claim_name(&meta->points, texts[0]), points->path,
                    cli_claim_name(&given, texts[1]));
}

void cli_claim_print(kith_exactness exact, const kith_fingerprint *points)
{
    char text[CLI_CLAIM_BYTES];
    const bool known = points->rows > 0;
    const char *name = known ? cli_claim_name(points, text) : "";
    if (exact == KITH_APPROXIMATE) {
        (void)printf("approximate%s%s\n", known ? ": of " : "", name);
    } else {
        (void)printf("exact: %s%s%s%s\n", exact == KITH_CERTIFIED ? "certified" : "unknown",
                     known ? " (of " : "", name, known ? ")" : "");
    }
}

void cli_claim_put(kith_exactness exact, const kith_fingerprint *points, cli_json *json)
{
    char text[CLI_CLAIM_BYTES];
    if (exact == KITH_EXACTNESS_UNKNOWN) {
        cli_json_text(json, "exact", NULL);
    } else {
        cli_json_bool(json, "exact", exact == KITH_CERTIFIED);
    }
    if (points->rows > 0) {
        cli_json_open(json, "points");
        cli_json_int(json, "rows", points->rows);
        cli_json_int(json, "cols", points->cols);
        cli_json_text(json, "dtype", kith_dtype_name(points->dtype));
        (void)snprintf(text, sizeof text, "%016" PRIx64, points->checksum);
        cli_json_text(json, "checksum", text);
        cli_json_close(json);
    }
}

const char *cli_claim_lost(const char *path, kith_format format)
{
    const bool plain = format == KITH_FORMAT_AUTO
                           ? cli_output_ends(path, ".ivecs .ibin .knn .csv .tsv")
                           : format == KITH_FORMAT_IVECS || format == KITH_FORMAT_IBIN ||
                                 format == KITH_FORMAT_KNN;
    return plain ? " (this format does not say metric, exactness and points)" : "";
}
