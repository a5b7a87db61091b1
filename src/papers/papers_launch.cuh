/* SPDX-License-Identifier: Apache-2.0
 * The launches of the methods of selection that papers have, as select_launch.cuh has ours. */
#ifndef KIN_PAPERS_LAUNCH_CUH
#define KIN_PAPERS_LAUNCH_CUH

#include "kith/kith_papers.h"
#include "select/select_launch.cuh"

#define KIN_PAPERS_LAUNCH_ROW(NAME, number, name, switches) KIN_SELECT_LAUNCH(kin_papers_##name)
KITH_PAPERS_SELECT_MAP(KIN_PAPERS_LAUNCH_ROW)

#endif
