/* SPDX-License-Identifier: Apache-2.0
 * The word of a rank, where no two words are equal. */
#ifndef KIN_TREE_MEDIAN_H
#define KIN_TREE_MEDIAN_H

#include <stdint.h>

/* What sorting would put at words[rank]. The words are shuffled. 0 <= rank < count. */
uint64_t kin_tree_median(uint64_t *words, int64_t count, int64_t rank);

#endif
