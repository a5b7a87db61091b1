/* SPDX-License-Identifier: Apache-2.0
 * Names and sentences of the statuses, generated from the table in the public header. */
#include "kith/kith.h"

const char *kith_status_name(kith_status status)
{
    switch (status) {
#define CASE(name, value, text) \
    case KITH_##name:           \
        return #name;
        KITH_STATUS_MAP(CASE)
#undef CASE
    }
    return "E_UNKNOWN";
}

const char *kith_status_text(kith_status status)
{
    switch (status) {
#define CASE(name, value, text) \
    case KITH_##name:           \
        return text;
        KITH_STATUS_MAP(CASE)
#undef CASE
    }
    return "a status that this version of kith does not know";
}
