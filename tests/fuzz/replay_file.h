/* SPDX-License-Identifier: Apache-2.0
 * What the fuzz targets of files share. The first byte of an input chooses the extension, the rest
 * is the file. tools/fuzz.sh builds them for libFuzzer; replay_main.c replays mutants without it.
 */
#ifndef REPLAY_FILE_H
#define REPLAY_FILE_H

#include "kith/kith.h"

/* One input: everything must end in a status. Returns 0, as libFuzzer wants. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The extensions that the target knows, by number; NULL behind the last. */
extern const char *const fuzz_extensions[];

/* Writes the i-th valid file, for that extension, that is neither points nor neighbours; false:
 * there are no more. A target of points or neighbours needs none of its own. */
int fuzz_seed(int extension, int i, const char *to);

/* Puts data into a file of that extension in a folder of this process; the name is valid until the
 * next call. Ends the program when the machine does not allow it. */
const char *fuzz_file(const char *extension, const uint8_t *data, size_t bytes);
/* The folder itself, which is removed with what is in it at the end. */
const char *fuzz_folder(void);
/* The same for a file of any name in it, which stays; and its path, valid for four more calls. */
const char *fuzz_put(const char *name, const uint8_t *data, size_t bytes);
const char *fuzz_path(const char *name);
/* Where a target puts what it has read, so that the reading is not left out. */
extern volatile uint32_t fuzz_kept;
/* One context for all inputs, with a memory limit: what asks for more is refused. */
kith_ctx *fuzz_ctx(void);
/* That an error begins with the file's path, unless it is of memory. */
void fuzz_blames(kith_status status, const char *file);
/* Ends the program, and keeps the file, unless the condition holds. */
void fuzz_require(int condition, const char *what);

#endif
