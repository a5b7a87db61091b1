/* SPDX-License-Identifier: Apache-2.0
 * A context whose allocator fails when it is told to, and counts what is held. */
#ifndef SUPPORT_FAULTY_H
#define SUPPORT_FAULTY_H

#include "kith/kith.h"

#include <stdatomic.h>

typedef struct test_faulty {
    atomic_long asked;
    atomic_long blocks;
    atomic_long bytes;
    long fails_at; /* the n-th allocation; 0: none */
} test_faulty;

/* kith_allocate_fn and kith_release_fn of a test_faulty. */
void *test_faulty_allocate(void *arg, size_t bytes);
void test_faulty_release(void *arg, void *block, size_t bytes);

kith_ctx *test_faulty_ctx(const char *device, test_faulty *f, uint64_t limit);

#endif
