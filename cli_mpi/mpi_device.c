/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_device.h"

#include <kith/kith.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBER = 1023 }; /* as kith has them */

typedef struct gpu_list {
    int32_t index[MPI_DEVICE_MOST];
    int count;
    bool together; /* a rank may have several */
} gpu_list;

static bool is(const char *given, const char *word)
{
    return strcmp(given, word) == 0;
}

/* Those that can be used. */
static void find_all(gpu_list *list)
{
    kith_device device = {.struct_size = (uint32_t)sizeof device};
    for (int32_t i = 0; kith_device_get(i, &device) == KITH_OK; i++) {
        if (device.available != 0 && strncmp(device.name, "cuda:", 5) == 0 &&
            list->count < MPI_DEVICE_MOST) {
            list->index[list->count++] = (int32_t)strtol(device.name + 5, NULL, 10);
        }
    }
}

static bool is_among(const gpu_list *list, long value)
{
    for (int i = 0; i < list->count; i++) {
        if (list->index[i] == value) {
            return true;
        }
    }
    return false;
}

/* "0,2,3": different numbers, whether there are such GPUs or not. Nothing where it is anything
 * else. */
static void parse(const char *text, gpu_list *list)
{
    for (const char *at = text;; at++) {
        char *end = NULL;
        const long value = strtol(at, &end, 10);
        if (at[0] < '0' || at[0] > '9' || value > MOST_NUMBER || list->count == MPI_DEVICE_MOST ||
            is_among(list, value) || (*end != '\0' && *end != ',')) {
            list->count = 0;
            return;
        }
        list->index[list->count++] = (int32_t)value;
        if (*end == '\0') {
            return;
        }
        at = end;
    }
}

static void read_list(const char *given, gpu_list *list)
{
    const char *device = given != NULL && given[0] != '\0' ? given : "auto";
    list->together = is(device, "cuda:all");
    if (is(device, "auto") || is(device, "cuda") || list->together) {
        find_all(list);
    } else if (strncmp(device, "cuda:", 5) == 0) {
        list->together = true;
        parse(device + 5, list);
    }
}

static void take(const gpu_list *list, int first, int last, mpi_device *own)
{
    size_t used = 0;
    for (int i = first; i < last && used < sizeof own->name; i++) {
        own->index[own->count++] = list->index[i];
        used += (size_t)snprintf(own->name + used, sizeof own->name - used, "%s%d",
                                 i == first ? "cuda:" : ",", (int)list->index[i]);
    }
}

void mpi_device_divide(const char *given, int rank, int ranks, mpi_device *own)
{
    gpu_list list = {.count = 0};
    memset(own, 0, sizeof *own);
    read_list(given, &list);
    if (list.count == 0) {
        return;
    }
    if (list.together && list.count > ranks) {
        own->sharers = 1;
        take(&list, rank * list.count / ranks, (rank + 1) * list.count / ranks, own);
    } else {
        const int at = rank % list.count;
        own->sharers = ranks / list.count + (at < ranks % list.count ? 1 : 0);
        take(&list, at, at + 1, own);
    }
}

/* A plan opens the device, and says what it may have there; 0: it cannot be opened. */
static uint64_t ask_memory(int32_t index)
{
    static const float data[2] = {0.0F, 1.0F};
    const kith_matrix two = {.data = data, .rows = 2, .cols = 1, .dtype = KITH_F32};
    kith_search_params search = kith_search_params_default();
    kith_ctx_params params = kith_ctx_params_default();
    kith_plan plan = {.struct_size = (uint32_t)sizeof plan};
    kith_ctx *ctx = NULL;
    char name[24];
    (void)snprintf(name, sizeof name, "cuda:%d", (int)index);
    search.k = 1;
    params.device = name;
    params.threads = 1;
    const bool known = kith_ctx_create(&params, &ctx) == KITH_OK &&
                       kith_plan_search(ctx, &two, NULL, &search, &plan) == KITH_OK;
    kith_ctx_free(ctx);
    return known ? plan.gpu_budget_bytes : 0;
}

uint64_t mpi_device_share(const mpi_device *own)
{
    uint64_t least = own->count > 0 ? UINT64_MAX : 0;
    for (int i = 0; i < own->count; i++) {
        const uint64_t bytes = ask_memory(own->index[i]);
        least = bytes < least ? bytes : least;
    }
    return own->count > 0 ? least / (uint64_t)own->sharers : 0;
}
