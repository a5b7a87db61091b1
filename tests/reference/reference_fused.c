/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference.h"

const kin_fused_kernels reference_fused = {0};
