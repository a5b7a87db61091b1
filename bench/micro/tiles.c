/* SPDX-License-Identifier: Apache-2.0
 * How fast the tile kernels multiply when nothing survives: one line for each kernel that the
 * processor has and each shape. Those in portable C take minutes, and run where the second argument
 * is "portable". Run: build/bench_tiles [block rows [portable]] */
#include "host/host_clock.h"
#include "host/host_cpu.h"
#include "screen/screen_tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLS = 480, RUNS = 5 };

typedef struct fixture {
    uint32_t *panels;
    uint32_t *rows;
    kin_word *words; /* all terms and limits: zero, but for the tests */
    kin_word *halves;
} fixture;

static void *aligned(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block == NULL) {
        (void)fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(block, 1, bytes);
    return block;
}

static double seconds_of(const kin_tile_kernel *kernel, const kin_tile_job *job, int32_t chunk)
{
    kin_tile_job part = *job;
    const int64_t start = kin_clock_ns();
    for (int32_t panel = 0; panel < COLS / KIN_PANEL; panel += chunk) {
        part.first_panel = panel;
        part.panel_count = chunk;
        kernel->run(&part);
    }
    return kin_clock_since(start);
}

static void measure(const kin_tile_kernel *kernel, int32_t cols, int32_t block, int32_t chunk)
{
    const int32_t size = kin_tile_group_size(kernel->type);
    const int32_t step = kernel->group_step;
    const int32_t groups = ((cols + size - 1) / size + step - 1) / step * step;
    const size_t widest = (size_t)(block > COLS ? block : COLS);
    fixture f = {.panels = aligned(widest * (size_t)groups * 4),
                 .rows = aligned(widest * (size_t)groups * 4),
                 .words = aligned(2 * widest * sizeof(kin_word)),
                 .halves = aligned(2 * widest * sizeof(kin_word))};
    kin_word *test = aligned(2 * widest * sizeof(kin_word));
    memset(f.words, 0, 2 * widest * sizeof(kin_word));
    memset(f.panels, 0, widest * (size_t)groups * 4);
    kernel->pack(f.panels, groups, block, f.rows);
    for (size_t i = 0; i < 2 * widest; i++) { /* nobody passes */
        if (kin_tile_is_float(kernel->type)) {
            f.halves[i].f = -0.5F * KIN_LIMIT_ALL_F;
        } else {
            f.halves[i].i = KIN_LIMIT_NONE / 2;
        }
    }
    kin_tile_log log = {0};
    const kin_tile_job job = {.rows = f.rows,
                              .panels = f.panels,
                              .groups = groups,
                              .row_count = block,
                              .real_rows = block,
                              .half_term = f.words,
                              .row_term = f.words,
                              .row_limit = f.halves,
                              .row_half = f.halves,
                              .start = f.words,
                              .odd = f.words,
                              .col_limit = f.halves,
                              .panel_half = f.halves,
                              .test = test,
                              .row_log = &log};
    const double products = (double)block * COLS * cols;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const int32_t times = 1 + (int32_t)(2e9 / products);
        double seconds = 0.0;
        for (int32_t i = 0; i < times; i++) {
            seconds += seconds_of(kernel, &job, chunk);
        }
        best = seconds / times < best ? seconds / times : best;
    }
    printf("%-16s d %4d block %4d chunk %2d: %7.1f GMAC/s\n", kernel->name, (int)cols, (int)block,
           (int)chunk, products / best * 1e-9);
    free(test);
    free(f.halves);
    free(f.words);
    free(f.rows);
    free(f.panels);
}

int main(int argc, char **argv)
{
    static const int32_t shapes[] = {784, 128, 960};
    const int32_t block = argc > 1 ? (int32_t)atoi(argv[1]) : COLS;
    const int first = argc > 2 && strcmp(argv[2], "portable") == 0 ? 0 : KIN_ISA_PORTABLE + 1;
    for (int isa = first; isa < KIN_ISA_COUNT; isa++) {
        for (int type = 0; type < KIN_TILE_TYPES; type++) {
            const kin_tile_kernel *kernel = kin_tile_get((kin_isa)isa, (kin_tile_type)type);
            if (!kin_cpu_has((kin_isa)isa) || kernel == NULL || kernel->isa != (kin_isa)isa) {
                continue;
            }
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                measure(kernel, shapes[i], block, 2);
                measure(kernel, shapes[i], block, 10);
            }
        }
    }
    return 0;
}
