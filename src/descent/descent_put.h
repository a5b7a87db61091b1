/* SPDX-License-Identifier: Apache-2.0
 * Short lists of words that are always in order. */
#ifndef KIN_DESCENT_DESCENT_PUT_H
#define KIN_DESCENT_DESCENT_PUT_H

#include "descent/descent_word.h"

/* Puts a word into `length` ascending ones, of which KIN_DESCENT_EMPTY are the last; what was last
 * goes. One that is there already, or comes behind all, stays out. What a list holds in the end
 * does not depend on the order in which words came. Most come near the end. */
static inline void kin_descent_put(uint64_t *words, int32_t length, uint64_t word)
{
    int32_t at = length;
    while (at > 0 && words[at - 1] > word) {
        at -= 1;
    }
    if (at == length || (at > 0 && words[at - 1] == word)) {
        return;
    }
    for (; at < length; at++) { /* in this direction no compiler makes a call of it */
        const uint64_t next = words[at];
        words[at] = word;
        word = next;
    }
}

#endif
