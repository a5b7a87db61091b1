/* SPDX-License-Identifier: Apache-2.0 */
#include "soak/soak_source.h"

#include "base/base_random.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- A context and its memory --------------------------------------------------------------- */

static void *allocate(void *arg, size_t bytes)
{
    soak_memory *memory = arg;
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block != NULL) {
        atomic_fetch_add(&memory->blocks, 1);
        atomic_fetch_add(&memory->bytes, (long)bytes);
    }
    return block;
}

static void release(void *arg, void *block, size_t bytes)
{
    soak_memory *memory = arg;
    free(block);
    atomic_fetch_sub(&memory->blocks, 1);
    atomic_fetch_sub(&memory->bytes, (long)bytes);
}

void soak_require(const soak *s, int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "call %ld: violated: %s; last failure: %s\n", s->calls, what,
                      s->ctx != NULL ? kith_ctx_detail(s->ctx) : "");
        abort();
    }
}

void soak_start(soak *s, int32_t threads)
{
    const char *base = getenv("TMPDIR");
    const char *quick = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    kith_ctx_params params = kith_ctx_params_default();
    params.threads = threads;
    params.device = "cpu";
    params.memory_limit = (uint64_t)256 << 20;
    params.allocate = allocate;
    params.release = release;
    params.allocate_arg = &s->memory;
    (void)snprintf(s->folder, sizeof s->folder, "%s/kith-soak-XXXXXX", base != NULL ? base : quick);
    soak_require(s, mkdtemp(s->folder) != NULL, "a folder can be made");
    soak_require(s, kith_ctx_create(&params, &s->ctx) == KITH_OK, "a context can be made");
    s->own_blocks = atomic_load(&s->memory.blocks);
}

static void remove_all(const char *folder)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(path) != 0) {
            remove_all(path);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    (void)rmdir(folder);
}

void soak_end(soak *s)
{
    soak_check_memory(s);
    remove_all(s->folder);
    kith_ctx_free(s->ctx);
    s->ctx = NULL;
    soak_require(s, atomic_load(&s->memory.blocks) == 0, "nothing is held without a context");
}

kith_status soak_check(soak *s, kith_status status)
{
    const int explained = kith_ctx_detail(s->ctx)[0] != '\0';
    soak_require(s, (status != KITH_OK) == explained, "failures are explained, and they alone");
    soak_require(s, status != KITH_E_INTERNAL, "nothing impossible has happened");
    s->succeeded += status == KITH_OK;
    s->failed += status != KITH_OK;
    return status;
}

void soak_check_memory(const soak *s)
{
    soak_require(s, atomic_load(&s->memory.blocks) == s->own_blocks, "nothing leaks");
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static uint64_t take(soak *s)
{
    soak_source *from = &s->from;
    if (from->data == NULL) {
        return kin_random_next(&from->generator);
    }
    uint64_t value = 0;
    for (int i = 0; i < 2 && from->bytes > 0; i++, from->data++, from->bytes--) {
        value = value << 8 | *from->data;
    }
    return value;
}

uint64_t soak_below(soak *s, uint64_t bound)
{
    return take(s) % bound;
}

int64_t soak_between(soak *s, int64_t low, int64_t high)
{
    return low + (int64_t)soak_below(s, (uint64_t)(high - low + 1));
}

static int spoils(soak *s)
{
    return (int)soak_below(s, 256) >= 256 - s->from.spoils;
}

int64_t soak_spoil(soak *s, int64_t value)
{
    static const int64_t numbers[] = {0,
                                      -1,
                                      INT64_MIN,
                                      INT64_MAX,
                                      INT32_MIN,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      (int64_t)UINT32_MAX + 1,
                                      (1 << 20) + 1,
                                      (int64_t)1 << 61};
    return spoils(s) ? numbers[soak_below(s, sizeof numbers / sizeof numbers[0])] : value;
}

const void *soak_null(soak *s, const void *pointer)
{
    return spoils(s) ? NULL : pointer;
}

const char *soak_path(soak *s, const char *name)
{
    char *path = s->path[s->next_path++ % 8];
    if (spoils(s)) {
        static const char *const odd[] = {"",  "/",         "/dev/full", "/proc/self/mem",
                                          ".", "x\n\033[2J"};
        const uint64_t i = soak_below(s, sizeof odd / sizeof odd[0] + 1);
        if (i < sizeof odd / sizeof odd[0] - 1) {
            return odd[i];
        }
        (void)snprintf(path, sizeof s->path[0], "%s/none/%s", s->folder, name);
        return path;
    }
    (void)snprintf(path, sizeof s->path[0], "%s/%s", s->folder, name);
    return path;
}

/* ---- Matrices ------------------------------------------------------------------------------- */

double soak_custom(void *arg, const void *query, const void *point, int32_t cols)
{
    (void)arg;
    const unsigned char *a = query;
    const unsigned char *b = point;
    double sum = 0.0;
    for (int32_t i = 0; i < cols; i++) { /* bytes: every type has so many */
        sum += fabs((double)a[i] - (double)b[i]);
    }
    return sum;
}

/* Small whole numbers, which every type has; now and then NaN or a negative one. */
static void fill(soak *s, int place, const kith_matrix *m)
{
    unsigned char *data = (unsigned char *)s->values[place];
    const int64_t count = m->rows * m->cols;
    const uint64_t seed = soak_below(s, 65536);
    const int odd = spoils(s);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t drawn = (seed + (uint64_t)i * 0x9e3779b97f4a7c15u) >> 58;
        const float value = odd && drawn == 1 ? NAN : odd && drawn == 2 ? -3.0F : (float)drawn;
        const double wide = (double)value;
        uint32_t bits = 0;
        memcpy(&bits, &value, sizeof bits);
        const uint16_t upper = (uint16_t)(bits >> 16);
        const uint16_t half = (uint16_t)(0x4400 + drawn * 16); /* 4 to 8 */
        switch (m->dtype) {
        case KITH_F32:
            memcpy(data + 4 * i, &value, 4);
            break;
        case KITH_F64:
            memcpy(data + 8 * i, &wide, 8);
            break;
        case KITH_F16:
            memcpy(data + 2 * i, &half, 2);
            break;
        case KITH_BF16:
            memcpy(data + 2 * i, &upper, 2);
            break;
        default:
            data[i] = (unsigned char)drawn;
            break;
        }
    }
}

kith_matrix soak_matrix(soak *s, int place, int64_t rows, int32_t cols)
{
    kith_matrix m = {.data = s->values[place], .rows = soak_between(s, 1, rows)};
    m.cols = cols != 0 ? cols : (int32_t)soak_between(s, 1, SOAK_COLS);
    m.dtype = (kith_dtype)soak_between(s, KITH_F32, KITH_I8);
    fill(s, place, &m);
    return m;
}

kith_matrix soak_spoiled(soak *s, const kith_matrix *matrix)
{
    static const int64_t rows[] = {0, -1, INT64_MIN, INT64_MAX, UINT32_MAX};
    static const int32_t cols[] = {0, -1, INT32_MIN, INT32_MAX, (1 << 20) + 1};
    static const int64_t strides[] = {-1, INT64_MIN};
    static const int types[] = {0, 7, -1, 1 << 20};
    kith_matrix m = *matrix;
    if (!spoils(s)) {
        return m;
    }
    switch (soak_below(s, 5)) {
    case 0:
        m.rows = rows[soak_below(s, 5)];
        break;
    case 1:
        m.cols = cols[soak_below(s, 5)];
        break;
    case 2:
        m.stride_bytes = strides[soak_below(s, 2)];
        break;
    case 3:
        m.dtype = (kith_dtype)types[soak_below(s, 4)];
        break;
    default:
        m.data = NULL;
        break;
    }
    return m;
}

/* ---- Neighbours ----------------------------------------------------------------------------- */

kith_neighbors soak_room(soak *s, int place, int64_t rows, int64_t k)
{
    kith_neighbors out = {s->ids[place], s->distances[place], s->distances64[place], rows, k, NULL};
    const uint64_t parts = soak_below(s, 8);
    out.distances = parts == 1 ? NULL : out.distances;
    out.distances64 = parts == 2 ? NULL : out.distances64;
    out.ids = parts == 3 ? NULL : out.ids;
    out.rows = soak_spoil(s, out.rows);
    out.k = !spoils(s) ? out.k : out.k == 1 ? 2 : 1;
    return out;
}

kith_neighbors soak_graph(soak *s, int place, int64_t rows, int64_t k)
{
    kith_neighbors graph = {s->ids[place], s->distances[place], s->distances64[place], rows, k,
                            NULL};
    const int odd = spoils(s);
    for (int64_t i = 0; i < rows * k; i++) {
        const int64_t row = i / k;
        const uint64_t step = 1 + soak_below(s, 3) + (uint64_t)(i % k);
        graph.ids[i] = (uint32_t)(((uint64_t)row + step) % (uint64_t)rows);
        graph.ids[i] = step % 7 == 3 ? KITH_ID_NONE : graph.ids[i];
        graph.ids[i] = odd && i == 3 ? (uint32_t)rows : graph.ids[i];
        graph.distances64[i] = (double)(i % k) + (double)(i % 3) / 4.0;
        graph.distances64[i] = odd && i == 4 ? NAN : graph.distances64[i];
        graph.distances[i] = (float)graph.distances64[i];
    }
    return graph;
}

kith_metric soak_metric(soak *s)
{
    return (kith_metric)soak_spoil(s, soak_between(s, KITH_METRIC_DEFAULT, KITH_KL));
}

void soak_check_ids(const soak *s, const kith_neighbors *out, int64_t corpus)
{
    for (int64_t i = 0; out->ids != NULL && i < out->rows * out->k; i++) {
        soak_require(s, (int64_t)out->ids[i] < corpus || out->ids[i] == KITH_ID_NONE,
                     "ids are rows");
    }
}
