/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference.h"

const kin_select_kernels reference_select[16] = {{0}};
