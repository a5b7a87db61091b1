/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_numpy.h"

#include "base/base_size.h"
#include "base/base_try.h"

#include <inttypes.h>
#include <stdio.h>

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

kin_item kin_npy_item(const kin_npy *npy)
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
    const kin_item item = kin_npy_item(&npy);
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
