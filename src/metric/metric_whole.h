/* SPDX-License-Identifier: Apache-2.0
 * Keys that are made of whole rows, for every body: bits by words of 64, places of a sphere eight
 * at a time. No lanes: counts of bits are whole numbers, the same in any order, and a key of
 * haversine is one chain of operations (metric_functions.h), which the compiler does for eight rows
 * side by side where the file that includes this has vectors.
 *
 * Cost. A word is a load, an exclusive or, a count and an addition; the count is an instruction
 * but in the portable body. Rows with random ids miss every cache, so their first lines are asked
 * for some rows before. */
#ifndef KIN_METRIC_WHOLE_H
#define KIN_METRIC_WHOLE_H

#include "metric/metric_table.h"

enum { WORD_BYTES = 8, WHOLE_AHEAD = 8, PLACES_AT_ONCE = 8 };

/* The first n < 8 bytes at data, zeros above. A number is read from its largest part down, so that
 * n = 7 is three reads and none of them crosses the end. */
KIN_TEMPLATE uint64_t first_bytes(const char *data, int32_t n)
{
    uint32_t four = 0;
    uint16_t two = 0;
    uint8_t one = 0;
    if (n & 4) {
        memcpy(&four, data, 4);
    }
    if (n & 2) {
        memcpy(&two, data + (n & 4), 2);
    }
    if (n & 1) {
        memcpy(&one, data + (n & 6), 1);
    }
    return four | (uint64_t)two << 8 * (n & 4) | (uint64_t)one << 8 * (n & 6);
}

KIN_TEMPLATE uint64_t word_at(const char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

KIN_TEMPLATE uint32_t ones_of(uint64_t word)
{
#if defined(__POPCNT__) || defined(__aarch64__)
    return (uint32_t)__builtin_popcountll(word);
#else
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (uint32_t)(word * 0x0101010101010101u >> 56);
#endif
}

KIN_TEMPLATE void count_word(kin_bit_counts *n, uint64_t q, uint64_t c, kith_metric metric)
{
    n->either += ones_of(metric == KITH_BIT_JACCARD ? q | c : q ^ c);
    n->both += metric == KITH_BIT_JACCARD ? ones_of(q & c) : 0;
}

/* words: of a row, or 0 where they are not known while compiling. */
KIN_TEMPLATE void bits_of_rows(const kin_keys_job *job, kith_metric metric, int32_t words)
{
    const char *query = job->raw;
    const int32_t whole = words > 0 ? words : job->cols / WORD_BYTES;
    const int32_t rest = words > 0 ? 0 : job->cols % WORD_BYTES;
    const uint64_t last = first_bytes(query + (int64_t)whole * WORD_BYTES, rest);
    for (int64_t i = 0; i < job->count; i++) {
        const char *row = job->data + kin_keys_row(job, i) * job->stride_bytes;
        kin_bit_counts n = {0, 0};
        if (job->ids != NULL && i + WHOLE_AHEAD < job->count) {
            __builtin_prefetch(job->data + kin_keys_row(job, i + WHOLE_AHEAD) * job->stride_bytes);
        }
        for (int32_t w = 0; w < whole; w++) {
            count_word(&n, word_at(query + (int64_t)w * WORD_BYTES),
                       word_at(row + (int64_t)w * WORD_BYTES), metric);
        }
        if (rest != 0) {
            count_word(&n, last, first_bytes(row + (int64_t)whole * WORD_BYTES, rest), metric);
        }
        job->keys[i] = kin_bits_key(metric, n);
    }
}

KIN_TEMPLATE void whole_bits(const kin_keys_job *job, kith_metric metric)
{
    switch (job->cols) {
    case 8:
        bits_of_rows(job, metric, 1);
        break;
    case 16:
        bits_of_rows(job, metric, 2);
        break;
    case 32:
        bits_of_rows(job, metric, 4);
        break;
    case 64:
        bits_of_rows(job, metric, 8);
        break;
    case 128:
        bits_of_rows(job, metric, 16);
        break;
    default:
        bits_of_rows(job, metric, 0);
    }
}

/* Behind the last row the last one stands again. One copy for all dtypes: reading two numbers is
 * nothing beside their sines. */
static __attribute__((noinline)) void whole_places(const kin_keys_job *job, kith_dtype dtype)
{
    const double lat_q = job->query[0];
    const double lon_q = job->query[1];
    const double cos_q = kin_cosine(lat_q);
    double lat[PLACES_AT_ONCE];
    double lon[PLACES_AT_ONCE];
    for (int64_t at = 0; at < job->count; at += PLACES_AT_ONCE) {
        const int64_t left = job->count - at < PLACES_AT_ONCE ? job->count - at : PLACES_AT_ONCE;
        for (int64_t i = 0; i < PLACES_AT_ONCE; i++) {
            const int64_t row = kin_keys_row(job, at + (i < left ? i : left - 1));
            const char *data = job->data + row * job->stride_bytes;
            lat[i] = kin_value(dtype, data, 0);
            lon[i] = kin_value(dtype, data, 1);
        }
        for (int i = 0; i < PLACES_AT_ONCE; i++) {
            const double cos_c = kin_cosine(lat[i]);
            lat[i] = kin_haversine_sum(kin_half_sine_squared(kin_sub(lat[i], lat_q)),
                                       kin_half_sine_squared(kin_sub(lon[i], lon_q)), cos_q, cos_c);
        }
        memcpy(job->keys + at, lat, (size_t)left * sizeof *lat);
    }
}

KIN_TEMPLATE void whole_body(const kin_keys_job *job, kith_metric metric, kith_dtype dtype)
{
    if (metric == KITH_HAVERSINE) {
        whole_places(job, dtype);
    } else {
        whole_bits(job, metric);
    }
}

#endif
