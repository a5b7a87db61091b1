/* SPDX-License-Identifier: Apache-2.0
 * NumPy's files: the header of an array, read and written, and neighbours from .npz: kith's own
 * ids, distances and meta, or a sparse matrix whose rows are of one length. Written by numpy.savez,
 * numpy.savez_compressed, scipy.sparse.save_npz or kith. */
#include "file/file_numpy.h"

#include "base/base_mem.h"
#include "base/base_size.h"
#include "file/file_open.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- The header of an array ------------------------------------------------------------------ */

static const unsigned char npy_magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
enum { MAGIC_BYTES = 8, ALIGNMENT = 64 };

/* The header's text, read from left to right. */
typedef struct cursor {
    const char *at;
    const char *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) {
        c->at++;
    }
}

static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at++;
        return true;
    }
    return false;
}

static bool take_word(cursor *c, const char *word)
{
    const size_t bytes = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) >= bytes && memcmp(c->at, word, bytes) == 0) {
        c->at += bytes;
        return true;
    }
    return false;
}

static bool take_string(cursor *c, char *text, size_t room)
{
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) {
        return false;
    }
    const char quote = *c->at++;
    size_t used = 0;
    while (c->at < c->end && *c->at != quote && used + 1 < room) {
        text[used++] = *c->at++;
    }
    text[used] = '\0';
    return take(c, quote);
}

static bool take_number(cursor *c, uint64_t *number)
{
    skip_space(c);
    if (c->at >= c->end || *c->at < '0' || *c->at > '9') {
        return false;
    }
    *number = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        const uint64_t digit = (uint64_t)(*c->at++ - '0');
        *number = kin_size_add(kin_size_mul(*number, 10), digit);
    }
    if (c->at < c->end && *c->at == 'L') { /* Python 2 wrote 10L */
        c->at++;
    }
    return true;
}

static bool take_shape(cursor *c, kin_npy *npy)
{
    if (!take(c, '(')) {
        return false;
    }
    while (!take(c, ')')) {
        if (npy->axes == KIN_NPY_AXES || !take_number(c, &npy->shape[npy->axes])) {
            return false;
        }
        npy->axes++;
        if (!take(c, ',')) {
            return take(c, ')');
        }
    }
    return true;
}

static bool take_descr(cursor *c, kin_npy *npy)
{
    char text[32];
    if (!take_string(c, text, sizeof text)) {
        return false;
    }
    cursor d = {text, text + strlen(text)};
    npy->big_endian = take(&d, '>');
    if (!npy->big_endian && !take(&d, '<') && !take(&d, '|')) {
        (void)take(&d, '=');
    }
    if (d.at >= d.end) {
        return false;
    }
    npy->kind = *d.at++;
    return take_number(&d, &npy->item_bytes) && d.at == d.end;
}

static bool take_entry(cursor *c, kin_npy *npy, unsigned *seen)
{
    char key[32];
    if (!take_string(c, key, sizeof key) || !take(c, ':')) {
        return false;
    }
    if (strcmp(key, "descr") == 0) {
        *seen |= 1;
        return take_descr(c, npy);
    }
    if (strcmp(key, "fortran_order") == 0) {
        *seen |= 2;
        npy->fortran_order = take_word(c, "True");
        return npy->fortran_order || take_word(c, "False");
    }
    if (strcmp(key, "shape") == 0 && (*seen & 4) == 0) {
        *seen |= 4;
        return take_shape(c, npy);
    }
    return false;
}

static bool take_header(cursor *c, kin_npy *npy)
{
    unsigned seen = 0;
    if (!take(c, '{')) {
        return false;
    }
    while (!take(c, '}')) {
        if (!take_entry(c, npy, &seen)) {
            return false;
        }
        if (!take(c, ',')) {
            return take(c, '}') && seen == 7;
        }
    }
    return seen == 7;
}

/* How long the text is and where it starts, by version: 2 bytes of length in the first, 4 later. */
static kith_status find_text(kith_ctx *ctx, const char *label, const unsigned char *file,
                             uint64_t bytes, cursor *text)
{
    KIN_DAMAGED_IF(bytes < MAGIC_BYTES || memcmp(file, npy_magic, sizeof npy_magic) != 0, ctx,
                   label, "does not begin with the magic of .npy (is it of another format?)");
    const int version = file[6];
    KIN_DAMAGED_IF(version < 1 || version > 3, ctx, label,
                   "is .npy of version %d; kith reads 1 to 3 (save it with numpy.save)", version);
    const uint64_t length_bytes = version == 1 ? 2 : 4;
    uint64_t length = 0;
    if (bytes >= MAGIC_BYTES + length_bytes) {
        memcpy(&length, file + MAGIC_BYTES, (size_t)length_bytes);
    }
    const uint64_t start = MAGIC_BYTES + length_bytes;
    KIN_DAMAGED_IF(
        bytes < start + length, ctx, label,
        "has %" PRIu64 " bytes and ends within its header (it is cut short: copy it again)", bytes);
    text->at = (const char *)file + start;
    text->end = text->at + length;
    return KITH_OK;
}

kith_status kin_npy_parse(kith_ctx *ctx, const char *label, const unsigned char *file,
                          uint64_t bytes, kin_npy *npy)
{
    memset(npy, 0, sizeof *npy);
    cursor text = {NULL, NULL};
    KIN_TRY(find_text(ctx, label, file, bytes, &text));
    const char *end = text.end;
    KIN_DAMAGED_IF(!take_header(&text, npy), ctx, label,
                   "its header is not one of a plain array with descr, fortran_order and shape "
                   "(save an array of numbers with numpy.save)");
    npy->data = (const unsigned char *)end;
    npy->data_bytes = bytes - (uint64_t)(npy->data - file);
    uint64_t need = kin_size_mul(npy->item_bytes, npy->kind == 'U' ? 4 : 1);
    for (int32_t i = 0; i < npy->axes; i++) {
        need = kin_size_mul(need, npy->shape[i]);
    }
    KIN_DAMAGED_IF(need != npy->data_bytes, ctx, label,
                   "has %" PRIu64 " bytes behind its header, which announces %" PRIu64 " (%s)",
                   npy->data_bytes, need,
                   npy->data_bytes < need ? "it is cut short: copy it again"
                                          : "it is too long: save it again");
    return KITH_OK;
}

/* The number type, or one of 0 bytes for what is no number that kith reads. */
static kin_item npy_item(const kin_npy *npy)
{
    const int32_t bytes = npy->item_bytes <= 8 ? (int32_t)npy->item_bytes : 0;
    if (npy->kind == 'b' && bytes == 1) { /* booleans are bytes of 0 and 1 */
        return kin_item_make('u', 1);
    }
    const bool integer = npy->kind == 'i' || npy->kind == 'u';
    const bool known = (npy->kind == 'f' && (bytes == 2 || bytes == 4 || bytes == 8)) ||
                       (integer && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8));
    return known ? kin_item_make(npy->kind, bytes) : kin_item_make('\0', 0);
}

/* A two-dimensional table of numbers, in either order of rows and columns, and of bytes. */
static kith_status table_shape(const kin_source *source, kin_shape *shape)
{
    kin_npy npy;
    kith_ctx *ctx = source->ctx;
    KIN_TRY(kin_npy_parse(ctx, source->path, source->input->data, source->input->bytes, &npy));
    const kin_item item = npy_item(&npy);
    KIN_DAMAGED_IF(item.bytes == 0, ctx, source->path,
                   "holds values of NumPy's type '%c%" PRIu64
                   "', which kith does not read (save x.astype('float32'))",
                   npy.kind >= ' ' && npy.kind <= '~' ? npy.kind : '?', npy.item_bytes);
    if (source->column && npy.axes == 1) {
        npy.shape[npy.axes++] = 1;
    }
    KIN_DAMAGED_IF(npy.axes != 2, ctx, source->path,
                   "has %" PRId32
                   " axes; 2 are needed, rows and columns (save x.reshape(rows, columns))",
                   npy.axes);
    KIN_TRY(kin_shape_make(source, npy.data, npy.shape[0], npy.shape[1], item, shape));
    shape->swapped = npy.big_endian && item.bytes > 1;
    if (npy.fortran_order && shape->rows > 1 && shape->cols > 1) {
        shape->stride = item.bytes;
        shape->step = shape->rows * item.bytes;
    }
    return KITH_OK;
}

const kin_reader kin_reader_npy = {.shape = table_shape};

void kin_npy_descr(kin_item item, char descr[8])
{
    (void)snprintf(descr, 8, "%c%c%d", item.bytes == 1 ? '|' : '<', item.kind,
                   (int)item.bytes % 10);
}

uint64_t kin_npy_header(char *header, const char *descr, int axes, int64_t rows, int64_t cols)
{
    char shape[64] = "()";
    if (axes == 1) {
        (void)snprintf(shape, sizeof shape, "(%" PRId64 ",)", rows);
    } else if (axes == 2) {
        (void)snprintf(shape, sizeof shape, "(%" PRId64 ", %" PRId64 ")", rows, cols);
    }
    enum { START = MAGIC_BYTES + 2 };
    const char *quote = descr[0] == '[' ? "" : "'";
    const int length = snprintf(header + START, KIN_NPY_HEADER_MAX - START,
                                "{'descr': %s%s%s, 'fortran_order': False, 'shape': %s, }", quote,
                                descr, quote, shape);
    uint64_t used = START + (uint64_t)length;
    const uint64_t total = (uint64_t)kin_round_up((int64_t)used + 1, ALIGNMENT);
    memset(header + used, ' ', total - used);
    header[total - 1] = '\n';
    memcpy(header, npy_magic, sizeof npy_magic);
    header[6] = 1;
    header[7] = 0;
    const uint16_t text_bytes = (uint16_t)(total - START);
    memcpy(header + MAGIC_BYTES, &text_bytes, sizeof text_bytes);
    return total;
}

/* ---- Neighbours from .npz -------------------------------------------------------------------- */

/* One array of the archive, unpacked. */
typedef struct member_array {
    char label[KIN_DETAIL_BYTES]; /* "FILE: member ids.npy" */
    bool found;
    void *block; /* its bytes, when it was deflated */
    kin_npy npy;
} member_array;

static kith_status load_array(const kin_source *source, const char *name, member_array *array)
{
    kith_ctx *ctx = source->ctx;
    const char *path = source->path;
    kin_unzip_member member;
    const unsigned char *data = NULL;
    memset(array, 0, sizeof *array);
    (void)snprintf(array->label, sizeof array->label, "%s: member '%s'", path, name);
    KIN_TRY(kin_unzip_find(ctx, path, &source->input->map, name, &member));
    if (!member.found) {
        return KITH_OK;
    }
    kith_status status = kin_unzip_load(ctx, array->label, &member, &data, &array->block);
    KIN_THEN(status, kin_npy_parse(ctx, array->label, data, member.bytes, &array->npy));
    if (status != KITH_OK) {
        kin_free(ctx, array->block);
        array->block = NULL;
        return status;
    }
    array->found = true;
    return KITH_OK;
}

static void free_array(kith_ctx *ctx, member_array *array)
{
    kin_free(ctx, array->block);
    array->block = NULL;
}

/* As a table of rows x cols; a list of one axis counts as one row. */
static kith_status array_shape(kith_ctx *ctx, const member_array *array, int axes, kin_shape *shape)
{
    const kin_npy *npy = &array->npy;
    const kin_item item = npy_item(npy);
    KIN_FAIL_IF(!array->found, ctx, KITH_E_FORMAT, kin_at(array->label),
                "is missing (kith reads ids and distances, or a sparse matrix in CSR form)");
    KIN_FAIL_IF(item.bytes == 0 || (npy->big_endian && item.bytes > 1), ctx, KITH_E_FORMAT,
                kin_at(array->label), "holds no little-endian numbers (save integers and float32)");
    KIN_FAIL_IF(npy->axes != axes || (axes == 2 && npy->fortran_order && npy->shape[0] > 1), ctx,
                KITH_E_FORMAT, kin_at(array->label),
                "has %" PRId32 " axes, %d in C order are needed (save numpy.ascontiguousarray(x))",
                npy->axes, axes);
    shape->data = npy->data;
    shape->rows = axes == 2 ? (int64_t)npy->shape[0] : 1;
    shape->cols = (int64_t)npy->shape[axes - 1];
    shape->stride = shape->cols * item.bytes;
    shape->item = item;
    return KITH_OK;
}

/* The letters of a zero-dimensional string array; what is none stays unread. */
static kith_status take_meta(const kin_source *source, kith_result_meta *meta)
{
    member_array array;
    KIN_TRY(load_array(source, "meta.npy", &array));
    const kin_npy *npy = &array.npy;
    if (array.found && npy->kind == 'U' && npy->axes == 0 && !npy->big_endian) {
        char text[8 * KIN_META_TEXT];
        uint64_t used = 0;
        for (uint64_t i = 0; i < npy->item_bytes && used < sizeof text; i++) {
            uint32_t letter = 0;
            memcpy(&letter, npy->data + 4 * i, sizeof letter);
            if (letter == 0) {
                break;
            }
            text[used++] = letter < 128 ? (char)letter : '?';
        }
        kin_meta_parse(text, used, meta);
    }
    free_array(source->ctx, &array);
    return KITH_OK;
}

/* Hands the array's block, if it has one, to the result, which may have views into it. */
static kith_status keep_block(kith_result *result, member_array *array)
{
    if (array->block != NULL) {
        KIN_FAIL_IF(result->block_count == KIN_RESULT_BLOCKS, result->ctx, KITH_E_INTERNAL,
                    kin_at_file(array->label), "too many blocks");
        result->blocks[result->block_count++] = array->block;
        array->block = NULL;
    }
    return KITH_OK;
}

static kith_status take_distances(const kin_source *source, kith_result *result)
{
    member_array array;
    kin_shape shape;
    KIN_TRY(load_array(source, "distances.npy", &array));
    if (!array.found) {
        return KITH_OK;
    }
    kith_status status = array_shape(result->ctx, &array, 2, &shape);
    if (status == KITH_OK &&
        (shape.rows != result->neighbors.rows || shape.cols != result->neighbors.k)) {
        status = kin_fail_at(result->ctx, KITH_E_FORMAT, kin_at(array.label),
                             "is %" PRId64 " x %" PRId64 ", the ids are %" PRId64 " x %" PRId64
                             " (save both from one search)",
                             shape.rows, shape.cols, result->neighbors.rows, result->neighbors.k);
    }
    KIN_THEN(status, keep_block(result, &array));
    KIN_THEN(status, kin_result_take_distances(result, array.label, &shape));
    free_array(result->ctx, &array);
    return status;
}

static kith_status open_plain(const kin_source *source, kith_result *result, member_array *ids)
{
    kith_ctx *ctx = source->ctx;
    kin_shape shape;
    KIN_TRY(array_shape(ctx, ids, 2, &shape));
    KIN_TRY(kin_shape_check(ctx, source->path, (uint64_t)shape.rows, (uint64_t)shape.cols,
                            source->cols_max));
    KIN_TRY(keep_block(result, ids));
    KIN_TRY(take_meta(source, &result->meta));
    KIN_TRY(kin_result_take_ids(result, ids->label, &shape));
    return take_distances(source, result);
}

/* ---- Sparse matrices ------------------------------------------------------------------------- */

static bool is_csr(const member_array *format)
{
    const kin_npy *npy = &format->npy;
    if (npy->axes != 0 || npy->item_bytes != 3) {
        return false;
    }
    const int step = npy->kind == 'U' ? 4 : 1; /* letters of 4 bytes, or bytes */
    return (npy->kind == 'U' || npy->kind == 'S') && npy->data[0] == 'c' &&
           npy->data[step] == 's' && npy->data[2 * step] == 'r';
}

static int64_t integer_at(const kin_shape *shape, int64_t i)
{
    double value = 0.0;
    const bool integer = shape->item.kind == 'i' || shape->item.kind == 'u';
    const bool whole =
        kin_item_load(shape->item, shape->data + i * (int64_t)shape->item.bytes, &value);
    return integer && whole && value >= 0.0 && value <= 9007199254740992.0 ? (int64_t)value : -1;
}

/* The one length k of all rows, from indptr: -1, or the first row that differs (*k is then 0). */
static int64_t find_length(const kin_shape *indptr, int64_t *k)
{
    const int64_t rows = indptr->cols - 1;
    const int64_t length = rows >= 1 ? integer_at(indptr, 1) : 0;
    *k = 0;
    if (length < 1 || integer_at(indptr, 0) != 0) {
        return 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        const uint64_t end = kin_size_mul((uint64_t)row + 1, (uint64_t)length);
        if ((uint64_t)integer_at(indptr, row + 1) != end) {
            return row;
        }
    }
    *k = length;
    return -1;
}

static kith_status row_length(kith_ctx *ctx, const char *path, const kin_shape *indptr, int64_t *k)
{
    const int64_t row = find_length(indptr, k);
    if (row < 0) {
        return KITH_OK;
    }
    return kin_fail_at(
        ctx, KITH_E_FORMAT, kin_at_file(path),
        "is a sparse matrix whose rows are not of one length, at least 1 (row %" PRId64
        " differs; neighbours need the same k for all)",
        row);
}

enum { INDPTR, SHAPE, INDICES, DATA, ARRAYS };
static const char *const array_names[ARRAYS] = {"indptr.npy", "shape.npy", "indices.npy",
                                                "data.npy"};

static kith_status take_csr(const kin_source *source, kith_result *result, member_array *arrays)
{
    kith_ctx *ctx = source->ctx;
    const char *path = source->path;
    kin_shape shapes[ARRAYS];
    int64_t k = 0;
    for (int i = 0; i < ARRAYS; i++) {
        KIN_TRY(array_shape(ctx, &arrays[i], 1, &shapes[i]));
    }
    KIN_TRY(row_length(ctx, path, &shapes[INDPTR], &k));
    const int64_t rows = shapes[INDPTR].cols - 1;
    KIN_TRY(kin_shape_check(ctx, path, (uint64_t)rows, (uint64_t)k, source->cols_max));
    KIN_DAMAGED_IF(shapes[INDICES].cols != rows * k || shapes[DATA].cols != rows * k ||
                       shapes[SHAPE].cols != 2 || integer_at(&shapes[SHAPE], 0) != rows,
                   ctx, path,
                   "its indptr announces %" PRId64 " rows of %" PRId64
                   ", but indices, data or shape do not agree (it is damaged: save it again)",
                   rows, k);
    KIN_TRY(take_meta(source, &result->meta));
    const int64_t columns = integer_at(&shapes[SHAPE], 1);
    const int64_t corpus_rows = columns > 0 ? columns : 0;
    KIN_DAMAGED_IF(result->meta.points.rows > 0 && result->meta.points.rows != corpus_rows, ctx,
                   path,
                   "has %" PRId64 " columns, and is of %" PRId64
                   " points by its meta (it was changed: save it again)",
                   corpus_rows, result->meta.points.rows);
    result->meta.corpus_rows = corpus_rows;
    for (int i = INDICES; i <= DATA; i++) {
        shapes[i].rows = rows;
        shapes[i].cols = k;
        shapes[i].stride = k * shapes[i].item.bytes;
        KIN_TRY(keep_block(result, &arrays[i]));
    }
    KIN_TRY(kin_result_take_ids(result, arrays[INDICES].label, &shapes[INDICES]));
    return kin_result_take_distances(result, arrays[DATA].label, &shapes[DATA]);
}

static kith_status open_csr(const kin_source *source, kith_result *result)
{
    kith_ctx *ctx = source->ctx;
    member_array *arrays = NULL;
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, arrays, ARRAYS, "a sparse matrix");
    kith_status status = KITH_OK;
    for (int i = 0; i < ARRAYS; i++) {
        KIN_THEN(status, load_array(source, array_names[i], &arrays[i]));
    }
    KIN_THEN(status, take_csr(source, result, arrays));
    for (int i = 0; i < ARRAYS; i++) {
        free_array(ctx, &arrays[i]);
    }
    return status;
}

static kith_status read_lists(const kin_source *source, kith_result *result)
{
    kith_ctx *ctx = source->ctx;
    member_array first;
    KIN_TRY(load_array(source, "format.npy", &first));
    if (first.found) {
        const bool csr = is_csr(&first);
        free_array(ctx, &first);
        return csr ? open_csr(source, result)
                   : kin_fail_at(ctx, KITH_E_FORMAT, kin_at_file(source->path),
                                 "is a sparse matrix that is not in CSR form (save x.tocsr())");
    }
    KIN_TRY(load_array(source, "ids.npy", &first));
    const kith_status status = open_plain(source, result, &first);
    free_array(ctx, &first);
    return status;
}

/* From the headers; cols is 0 where rows of a sparse matrix differ in length. */
static kith_status measure(const kin_source *source, bool csr, kin_shape *shape)
{
    member_array array;
    kith_ctx *ctx = source->ctx;
    KIN_TRY(load_array(source, csr ? "indptr.npy" : "ids.npy", &array));
    const kith_status status = array_shape(ctx, &array, csr ? 1 : 2, shape);
    if (status == KITH_OK && csr) {
        const kin_shape indptr = *shape;
        shape->rows = indptr.cols - 1;
        (void)find_length(&indptr, &shape->cols);
    }
    free_array(ctx, &array);
    return status;
}

static kith_status inspect(const kin_source *source, kith_file_info *info)
{
    member_array array;
    kith_result_meta meta = kith_result_meta_default();
    kin_shape shape = {.rows = 0};
    meta.kind = KITH_KIND_RESULT;
    KIN_TRY(load_array(source, "format.npy", &array));
    const bool csr = array.found && is_csr(&array);
    free_array(source->ctx, &array);
    KIN_TRY(measure(source, csr, &shape));
    KIN_TRY(take_meta(source, &meta));
    kin_info_take_shape(info, csr && shape.cols == 0 ? KITH_KIND_RANGES : meta.kind, &shape);
    info->dtype = KITH_DTYPE_NONE;
    kin_info_take_meta(info, &meta);
    (void)snprintf(info->format, sizeof info->format, "%s", csr ? "csr" : "npz");
    return KITH_OK;
}

const kin_reader kin_reader_npz = {.lists = read_lists, .inspect = inspect};
