/* SPDX-License-Identifier: Apache-2.0
 * A context of the processor whose progress function counts, and stops a call when it is told to.
 */
#ifndef SUPPORT_PROGRESS_H
#define SUPPORT_PROGRESS_H

#include "kith/kith.h"

typedef struct test_progress_state {
    int asked;   /* how often the function was */
    int stop_at; /* when it says stop; 0: never */
} test_progress_state;
extern test_progress_state test_progress;

/* Two threads; test_progress begins anew. */
kith_ctx *test_progress_ctx(void);

#endif
