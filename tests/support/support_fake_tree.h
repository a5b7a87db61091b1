/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the tree on the device of support_fake_gpu.h, in plain C: every list has what the
 * bounds ask for, no box is looked at. */
#ifndef SUPPORT_FAKE_TREE_H
#define SUPPORT_FAKE_TREE_H

#include "tree/tree_kernels.h"

extern const kin_tree_kernels test_fake_tree;
/* Every third list loses something where it has room for so many candidates or fewer. */
extern int32_t test_fake_tree_loses;

#endif
