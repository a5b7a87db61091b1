/* SPDX-License-Identifier: Apache-2.0
 * Short lists in order, in plain C. Contract: descent_kernel.h. How far a word goes is hard to
 * guess: where it stands is counted, not searched. */
#include "descent/descent_kernel.h"

void kin_descent_put_portable(uint64_t *words, int64_t length, uint64_t word)
{
    int64_t at = 0;
    for (int64_t i = 0; i < length; i++) {
        at += words[i] < word;
    }
    if (at == length || words[at] == word) {
        return;
    }
    for (; at < length; at++) {
        const uint64_t next = words[at];
        words[at] = word;
        word = next;
    }
}
