/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support_sets.h"

double test_stored(const kin_set *set, int64_t position, int32_t i)
{
    const kin_tile_type type = set->frame->kernel->type;
    const int32_t size = kin_tile_group_size(type);
    const int64_t panel = position / KIN_PANEL;
    const int64_t at = (panel * set->frame->groups + i / size) * KIN_PANEL + position % KIN_PANEL;
    kin_word w = {.u = set->panels[at]};
    switch (type) {
    case KIN_TILE_S8:
        return (double)(w.u >> (8 * (i % 4)) & 0xff) - 128.0;
    case KIN_TILE_S16:
        return (double)(int16_t)(w.u >> (16 * (i % 2)) & 0xffff);
    case KIN_TILE_BF16:
        w.u = i % 2 == 0 ? w.u << 16 : w.u & 0xffff0000u;
        return (double)w.f;
    default:
        return (double)w.f;
    }
}

/* Stored bytes of u8 are moved by 128, which a product must see. */
double test_plain_cost(const kin_set *rows, int64_t row, const kin_set *points, int64_t point)
{
    const kin_frame *frame = points->frame;
    const bool product =
        kin_metric_get_traits(frame->distance.metric)->screen == KIN_SCREEN_PRODUCT;
    const bool moved = frame->bound == KIN_BOUND_INTEGER && points->rows->matrix.dtype == KITH_U8;
    const double shift = moved ? 128.0 : 0.0;
    double dot = 0.0;
    double square = 0.0;
    for (int32_t i = 0; i < frame->cols; i++) {
        const double x = test_stored(rows, row, i) + shift;
        const double y = test_stored(points, point, i) + shift;
        dot += x * y;
        square += (x - y) * (x - y);
    }
    return product ? -2.0 * dot : square;
}
