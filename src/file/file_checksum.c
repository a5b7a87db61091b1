/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_checksum.h"

#include <string.h>

enum { LANES = 4, BLOCK = KIN_CHECKSUM_BLOCK };
static const uint64_t MULTIPLIER = 0x9e3779b97f4a7c15u; /* odd: 2^64 over the golden ratio */

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Whole blocks only. */
static void add_blocks(uint64_t lanes[LANES], const unsigned char *data, uint64_t blocks)
{
    uint64_t state[LANES];
    memcpy(state, lanes, sizeof state);
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t words[LANES];
        memcpy(words, data + i * BLOCK, sizeof words);
        for (int j = 0; j < LANES; j++) {
            state[j] = rotate_left(state[j] ^ words[j], 29) * MULTIPLIER;
        }
    }
    memcpy(lanes, state, sizeof state);
}

void kin_checksum_begin(kin_checksum *sum)
{
    memset(sum, 0, sizeof *sum);
    for (int j = 0; j < LANES; j++) {
        sum->lanes[j] = MULTIPLIER * (uint64_t)(j + 1);
    }
}

void kin_checksum_add(kin_checksum *sum, const void *data, uint64_t bytes)
{
    const unsigned char *from = data;
    const uint64_t waiting = sum->bytes % BLOCK;
    sum->bytes += bytes;
    if (waiting > 0) {
        const uint64_t room = BLOCK - waiting;
        const uint64_t piece = bytes < room ? bytes : room;
        memcpy(sum->tail + waiting, from, (size_t)piece);
        from += piece;
        bytes -= piece;
        if (piece < room) {
            return;
        }
        add_blocks(sum->lanes, sum->tail, 1);
    }
    add_blocks(sum->lanes, from, bytes / BLOCK);
    if (bytes % BLOCK > 0) {
        memcpy(sum->tail, from + bytes / BLOCK * BLOCK, (size_t)(bytes % BLOCK));
    }
}

uint64_t kin_checksum_end(kin_checksum *sum)
{
    const uint64_t waiting = sum->bytes % BLOCK;
    if (waiting > 0) {
        memset(sum->tail + waiting, 0, (size_t)(BLOCK - waiting));
        add_blocks(sum->lanes, sum->tail, 1);
    }
    uint64_t fold = sum->bytes;
    for (int j = 0; j < LANES; j++) {
        fold = rotate_left(fold ^ sum->lanes[j], 29) * MULTIPLIER;
    }
    fold ^= fold >> 32;
    fold *= MULTIPLIER;
    return fold ^ fold >> 29;
}

uint64_t kin_checksum_of(const void *data, uint64_t bytes)
{
    kin_checksum sum;
    kin_checksum_begin(&sum);
    kin_checksum_add(&sum, data, bytes);
    return kin_checksum_end(&sum);
}
