/* SPDX-License-Identifier: Apache-2.0
 * The bytes of an input: a file, mapped; what comes out of a pipe; what zlib packed, as a whole or
 * as a member of a zip archive. */
#include "file/file_numpy.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- What zlib packed ----------------------------------------------------------------------- */

enum { PIECE_BYTES = 1 << 20 };

/* From memory to memory. */
typedef struct inflating {
    kith_ctx *ctx;
    const char *path;
    const unsigned char *from;
    uint64_t from_bytes;
    uint64_t from_left;
    unsigned char *to; /* NULL: what comes is counted and dropped, piece by piece */
    unsigned char *dropped;
    uint64_t unpacked;
    uint64_t room; /* of to */
    z_stream stream;
} inflating;

static void *allocate(void *ctx, unsigned count, unsigned bytes)
{
    void *block = NULL;
    (void)kin_alloc(ctx, &block, count, bytes, "decompression");
    return block;
}

static void release(void *ctx, void *block)
{
    kin_free(ctx, block);
}

/* One step of inflate: at most a piece in, at most a piece out. */
static int inflate_step(inflating *u)
{
    const uInt in = (uInt)(u->from_left < PIECE_BYTES ? u->from_left : PIECE_BYTES);
    const uint64_t room = u->to != NULL ? u->room - u->unpacked : PIECE_BYTES;
    const uInt out = (uInt)(room < PIECE_BYTES ? room : PIECE_BYTES);
    u->stream.next_in = (z_const Bytef *)(uintptr_t)(u->from + (u->from_bytes - u->from_left));
    u->stream.avail_in = in;
    u->stream.next_out = u->to != NULL ? u->to + u->unpacked : u->dropped;
    u->stream.avail_out = out;
    const int result = inflate(&u->stream, Z_NO_FLUSH);
    u->from_left -= in - u->stream.avail_in;
    u->unpacked += out - u->stream.avail_out;
    return result;
}

/* Runs `all` of these steps over the whole input, with zlib's memory of the context; verb: of what
 * there may be no memory for. */
static kith_status inflate_all(inflating *u, int window, const char *verb,
                               kith_status (*all)(inflating *))
{
    u->from_left = u->from_bytes;
    u->unpacked = 0;
    u->stream = (z_stream){.zalloc = allocate, .zfree = release, .opaque = u->ctx};
    KIN_FAIL_IF(inflateInit2(&u->stream, window) != Z_OK, u->ctx, KITH_E_MEMORY,
                kin_at_file(u->path), "no memory to %s it (free some memory)", verb);
    const kith_status status = all(u);
    (void)inflateEnd(&u->stream);
    return status;
}

/* ---- .gz ------------------------------------------------------------------------------------- */

enum { GZIP_ONLY = 16 };

static bool gzip_begins(const unsigned char *data, uint64_t bytes)
{
    return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

/* Bytes behind the last member are no member: gunzip passes over zeros alone, and so do we. */
static bool only_zeros(const inflating *u)
{
    for (uint64_t i = 0; i < u->from_left; i++) {
        if (u->from[u->from_bytes - u->from_left + i] != 0) {
            return false;
        }
    }
    return true;
}

/* Once all bytes are in, what zlib still holds comes out until the stream has ended. */
static kith_status unpack_members(inflating *u)
{
    for (;;) {
        const bool more = u->from_left > 0;
        int result = inflate_step(u);
        const bool end = result == Z_STREAM_END && only_zeros(u);
        if (result == Z_STREAM_END && !end) {
            result = inflateReset(&u->stream);
        }
        KIN_DAMAGED_IF(result != Z_OK && !end, u->ctx, u->path,
                       "is no .gz, or damaged (make it again)");
        if (more) {
            KIN_TRY(kin_progress(u->ctx, "read", (double)(u->from_bytes - u->from_left),
                                 (double)u->from_bytes));
        }
        if (end) {
            return KITH_OK;
        }
    }
}

static kith_status run(inflating *u)
{
    return inflate_all(u, MAX_WBITS + GZIP_ONLY, "unpack", unpack_members);
}

/* All members one behind the other, as gunzip does; *block is the caller's to free. Its size is
 * counted first, so that no more is asked for than there is. */
static kith_status gzip_unpack(kith_ctx *ctx, const char *path, const unsigned char *data,
                               uint64_t bytes, unsigned char **block, uint64_t *unpacked)
{
    inflating u = {.ctx = ctx, .path = path, .from = data, .from_bytes = bytes};
    *block = NULL;
    KIN_TRY(kin_alloc(ctx, &u.dropped, PIECE_BYTES, 1, "a read buffer"));
    kith_status status = run(&u);
    kin_free(ctx, u.dropped);
    KIN_TRY(status);
    /* A byte more: inflate wants room also where nothing is left to come. */
    u.room = u.unpacked + 1;
    KIN_TRY(kin_alloc(ctx, block, u.room, 1, "an unpacked file"));
    u.to = *block;
    status = run(&u);
    *unpacked = u.unpacked;
    if (status != KITH_OK) {
        kin_free(ctx, *block);
        *block = NULL;
    }
    return status;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

enum { FIRST_BYTES = 1 << 16, WAIT_MS = 100, WRITER_TURNS = 20 };

bool kin_input_is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool kin_input_is_pipe(const char *path)
{
    struct stat info;
    return kin_input_is_standard(path) ||
           (stat(path, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)));
}

/* What was read so far, in a block that doubles. */
typedef struct pipe_bytes {
    unsigned char *data;
    uint64_t used;
    uint64_t room;
    int turns; /* that were waited for somebody to write */
} pipe_bytes;

static kith_status make_room(kith_ctx *ctx, pipe_bytes *pipe)
{
    if (pipe->used < pipe->room) {
        return KITH_OK;
    }
    unsigned char *wider = NULL;
    const uint64_t room = pipe->room > 0 ? kin_size_mul(pipe->room, 2) : FIRST_BYTES;
    KIN_TRY(kin_alloc(ctx, &wider, room, 1, "what a pipe brings"));
    if (pipe->used > 0) {
        memcpy(wider, pipe->data, (size_t)pipe->used);
    }
    kin_free(ctx, pipe->data);
    pipe->data = wider;
    pipe->room = room;
    return KITH_OK;
}

/* Waits for bytes in short turns, so that a job is cancelled also while nothing comes. A pipe with
 * a name may be there before who writes to it, but not for long: else it would hold us for ever. */
static kith_status read_some(kith_ctx *ctx, const char *path, int file, pipe_bytes *pipe, bool *end)
{
    struct pollfd waited = {.fd = file, .events = POLLIN};
    const bool standard = kin_input_is_standard(path);
    uint64_t got = 0;
    int error = EAGAIN;
    KIN_TRY(make_room(ctx, pipe));
    while (error == EAGAIN) {
        KIN_TRY(kin_progress(ctx, "read", 0.0, 1.0));
        if (standard && poll(&waited, 1, WAIT_MS) <= 0) {
            continue;
        }
        error = kin_file_read_some(file, pipe->data + pipe->used, pipe->room - pipe->used, &got);
        const bool nobody = error == 0 && got == 0 && pipe->used == 0 && !standard;
        if (error == EAGAIN) {
            (void)poll(&waited, 1, WAIT_MS);
        } else if (nobody && pipe->turns++ < WRITER_TURNS) {
            (void)poll(NULL, 0, WAIT_MS);
            error = EAGAIN;
        }
    }
    pipe->used += got;
    *end = got == 0;
    KIN_PASS_IF(error == 0, ctx, KITH_E_IO, kin_at_file(path), "cannot be read: %s (give a file)",
                strerror(error));
}

static kith_status read_pipe(kith_ctx *ctx, const char *path, kin_input *input)
{
    pipe_bytes pipe = {.data = NULL};
    bool end = false;
    kith_status status = KITH_OK;
    const bool standard = kin_input_is_standard(path);
    /* Without O_NONBLOCK this would wait for a writer where nothing can be cancelled. */
    const int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    KIN_FAIL_IF(file < 0, ctx, KITH_E_IO, kin_at_file(path),
                "cannot be opened: %s (check the path)", strerror(errno));
    while (status == KITH_OK && !end) {
        status = read_some(ctx, path, file, &pipe, &end);
    }
    if (!standard) {
        (void)close(file);
    }
    input->block = pipe.data;
    input->data = pipe.data;
    input->bytes = pipe.used;
    return status;
}

static bool ends_in_gz(const char *path)
{
    const size_t length = strlen(path);
    return length > 3 && strcasecmp(path + length - 3, ".gz") == 0;
}

static kith_status unpack(kith_ctx *ctx, const char *path, kin_input *input)
{
    unsigned char *block = NULL;
    uint64_t bytes = 0;
    KIN_TRY(gzip_unpack(ctx, path, input->data, input->bytes, &block, &bytes));
    kin_map_close(&input->map);
    kin_free(ctx, input->block);
    input->block = block;
    input->data = block;
    input->bytes = bytes;
    input->compressed = true;
    return KITH_OK;
}

kith_status kin_input_check_empty(kith_ctx *ctx, const char *path, uint64_t bytes)
{
    KIN_SOUND_IF(bytes > 0, ctx, path, "is empty (it has 0 bytes; make it again)");
}

kith_status kin_input_map(kith_ctx *ctx, const char *path, kin_input *input)
{
    KIN_TRY(kin_map_open(ctx, path, true, &input->map));
    input->data = input->map.data;
    input->bytes = input->map.bytes;
    input->file_bytes = input->bytes;
    return kin_input_check_empty(ctx, path, input->bytes);
}

static kith_status open_input(kith_ctx *ctx, const char *path, kin_input *input)
{
    const bool pipe = kin_input_is_pipe(path);
    if (pipe) {
        KIN_TRY(read_pipe(ctx, path, input));
    } else {
        KIN_TRY(kin_input_map(ctx, path, input));
    }
    input->file_bytes = input->bytes;
    KIN_DAMAGED_IF(pipe && input->bytes == 0, ctx, path,
                   "is empty (it has 0 bytes; nothing came out of the pipe)");
    if (ends_in_gz(path) || (pipe && gzip_begins(input->data, input->bytes))) {
        KIN_TRY(unpack(ctx, path, input));
    }
    return kin_input_check_empty(ctx, path, input->bytes);
}

kith_status kin_input_open(kith_ctx *ctx, const char *path, kin_input *input)
{
    memset(input, 0, sizeof *input);
    const kith_status status = open_input(ctx, path, input);
    if (status != KITH_OK) {
        kin_input_close(ctx, input);
    }
    return status;
}

void kin_input_close(kith_ctx *ctx, kin_input *input)
{
    kin_map_close(&input->map);
    kin_free(ctx, input->block);
    memset(input, 0, sizeof *input);
}

/* ---- Members of a zip archive ---------------------------------------------------------------- */

/* Every number in an archive is somebody's claim; each is held against the bytes that are there. */

enum {
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    COMMENT_MAX = 65535,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    DEFLATE_RATIO = 1032 /* what deflate gains at most */
};

typedef struct archive {
    kith_ctx *ctx;
    const char *path;
    const unsigned char *data;
    uint64_t bytes;
    uint64_t directory; /* offset and length of the central directory */
    uint64_t directory_bytes;
    uint64_t count;
} archive;

static uint64_t load(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

static bool lies_in(const archive *a, uint64_t offset, uint64_t bytes)
{
    return offset <= a->bytes && bytes <= a->bytes - offset;
}

static kith_status fail_damaged(const archive *a, const char *what)
{
    return kin_fail_at(a->ctx, KITH_E_FORMAT, kin_at_file(a->path),
                       "%s (it is cut short or damaged: make it again)", what);
}

/* The end record stands last, before a comment of unknown length. */
static bool find_end(const archive *a, uint64_t *end)
{
    for (uint64_t back = END_BYTES; back <= END_BYTES + COMMENT_MAX && back <= a->bytes; back++) {
        const uint64_t at = a->bytes - back;
        if (load(a->data + at, 4) == 0x06054b50u &&
            load(a->data + at + 20, 2) == back - END_BYTES) {
            *end = at;
            return true;
        }
    }
    return false;
}

static kith_status read_end64(archive *a, uint64_t end)
{
    if (end < LOCATOR_BYTES || load(a->data + end - LOCATOR_BYTES, 4) != 0x07064b50u) {
        return KITH_OK;
    }
    const uint64_t at = load(a->data + end - LOCATOR_BYTES + 8, 8);
    if (!lies_in(a, at, KIN_ZIP_END64_BYTES) || load(a->data + at, 4) != 0x06064b50u) {
        return fail_damaged(a, "its zip64 end record is not where it should be");
    }
    a->count = load(a->data + at + 32, 8);
    a->directory_bytes = load(a->data + at + 40, 8);
    a->directory = load(a->data + at + 48, 8);
    return KITH_OK;
}

static kith_status read_end(archive *a)
{
    uint64_t end = 0;
    KIN_DAMAGED_IF(a->bytes < 4 || load(a->data, 2) != 0x4b50u, a->ctx, a->path,
                   "does not begin with the magic of .npz (is it of another format?)");
    if (!find_end(a, &end)) {
        return fail_damaged(a, "has no list of its members at its end");
    }
    a->count = load(a->data + end + 10, 2);
    a->directory_bytes = load(a->data + end + 12, 4);
    a->directory = load(a->data + end + 16, 4);
    KIN_TRY(read_end64(a, end));
    if (!lies_in(a, a->directory, a->directory_bytes)) {
        return fail_damaged(a, "the list of its members does not lie in it");
    }
    return KITH_OK;
}

/* The zip64 extra field holds, in this order, those of size, stored size and offset that are all
 * ones in the header. */
static void widen(const unsigned char *extra, uint64_t extra_bytes, uint64_t *fields[3])
{
    uint64_t at = 0;
    while (at + 4 <= extra_bytes) {
        const uint64_t id = load(extra + at, 2);
        const uint64_t bytes = load(extra + at + 2, 2);
        at += 4;
        if (bytes > extra_bytes - at) {
            return;
        }
        uint64_t inner = at;
        for (int i = 0; id == KIN_ZIP_EXTRA64 && i < 3; i++) {
            if (*fields[i] == KIN_ZIP_LIMIT && inner + 8 <= at + bytes) {
                *fields[i] = load(extra + inner, 8);
                inner += 8;
            }
        }
        at += bytes;
    }
}

static kith_status take_member(const archive *a, const unsigned char *entry,
                               kin_unzip_member *member)
{
    const uint64_t name_bytes = load(entry + 28, 2);
    uint64_t offset = load(entry + 42, 4);
    member->method = (uint32_t)load(entry + 10, 2);
    member->crc = (uint32_t)load(entry + 16, 4);
    member->stored_bytes = load(entry + 20, 4);
    member->bytes = load(entry + 24, 4);
    uint64_t *fields[3] = {&member->bytes, &member->stored_bytes, &offset};
    widen(entry + CENTRAL_BYTES + name_bytes, load(entry + 30, 2), fields);
    KIN_DAMAGED_IF((load(entry + 8, 2) & FLAG_ENCRYPTED) != 0, a->ctx, a->path,
                   "is encrypted (save it plainly)");
    if (!lies_in(a, offset, KIN_ZIP_LOCAL_BYTES) || load(a->data + offset, 4) != 0x04034b50u) {
        return fail_damaged(a, "a member is not where it should be");
    }
    const uint64_t start = offset + KIN_ZIP_LOCAL_BYTES + load(a->data + offset + 26, 2) +
                           load(a->data + offset + 28, 2);
    if (!lies_in(a, start, member->stored_bytes)) {
        return fail_damaged(a, "a member does not lie in it");
    }
    member->data = a->data + start;
    member->found = true;
    return KITH_OK;
}

kith_status kin_unzip_find(kith_ctx *ctx, const char *path, const kin_map *map, const char *name,
                           kin_unzip_member *member)
{
    memset(member, 0, sizeof *member);
    archive a = {.ctx = ctx, .path = path, .data = map->data, .bytes = map->bytes};
    KIN_TRY(read_end(&a));
    const size_t wanted = strlen(name);
    uint64_t at = a.directory;
    const uint64_t end = a.directory + a.directory_bytes;
    for (uint64_t i = 0; i < a.count; i++) {
        if (end - at < CENTRAL_BYTES || load(a.data + at, 4) != 0x02014b50u) {
            return fail_damaged(&a, "the list of its members is broken");
        }
        const unsigned char *entry = a.data + at;
        const uint64_t name_bytes = load(entry + 28, 2);
        const uint64_t bytes =
            CENTRAL_BYTES + name_bytes + load(entry + 30, 2) + load(entry + 32, 2);
        if (bytes > end - at) {
            return fail_damaged(&a, "the list of its members is broken");
        }
        if (name_bytes == wanted && memcmp(entry + CENTRAL_BYTES, name, wanted) == 0) {
            return take_member(&a, entry, member);
        }
        at += bytes;
    }
    return KITH_OK;
}

/* The stream ends exactly where both lengths say. */
static kith_status whole(inflating *u)
{
    int result = Z_OK;
    while (result == Z_OK) {
        result = inflate_step(u);
    }
    KIN_SOUND_IF(
        result == Z_STREAM_END && u->from_left == 0 && u->unpacked == u->room, u->ctx, u->path,
        "does not decompress to the %" PRIu64 " bytes announced (it is damaged: make it again)",
        u->room);
}

kith_status kin_unzip_load(kith_ctx *ctx, const char *label, const kin_unzip_member *member,
                           const unsigned char **data, void **block)
{
    const bool stored = member->method == METHOD_STORED;
    KIN_DAMAGED_IF(!stored && member->method != METHOD_DEFLATED, ctx, label,
                   "is compressed by method %" PRIu32
                   ", kith reads stored and deflated members (save it with numpy.savez)",
                   member->method);
    const uint64_t most =
        stored ? member->stored_bytes : kin_size_mul(member->stored_bytes, DEFLATE_RATIO);
    KIN_DAMAGED_IF(member->bytes > most || (stored && member->bytes != most), ctx, label,
                   "announces %" PRIu64 " bytes, which its %" PRIu64
                   " in the file cannot hold (it is damaged: make it again)",
                   member->bytes, member->stored_bytes);
    *data = member->data;
    if (!stored) {
        KIN_TRY(kin_alloc(ctx, block, member->bytes, 1, "a decompressed member"));
        inflating u = {.ctx = ctx,
                       .path = label,
                       .from = member->data,
                       .from_bytes = member->stored_bytes,
                       .to = *block,
                       .room = member->bytes};
        KIN_TRY(inflate_all(&u, -MAX_WBITS, "decompress", whole));
        *data = *block;
    }
    KIN_DAMAGED_IF((uint32_t)crc32_z(0, *data, (size_t)member->bytes) != member->crc, ctx, label,
                   "its checksum is wrong (it is damaged: make it again)");
    return KITH_OK;
}
