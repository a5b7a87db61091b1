/* SPDX-License-Identifier: Apache-2.0
 * What a caller's progress function hears. Here alone it is asked, so that this holds for every
 * call: a phase never goes beyond its total, does not go back before it has reached it (then it
 * begins anew: work of that name is done in several turns), and has reached it when a call ends
 * that did what it was asked for. */
#ifndef KIN_HOST_PROGRESS_H
#define KIN_HOST_PROGRESS_H

#include "base/base_ctx.h"

/* Asks the caller's progress function, at most every 50 ms; KITH_E_CANCELLED if it says stop. For
 * long work outside kin_parallel; only from the thread that called kith. name: of the phase, a text
 * that stays; NULL: nobody is asked. */
kith_status kin_progress(kith_ctx *ctx, const char *name, double done, double total);

/* The end of a step behind which others follow: what was told of is done. */
kith_status kin_progress_close(kith_ctx *ctx);

/* The end of a public call: what was told of is done, and it is too late to stop. Hands the status
 * on. */
kith_status kin_progress_end(kith_ctx *ctx, kith_status status);

#endif
