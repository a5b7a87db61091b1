/* SPDX-License-Identifier: Apache-2.0
 * Every reader of neighbours: a file of any bytes gives tables that can be read whole, or an error
 * that names it. */
#include "replay_file.h"

const char *const fuzz_extensions[] = {"npz", "ivecs", "ibin", "knn", "kith", NULL};
enum { COUNT = sizeof fuzz_extensions / sizeof fuzz_extensions[0] - 1 };

static uint32_t touch(const kith_result *result)
{
    const kith_neighbors *n = kith_result_neighbors(result);
    const int64_t corpus = kith_result_neighbors(result)->meta->corpus_rows;
    uint32_t sum = 0;
    fuzz_require(n->rows >= 1 && n->k >= 1 && n->ids != NULL, "a sane shape");
    for (int64_t i = 0; i < n->rows * n->k; i++) {
        fuzz_require(corpus == 0 || n->ids[i] == KITH_ID_NONE || (int64_t)n->ids[i] < corpus,
                     "ids within the corpus");
        sum += n->ids[i];
        uint32_t bits = 0;
        if (n->distances != NULL) {
            memcpy(&bits, &n->distances[i], sizeof bits);
        }
        if (n->distances64 != NULL) {
            memcpy(&bits, &n->distances64[i], sizeof bits);
        }
        sum ^= bits;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    kith_ctx *ctx = fuzz_ctx();
    const char *path = fuzz_file(fuzz_extensions[data[0] % COUNT], data + 1, bytes - 1);
    kith_result *result = NULL;
    const kith_status status = kith_result_open(ctx, path, &result);
    fuzz_require((status == KITH_OK) == (result != NULL), "a result exactly when it succeeds");
    if (status == KITH_OK) {
        fuzz_kept = touch(result);
    } else {
        fuzz_blames(status, path);
    }
    kith_result_free(result);
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    (void)kith_file_inspect(ctx, path, NULL, &info);
    return 0;
}
