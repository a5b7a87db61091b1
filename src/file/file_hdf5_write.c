/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. A .hdf5 of a few tables is a few kilobytes that say what lies where, of the oldest form of
 * the format (superblock 0, which every reader knows), and the tables one behind the other. So it
 * is written from its first byte to its last, whole or not at all, without the HDF5 library, and
 * equal answers are equal files: no date stands in it.
 *
 *     | superblock | root: group, attributes | heap of names | tree | its node | heap of texts |
 *     | a header for each table | 8192: table 0 | table 1 | ...
 *
 * Words of the format: HDF5 File Format Specification 3.0, "Disk Format". */
#include "base/base_size.h"
#include "file/file_atomic.h"
#include "file/file_hdf5.h"

#include <assert.h>
#include <string.h>

enum {
    ROOT_AT = 96,
    HEAP_AT = 608,
    NAMES_AT = HEAP_AT + 32,
    NAME_BYTES = 16,
    NAMES_BYTES = 8 + KIN_HDF5_SETS * NAME_BYTES,
    TREE_AT = 768,
    LEAF_HALF = 4,
    TREE_HALF = 16,
    NODE_AT = TREE_AT + 24 + 8 * (4 * TREE_HALF + 1),
    TEXTS_AT = NODE_AT + 8 + 2 * LEAF_HALF * 40,
    TEXTS_BYTES = 4096, /* the least that a heap of texts has */
    SETS_AT = TEXTS_AT + TEXTS_BYTES,
    SET_BYTES = 128,
    DATA_AT = 8192,
    PREFIX_BYTES = 16, /* before the messages of an object's header */
    TEXT_TYPE_BYTES = 20
};
static_assert(SETS_AT + KIN_HDF5_SETS * SET_BYTES <= DATA_AT, "everything has its place");
static_assert(NAMES_AT + NAMES_BYTES <= TREE_AT, "names have theirs");

enum { SPACE = 1, TYPE = 3, FILL = 5, LAYOUT = 8, ATTRIBUTE = 12, GROUP = 17 };

static const uint64_t NOWHERE = UINT64_MAX;

typedef struct image {
    unsigned char bytes[DATA_AT];
    size_t at;
    size_t texts_end; /* of their heap, so far */
    uint64_t texts;
} image;

/* The low bytes of a number, which are the first ones. */
static void put(image *i, uint64_t value, size_t bytes)
{
    memcpy(i->bytes + i->at, &value, bytes);
    i->at += bytes;
}

static void put_text(image *i, const char *text, size_t room)
{
    memcpy(i->bytes + i->at, text, strlen(text));
    i->at += room;
}

static void put_message(image *i, uint64_t kind, uint64_t bytes)
{
    put(i, kind, 2);
    put(i, bytes, 2);
    put(i, 0, 4);
}

/* Before an object's messages; `end_header` says how many bytes they have. */
static void begin_header(image *i, size_t at, uint64_t messages)
{
    i->at = at;
    put(i, 1, 2);
    put(i, messages, 2);
    put(i, 1, 4);
    put(i, 0, 8);
}

static void end_header(image *i, size_t at)
{
    const uint32_t bytes = (uint32_t)(i->at - at - PREFIX_BYTES);
    memcpy(i->bytes + at + 8, &bytes, sizeof bytes);
}

static size_t type_bytes(kin_item item)
{
    return item.kind == 'f' ? 24 : 16;
}

/* Whole numbers, and IEEE's floats: where exponent and fraction lie. */
static void put_type(image *i, kin_item item)
{
    const size_t end = i->at + type_bytes(item);
    const uint64_t bits = 8 * (uint64_t)item.bytes;
    if (item.kind != 'f') {
        put(i, 0x10 | (item.kind == 'i' ? 0x800 : 0), 4);
        put(i, (uint64_t)item.bytes, 4);
        put(i, bits << 16, 4);
    } else {
        const uint64_t exponent = bits == 64 ? 11 : bits == 32 ? 8 : 5;
        const uint64_t fraction = bits - 1 - exponent;
        put(i, 0x2011 | (bits - 1) << 16, 4);
        put(i, (uint64_t)item.bytes, 4);
        put(i, bits << 16, 4);
        put(i, fraction | exponent << 8 | fraction << 24, 4);
        put(i, ((uint64_t)1 << (exponent - 1)) - 1, 4);
    }
    i->at = end;
}

/* ---- What stands before the tables ----------------------------------------------------------- */

static void put_superblock(image *i, uint64_t end)
{
    static const char magic[] = "\x89HDF\r\n\x1a\n";
    i->at = 0;
    put_text(i, magic, 8);
    put(i, 0, 5);
    put(i, 8 | 8 << 8, 3);
    put(i, LEAF_HALF | TREE_HALF << 16, 4);
    put(i, 0, 4);
    put(i, 0, 8);
    put(i, NOWHERE, 8);
    put(i, end, 8);
    put(i, NOWHERE, 8);
    put(i, 0, 8);
    put(i, ROOT_AT, 8);
    put(i, 1, 8);
    put(i, TREE_AT, 8);
    put(i, HEAP_AT, 8);
}

/* Of one value, in `bytes`, whose type has type_bytes; the type and the value come next. */
static void begin_attribute(image *i, const char *name, size_t type, size_t bytes)
{
    const size_t room = (strlen(name) + 8) / 8 * 8;
    put_message(i, ATTRIBUTE, 8 + room + (type + 7) / 8 * 8 + 8 + bytes);
    put(i, 1 | (strlen(name) + 1) << 16, 4);
    put(i, type | 8 << 16, 4);
    put_text(i, name, room);
}

/* A text stands in a heap of its own, where they are counted from 1. */
static void put_text_attribute(image *i, const char *name, const char *text)
{
    const size_t length = strlen(text);
    const size_t room = (length + 7) / 8 * 8;
    i->texts += 1;
    begin_attribute(i, name, TEXT_TYPE_BYTES, 16);
    put(i, 0x010119, 4); /* of any length, text, UTF-8, */
    put(i, 16, 4);
    put(i, 0x10, 4); /* of bytes */
    put(i, 1, 4);
    put(i, (uint64_t)8 << 16, 8);
    put(i, 1, 8);
    put(i, length, 4);
    put(i, TEXTS_AT, 8);
    put(i, i->texts, 4);
    const size_t next = i->at;
    i->at = i->texts_end;
    put(i, i->texts, 8);
    put(i, length, 8);
    put_text(i, text, room);
    i->texts_end = i->at;
    i->at = next;
}

static void end_texts(image *i)
{
    i->at = TEXTS_AT;
    put_text(i, "GCOL", 4);
    put(i, 1, 4);
    put(i, TEXTS_BYTES, 8);
    i->at = i->texts_end;
    put(i, 0, 8);
    put(i, TEXTS_AT + TEXTS_BYTES - i->texts_end, 8);
}

static void put_root(image *i, const kin_hdf5_about *about)
{
    static const kin_item whole = {'i', 8};
    begin_header(i, ROOT_AT, 5);
    put_message(i, GROUP, 16);
    put(i, TREE_AT, 8);
    put(i, HEAP_AT, 8);
    i->texts_end = TEXTS_AT + 16;
    put_text_attribute(i, "type", "dense");
    put_text_attribute(i, "distance", about->distance);
    put_text_attribute(i, "point_type", about->point_type);
    begin_attribute(i, "dimension", 12, 8);
    put_type(i, whole);
    put(i, 1, 8);
    put(i, (uint64_t)about->dimension, 8);
    end_header(i, ROOT_AT);
    end_texts(i);
}

static void put_names(image *i, const kin_hdf5_set *sets, int32_t count)
{
    i->at = HEAP_AT;
    put_text(i, "HEAP", 4);
    put(i, 0, 4);
    put(i, NAMES_BYTES, 8);
    put(i, 1, 8); /* nothing is free */
    put(i, NAMES_AT, 8);
    put(i, 0, 8);
    for (int32_t s = 0; s < count; s++) {
        put_text(i, sets[s].name, NAME_BYTES);
    }
    i->at = TREE_AT;
    put_text(i, "TREE", 4);
    put(i, (uint64_t)1 << 16, 4);
    put(i, NOWHERE, 8);
    put(i, NOWHERE, 8);
    put(i, 0, 8);
    put(i, NODE_AT, 8);
    put(i, 8 + (uint64_t)(count - 1) * NAME_BYTES, 8);
    i->at = NODE_AT;
    put_text(i, "SNOD", 4);
    put(i, 1 | (uint64_t)count << 16, 4);
    for (int32_t s = 0; s < count; s++) {
        put(i, 8 + (uint64_t)s * NAME_BYTES, 8);
        put(i, SETS_AT + (uint64_t)s * SET_BYTES, 8);
        put(i, 0, 8);
        put(i, 0, 8);
        put(i, 0, 8);
    }
}

static uint64_t bytes_of(const kin_hdf5_set *set)
{
    return kin_size_mul((uint64_t)set->rows,
                        kin_size_mul((uint64_t)set->cols, (uint64_t)set->item.bytes));
}

/* Tables begin at multiples of 8 bytes. */
static uint64_t room_of(const kin_hdf5_set *set)
{
    return kin_size_add(bytes_of(set), 7) / 8 * 8;
}

static void put_set(image *i, size_t at, const kin_hdf5_set *set, uint64_t data)
{
    begin_header(i, at, 4);
    put_message(i, SPACE, 24);
    put(i, 1 | 2 << 8, 8);
    put(i, (uint64_t)set->rows, 8);
    put(i, (uint64_t)set->cols, 8);
    put_message(i, TYPE, type_bytes(set->item));
    put_type(i, set->item);
    put_message(i, FILL, 8);
    put(i, 0x020202, 8);
    put_message(i, LAYOUT, 24);
    put(i, 3 | 1 << 8, 2);
    put(i, data, 8);
    put(i, bytes_of(set), 8);
    put(i, 0, 6);
    end_header(i, at);
}

/* ---- The file -------------------------------------------------------------------------------- */

static kith_status put_rows(kin_writer *writer, const kin_hdf5_set *set)
{
    const uint64_t row_bytes = (uint64_t)set->cols * (uint64_t)set->item.bytes;
    for (int64_t row = 0; row < set->rows; row++) {
        KIN_TRY(kin_writer_put(writer, (const char *)set->data + row * set->stride, row_bytes));
    }
    return kin_writer_pad(writer, room_of(set) - bytes_of(set));
}

kith_status kin_hdf5_save(kith_ctx *ctx, const char *path, const kin_hdf5_about *about,
                          const kin_hdf5_set *sets, int32_t count)
{
    image *i = NULL;
    uint64_t data = DATA_AT;
    kin_writer writer;
    KIN_HOLD(hold, ctx);
    KIN_NEW_ZERO(&hold, i, 1, "a file's beginning");
    for (int32_t s = 0; s < count; s++) {
        put_set(i, SETS_AT + (size_t)s * SET_BYTES, &sets[s], data);
        data = kin_size_add(data, room_of(&sets[s]));
    }
    put_names(i, sets, count);
    put_root(i, about);
    put_superblock(i, data);
    KIN_TRY(kin_writer_open(ctx, path, &writer));
    writer.total = data;
    kith_status status = kin_writer_put(&writer, i->bytes, DATA_AT);
    for (int32_t s = 0; s < count && status == KITH_OK; s++) {
        status = put_rows(&writer, &sets[s]);
    }
    return kin_writer_close(&writer, status);
}
