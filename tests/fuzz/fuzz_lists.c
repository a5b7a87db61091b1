/* SPDX-License-Identifier: Apache-2.0
 * Lists that the command line reads: ids of points that leave (kith remove), labels of a catalogue
 * and its truth (kith predict). Any file gives numbers in their range, or one line on why not. */
#include "../../cli/cli.h"
#include "../../cli/cli_session.h"
#include "replay_file.h"

#include <stdlib.h>

const char *const fuzz_extensions[] = {"csv",  "tsv",   "npy",   "ivecs", "ibin", "u8bin",
                                       "fbin", "i8bin", "fvecs", "bvecs", "kith", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };
enum { POINTS = 12, LABELS = 5 };

static char line[CLI_LINE_BYTES];

/* Ids, and a column of labels, of every type. */
int fuzz_seed(int extension, int i, const char *path)
{
    static const uint8_t bytes[LABELS] = {1, 0, 11, 7, 3};
    static const float floats[LABELS] = {0.5F, -1.0F, 3e30F, 4.0F, 0.0F};
    static const double doubles[LABELS] = {1.0, 0.0, 11.0, 5.0, 4.0};
    const kith_matrix columns[] = {{bytes, LABELS, 0, 1, KITH_U8},
                                   {floats, LABELS, 0, 1, KITH_F32},
                                   {doubles, LABELS, 0, 1, KITH_F64}};
    (void)extension;
    if (i == 3) {
        return 0;
    }
    if (kith_points_save(fuzz_ctx(), path, &columns[i]) != KITH_OK) {
        (void)fuzz_put("f.csv", (const uint8_t *)"1\n2\n", 4);
        (void)fuzz_put(strrchr(path, '/') + 1, bytes, sizeof bytes);
    }
    return 1;
}

/* A line for a terminal: one, that ends, and holds nothing but letters. */
static void check_line(void)
{
    const char *end = memchr(line, '\0', sizeof line);
    fuzz_require(end != NULL && end > line, "a refusal is explained");
    for (const char *c = line; c < end; c++) {
        fuzz_require((unsigned char)*c >= 0x20 && *c != 0x7f, "the line moves no cursor");
    }
}

static void read_ids(cli_session *session, const char *path)
{
    cli_ids ids = {.count = 0};
    line[0] = '\0';
    const int code = cli_ids_read(session, path, "points", POINTS, &ids);
    for (int64_t i = 0; code == CLI_DONE && i < ids.count; i++) {
        fuzz_require(ids.values[i] < POINTS, "ids are rows");
    }
    if (code != CLI_DONE) {
        check_line();
    }
}

static void read_labels(cli_session *session, const char *path)
{
    cli_numbers labels = {.count = 0};
    const kith_matrix matrix = {.rows = LABELS};
    const cli_points of = {.path = "points", .matrix = &matrix};
    line[0] = '\0';
    const int code = cli_column_read(session, path, &of, &labels);
    for (int64_t i = 0; code == CLI_DONE && i < labels.count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &labels.values[i], sizeof bits);
        fuzz_kept += (uint32_t)bits;
    }
    fuzz_require(code != CLI_DONE || labels.count == LABELS, "a label for each row");
    if (code != CLI_DONE) {
        check_line();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    cli_session session;
    memset(&session, 0, sizeof session);
    session.ctx = fuzz_ctx();
    cli_message_keep(line);
    const char *path = fuzz_file(fuzz_extensions[data[0] % COUNT], data + 1, bytes - 1);
    read_ids(&session, path);
    read_labels(&session, path);
    session.ctx = NULL; /* that of all inputs stays */
    cli_session_close(&session);
    cli_keep_end();
    return 0;
}
