/* SPDX-License-Identifier: Apache-2.0
 * What a suite of cases is run on: every instruction set of this processor, or a GPU. The cases
 * (cases_*.c) do not know which. */
#ifndef SUPPORT_ENGINES_H
#define SUPPORT_ENGINES_H

#include "kith/kith.h"

#include <stdbool.h>

/* From here on the suites of this program run on the GPU alone. */
void test_engines_use_gpu(void);
/* The same on all GPUs: cuda:all. */
void test_engines_use_gpus(void);
bool test_engines_are_gpu(void);

/* Engines by number, some of which this machine may lack. Of a slow build only the best is run. */
int test_engine_count(void);
/* A context of that engine; NULL where the machine has none of it. */
kith_ctx *test_engine_ctx(int engine, int32_t threads);
/* The best of them that is here. */
kith_ctx *test_engine_best_ctx(int32_t threads);
/* "avx2", "cuda". */
const char *test_engine_name(const kith_ctx *ctx);

/* Whether an engine takes a case of this number: of cases in turns that differ little every other
 * one, and its neighbours the others; all with KITH_CASES=all, or where there is no other engine.
 */
bool test_engine_takes(int engine, int number);
/* One in `of` of these, and each case has its engine, however few are here. */
bool test_engine_has_turn(int engine, int number, int of);

/* Calls fn for a context of each engine. */
void test_on_each_engine(void (*fn)(kith_ctx *ctx, void *arg), void *arg);

#endif
