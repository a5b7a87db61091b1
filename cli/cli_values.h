/* SPDX-License-Identifier: Apache-2.0
 * Values as people write them on a command line. The whole word counts: no blanks, no rest. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal integer in [low, high]. */
bool cli_value_int(const char *text, int64_t low, int64_t high, int64_t *value);
/* Any unsigned 64-bit integer, decimal. */
bool cli_value_uint(const char *text, uint64_t *value);
/* A finite decimal number. */
bool cli_value_number(const char *text, double *value);
/* Bytes: "1000000", "512K", "1.5G"; K, M, G, T are powers of 1024. At least 1 byte. */
bool cli_value_bytes(const char *text, uint64_t *value);
/* auto, cpu, cuda, cuda:N, cuda:N,M,... or cuda:all. */
bool cli_value_is_device(const char *text);

#endif
