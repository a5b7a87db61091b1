/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile uint32_t fuzz_kept;
static char folder[256];
static char path[320];

static void remove_all(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

const char *fuzz_file(const char *extension, const uint8_t *data, size_t bytes)
{
    if (folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        (void)snprintf(folder, sizeof folder, "%s/kith-fuzz-XXXXXX", base != NULL ? base : "/tmp");
        fuzz_require(mkdtemp(folder) != NULL, "a folder can be made");
        (void)atexit(remove_all);
    }
    if (path[0] != '\0') {
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/f.%s", folder, extension);
    FILE *file = fopen(path, "wb");
    fuzz_require(file != NULL, "a file can be made");
    fuzz_require(fwrite(data, 1, bytes, file) == bytes, "a file can be written");
    fuzz_require(fclose(file) == 0, "a file can be closed");
    return path;
}

kith_ctx *fuzz_ctx(void)
{
    static kith_ctx *ctx;
    if (ctx == NULL) {
        kith_ctx_params params = kith_ctx_params_default();
        params.threads = 1;
        params.memory_limit = 64 << 20;
        fuzz_require(kith_ctx_create(&params, &ctx) == KITH_OK, "a context can be made");
    }
    return ctx;
}

void fuzz_require(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "violated: %s (input kept in %s)\n", what, path);
        abort();
    }
}
