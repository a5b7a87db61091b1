/* SPDX-License-Identifier: Apache-2.0
 * The public functions with any arguments: the input's bytes are the decisions of tests/soak, which
 * function is called with what, how much of it nonsense. Each call ends in a status. */
#include "replay_file.h"
#include "soak/soak_calls.h"

const char *const fuzz_extensions[] = {"calls", NULL};

enum { CALLS_MOST = 6, SEEDS = 24, SEED_BYTES = 200, SPOILS = 12 };

/* Any bytes will do. */
int fuzz_seed(int extension, int i, const char *path)
{
    uint8_t bytes[SEED_BYTES];
    uint64_t value = (uint64_t)i + 1;
    (void)extension;
    (void)path;
    for (int j = 0; j < SEED_BYTES; j++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        bytes[j] = (uint8_t)(value >> 56);
    }
    (void)fuzz_put("f.calls", bytes, sizeof bytes);
    return i < SEEDS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static soak s;
    if (bytes == 0) {
        return 0;
    }
    memset(&s, 0, sizeof s);
    s.from = (soak_source){.data = data + 1, .bytes = bytes - 1, .spoils = SPOILS};
    soak_start(&s, 1);
    for (int i = 0; i < CALLS_MOST && s.from.bytes > 0; i++) {
        soak_call_any(&s);
    }
    soak_end(&s);
    return 0;
}
