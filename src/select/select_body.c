/* SPDX-License-Identifier: Apache-2.0
 * Every method of selection on the processor by its name. */
#include "select/select_body.h"

const kin_select_body *kin_select_body_for(kin_isa isa, kith_select_method method)
{
    switch (method) {
    case KITH_SELECT_INSERTION:
        return &kin_select_insertion;
    case KITH_SELECT_HEAP:
        return &kin_select_heap;
    case KITH_SELECT_MERGE_QUEUE:
        return &kin_select_merge_queue;
    case KITH_SELECT_QUICK:
        return &kin_select_quick;
    case KITH_SELECT_BITONIC:
        return &kin_select_bitonic;
    case KITH_SELECT_RADIX:
        return &kin_select_radix;
    case KITH_SELECT_THRESHOLD_HEAP:
        return &kin_select_threshold_heap;
    case KITH_SELECT_AUTO:
    case KITH_SELECT_SCAN:
        break;
    }
    return kin_select_scan_for(isa);
}
