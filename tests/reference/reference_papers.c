/* SPDX-License-Identifier: Apache-2.0 */
#include "reference/reference.h"

const kin_papers_kernels reference_papers = {0};
