/* SPDX-License-Identifier: Apache-2.0
 * Whether a file can be written, asked before the long computation. The library writes it, whole
 * or not at all. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

#define CLI_ENDINGS_RESULT ".npz .ivecs .ibin .knn .kith .csv .tsv"
#define CLI_ENDINGS_RANGES ".npz .kith .csv .tsv"
#define CLI_ENDINGS_SELECTION ".npz"
#define CLI_ENDINGS_KTH ".npy"
#define CLI_ENDINGS_TREE ".kith"
#define CLI_ENDINGS_PAIRS ".ivecs .ibin .csv .tsv"
#define CLI_ENDINGS_DISTANCES ".fbin .fvecs .npy"
#define CLI_ENDINGS_PREDICTION ".npy .csv .tsv .fbin"
#define CLI_ENDINGS_CLASSES ".npy .csv .tsv .fbin .ibin"
#define CLI_ENDINGS_MAP ".ibin .npy .csv .tsv"
#define CLI_ENDINGS_POINTS ".fvecs .bvecs .ivecs .fbin .u8bin .i8bin .ibin .npy .csv .tsv .kith"

/* Exit code. A NULL path is fine; "-" is where the answer may be text, .csv. endings: what the name
 * may end in, NULL = anything, because the format was given. */
int cli_output_check(const char *path, const char *endings);
/* Whether this is standard output, "-". */
bool cli_output_is_standard(const char *path);
/* An answer went to path: where that is standard output, the report goes to standard error. */
void cli_output_step_aside(const char *path);
/* That two outputs are not one file under two names; NULL is fine. */
int cli_output_check_other(const char *path, const char *other);
/* That an output is not one of the inputs under this or another name. */
int cli_output_check_input(const char *path, const char *input);
/* Whether the name ends in one of the endings, ".npz .ivecs". */
bool cli_output_ends(const char *path, const char *endings);

#endif
