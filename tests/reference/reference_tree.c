/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference.h"

const kin_tree_kernels reference_tree = {0};
