/* SPDX-License-Identifier: Apache-2.0
 * For libFuzzer: every second mutant gets its checksums in order, or nearly none would come past
 * them. */
#include "replay_file.h"
#include "replay_repair.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
    size_t count = 0;
    while (fuzz_extensions[count] != NULL) {
        count++;
    }
    const size_t now = LLVMFuzzerMutate(data, bytes, most);
    if (now > 1 && seed % 2 == 0) {
        fuzz_repair(fuzz_extensions[data[0] % count], data + 1, now - 1);
    }
    return now;
}
