/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file_reader.h"

#include "base/base_size.h"
#include "host/host_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- What zlib packed ----------------------------------------------------------------------- */

enum { PIECE_BYTES = 1 << 20 };

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

int kin_inflate_step(kin_inflating *u)
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

kith_status kin_inflate_all(kin_inflating *u, int window, const char *verb,
                            kith_status (*all)(kin_inflating *))
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
static bool only_zeros(const kin_inflating *u)
{
    for (uint64_t i = 0; i < u->from_left; i++) {
        if (u->from[u->from_bytes - u->from_left + i] != 0) {
            return false;
        }
    }
    return true;
}

/* Once all bytes are in, what zlib still holds comes out until the stream has ended. */
static kith_status unpack_members(kin_inflating *u)
{
    for (;;) {
        const bool more = u->from_left > 0;
        int result = kin_inflate_step(u);
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

static kith_status run(kin_inflating *u)
{
    return kin_inflate_all(u, MAX_WBITS + GZIP_ONLY, "unpack", unpack_members);
}

/* All members one behind the other, as gunzip does; *block is the caller's to free. Its size is
 * counted first, so that no more is asked for than there is. */
static kith_status gzip_unpack(kith_ctx *ctx, const char *path, const unsigned char *data,
                               uint64_t bytes, unsigned char **block, uint64_t *unpacked)
{
    kin_inflating u = {.ctx = ctx, .path = path, .from = data, .from_bytes = bytes};
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
