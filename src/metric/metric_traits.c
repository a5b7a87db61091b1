/* SPDX-License-Identifier: Apache-2.0
 * What there is to know of a metric and of a dtype: names, aliases, and what engines may do. */
#include "metric/metric.h"

#include "metric/metric_canonical.h"

#include <stdio.h>
#include <string.h>

enum {
    KIN_SYMMETRIC = 1,
    KIN_TRANSFORMS = 2,
    KIN_NONNEGATIVE = 4,
    KIN_BELOW_ZERO = 8,
    KIN_BITS = 16,   /* packed bits, in uint8 */
    KIN_PLACES = 32, /* latitude and longitude */
    KIN_WRAPS = 64
};

#define TRAITS(NAME, kind, scale, flags, other)                             \
    [KITH_##NAME] = {.screen = KIN_SCREEN_##kind,                           \
                     .key_scale = scale,                                    \
                     .symmetric = (flags)&KIN_SYMMETRIC,                    \
                     .transforms = (flags)&KIN_TRANSFORMS,                  \
                     .nonnegative = (flags)&KIN_NONNEGATIVE,                \
                     .below_zero = (flags)&KIN_BELOW_ZERO,                  \
                     .wraps = (flags)&KIN_WRAPS,                            \
                     .dtype = (flags)&KIN_BITS ? KITH_U8 : KITH_DTYPE_NONE, \
                     .cols = (flags)&KIN_PLACES ? 2 : 0,                    \
                     .aliases = other},
#define NAME_OF(NAME, number, name) [number] = #name,

static const kin_metric_traits traits[] = {KIN_METRIC_MAP(TRAITS)};
static const char *const metric_names[] = {KITH_METRIC_MAP(NAME_OF)};

_Static_assert(sizeof metric_names / sizeof *metric_names == KITH_METRIC_LAST + 1,
               "numbers are one sequence");
_Static_assert(sizeof traits / sizeof *traits == KITH_METRIC_LAST + 1, "each metric has a row");

const kin_metric_traits *kin_metric_get_traits(kith_metric metric)
{
    return &traits[kin_metric_base(metric)];
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

/* The steps of a power, as "2.5" is 25,000: digits, and up to four behind a point; 0: text is no
 * such number. By hand, since strtod hears on the locale and rounds. */
static int64_t steps_of(const char *text)
{
    int64_t steps = 0;
    int64_t worth = KITH_POWER_STEPS;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && steps < INT32_MAX; at++) {
        steps = 10 * steps + (*at - '0') * worth;
    }
    if (at == text) {
        return 0;
    }
    if (*at == '.' && at[1] != '\0') {
        for (at++; *at >= '0' && *at <= '9' && (worth > 1 || *at == '0'); at++) {
            worth /= 10;
            steps += (*at - '0') * worth;
        }
    }
    return *at == '\0' ? steps : 0;
}

/* "minkowski:3"; DEFAULT for what is none. */
static kith_metric parse_minkowski(const char *name)
{
    const char *word = metric_names[KITH_MINKOWSKI];
    const size_t length = strlen(word);
    for (size_t i = 0; i < length; i++) {
        if (name[i] != word[i] && name[i] + ('a' - 'A') != word[i]) {
            return KITH_METRIC_DEFAULT;
        }
    }
    const int64_t steps = name[length] == ':' ? steps_of(name + length + 1) : 0;
    const kith_metric metric = kith_minkowski((double)steps / KITH_POWER_STEPS);
    return metric == KITH_MINKOWSKI ? KITH_METRIC_DEFAULT : metric;
}

kith_metric kith_metric_parse(const char *name)
{
    for (int metric = 1; name != NULL && metric <= KITH_METRIC_LAST; metric++) {
        const bool powerless = metric == KITH_MINKOWSKI; /* its name alone is none */
        if (!powerless &&
            (has_word(metric_names[metric], name) || has_word(traits[metric].aliases, name))) {
            return (kith_metric)metric;
        }
    }
    return name != NULL ? parse_minkowski(name) : KITH_METRIC_DEFAULT;
}

/* "minkowski:2.5". A sentence may name two metrics, so a thread has several places in turn. */
static const char *name_minkowski(int number)
{
    enum { PLACES = 8, ROOM = 32 };
    static _Thread_local char places[PLACES][ROOM];
    static _Thread_local int last;
    const int steps = number / KITH_POWER_FIRST;
    last = (last + 1) % PLACES;
    char *place = places[last];
    int used = snprintf(place, ROOM, "%s:%d.%04d", metric_names[KITH_MINKOWSKI],
                        steps / KITH_POWER_STEPS, steps % KITH_POWER_STEPS);
    while (place[used - 1] == '0') {
        used--;
    }
    used -= place[used - 1] == '.';
    place[used] = '\0';
    return place;
}

const char *kith_metric_name(kith_metric metric)
{
    const int number = metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : (int)metric;
    if (number == KIN_HAVERSINE_KEY) {
        return metric_names[KITH_HAVERSINE];
    }
    if (number > KITH_POWER_FIRST && kin_metric_is(number)) {
        return name_minkowski(number);
    }
    return kin_metric_is(number) || number == KITH_MINKOWSKI ? metric_names[number] : "unknown";
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
