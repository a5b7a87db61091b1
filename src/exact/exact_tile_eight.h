/* SPDX-License-Identifier: Apache-2.0
 * How AMX's tiles are laid out, here and in graph/: eight of 16 rows x 64 bytes. Private to
 * *_amx.c, and short because the two have nothing else in common. */
#ifndef KIN_EXACT_TILE_EIGHT_H
#define KIN_EXACT_TILE_EIGHT_H

#include <stdint.h>

typedef struct __attribute__((packed)) tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* In static memory: the compiler's ldtilecfg names only the first bytes of its operand as read, and
 * may drop what was stored into the rest of a local one. */
static const tile_config eight_tiles = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

#endif
