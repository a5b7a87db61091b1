/* SPDX-License-Identifier: Apache-2.0
 * Points to files and back: every format with every type that fits it. */
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS_MAX = 40, COLS_MAX = 33 };

static const char *const formats[] = {"fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin",
                                      "ibin",  "npy",   "csv",   "tsv",  "kith"};
enum { FORMATS = sizeof formats / sizeof formats[0] };

/* Small integers fit into every type; the last two are fractions. */
static double sample(int64_t i, kith_dtype dtype)
{
    const double value = (double)((i * 37 + 11) % 101);
    return dtype == KITH_F32 || dtype == KITH_F64 ? value - 50.0 : value;
}

static void store(kith_dtype dtype, void *at, double value)
{
    const float narrow = (float)value;
    uint32_t bits = 0;
    memcpy(&bits, &narrow, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    switch (dtype) {
    case KITH_F32:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case KITH_F64:
        memcpy(at, &value, sizeof value);
        break;
    case KITH_F16: { /* integers below 2048: exponent and fraction by hand */
        int exponent = -14;
        const double fraction = frexp(value, &exponent);
        const int code = (exponent + 14) << 10 | ((int)ldexp(fraction, 11) & 1023);
        half = (uint16_t)(value == 0.0 ? 0 : code);
        memcpy(at, &half, sizeof half);
        break;
    }
    case KITH_BF16:
        memcpy(at, &half, sizeof half);
        break;
    default:
        *(unsigned char *)at = (unsigned char)value;
        break;
    }
}

static double value_of(const kith_matrix *m, int64_t row, int32_t col)
{
    const char *at =
        (const char *)m->data + row * m->stride_bytes + (int64_t)col * kith_dtype_bytes(m->dtype);
    float f = 0;
    double d = 0;
    uint16_t half = 0;
    uint32_t bits = 0;
    switch (m->dtype) {
    case KITH_F32:
        memcpy(&f, at, sizeof f);
        return (double)f;
    case KITH_F64:
        memcpy(&d, at, sizeof d);
        return d;
    case KITH_F16:
        memcpy(&half, at, sizeof half);
        return half == 0 ? 0.0 : ldexp(1024 + (half & 1023), (half >> 10) - 25);
    case KITH_BF16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case KITH_I8:
        return (double)*(const signed char *)at;
    default:
        return (double)*(const unsigned char *)at;
    }
}

/* What a file of that format is opened as. */
static kith_dtype opened_as(const char *format, kith_dtype dtype)
{
    if (strcmp(format, "kith") == 0) {
        return dtype;
    }
    if (strcmp(format, "npy") == 0) {
        return dtype == KITH_BF16 ? KITH_F32 : dtype;
    }
    if (strncmp(format, "fv", 2) == 0 || strncmp(format, "fb", 2) == 0) {
        return KITH_F32;
    }
    if (strcmp(format, "bvecs") == 0 || strcmp(format, "u8bin") == 0) {
        return KITH_U8;
    }
    return strcmp(format, "i8bin") == 0 ? KITH_I8 : KITH_F64;
}

static void round_trip(test_folder *folder, const char *format, kith_dtype dtype, int64_t rows,
                       int32_t cols, int64_t gap)
{
    static double block[ROWS_MAX * COLS_MAX * 2];
    char name[64];
    const int32_t item = kith_dtype_bytes(dtype);
    const kith_matrix m = {block, rows, gap != 0 ? cols * item + gap : 0, cols, dtype};
    const kith_matrix full = {block, rows, cols * item + gap, cols, dtype};
    const kith_dtype sampled = opened_as(format, dtype) == KITH_U8 ? KITH_U8 : dtype;
    for (int64_t i = 0; i < rows * cols; i++) {
        store(dtype, (char *)block + i / cols * full.stride_bytes + i % cols * item,
              sample(i, sampled));
    }
    (void)snprintf(name, sizeof name, "round.%s", format);
    const char *path = test_path(folder, name);
    if (kith_points_save(folder->ctx, path, &m) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    kith_points *points = NULL;
    if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    const kith_matrix *back = kith_points_matrix(points);
    assert_int_equal(back->rows, rows);
    assert_int_equal(back->cols, cols);
    assert_int_equal(back->dtype, opened_as(format, dtype));
    assert_int_equal(kith_points_get_source(points)->mapped,
                     kith_points_get_source(points)->bytes == 0);
    for (int64_t i = 0; i < rows * cols; i++) {
        assert_true(value_of(back, i / cols, (int32_t)(i % cols)) == sample(i, sampled));
    }
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    assert_int_equal(kith_file_inspect(folder->ctx, path, NULL, &info), KITH_OK);
    assert_string_equal(info.format, format);
    assert_int_equal(info.rows, rows);
    assert_int_equal(info.cols, cols);
    assert_int_equal(info.dtype, back->dtype);
    kith_points_free(points);
}

static void every_format_and_type(void **state)
{
    static const int32_t shapes[][2] = {{1, 1}, {1, 33}, {40, 1}, {7, 3}, {13, 17}, {40, 32}};
    print_message("points of every format and type come back as they were:\n");
    for (int f = 0; f < FORMATS; f++) {
        for (int dtype = KITH_F32; dtype <= KITH_I8; dtype++) {
            for (int s = 0; s < 6; s++) {
                const int64_t gap = s % 2 == 0 ? 0 : 8;
                round_trip(*state, formats[f], (kith_dtype)dtype, shapes[s][0], shapes[s][1], gap);
            }
        }
    }
    print_message("  %d formats x 6 types x 6 shapes, with and without a stride\n", FORMATS);
}

static void mapped_where_possible(void **state)
{
    test_folder *folder = *state;
    const float data[6] = {1, 2, 3, 4, 5, 6};
    const kith_matrix m = {data, 3, 0, 2, KITH_F32};
    static const struct {
        const char *name;
        int mapped;
        int64_t stride;
    } cases[] = {{"a.fvecs", 1, 12}, {"a.fbin", 1, 8}, {"a.npy", 1, 8},
                 {"a.kith", 1, 8},   {"a.csv", 0, 16}, {"a.ibin", 0, 16}};
    print_message("fvecs, fbin, npy and kith are mapped, csv and int32 are read:\n");
    for (int i = 0; i < 6; i++) {
        kith_points *points = NULL;
        const char *path = test_path(folder, cases[i].name);
        assert_int_equal(kith_points_save(folder->ctx, path, &m), KITH_OK);
        assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
        assert_int_equal(kith_points_get_source(points)->mapped, cases[i].mapped);
        assert_int_equal(kith_points_matrix(points)->stride_bytes, cases[i].stride);
        assert_int_equal(kith_points_get_source(points)->bytes, cases[i].mapped ? 0 : 48);
        kith_points_free(points);
    }
}

static void values_that_do_not_fit(void **state)
{
    test_folder *folder = *state;
    const double data[4] = {1, 2, 0.1, 300};
    const kith_matrix m = {data, 2, 0, 2, KITH_F64};
    print_message("values that a format cannot hold are refused by row and column:\n");
    static const struct {
        const char *name;
        const char *text;
    } cases[] = {{"v.fbin", "0.10000000000000001 in row 1, column 0"},
                 {"v.fvecs", "row 1, column 0"},
                 {"v.ibin", "row 1, column 0 is not exactly of the format's type, int32"},
                 {"v.u8bin", "row 1, column 0"}};
    for (int i = 0; i < 4; i++) {
        const char *path = test_path(folder, cases[i].name);
        test_failed(folder, kith_points_save(folder->ctx, path, &m), KITH_E_DATA, path,
                    cases[i].text);
    }
    const double big[2] = {255, 256};
    const kith_matrix one = {big, 1, 0, 2, KITH_F64};
    test_failed(folder, kith_points_save(folder->ctx, test_path(folder, "v.bvecs"), &one),
                KITH_E_DATA, NULL, "256 in row 0, column 1");
    assert_int_equal(test_folder_count(folder), 0);
}

/* An .npy by hand: version, descr, order and shape as given, then `bytes` of data. */
static const char *write_npy(test_folder *folder, int version, const char *header, const void *data,
                             size_t bytes)
{
    unsigned char file[1024] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    const size_t start = version == 1 ? 10 : 12;
    const size_t length = strlen(header);
    file[8] = (unsigned char)length;
    memcpy(file + start, header, length);
    memcpy(file + start + length, data, bytes);
    return test_write(folder, "hand.npy", file, start + length + bytes);
}

static void numpy_headers(void **state)
{
    test_folder *folder = *state;
    const int64_t integers[4] = {-5, 6, 9007199254740992, 0};
    print_message("npy: versions 1 to 3, integers of every size, unaligned data:\n");
    for (int version = 1; version <= 3; version++) {
        kith_points *points = NULL;
        const char *path = write_npy(
            folder, version, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }  \n",
            integers, 32);
        assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
        assert_int_equal(kith_points_matrix(points)->dtype, KITH_F64);
        assert_true(value_of(kith_points_matrix(points), 1, 0) == 9007199254740992.0);
        kith_points_free(points);
    }
    const double doubles[2] = {0.5, -0.25};
    kith_points *points = NULL;
    const char *odd = write_npy(
        folder, 1, "{\"shape\":(1,2),\"fortran_order\":True,\"descr\":\"<f8\"}", doubles, 16);
    assert_int_equal(kith_points_open(folder->ctx, odd, NULL, &points), KITH_OK);
    assert_true(value_of(kith_points_matrix(points), 0, 1) == -0.25);
    kith_points_free(points);
    static const struct {
        const char *header;
        const char *text;
    } lies[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }", "1 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "announces 4"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (4, 1), }", "type 'c8'"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (8, 1), }", "plain array"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2), }", "announces 40"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", "too long"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", "announces 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "announces 18446744073709551615"},
        {"{'descr': '<f4', 'fortran_order': False}", "plain array"},
        {"nonsense", "plain array"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        test_refused(folder, 'p', write_npy(folder, 1, lies[i].header, integers, 32), KITH_E_FORMAT,
                     lies[i].text);
    }
    test_refused(folder, 'p', write_npy(folder, 4, "{}", "", 0), KITH_E_FORMAT, "version 4");
    const int64_t beyond[2] = {1, 9007199254740993};
    test_refused(folder, 'p',
                 write_npy(folder, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), }",
                           beyond, 16),
                 KITH_E_DATA, "row 0, column 1");
}

static void expect_text(test_folder *folder, const char *name, const char *text, int64_t rows,
                        int32_t cols, const double *values)
{
    kith_points *points = NULL;
    const char *path = test_write(folder, name, text, strlen(text));
    if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    const kith_matrix *m = kith_points_matrix(points);
    assert_int_equal(m->rows, rows);
    assert_int_equal(m->cols, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        assert_true(value_of(m, i / cols, (int32_t)(i % cols)) == values[i]);
    }
    kith_points_free(points);
}

static void text_files(void **state)
{
    test_folder *folder = *state;
    const double values[6] = {1.5, -2, 3e10, 0.1, 1e-300, 12345678901234567890.0};
    print_message(
        "csv and tsv: headers, quotes, spaces, line ends, blank lines, exact rounding:\n");
    const char *body = "1.5,-2,3e10\n0.1,1e-300,12345678901234567890\n";
    char text[512];
    expect_text(folder, "t.csv", body, 2, 3, values);
    (void)snprintf(text, sizeof text, "\xef\xbb\xbf\"a, b\",c,d\r\n%s\n\n", body);
    expect_text(folder, "t.csv", text, 2, 3, values);
    expect_text(folder, "t.csv", "x,y,z\n\"1.5\", -2 ,+3E+10\r\n\r\n.1,1e-300,12345678901234567890",
                2, 3, values);
    expect_text(folder, "t.tsv", "1.5\t-2\t3e10\n0.1\t1e-300\t12345678901234567890", 2, 3, values);
    expect_text(folder, "t.csv", "7\n", 1, 1, (const double[]){7});

    static const char *const hard[] = {"0.1",
                                       "1e22",
                                       "1e23",
                                       "9007199254740993",
                                       "1e-5",
                                       "2.2250738585072011e-308",
                                       "1.7976931348623157e308",
                                       "0.3000000000000000444089209850062616169452667236328125",
                                       "123456789.123456789e-7",
                                       "00000000000000000000001.5",
                                       "0.00000000000000000000000000000000015",
                                       "4.9e-324",
                                       "1e400"};
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        expect_text(folder, "t.csv", hard[i], 1, 1, (const double[]){strtod(hard[i], NULL)});
    }
    static const struct {
        const char *text;
        const char *complaint;
    } lies[] = {{"a,b\n1,2\n3\n", "row 1 (line 3) has 1 values, row 0 has 2"},
                {"1,2\n3,4,5\n", "row 1 (line 2) has 3 values, row 0 has 2"},
                {"1,2\n3,x\n", "row 1, column 1 (line 2): 'x' is not a number"},
                {"a,b\nc,d\n", "row 0, column 0 (line 2): 'c' is not a number"},
                {"1,2\n3,\n", "row 1, column 1 (line 2) is missing: ''"},
                {"1,0x10\n0,0x10\n", "'0x10' is not a number"},
                {"1,2\n1e,2\n", "'1e' is not a number"},
                {"a,b\n", "holds no row"},
                {"\n\n", "holds no row"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        test_refused(folder, 'p', test_write(folder, "t.csv", lies[i].text, strlen(lies[i].text)),
                     KITH_E_FORMAT, lies[i].complaint);
    }
}

static void text_brings_bits_back(void **state)
{
    test_folder *folder = *state;
    enum { COUNT = 5000 };
    static double doubles[COUNT];
    static float singles[COUNT];
    uint64_t seed = 42;
    for (int i = 0; i < COUNT; i++) {
        do { /* any bits that are a finite number */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const uint64_t bits = seed ^ seed >> 29;
            const uint32_t narrow = (uint32_t)(bits >> 16);
            memcpy(&doubles[i], &bits, sizeof bits);
            memcpy(&singles[i], &narrow, sizeof narrow);
        } while (!isfinite(doubles[i]) || !isfinite(singles[i]));
    }
    const kith_matrix wide = {doubles, COUNT / 4, 0, 4, KITH_F64};
    const kith_matrix narrow = {singles, COUNT / 4, 0, 4, KITH_F32};
    const char *path = test_path(folder, "bits.csv");
    kith_points *points = NULL;
    print_message("any double and any float32 survives csv to the last bit:\n");
    assert_int_equal(kith_points_save(folder->ctx, path, &wide), KITH_OK);
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    assert_memory_equal(kith_points_matrix(points)->data, doubles, sizeof doubles);
    kith_points_free(points);
    assert_int_equal(kith_points_save(folder->ctx, path, &narrow), KITH_OK);
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    for (int i = 0; i < COUNT; i++) {
        const float back = (float)value_of(kith_points_matrix(points), i / 4, i % 4);
        assert_memory_equal(&back, &singles[i], sizeof back);
    }
    kith_points_free(points);
}

/* A first line of many columns and very many short lines: the shape asks for 200 GB. */
static void text_that_asks_for_memory(void **state)
{
    test_folder *folder = *state;
    enum { WIDE = 100000, LINES = 250000 };
    char *text = malloc(2 * WIDE + 2 * LINES);
    assert_non_null(text);
    for (int i = 0; i < WIDE; i++) {
        memcpy(text + 2 * i, i + 1 < WIDE ? "1," : "1\n", 2);
    }
    for (int i = 0; i < LINES; i++) {
        memcpy(text + 2 * (WIDE + i), "1\n", 2);
    }
    print_message("a text file that would ask for 200 GB is told what is wrong with it:\n");
    const char *path = test_write(folder, "wide.csv", text, 2 * (WIDE + LINES));
    test_refused(folder, 'p', path, KITH_E_FORMAT, "row 1 (line 2) has 1 values, row 0 has 100000");
    free(text);
}

/* The locale of the process writes decimal commas; the files do not. */
static void locale_does_not_matter(void **state)
{
    const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE"};
    const char *found = NULL;
    for (int i = 0; i < 4 && found == NULL; i++) {
        found = setlocale(LC_ALL, names[i]);
    }
    print_message("decimal points whatever the locale: %s\n",
                  found != NULL ? found : "no such locale here");
    expect_text(*state, "l.csv", "0.5,1234567890.12345678901\n", 1, 2,
                (const double[]){0.5, 1234567890.12345678901});
    round_trip(*state, "csv", KITH_F64, 3, 3, 0);
    (void)setlocale(LC_ALL, "C");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_setup, test_folder_teardown)
    const struct CMUnitTest tests[] = {TEST(every_format_and_type),
                                       TEST(mapped_where_possible),
                                       TEST(values_that_do_not_fit),
                                       TEST(numpy_headers),
                                       TEST(text_files),
                                       TEST(text_brings_bits_back),
                                       TEST(text_that_asks_for_memory),
                                       TEST(locale_does_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
