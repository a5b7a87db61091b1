/* SPDX-License-Identifier: Apache-2.0
 * The ways to pass a status on: return it, go to the cleanup label, go on only where nothing
 * failed, or keep the first one. */
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

/* The next step of several, each taken only where all before it went well. */
#define KIN_THEN(status, call)     \
    do {                           \
        if ((status) == KITH_OK) { \
            (status) = (call);     \
        }                          \
    } while (0)

/* In cleanup: always runs the call, the first error wins. */
#define KIN_KEEP(status, call)                   \
    do {                                         \
        const kith_status keep_status_ = (call); \
        if ((status) == KITH_OK) {               \
            (status) = keep_status_;             \
        }                                        \
    } while (0)

/* What is wrong with what is at a place (base_ctx.h) is told, and returned. */
#define KIN_FAIL_IF(wrong, ctx, status, ...)                \
    do {                                                    \
        if (wrong) {                                        \
            return kin_fail_at((ctx), status, __VA_ARGS__); \
        }                                                   \
    } while (0)

/* The same at the end of a check: what is right ends it well. */
#define KIN_PASS_IF(right, ctx, status, ...)                                \
    do {                                                                    \
        return (right) ? KITH_OK : kin_fail_at((ctx), status, __VA_ARGS__); \
    } while (0)

/* An argument of the caller's is refused, or, at the end of a check, taken. */
#define KIN_REFUSE_IF(wrong, ctx, argument, ...) \
    KIN_FAIL_IF(wrong, ctx, KITH_E_ARGUMENT, kin_at(argument), __VA_ARGS__)
#define KIN_ALLOW_IF(right, ctx, argument, ...) \
    KIN_PASS_IF(right, ctx, KITH_E_ARGUMENT, kin_at(argument), __VA_ARGS__)

/* A file is not what its format says, or, at the end of a check, it is. */
#define KIN_DAMAGED_IF(wrong, ctx, path, ...) \
    KIN_FAIL_IF(wrong, ctx, KITH_E_FORMAT, kin_at_file(path), __VA_ARGS__)
#define KIN_SOUND_IF(right, ctx, path, ...) \
    KIN_PASS_IF(right, ctx, KITH_E_FORMAT, kin_at_file(path), __VA_ARGS__)

/* ---- Assertions ------------------------------------------------------------------------------ */

/* Assertions of contracts inside the library: what a caller in another room must have seen to.
 * Arguments of users are checked in api/ and give a status. Compiled where KIN_CHECKED is 1, in
 * debug builds and under a sanitizer; in a release build they cost nothing. */

#if defined __SANITIZE_ADDRESS__
#define KIN_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define KIN_ASAN 1
#endif
#endif
#ifndef KIN_ASAN
#define KIN_ASAN 0
#endif

/* CMake says it of debug builds. */
#ifndef KIN_CHECKED
#define KIN_CHECKED KIN_ASAN
#endif

/* Stops where the contract was broken: nothing is printed, the trap's place says which it was. */
#if KIN_CHECKED
#define kin_assert(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define kin_assert(condition) ((void)0)
#endif

#endif
