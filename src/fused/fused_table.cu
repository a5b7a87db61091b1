/* SPDX-License-Identifier: Apache-2.0
 * The table of launches, and the two choices that depend on the chip: which body of the screen a
 * device gets, and how far its tensor cores may be off. */
#include "fused/fused_kappa.h"
#include "fused/fused_launch.cuh"
#include "gpu/gpu_stream.cuh"

#include <stdlib.h>
#include <string.h>

/* wgmma exists on compute capability 9.0 alone (sm_90a is code for no other). */
bool kin_fused_launch_takes_starts(kin_gpu_stream *stream)
{
    return stream->major == 9 && stream->minor == 0;
}

/* KITH_GPU_UNIT=wgmma|mma is for comparison and tests. */
int kin_fused_launch_screen(kin_gpu_stream *stream, const kin_fused_screen *job)
{
    const char *wanted = getenv("KITH_GPU_UNIT");
    const bool has_wgmma = kin_fused_launch_takes_starts(stream);
    if (wanted == NULL || wanted[0] == '\0') {
        if (kin_fused_screen_is_few(job)) {
            return kin_fused_screen_few(stream, job);
        }
        return has_wgmma ? kin_fused_screen_wgmma(stream, job) : kin_fused_screen_mma(stream, job);
    }
    if (strcmp(wanted, "mma") == 0) {
        return kin_fused_screen_mma(stream, job);
    }
    if (strcmp(wanted, "wgmma") == 0) {
        return has_wgmma ? kin_fused_screen_wgmma(stream, job) : (int)cudaErrorNotSupported;
    }
    return (int)cudaErrorInvalidValue;
}

/* Both bodies of the screen meet the same unit. */
double kin_fused_launch_kappa(kin_gpu_stream *stream, int32_t cols)
{
    return kin_fused_unit_kappa(stream->major, cols);
}

/* By name: C++17 has no designators. */
static constexpr kin_fused_kernels make_table()
{
    kin_fused_kernels table = {};
    table.check = kin_fused_launch_check;
    table.transform = kin_fused_launch_transform;
    table.group = kin_fused_launch_group;
    table.measure = kin_fused_launch_measure;
    table.round = kin_fused_launch_round;
    table.cast = kin_fused_launch_cast;
    table.start = kin_fused_launch_start;
    table.cover = kin_fused_launch_cover;
    table.sort = kin_fused_launch_sort;
    table.keep = kin_fused_launch_keep;
    table.screen = kin_fused_launch_screen;
    table.kappa = kin_fused_launch_kappa;
    table.takes_starts = kin_fused_launch_takes_starts;
    table.look = kin_fused_launch_look;
    table.kth = kin_fused_launch_kth;
    table.gather = kin_fused_launch_gather;
    table.collect = kin_fused_launch_collect;
    table.tighten = kin_fused_launch_tighten;
    table.arrange = kin_fused_launch_arrange;
    table.plan = kin_fused_launch_plan;
    table.pack = kin_fused_launch_pack;
    table.accept = kin_fused_launch_accept;
    table.regroup = kin_fused_launch_regroup;
    table.spans = kin_fused_launch_spans;
    table.rescore = kin_fused_launch_rescore;
    table.write = kin_fused_launch_write;
    table.keys = kin_fused_launch_keys;
    table.best = kin_fused_launch_best;
    table.hits = kin_fused_launch_hits;
    table.within = kin_fused_launch_within;
    return table;
}

extern "C" const kin_fused_kernels kin_fused_table;
const kin_fused_kernels kin_fused_table = make_table();
