/* SPDX-License-Identifier: Apache-2.0
 * The ways to pass a status on: return it, go to the cleanup label, or keep the first one. */
#ifndef KIN_BASE_TRY_H
#define KIN_BASE_TRY_H

#include "kith/kith.h"

#define KIN_TRY(call)                           \
    do {                                        \
        const kith_status try_status_ = (call); \
        if (try_status_ != KITH_OK) {           \
            return try_status_;                 \
        }                                       \
    } while (0)

#define KIN_TRY_GOTO(status, call, label) \
    do {                                  \
        (status) = (call);                \
        if ((status) != KITH_OK) {        \
            goto label;                   \
        }                                 \
    } while (0)

/* In cleanup: always runs the call, the first error wins. */
#define KIN_KEEP(status, call)                   \
    do {                                         \
        const kith_status keep_status_ = (call); \
        if ((status) == KITH_OK) {               \
            (status) = keep_status_;             \
        }                                        \
    } while (0)

#endif
