/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_REPAIR_H
#define REPLAY_REPAIR_H

#include <stddef.h>
#include <stdint.h>

/* Checksums guard .kith and .npz so well that mutants would hardly get past them: this brings those
 * of a mutant in order, so that what lies behind them is tried too. */
void fuzz_repair(const char *extension, uint8_t *file, size_t bytes);

#endif
