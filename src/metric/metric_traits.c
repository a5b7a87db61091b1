/* SPDX-License-Identifier: Apache-2.0
 * What there is to know of a metric and of a dtype: names, aliases, and what engines may do. */
#include "metric/metric.h"
#include "metric/metric_value.h"

static const kin_metric_traits traits[] = {
    [KITH_EUCLIDEAN] = {.name = "euclidean",
                        .screen = KIN_SCREEN_DISTANCE,
                        .key_scale = 1.0,
                        .symmetric = true},
    [KITH_SQEUCLIDEAN] = {.name = "sqeuclidean",
                          .screen = KIN_SCREEN_DISTANCE,
                          .key_scale = 1.0,
                          .symmetric = true},
    [KITH_INNER_PRODUCT] = {.name = "inner_product",
                            .screen = KIN_SCREEN_PRODUCT,
                            .key_scale = 1.0,
                            .symmetric = true},
    [KITH_COSINE] = {.name = "cosine",
                     .screen = KIN_SCREEN_DISTANCE,
                     .key_scale = 0.5,
                     .symmetric = true,
                     .transforms = true},
    [KITH_CORRELATION] = {.name = "correlation",
                          .screen = KIN_SCREEN_DISTANCE,
                          .key_scale = 0.5,
                          .symmetric = true,
                          .transforms = true},
    [KITH_MANHATTAN] = {.name = "manhattan", .key_scale = 1.0, .symmetric = true},
    [KITH_CHEBYSHEV] = {.name = "chebyshev", .key_scale = 1.0, .symmetric = true},
    [KITH_CHI2] = {.name = "chi2", .key_scale = 1.0, .symmetric = true, .nonnegative = true},
    [KITH_HAMMING] = {.name = "hamming", .key_scale = 1.0, .symmetric = true},
    [KITH_JACCARD] = {.name = "jaccard", .key_scale = 1.0, .symmetric = true},
    [KITH_KL] = {.name = "kl", .key_scale = 1.0, .nonnegative = true},
    [KITH_CUSTOM] = {.name = "custom", .key_scale = 1.0},
};

/* Other words for the same thing. A Minkowski distance is one of ours for these three powers. */
static const struct {
    const char *name;
    kith_metric metric;
} aliases[] = {
    {"l2", KITH_EUCLIDEAN},        {"minkowski:2", KITH_EUCLIDEAN},
    {"l2sq", KITH_SQEUCLIDEAN},    {"squared_euclidean", KITH_SQEUCLIDEAN},
    {"ip", KITH_INNER_PRODUCT},    {"dot", KITH_INNER_PRODUCT},
    {"angular", KITH_COSINE},      {"cos", KITH_COSINE},
    {"pearson", KITH_CORRELATION}, {"l1", KITH_MANHATTAN},
    {"cityblock", KITH_MANHATTAN}, {"minkowski:1", KITH_MANHATTAN},
    {"linf", KITH_CHEBYSHEV},      {"minkowski:inf", KITH_CHEBYSHEV},
    {"kullback_leibler", KITH_KL},
};

enum { ALIASES = sizeof aliases / sizeof aliases[0] };

const kin_metric_traits *kin_metric_get_traits(kith_metric metric)
{
    return &traits[metric];
}

/* Whether a is b in small letters or capitals of ASCII, in every locale. */
static bool same_name(const char *a, const char *b)
{
    for (; *a == *b || (*a >= 'A' && *a <= 'Z' && *a - 'A' + 'a' == *b); a++, b++) {
        if (*a == '\0') {
            return true;
        }
    }
    return false;
}

kith_metric kith_metric_parse(const char *name)
{
    if (name == NULL) {
        return KITH_METRIC_DEFAULT;
    }
    for (int metric = KITH_EUCLIDEAN; metric <= KITH_CUSTOM; metric++) {
        if (same_name(name, traits[metric].name)) {
            return (kith_metric)metric;
        }
    }
    for (int i = 0; i < ALIASES; i++) {
        if (same_name(name, aliases[i].name)) {
            return aliases[i].metric;
        }
    }
    return KITH_METRIC_DEFAULT;
}

const char *kith_metric_name(kith_metric metric)
{
    const int number = metric == KITH_METRIC_DEFAULT ? KITH_EUCLIDEAN : (int)metric;
    return number >= KITH_EUCLIDEAN && number <= KITH_CUSTOM ? traits[number].name : "unknown";
}

int32_t kith_dtype_bytes(kith_dtype dtype)
{
    return kin_value_bytes(dtype);
}

const char *kith_dtype_name(kith_dtype dtype)
{
    static const char *const names[] = {
        [KITH_F32] = "float32",   [KITH_F64] = "float64", [KITH_F16] = "float16",
        [KITH_BF16] = "bfloat16", [KITH_U8] = "uint8",    [KITH_I8] = "int8"};
    const int number = (int)dtype;
    return number >= KITH_F32 && number <= KITH_I8 ? names[number] : "unknown";
}
