/* SPDX-License-Identifier: Apache-2.0
 * Text as points: what is a header, an index, a separator; which columns are taken; .gz. What may
 * be meant in two ways is refused. Neighbours as text; .npy in other orders; pipes. */
#include "support/support_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "kith/kith_select.h"

/* ---- What is read --------------------------------------------------------------------------- */

typedef struct text_case {
    const char *name;
    const char *text;
    const char *columns;
    kith_header header;
    int delimiter;
    int rows;
    int cols;
    double values[6]; /* the first ones */
    int has_header;
    char separator;
} text_case;

static kith_points_params params_of(const text_case *c)
{
    kith_points_params params = kith_points_params_default();
    params.header = c->header;
    params.delimiter = c->delimiter;
    params.columns = c->columns;
    return params;
}

static void expect_case(test_folder *folder, const text_case *c)
{
    const kith_points_params params = params_of(c);
    const char *path = test_write(folder, c->name, c->text, strlen(c->text));
    kith_points *points = NULL;
    if (kith_points_open(folder->ctx, path, &params, &points) != KITH_OK) {
        fail_msg("%s", kith_ctx_detail(folder->ctx));
    }
    const kith_matrix *m = kith_points_matrix(points);
    const kith_points_source *source = kith_points_get_source(points);
    assert_int_equal(m->rows, c->rows);
    assert_int_equal(m->cols, c->cols);
    assert_int_equal(m->dtype, KITH_F64);
    for (int i = 0; i < c->rows * c->cols && i < 6; i++) {
        if (((const double *)m->data)[i] != c->values[i]) {
            fail_msg("'%s': value %d is %g", c->text, i, ((const double *)m->data)[i]);
        }
    }
    assert_int_equal(source->header, c->has_header);
    assert_int_equal(source->delimiter, c->separator);
    assert_true((source->names[0] != '\0') == (c->has_header != 0));
    kith_file_info info = {.struct_size = (uint32_t)sizeof info};
    assert_int_equal(kith_file_inspect(folder->ctx, path, &params, &info), KITH_OK);
    assert_int_equal(info.rows, c->rows);
    assert_int_equal(info.cols, c->cols);
    assert_int_equal(info.header, c->has_header);
    assert_int_equal(info.delimiter, c->separator);
    kith_points_free(points);
}

static void what_is_read(void **state)
{
    static const text_case cases[] = {
        {"t.csv", "x,y\n1,2\n3,4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 1, ','},
        {"t.csv", "5,2\n3,4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {5, 2, 3, 4}, 0, ','},
        {"t.csv", "0,1\n3,4\n", NULL, KITH_HEADER_YES, 0, 1, 2, {3, 4}, 1, ','},
        {"t.csv", "0,1\n3,4\n", NULL, KITH_HEADER_NO, 0, 2, 2, {0, 1, 3, 4}, 0, ','},
        {"t.csv", "0.0,1\n3,4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {0, 1, 3, 4}, 0, ','},
        {"t.csv", "0,1\n", NULL, KITH_HEADER_AUTO, 0, 1, 2, {0, 1}, 0, ','},
        {"t.csv", "1 2\n3  4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 0, ' '},
        {"t.txt", "  1\t2\n 3 4 \n", NULL, KITH_HEADER_AUTO, ' ', 2, 2, {1, 2, 3, 4}, 0, ' '},
        {"t.csv", "1;2\n3;4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 0, ';'},
        {"t.csv", "1\t2\n3\t4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 0, '\t'},
        {"t.tsv", "a b\tc\n1\t2\n3\t4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 1, '\t'},
        {"t.tsv", "1 2\n3 4\n", NULL, KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 0, ' '},
        {"t.csv", "a label\n3\n4\n", NULL, KITH_HEADER_AUTO, 0, 2, 1, {3, 4}, 1, ','},
        {"t.csv", "a, b; c\td\n1;2\n", NULL, KITH_HEADER_YES, ';', 1, 2, {1, 2}, 1, ';'},
        {"t.csv",
         "# made by somebody\n# x y\n5 2\n3 4\n",
         NULL,
         KITH_HEADER_AUTO,
         0,
         2,
         2,
         {5, 2, 3, 4},
         0,
         ' '},
        {"t.csv", ",x,y\n0,1,2\n1,3,4\n", "1-", KITH_HEADER_AUTO, 0, 2, 2, {1, 2, 3, 4}, 1, ','},
        {"t.csv",
         ",x,y\n0,1,2\n1,3,4\n",
         "0-",
         KITH_HEADER_AUTO,
         0,
         2,
         3,
         {0, 1, 2, 1, 3, 4},
         1,
         ','},
        {"t.csv", "x,y,z\n1,2,3\n4,5,6\n", "z,x", KITH_HEADER_AUTO, 0, 2, 2, {3, 1, 6, 4}, 1, ','},
        {"t.csv",
         "x,y,z\n1,2,3\n4,5,6\n",
         "2,0-1",
         KITH_HEADER_AUTO,
         0,
         2,
         3,
         {3, 1, 2, 6, 4, 5},
         1,
         ','},
        {"t.csv",
         "5.1,3.5,setosa\n4.9,3,iris\n",
         "0-1",
         KITH_HEADER_AUTO,
         0,
         2,
         2,
         {5.1, 3.5, 4.9, 3},
         0,
         ','},
        {"t.csv", "a,b,c\n1,,3\n4,NA,6\n", "a,c", KITH_HEADER_AUTO, 0, 2, 2, {1, 3, 4, 6}, 1, ','},
        {"t.csv", "\"1,5\",x\n\"2\",3\n", "0", KITH_HEADER_YES, 0, 1, 1, {2}, 1, ','},
        {"t.csv", "0,5\n1,6\n2,7\n", NULL, KITH_HEADER_AUTO, 0, 3, 2, {0, 5, 1, 6, 2, 7}, 0, ','},
        {"t.csv",
         "0,5\n1,6\n2,7\n3,8\n",
         "0-",
         KITH_HEADER_AUTO,
         0,
         4,
         2,
         {0, 5, 1, 6, 2, 7},
         0,
         ','},
    };
    print_message("headers, separators, comments, columns: read as they are meant:\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_case(*state, &cases[i]);
    }
    print_message("  %zu texts\n", sizeof cases / sizeof cases[0]);
}

static void what_is_refused(void **state)
{
    test_folder *folder = *state;
    static const struct {
        const char *text;
        const char *columns;
        const char *complaint;
    } cases[] = {
        {"0,1,2\n5,6,7\n", NULL, "line 1 may name the columns or be a row, its numbers count 0"},
        {"0\n5\n", NULL, "(say --header yes or --header no)"},
        {",0,1\n0,5,6\n", NULL, "its numbers count 0, 1, 2"},
        {"id,0,1\n7,5,6\n", NULL, "it has numbers and words (say --header yes or --header no)"},
        {"id,0,1\n7,5,6\n", "1-", "its numbers count 0, 1, 2"},
        {"5.1,setosa\n4.9,iris\n", NULL, "it has numbers and words"},
        {"1,,3\n4,5,6\n", NULL, "row 0, column 1 (line 1) is missing: ''"},
        {"NA,2\n4,5\n", NULL, "row 0, column 0 (line 1) is missing: 'NA'"},
        {"x,y\n1,2\n3,null\n", NULL, "row 1, column 1 (line 3) is missing: 'null'"},
        {"1,5;2,5\n3,5;4,5\n", NULL, "row 0, column 0 (line 1): '1,5' is not a number"},
        {"x,y\n1,2,3\n", NULL, "line 1 names 2 columns, row 0 has 3 values"},
        {",x,y\n0,1,2\n", NULL, "column 0 has no name and looks like an index (--columns 1-"},
        {"Unnamed: 0,x\n0,1\n", NULL, "column 0 has no name and looks like an index"},
        {"id,x\n0,9\n1,8\n2,7\n3,6\n", NULL, "column 0 counts the rows, from 0 on"},
        {"1 9\n2 8\n3 7\n4 6\n", NULL, "column 0 counts the rows, from 1 on"},
        {"x,y\n1,2\n", "z", "its header names no column 'z'"},
        {"5,2\n1,2\n", "z", "has no header that would name the column 'z'"},
        {"x,y\n1,2\n", "2", "has 2 columns, --columns asks for '2' (they count from 0)"},
        {"x,y\n1,2\n", "1-0", "--columns asks for '1-0'"},
        {"x,y\n1,2\n", "0-99999999999999999999", "--columns asks for '0-99999999999999999999'"},
        {"x,y\n1,2\n", "0,x", "--columns has column 0 twice"},
        {"# nothing\n", NULL, "holds no row of numbers"},
        {"x,y\n", NULL, "holds no row of numbers"},
    };
    print_message("what may be meant in two ways, and what is missing, is refused:\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_points *points = NULL;
        kith_points_params params = kith_points_params_default();
        params.columns = cases[i].columns;
        const char *path = test_write(folder, "t.csv", cases[i].text, strlen(cases[i].text));
        const kith_status status = kith_points_open(folder->ctx, path, &params, &points);
        assert_null(points);
        test_failed(folder, status, KITH_E_FORMAT, path, cases[i].complaint);
    }
}

static void wrong_params(void **state)
{
    test_folder *folder = *state;
    kith_points *points = NULL;
    print_message("params that are none, columns of what is no text:\n");
    const char *path = test_write(folder, "t.csv", "7,2\n", 4);
    static const char *const says[] = {"not made by kith_points_params_default()",
                                       "use is 0 and header 7", "use is -1 and header 0",
                                       "delimiter is 120", "columns is empty"};
    for (int i = 0; i < 5; i++) {
        kith_points_params params = kith_points_params_default();
        params.struct_size = i == 0 ? 2 : params.struct_size;
        params.header = i == 1 ? (kith_header)7 : KITH_HEADER_AUTO;
        params.use = i == 2 ? (kith_points_use)-1 : KITH_USE_POINTS;
        params.delimiter = i == 3 ? 'x' : 0;
        params.columns = i == 4 ? "" : NULL;
        test_failed(folder, kith_points_open(folder->ctx, path, &params, &points), KITH_E_ARGUMENT,
                    NULL, says[i]);
    }
    const float one[2] = {1, 2};
    const kith_matrix m = {one, 1, 0, 2, KITH_F32};
    kith_points_params params = kith_points_params_default();
    params.struct_size += 64; /* a newer caller's */
    assert_int_equal(kith_points_open(folder->ctx, path, &params, &points), KITH_OK);
    kith_points_free(points);
    params.columns = "0";
    path = test_path(folder, "t.fbin");
    assert_int_equal(kith_points_save(folder->ctx, path, &m), KITH_OK);
    test_failed(folder, kith_points_open(folder->ctx, path, &params, &points), KITH_E_ARGUMENT,
                path, "columns are chosen of text alone");
}

/* ---- What is compressed --------------------------------------------------------------------- */

static const char *write_gzip(test_folder *folder, const char *name, const char *text, int copies)
{
    const char *path = test_path(folder, name);
    for (int i = 0; i < copies; i++) { /* each becomes a member of its own */
        gzFile file = gzopen(path, i == 0 ? "wb" : "ab");
        assert_non_null(file);
        assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
        assert_int_equal(gzclose(file), Z_OK);
    }
    return path;
}

static void compressed_text(void **state)
{
    test_folder *folder = *state;
    kith_points *points = NULL;
    enum { LINES = 100000 };
    char *text = malloc(8 * LINES + 1);
    assert_non_null(text);
    for (int i = 0; i < LINES; i++) { /* more than the pieces in which it is unpacked */
        (void)snprintf(text + (size_t)8 * (size_t)i, 8, "%06d", i % 977);
        text[8 * i + 6] = ' ';
        text[8 * i + 7] = '\n';
    }
    text[8 * LINES] = '\0';
    print_message(".csv.gz, of one member and of two; what is damaged is said\n");
    for (int copies = 1; copies <= 2; copies++) {
        const char *path = write_gzip(folder, "t.csv.gz", text, copies);
        if (kith_points_open(folder->ctx, path, NULL, &points) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(folder->ctx));
        }
        assert_int_equal(kith_points_matrix(points)->rows, LINES * copies);
        assert_int_equal(kith_points_get_source(points)->compressed, 1);
        kith_points_free(points);
    }
    free(text);
    size_t bytes = 0;
    const char *path = write_gzip(folder, "small.tsv.gz", "1\t2\n3\t4\n", 1);
    unsigned char *whole = test_read(path, &bytes);
    for (size_t cut = 1; cut < bytes; cut++) {
        path = test_write(folder, "cut.tsv.gz", whole, cut);
        assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_E_FORMAT);
    }
    test_failed(folder, KITH_E_FORMAT, KITH_E_FORMAT, path, "is no .gz, or damaged");
    free(whole);
    test_refused(folder, 'p', test_write(folder, "plain.csv.gz", "1,2\n", 4), KITH_E_FORMAT,
                 "is no .gz, or damaged");
}

/* ---- .npy in other orders ------------------------------------------------------------------- */

static const char *write_npy(test_folder *folder, const char *header, const void *data,
                             size_t bytes)
{
    unsigned char file[256] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const size_t length = strlen(header);
    assert_true(10 + length + bytes <= sizeof file);
    file[8] = (unsigned char)length;
    memcpy(file + 10, header, length);
    memcpy(file + 10 + length, data, bytes);
    return test_write(folder, "hand.npy", file, 10 + length + bytes);
}

static void other_orders(void **state)
{
    test_folder *folder = *state;
    const int16_t columns[6] = {0, 3, 1, 4, 2, 5};                      /* of 2 x 3 */
    const unsigned char big[12] = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}; /* 0, 256, ... as >i2 */
    unsigned char floats[24];
    for (int i = 0; i < 6; i++) {
        const float value = (float)i - 0.5F;
        const unsigned char *bytes = (const unsigned char *)&value;
        for (int b = 0; b < 4; b++) {
            floats[4 * i + b] = bytes[3 - b];
        }
    }
    print_message(".npy by columns, big-endian, and both: converted, and said so\n");
    kith_points *points = NULL;
    const char *path = write_npy(
        folder, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", columns, 12);
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(((const double *)kith_points_matrix(points)->data)[i] == i);
    }
    assert_int_equal(kith_points_get_source(points)->fortran_order, 1);
    assert_int_equal(kith_points_get_source(points)->big_endian, 0);
    assert_int_equal(kith_points_get_source(points)->mapped, 0);
    kith_points_free(points);
    path =
        write_npy(folder, "{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }", big, 12);
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    assert_true(((const double *)kith_points_matrix(points)->data)[1] == 256);
    assert_int_equal(kith_points_get_source(points)->big_endian, 1);
    kith_points_free(points);
    path =
        write_npy(folder, "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 2), }", floats, 24);
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    const kith_matrix *m = kith_points_matrix(points);
    assert_int_equal(m->dtype, KITH_F32);
    assert_true(((const float *)m->data)[1] == 2.5F && ((const float *)m->data)[4] == 1.5F);
    assert_int_equal(kith_points_get_source(points)->bytes, 24);
    kith_points_free(points);

    print_message("one axis is a column for labels, and for points an error\n");
    path =
        write_npy(folder, "{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", floats, 24);
    test_refused(folder, 'p', path, KITH_E_FORMAT, "has 1 axes; 2 are needed");
    kith_points_params params = kith_points_params_default();
    params.use = KITH_USE_COLUMN;
    assert_int_equal(kith_points_open(folder->ctx, path, &params, &points), KITH_OK);
    assert_int_equal(kith_points_matrix(points)->rows, 6);
    assert_int_equal(kith_points_matrix(points)->cols, 1);
    kith_points_free(points);
}

static void converted_within_limit(void **state)
{
    test_folder *folder = *state;
    enum { SIDE = 512 };
    const char header[] = "{'descr': '<f8', 'fortran_order': True, 'shape': (512, 512), }";
    const size_t bytes = 10 + sizeof header - 1 + sizeof(double) * SIDE * SIDE;
    unsigned char *file = calloc(1, bytes);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = sizeof header - 1;
    memcpy(file + 10, header, sizeof header - 1);
    const char *path = test_write(folder, "wide.npy", file, bytes);
    free(file);
    kith_ctx_params params = kith_ctx_params_default();
    kith_ctx *ctx = NULL;
    kith_points *points = NULL;
    params.memory_limit = 1 << 20;
    params.device = "cpu";
    assert_int_equal(kith_ctx_create(&params, &ctx), KITH_OK);
    print_message("a conversion keeps to the memory limit\n");
    assert_int_equal(kith_points_open(ctx, path, NULL, &points), KITH_E_LIMIT);
    assert_null(points);
    kith_ctx_free(ctx);
}

/* ---- Pipes ---------------------------------------------------------------------------------- */

typedef struct feeding {
    const char *path;
    const void *data;
    size_t bytes;
} feeding;

static void *feed(void *arg)
{
    const feeding *f = arg;
    const int file = open(f->path, O_WRONLY);
    const ssize_t put = file >= 0 ? write(file, f->data, f->bytes) : -1;
    (void)close(file);
    return put == (ssize_t)f->bytes ? arg : NULL;
}

static kith_status open_fed(test_folder *folder, feeding *f, kith_points **points)
{
    pthread_t thread;
    void *fed = NULL;
    assert_int_equal(pthread_create(&thread, NULL, feed, f), 0);
    const kith_status status = kith_points_open(folder->ctx, f->path, NULL, points);
    assert_int_equal(pthread_join(thread, &fed), 0);
    assert_non_null(fed);
    return status;
}

static void pipes(void **state)
{
    test_folder *folder = *state;
    kith_points *points = NULL;
    size_t bytes = 0;
    const double values[4] = {7, 8, 9, 10};
    const kith_matrix m = {values, 2, 0, 2, KITH_F64};
    const char *npy = test_path(folder, "in.npy");
    assert_int_equal(kith_points_save(folder->ctx, npy, &m), KITH_OK);
    unsigned char *array = test_read(npy, &bytes);
    unsigned char *packed = test_read(write_gzip(folder, "in.csv.gz", "7,8\n9,10\n", 1), &bytes);
    const size_t packed_bytes = bytes;
    const feeding cases[] = {{test_path(folder, "pipe"), "7 8\n9 10\n", 9},
                             {test_path(folder, "pipe.csv"), "7,8\n9,10\n", 9},
                             {test_path(folder, "pipe"), packed, packed_bytes},
                             {test_path(folder, "pipe"), array, 128 + sizeof values},
                             {test_path(folder, "pipe.npy"), array, 128 + sizeof values}};
    assert_int_equal(mkfifo(test_path(folder, "pipe"), 0600), 0);
    assert_int_equal(mkfifo(test_path(folder, "pipe.csv"), 0600), 0);
    assert_int_equal(mkfifo(test_path(folder, "pipe.npy"), 0600), 0);
    print_message("text, .gz of text and .npy come out of pipes, with a name or without\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        feeding f = cases[i];
        if (open_fed(folder, &f, &points) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(folder->ctx));
        }
        const kith_matrix *back = kith_points_matrix(points);
        assert_true(back->rows == 2 && back->cols == 2);
        assert_memory_equal(back->data, values, sizeof values);
        assert_true(kith_points_get_source(points)->bytes >= sizeof values);
        assert_int_equal(kith_points_get_source(points)->mapped, 0);
        kith_points_free(points);
    }
    feeding other = {test_path(folder, "pipe"), "PK\3\4\0\0\0\0", 8};
    test_failed(folder, open_fed(folder, &other, &points), KITH_E_FORMAT, other.path,
                "brings neither text nor .npy");
    free(packed);
    free(array);
}

/* ---- Neighbours as text --------------------------------------------------------------------- */

static void expect_file(const char *path, const char *text)
{
    size_t bytes = 0;
    unsigned char *file = test_read(path, &bytes);
    if (bytes != strlen(text) || memcmp(file, text, bytes) != 0) {
        fail_msg("%s holds '%.*s'", path, (int)bytes, (const char *)file);
    }
    free(file);
}

static void neighbours_as_text(void **state)
{
    test_folder *folder = *state;
    uint32_t ids[4] = {1, 2, 0, KITH_ID_NONE};
    float distances[4] = {0.5F, 1.25F, 0.1F, 0.0F};
    const kith_neighbors n = {.ids = ids, .distances = distances, .rows = 2, .k = 2};
    const kith_neighbors bare = {.ids = ids, .rows = 2, .k = 2};
    static const struct {
        const char *name;
        kith_format format;
        bool bare;
        const char *text;
    } cases[] = {
        {"n.csv", KITH_FORMAT_AUTO, false, "id,neighbour,distance\n0,1,0.5\n0,2,1.25\n1,0,0.1\n"},
        {"n.tsv", KITH_FORMAT_AUTO, false,
         "id\tneighbour\tdistance\n0\t1\t0.5\n0\t2\t1.25\n1\t0\t0.1\n"},
        {"n.csv", KITH_FORMAT_AUTO, true, "id,neighbour\n0,1\n0,2\n1,0\n"},
        {"n.dat", KITH_FORMAT_CSV_WIDE, false,
         "id,neighbour1,neighbour2,distance1,distance2\n0,1,2,0.5,1.25\n1,0,,0.1,\n"},
        {"n.csv", KITH_FORMAT_TSV_WIDE, true, "id\tneighbour1\tneighbour2\n0\t1\t2\n1\t0\t\n"},
    };
    print_message("neighbours as text, long and wide, with and without distances\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = test_path(folder, cases[i].name);
        const kith_neighbors *given = cases[i].bare ? &bare : &n;
        if (kith_result_save(folder->ctx, path, cases[i].format, given, NULL) != KITH_OK) {
            fail_msg("%s", kith_ctx_detail(folder->ctx));
        }
        expect_file(path, cases[i].text);
    }
    test_failed(folder, kith_result_save(folder->ctx, "-", KITH_FORMAT_NPZ, &n, NULL),
                KITH_E_ARGUMENT, "-", "standard output takes text alone");
    test_refused(folder, 'r', test_path(folder, "n.csv"), KITH_E_ARGUMENT, "not one of neighbours");
    kith_result_stream_params params = kith_result_stream_params_default();
    kith_result_meta meta = kith_result_meta_default();
    kith_result_stream *stream = NULL;
    params.rows = 2;
    params.k = 2;
    meta.corpus_rows = 3;
    test_failed(
        folder,
        kith_result_stream_open(folder->ctx, test_path(folder, "s.csv"), &params, &meta, &stream),
        KITH_E_ARGUMENT, NULL, "text is written at once");
}

static void ranges_as_text(void **state)
{
    test_folder *folder = *state;
    const double line[4] = {0, 1, 3, 9};
    const kith_matrix points = {line, 4, 0, 1, KITH_F64};
    kith_radius_params params = kith_radius_params_default();
    kith_ranges *ranges = NULL;
    params.radius = 2.5;
    print_message("all within a radius as text\n");
    assert_int_equal(kith_radius(folder->ctx, &points, NULL, &params, &ranges), KITH_OK);
    const char *path = test_path(folder, "r.csv");
    assert_int_equal(kith_ranges_save(folder->ctx, path, ranges, NULL), KITH_OK);
    expect_file(path, "id,neighbour,distance\n0,1,1\n1,0,1\n1,2,2\n2,1,2\n");
    kith_ranges_free(ranges);
}

/* What kith writes it reads again without being told how. */
static void own_text(void **state)
{
    test_folder *folder = *state;
    const double values[6] = {0, 1, 2, 5, 6, 7};
    const kith_matrix m = {values, 2, 0, 3, KITH_F64};
    const char *path = test_path(folder, "own.csv");
    kith_points *points = NULL;
    print_message("a first row of 0, 1, 2 is written so that it names no columns\n");
    assert_int_equal(kith_points_save(folder->ctx, path, &m), KITH_OK);
    expect_file(path, "0.0,1,2\n5,6,7\n");
    assert_int_equal(kith_points_open(folder->ctx, path, NULL, &points), KITH_OK);
    assert_memory_equal(kith_points_matrix(points)->data, values, sizeof values);
    kith_points_free(points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_read, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(what_is_refused, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(wrong_params, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(compressed_text, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(other_orders, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(converted_within_limit, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(pipes, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(neighbours_as_text, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test_setup_teardown(ranges_as_text, test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(own_text, test_folder_setup, test_folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
