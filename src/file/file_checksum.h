/* SPDX-License-Identifier: Apache-2.0
 * The checksum of .kith sections: 64 bits, four lanes, as fast as memory.
 *
 * Bytes are taken in blocks of 32 (the last filled up with zeros), a block as four little-endian
 * words w[0..3]; lane j becomes rotate_left(lane[j] ^ w[j], 29) * MULTIPLIER. Each step is a
 * bijection of lane and of word, and so is the final fold of each lane: damage that lies within one
 * lane's words in a single place is always found, other damage with probability 1 - 2^-64. It is no
 * defence against someone who wants to deceive. */
#ifndef KIN_FILE_CHECKSUM_H
#define KIN_FILE_CHECKSUM_H

#include <stdint.h>

enum { KIN_CHECKSUM_BLOCK = 32 };

typedef struct kin_checksum {
    uint64_t lanes[4];
    uint64_t bytes;
    unsigned char tail[KIN_CHECKSUM_BLOCK]; /* bytes % 32 of them wait for their block */
} kin_checksum;

void kin_checksum_begin(kin_checksum *sum);
void kin_checksum_add(kin_checksum *sum, const void *data, uint64_t bytes);
uint64_t kin_checksum_end(kin_checksum *sum);
/* All three at once. */
uint64_t kin_checksum_of(const void *data, uint64_t bytes);

#endif
