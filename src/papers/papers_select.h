/* SPDX-License-Identifier: Apache-2.0
 * The methods of selection that papers have and `auto` never takes, as rows for those who may be
 * asked for one (api/). */
#ifndef KIN_PAPERS_SELECT_H
#define KIN_PAPERS_SELECT_H

#include "kith/kith_papers.h"
#include "select/select_body.h"

/* papers_insertion.c, papers_heap.c, papers_merge_queue.c (switches buffer and group; aligned means
 * nothing where a row has one thread), papers_bitonic.c, papers_threshold_heap.c */
#define KIN_PAPERS_DECLARE(NAME, number, name, switches) \
    const kin_select_body *kin_papers_##name(kin_isa isa);
KITH_PAPERS_SELECT_MAP(KIN_PAPERS_DECLARE)
#undef KIN_PAPERS_DECLARE

/* The papers', or else ours; NULL where the number is neither's. */
const kin_select_method *kin_papers_select_method(kith_select_method number);

#endif
