/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "replay_file.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

volatile uint32_t fuzz_kept;
static char folder[256];
static char path[320];

/* Nothing is brought to disk, which takes its time: no machine crashes here. */
int fsync(int file)
{
    (void)file;
    return 0;
}

int fdatasync(int file)
{
    (void)file;
    return 0;
}

static int remove_one(const char *name, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(name);
}

static void remove_all(void)
{
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void)
{
    if (folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        const char *quick = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        (void)snprintf(folder, sizeof folder, "%s/kith-fuzz-XXXXXX", base != NULL ? base : quick);
        fuzz_require(mkdtemp(folder) != NULL, "a folder can be made");
        (void)atexit(remove_all);
    }
    return folder;
}

static void put(const char *name, const uint8_t *data, size_t bytes)
{
    FILE *file = fopen(name, "wb");
    fuzz_require(file != NULL, "a file can be made");
    fuzz_require(fwrite(data, 1, bytes, file) == bytes, "a file can be written");
    fuzz_require(fclose(file) == 0, "a file can be closed");
}

const char *fuzz_file(const char *extension, const uint8_t *data, size_t bytes)
{
    (void)fuzz_folder();
    if (path[0] != '\0') {
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, "%s/f.%s", folder, extension);
    put(path, data, bytes);
    return path;
}

const char *fuzz_path(const char *name)
{
    static char paths[5][320];
    static int next;
    char *here = paths[next++ % 5];
    (void)snprintf(here, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    return here;
}

const char *fuzz_put(const char *name, const uint8_t *data, size_t bytes)
{
    const char *here = fuzz_path(name);
    put(here, data, bytes);
    return here;
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

__attribute__((weak)) int fuzz_seed(int extension, int i, const char *to)
{
    (void)extension;
    (void)i;
    (void)to;
    return 0;
}

void fuzz_blames(kith_status status, const char *file)
{
    fuzz_require(status == KITH_E_LIMIT || status == KITH_E_MEMORY ||
                     strncmp(kith_ctx_detail(fuzz_ctx()), file, strlen(file)) == 0,
                 "an error begins with the path");
}

void fuzz_require(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "violated: %s (input kept in %s)\n", what, path);
        abort();
    }
}
