/* SPDX-License-Identifier: Apache-2.0
 * Whether a file can be written, asked before the long computation. The library writes it, whole
 * or not at all; a page in HTML, of which it knows nothing, is written here in the same way. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli_options.h"

#include <stdbool.h>

/* What a command writes some of the formats for that could hold it. */
#define CLI_ENDINGS_SELECTION ".npz"
#define CLI_ENDINGS_KTH ".npy"
#define CLI_ENDINGS_INDEX ".kith"
#define CLI_ENDINGS_TRUTH ".knn .ivecs .ibin .npz .kith .npy .hdf5"
#define CLI_ENDINGS_RANGES ".range .kith"
#define CLI_ENDINGS_WITHIN ".npy .kith .csv .tsv"
#define CLI_ENDINGS_PAIRS ".ivecs .ibin .csv .tsv"
#define CLI_ENDINGS_DISTANCES ".fbin .fvecs .npy"
#define CLI_ENDINGS_PREDICTION ".npy .csv .tsv .fbin"
#define CLI_ENDINGS_CLASSES ".npy .csv .tsv .fbin .ibin"
#define CLI_ENDINGS_MAP ".ibin .npy .csv .tsv"
#define CLI_ENDINGS_PAGE ".html .htm"

/* ".npz .ivecs ...": all formats that hold one of these, KITH_FILE_...; valid for some more calls.
 */
const char *cli_output_endings(unsigned holds);
/* What a file of this name holds; "-" is .csv, and a name of no format holds nothing. */
unsigned cli_output_holds(const char *path);

/* Exit code. A NULL path is fine; "-" is where the answer may be text, .csv. endings: what the name
 * may end in, NULL = anything, because the format was given. */
int cli_output_check(const char *path, const char *endings);
/* An answer went to path: where that is standard output, the report goes to standard error. */
void cli_output_step_aside(const char *path);
/* That two outputs are not one file under two names; NULL is fine. */
int cli_output_check_other(const char *path, const char *other);
/* That an output is not one of the inputs under this or another name. */
int cli_output_check_input(const char *path, const char *input);
/* All outputs of a command: each alone, against each input, and against each other. */
typedef struct cli_output {
    const char *path; /* NULL: there is none */
    const char *endings;
} cli_output;
int cli_output_check_all(const cli_output *outputs, int count, const char *const *inputs,
                         int input_count);
/* The same of all that options name. endings: of -o, where no --format is given. */
int cli_output_check_args(const cli_args *args, const char *endings);
/* The lines of a report, "key: value", as a page that needs no other file. Exit code. */
int cli_output_page(const char *path, const char *title, const char *lines);
/* Whether the name ends in one of the endings, ".npz .ivecs". */
bool cli_output_ends(const char *path, const char *endings);

/* ---- Whether a job is the same --------------------------------------------------------------- */

/* What a job's answer depends on beside its k, metric and format: the files that it reads, and the
 * radius. */

enum { CLI_SAME_BYTES = 1024 };

/* Lines of text, equal for equal jobs: of each file its size, when it was changed, and a checksum
 * of its beginning and end; kith's version. Exit code. */
int cli_same_describe(const cli_args *args, char text[CLI_SAME_BYTES]);
/* Appends the line of one file, called `what`; nothing for a NULL path. */
int cli_same_file(const char *what, const char *path, char *text, size_t room);

#endif
