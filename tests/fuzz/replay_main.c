/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target without libFuzzer: on files given by name, or, without any, on mutants of
 * valid files that it makes itself, from a generator with a fixed start, so that a failure comes
 * again.
 *
 *     fuzz_points_replay [MUTANTS_PER_SEED | FILE ... | --seeds FOLDER]
 *
 * --seeds writes the valid files, for libFuzzer to begin with.
 */
#include "base/base_random.h"
#include "replay_file.h"
#include "replay_repair.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEED_BYTES_MAX = 1 << 16, SEEDS_MAX = 64, MUTANTS = 600, EDITS_MAX = 6 };

typedef struct seed {
    uint8_t *data; /* the extension's number, then the file */
    size_t bytes;
} seed;

static seed seeds[SEEDS_MAX];
static int seed_count;
static uint64_t generator = 20140811;

/* Takes the file as a seed for every extension that it may have been written for. */
static void take_seed(const char *path, int extension)
{
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL && seed_count < SEEDS_MAX, "a seed can be read");
    seed *s = &seeds[seed_count++];
    s->data = malloc(SEED_BYTES_MAX);
    fuzz_require(s->data != NULL, "memory for a seed");
    s->data[0] = (uint8_t)extension;
    s->bytes = 1 + fread(s->data + 1, 1, SEED_BYTES_MAX - 1, file);
    (void)fclose(file);
}

/* Saves a small matrix and small neighbours under each extension; those that a target's formats
 * cannot hold are passed over. */
static void make_seeds(void)
{
    static const uint8_t values[12] = {0, 1, 2, 3, 100, 127, 7, 8, 9, 10, 11, 12};
    static uint32_t ids[6] = {1, 2, 0, 2, 0, 1};
    static float distances[6] = {0.5F, 1, 1, 2, 2, 4};
    const kith_matrix points = {values, 4, 0, 3, KITH_U8};
    const kith_neighbors neighbors = {ids, distances, NULL, 3, 2, NULL};
    kith_result_meta meta = kith_result_meta_default();
    meta.metric = KITH_EUCLIDEAN;
    meta.kind = KITH_KIND_GRAPH;
    meta.exact = KITH_CERTIFIED;
    meta.points = (kith_fingerprint){.rows = 3, .cols = 4, .dtype = KITH_U8, .checksum = 77};
    meta.corpus_rows = 3;
    for (int i = 0; fuzz_extensions[i] != NULL; i++) {
        const char *path = fuzz_file(fuzz_extensions[i], values, 0);
        if (kith_points_save(fuzz_ctx(), path, &points) == KITH_OK) {
            take_seed(path, i);
        }
        if (kith_result_save(fuzz_ctx(), path, KITH_FORMAT_AUTO, &neighbors, &meta) == KITH_OK) {
            take_seed(path, i);
        }
        if (strcmp(fuzz_extensions[i], "npz") == 0 &&
            kith_result_save(fuzz_ctx(), path, KITH_FORMAT_CSR, &neighbors, &meta) == KITH_OK) {
            take_seed(path, i);
        }
        for (int j = 0; fuzz_seed(i, j, path); j++) {
            take_seed(path, i);
        }
    }
}

/* Numbers that break sums and products. */
static uint64_t nasty(void)
{
    static const uint64_t numbers[] = {0,          1,          0x7f,       0xff,
                                       0xffff,     0x7fffffff, 0x80000000, 0xffffffff,
                                       UINT64_MAX, INT64_MAX,  1u << 20,   (1u << 20) + 1};
    return numbers[kin_random_below(&generator, sizeof numbers / sizeof numbers[0])];
}

static void edit(uint8_t *data, size_t *bytes)
{
    const size_t at = 1 + (size_t)kin_random_below(&generator, *bytes);
    const size_t left = at < *bytes ? *bytes - at : 0;
    const size_t run = left > 0 ? (size_t)kin_random_below(&generator, left < 16 ? left : 16) : 0;
    const uint64_t number = nasty();
    switch (kin_random_below(&generator, 7)) {
    case 0: /* a bit */
        if (left > 0) {
            data[at] ^= (uint8_t)(1u << kin_random_below(&generator, 8));
        }
        break;
    case 1: /* a byte */
        if (left > 0) {
            data[at] = (uint8_t)kin_random_next(&generator);
        }
        break;
    case 2: /* a number of 4 or 8 bytes */
        if (left >= 8) {
            memcpy(data + at, &number, kin_random_below(&generator, 2) == 0 ? 4 : 8);
        }
        break;
    case 3: /* cut */
        *bytes = at;
        break;
    case 4: /* left out */
        memmove(data + at, data + at + run, left - run);
        *bytes -= run;
        break;
    case 5: /* doubled */
        if (*bytes + run < SEED_BYTES_MAX) {
            memmove(data + at + run, data + at, left);
            *bytes += run;
        }
        break;
    default: /* longer */
        if (*bytes < SEED_BYTES_MAX) {
            data[(*bytes)++] = (uint8_t)kin_random_next(&generator);
        }
        break;
    }
}

static int64_t run_mutants(int64_t each)
{
    static uint8_t data[SEED_BYTES_MAX];
    int64_t runs = 0;
    for (int s = 0; s < seed_count; s++) {
        (void)LLVMFuzzerTestOneInput(seeds[s].data, seeds[s].bytes);
        for (int64_t i = 0; i < each; i++, runs++) {
            size_t bytes = seeds[s].bytes;
            memcpy(data, seeds[s].data, bytes);
            const uint64_t edits = 1 + kin_random_below(&generator, EDITS_MAX);
            for (uint64_t e = 0; e < edits; e++) {
                edit(data, &bytes);
            }
            if (i % 2 == 0) {
                fuzz_repair(fuzz_extensions[data[0]], data + 1, bytes - 1);
            }
            (void)LLVMFuzzerTestOneInput(data, bytes);
        }
    }
    return runs;
}

static void run_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    fuzz_require(file != NULL, "the input can be read");
    const size_t bytes = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, bytes);
}

static void write_seeds(const char *folder)
{
    for (int i = 0; i < seed_count; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/seed-%02d", folder, i);
        FILE *file = fopen(path, "wb");
        fuzz_require(file != NULL &&
                         fwrite(seeds[i].data, 1, seeds[i].bytes, file) == seeds[i].bytes,
                     "a seed can be written");
        (void)fclose(file);
    }
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "--seeds") == 0) {
        make_seeds();
        write_seeds(arguments[2]);
        return 0;
    }
    const int64_t each = count == 2 ? strtoll(arguments[1], NULL, 10) : 0;
    if (count > 1 && each == 0) {
        for (int i = 1; i < count; i++) {
            run_file(arguments[i]);
        }
        return 0;
    }
    make_seeds();
    const int64_t runs = run_mutants(each > 0 ? each : MUTANTS);
    (void)printf("%lld mutants of %d valid files: each ended in a status\n", (long long)runs,
                 seed_count);
    for (int s = 0; s < seed_count; s++) {
        free(seeds[s].data);
    }
    kith_ctx_free(fuzz_ctx());
    return seed_count > 0 ? 0 : 1;
}
