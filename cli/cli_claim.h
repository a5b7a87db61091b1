/* SPDX-License-Identifier: Apache-2.0
 * What a file says of its neighbours, and of which points: looked at, printed, found out. */
#ifndef CLI_CLAIM_H
#define CLI_CLAIM_H

#include "cli_json.h"
#include "cli_session.h"

/* These return an exit code, and have printed why when it is not CLI_DONE. */

/* The fingerprint of points. */
int cli_claim_make(cli_session *session, const cli_points *points, kith_fingerprint *out);
/* Whether a graph, or a result, is of these points, as far as its file says: they are read only
 * where it does. */
int cli_claim_check(cli_session *session, const char *path, const kith_result_meta *meta,
                    const cli_points *points);

/* "60,000 x 784 float32, 5f3a0c1d": the first half of the checksum is enough for a person. */
enum { CLI_CLAIM_BYTES = 96 };
const char *cli_claim_name(const kith_fingerprint *points, char text[CLI_CLAIM_BYTES]);
bool cli_claim_equal(const kith_fingerprint *a, const kith_fingerprint *b);

/* "exact: certified (of 60,000 x 784 float32, 5f3a0c1d)", "approximate: of ...", "exact: unknown
 * (of
 * ...)"; without the points where they are not known. */
void cli_claim_print(kith_exactness exact, const kith_fingerprint *points);
/* "exact": true, false or null, and "points". */
void cli_claim_put(kith_exactness exact, const kith_fingerprint *points, cli_json *json);
/* " (.ivecs does not say metric, exactness and points)", or "". */
const char *cli_claim_lost(const char *path, kith_format format);

/* "60,000" */
enum { CLI_GROUPED_BYTES = 32 };
const char *cli_claim_grouped(int64_t number, char text[CLI_GROUPED_BYTES]);

#endif
