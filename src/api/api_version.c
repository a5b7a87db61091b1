/* SPDX-License-Identifier: Apache-2.0
 * Which kith this is. */
#include "kith/kith.h"

#include "kith_commit.h" /* made by cmake/commit.cmake at build time */

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *kith_version(void)
{
    return VERSION(KITH_VERSION_MAJOR, KITH_VERSION_MINOR, KITH_VERSION_PATCH);
}

const char *kith_commit(void)
{
    return KITH_COMMIT;
}
