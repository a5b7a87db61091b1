/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Most numbers in files are short: an integer of at most 53 bits, times or divided by a power
 * of ten that is itself exact in double (up to 10^22). That is one rounded operation on two exact
 * operands, hence correctly rounded (Clinger 1990). Everything else goes to strtod, which is too.
 */
#include "file/file_number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { POWERS = 23, DIGITS_MAX = 19, TEXT_MAX = 1024, EXPONENT_MAX = 100000 };

static const double power_of_ten[POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

kin_number_locale kin_number_enter(void)
{
    kin_number_locale locale = {NULL, NULL};
    const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (own != (locale_t)0) {
        locale.own = own;
        locale.before = uselocale(own);
    }
    return locale;
}

void kin_number_leave(kin_number_locale locale)
{
    if (locale.own != NULL) {
        (void)uselocale((locale_t)locale.before);
        freelocale((locale_t)locale.own);
    }
}

/* What a scan has found: mantissa x 10^exponent, exact unless digits were dropped. */
typedef struct decimal {
    const char *at;
    uint64_t mantissa;
    int digits; /* significant ones in mantissa */
    int exponent;
    bool any;
    bool dropped;
} decimal;

static void scan_digits(decimal *d, const char *end, bool fraction)
{
    const char *at = d->at;
    while (at < end && *at >= '0' && *at <= '9') {
        if (d->digits < DIGITS_MAX) {
            d->mantissa = d->mantissa * 10 + (uint64_t)(*at - '0');
            d->digits += d->mantissa != 0;
            d->exponent -= fraction;
        } else {
            d->dropped = true;
        }
        at++;
    }
    d->any = d->any || at != d->at;
    d->at = at;
}

static bool scan_exponent(decimal *d, const char *end)
{
    if (d->at == end || (*d->at | 0x20) != 'e') {
        return true;
    }
    d->at++;
    bool negative = false;
    if (d->at < end && (*d->at == '+' || *d->at == '-')) {
        negative = *d->at++ == '-';
    }
    const char *start = d->at;
    int exponent = 0;
    while (d->at < end && *d->at >= '0' && *d->at <= '9') {
        if (exponent < EXPONENT_MAX) {
            exponent = exponent * 10 + (*d->at - '0');
        }
        d->at++;
    }
    d->exponent += negative ? -exponent : exponent;
    return d->at != start;
}

static bool same_word(const char *text, const char *end, const char *word)
{
    const size_t bytes = strlen(word);
    return (size_t)(end - text) == bytes && strncasecmp(text, word, bytes) == 0;
}

static bool parse_word(const char *text, const char *end, bool negative, double *value)
{
    if (same_word(text, end, "nan")) {
        *value = (double)NAN;
        return true;
    }
    if (same_word(text, end, "inf") || same_word(text, end, "infinity")) {
        *value = negative ? -(double)INFINITY : (double)INFINITY;
        return true;
    }
    return false;
}

/* The syntax is known to be right here; strtod wants a zero behind it. */
static double parse_slowly(const char *text, const char *end)
{
    char copy[TEXT_MAX];
    const size_t bytes = (size_t)(end - text);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return strtod(copy, NULL);
}

bool kin_number_parse(const char *text, const char *end, double *value)
{
    if (end - text >= TEXT_MAX) {
        return false; /* no number is this long, and the counters below may trust that */
    }
    decimal d = {.at = text};
    const bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+')) {
        d.at++;
    }
    const char *start = d.at;
    scan_digits(&d, end, false);
    if (d.at < end && *d.at == '.') {
        d.at++;
        scan_digits(&d, end, true);
    }
    if (!d.any) {
        return parse_word(start, end, negative, value);
    }
    if (!scan_exponent(&d, end) || d.at != end) {
        return false;
    }
    if (d.dropped || d.mantissa > (uint64_t)1 << 53 || d.exponent <= -POWERS ||
        d.exponent >= POWERS) {
        *value = parse_slowly(text, end);
        return true;
    }
    const double whole = (double)d.mantissa;
    const double magnitude =
        d.exponent < 0 ? whole / power_of_ten[-d.exponent] : whole * power_of_ten[d.exponent];
    *value = negative ? -magnitude : magnitude;
    return true;
}

static bool comes_back(const char *text, int length, double value, bool single)
{
    double back = 0.0;
    if (isnan(value) || !kin_number_parse(text, text + length, &back)) {
        return true;
    }
    /* Digits of a value near the end of float32's range may round beyond it. */
    const bool fits = fabs(back) <= (double)FLT_MAX || isinf(back);
    return single ? fits && (float)back == (float)value : back == value;
}

int kin_number_print(char *text, size_t room, double value, bool single)
{
    const int most = single ? 9 : 17;
    int digits = single ? 6 : 15;
    int length = snprintf(text, room, "%.*g", digits, value);
    while (digits < most && !comes_back(text, length, value, single)) {
        digits += 1;
        length = snprintf(text, room, "%.*g", digits, value);
    }
    return length;
}
