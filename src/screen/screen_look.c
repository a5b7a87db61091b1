/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs whose shadows pass are looked at in full. They are dealt out by rows, so that several
 * points share a row's loads (screen_tile_lines.inc). */
#include "screen/screen.h"

static bool is_padding(const kin_look_blocks *at, uint32_t pair)
{
    return at->first_row + (pair >> 16) >= at->rows->points ||
           at->first_point + (pair & 0xffff) >= at->points->points;
}

/* Counting sort by row: begin[r] is where row r's pairs end afterwards, begin[r - 1] where they
 * begin. Returns how many there are. */
static int64_t sort_by_row(const kin_look *look, const kin_look_blocks *at, const kin_tile_log *log)
{
    int64_t count = 0;
    memset(look->begin, 0, (size_t)(at->block + 1) * sizeof *look->begin);
    for (int64_t i = 0; i < log->count; i++) {
        look->begin[(log->pair[i] >> 16) + 1] += !is_padding(at, log->pair[i]);
    }
    for (int64_t r = 0; r < at->block; r++) {
        look->begin[r + 1] += look->begin[r];
    }
    for (int64_t i = 0; i < log->count; i++) {
        if (!is_padding(at, log->pair[i])) {
            look->pairs[look->begin[log->pair[i] >> 16]++] = log->pair[i];
            count += 1;
        }
    }
    return count;
}

/* As the tile kernels have it (screen_tile_hit.h). */
static int32_t order_of_cost(const kin_set *rows, const kin_set *points, int64_t row, int64_t point,
                             kin_word product)
{
    if (kin_tile_is_float(rows->frame->kernel->type)) {
        const float acc = product.f + points->start[point].f;
        return kin_order_float(rows->row_term[row].f - 2.0F * acc);
    }
    const uint32_t acc = product.u + points->start[point].u;
    return (int32_t)(rows->row_term[row].u + points->odd[point].u - 2 * acc);
}

static void cost_row(const kin_look *look, const kin_look_blocks *at, int64_t first, int64_t last,
                     int64_t count, kin_tile_log *log)
{
    const kin_tile_kernel *kernel = at->rows->frame->kernel;
    const int64_t row = at->first_row + (look->pairs[first] >> 16);
    const kin_line_job job = {.row = at->rows->lines + row * at->rows->line,
                              .lines = at->points->lines + at->first_point * at->points->line,
                              .which = look->which + first,
                              .count = last - first,
                              .behind = count - last,
                              .words = at->points->line,
                              .product = look->product + first};
    kernel->lines(&job);
    for (int64_t i = first; i < last; i++) {
        const int64_t point = at->first_point + look->which[i];
        log->order[i] = order_of_cost(at->rows, at->points, row, point, look->product[i]);
        log->pair[i] = look->pairs[i];
    }
}

void kin_look_costs(const kin_look *look, const kin_look_blocks *at, kin_tile_log *log)
{
    const int64_t count = sort_by_row(look, at, log);
    int64_t first = 0;
    for (int64_t i = 0; i < count; i++) {
        look->which[i] = (uint16_t)(look->pairs[i] & 0xffff);
    }
    while (first < count) {
        const int64_t last = look->begin[look->pairs[first] >> 16];
        cost_row(look, at, first, last, count, log);
        first = last;
    }
    log->count = count;
}

void kin_look_name(kin_layout *layout, int64_t block, int64_t most, kin_look *look)
{
    look->most = most;
    look->begin = kin_layout_array(layout, (uint64_t)block + 1, sizeof *look->begin);
    look->pairs = kin_layout_array(layout, (uint64_t)most, sizeof *look->pairs);
    look->which = kin_layout_array(layout, (uint64_t)most, sizeof *look->which);
    look->product = kin_layout_array(layout, (uint64_t)most, sizeof *look->product);
}
