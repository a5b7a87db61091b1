/* SPDX-License-Identifier: Apache-2.0
 * Assertions of contracts inside the library: what a caller in another room must have seen to.
 * Arguments of users are checked in api/ and give a status. Compiled where KIN_CHECKED is 1, in
 * debug builds and under a sanitizer; in a release build they cost nothing. */
#ifndef KIN_BASE_ASSERT_H
#define KIN_BASE_ASSERT_H

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
