/* SPDX-License-Identifier: Apache-2.0
 * Which body runs on which instruction set. The level is the context's, so nothing here is global
 * state; that the processor has it was checked when the context was made. */
#include "metric/metric_table.h"

#include "host/host_cpu.h"

const kin_metric_table *kin_metric_pick(kin_isa isa)
{
#if defined(__x86_64__)
    if (kin_isa_includes(isa, KIN_ISA_AVX512)) {
        return &kin_metric_table_avx512;
    }
    if (kin_isa_includes(isa, KIN_ISA_AVX2)) {
        return &kin_metric_table_avx2;
    }
#endif
    (void)isa;
    return &kin_metric_table_portable;
}
