/* SPDX-License-Identifier: Apache-2.0
 * What there is to know of a metric and of a dtype: names, aliases, and what engines may do. */
#include "metric/metric.h"

#include "metric/metric_canonical.h"
#include "metric/metric_value.h"

#include <string.h>

enum { KIN_SYMMETRIC = 1, KIN_TRANSFORMS = 2, KIN_NONNEGATIVE = 4, KIN_BELOW_ZERO = 8 };

#define TRAITS(NAME, kind, scale, flags, other)              \
    [KITH_##NAME] = {.screen = KIN_SCREEN_##kind,            \
                     .key_scale = scale,                     \
                     .symmetric = (flags)&KIN_SYMMETRIC,     \
                     .transforms = (flags)&KIN_TRANSFORMS,   \
                     .nonnegative = (flags)&KIN_NONNEGATIVE, \
                     .below_zero = (flags)&KIN_BELOW_ZERO,   \
                     .aliases = other},
#define NAME_OF(NAME, number, name) [number] = #name,

static const kin_metric_traits traits[] = {KIN_METRIC_MAP(TRAITS)};
static const char *const metric_names[] = {KITH_METRIC_MAP(NAME_OF)};

_Static_assert(sizeof metric_names / sizeof *metric_names == KITH_METRIC_LAST + 1,
               "numbers are one sequence");
_Static_assert(sizeof traits / sizeof *traits == KITH_METRIC_LAST + 1, "each metric has a row");

const kin_metric_traits *kin_metric_get_traits(kith_metric metric)
{
    return &traits[metric];
}

/* Whether a list with blanks between has the word, in small letters or capitals of ASCII, in every
 * locale. */
static bool has_word(const char *list, const char *word)
{
    for (const char *at = list; *at != '\0'; at += *at == ' ') {
        const char *w = word;
        while (*at != ' ' && *at != '\0' &&
               (*w == *at || (*w >= 'A' && *w <= 'Z' && *w - 'A' + 'a' == *at))) {
            at++;
            w++;
        }
        if (*w == '\0' && (*at == ' ' || *at == '\0')) {
            return true;
        }
        at += strcspn(at, " ");
    }
    return false;
}

kith_metric kith_metric_parse(const char *name)
{
    for (int metric = 1; name != NULL && metric <= KITH_METRIC_LAST; metric++) {
        if (has_word(metric_names[metric], name) || has_word(traits[metric].aliases, name)) {
            return (kith_metric)metric;
        }
    }
    return KITH_METRIC_DEFAULT;
}

const char *kith_metric_name(kith_metric metric)
{
    const int number = metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : (int)metric;
    return kin_metric_is(number) ? metric_names[number] : "unknown";
}

int32_t kith_dtype_bytes(kith_dtype dtype)
{
    return kin_value_bytes(dtype);
}

const char *kith_dtype_name(kith_dtype dtype)
{
    static const char *const names[] = {KITH_DTYPE_MAP(NAME_OF)};
    const int number = (int)dtype;
    return number > KITH_DTYPE_NONE && number <= KITH_DTYPE_LAST ? names[number] : "unknown";
}
