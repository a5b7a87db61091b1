/* SPDX-License-Identifier: Apache-2.0
 * What libkith_cuda.so gives to libkith.so: one symbol, a table of plain C functions with a
 * version. Read by host and device compilers. libkith opens the module at run time (gpu_open.c), so
 * that it starts on machines without CUDA.
 *
 * Functions that return int give 0 or a number of the CUDA runtime, which error_text explains. All
 * work of a stream happens in the order in which it was given; launches do not wait.
 */
#ifndef KIN_GPU_MODULE_H
#define KIN_GPU_MODULE_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define KIN_GPU_LIBRARY "libkith_cuda.so"
#define KIN_GPU_SYMBOL "kith_cuda_module"
/* Rises with every change of this header or of a table that it names. */
enum { KIN_GPU_VERSION = 30 };

/* Numbers of the CUDA runtime that libkith answers by itself. */
enum {
    KIN_GPU_ERROR_MEMORY = 2,      /* cudaErrorMemoryAllocation */
    KIN_GPU_ERROR_OLD_DRIVER = 35, /* cudaErrorInsufficientDriver, also where there is none */
    KIN_GPU_ERROR_NO_DEVICE = 100  /* cudaErrorNoDevice */
};
/* What the kernels need: compute capability 8.0. */
enum { KIN_GPU_LEAST_MAJOR = 8 };

typedef struct kin_gpu_info {
    char name[128];
    int32_t major; /* compute capability */
    int32_t minor;
    int32_t processors;
    int32_t integrated;
    uint64_t total_bytes;
    uint64_t l2_bytes;
    uint64_t shared_bytes; /* shared memory that a block may have */
} kin_gpu_info;

/* A device that work is given to. Opaque to libkith. */
typedef struct kin_gpu_stream kin_gpu_stream;

typedef struct kin_gpu_ops {
    /* Devices that the driver shows; an error where there is no driver or no device. */
    int (*count)(int32_t *count);
    int (*describe)(int32_t index, kin_gpu_info *info);
    /* Valid until the process ends. */
    const char *(*error_text)(int error);

    /* A stream of its own on device `index`; foreign: a cudaStream_t of the caller that is used
     * instead (NULL: a new one), which must be one of that device. The device must be current. */
    int (*open)(int32_t index, void *foreign, kin_gpu_stream **out);
    void (*close)(kin_gpu_stream *stream);
    /* Makes the stream's device current: before the first call of a thread. */
    int (*enter)(kin_gpu_stream *stream);
    /* The calling thread's current device, to put it back afterwards. */
    int (*current)(int32_t *index);
    int (*make_current)(int32_t index);
    int (*free_bytes)(kin_gpu_stream *stream, uint64_t *bytes);

    int (*allocate)(kin_gpu_stream *stream, uint64_t bytes, void **out);
    void (*release)(kin_gpu_stream *stream, void *block);
    int (*allocate_pinned)(uint64_t bytes, void **out);
    void (*release_pinned)(void *block);

    /* Asynchronous where the host side is pinned. */
    int (*copy_in)(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes);
    int (*copy_out)(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes);
    int (*copy_within)(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes);
    int (*fill)(kin_gpu_stream *stream, void *to, int byte, uint64_t bytes);
    /* From memory of the device `from_index` to memory of the stream's own. Goes through the host
     * where the devices do not see each other. */
    int (*copy_peer)(kin_gpu_stream *stream, void *to, const void *from, int32_t from_index,
                     uint64_t bytes);
    /* Lets the current device see the memory of `peer` from now on, if the hardware can: *direct is
     * 1 then. */
    int (*see_peer)(int32_t index, int32_t peer, int32_t *direct);
    /* 1 in *device where kernels may read `address` (memory of a device, managed memory), and which
     * device owns it; 0 for plain host memory. */
    int (*where)(const void *address, int32_t *device, int32_t *index);

    /* Marks a place in the stream; waits for it; whether it was reached; milliseconds between two.
     */
    int (*event_make)(void **event);
    void (*event_free)(void *event);
    int (*event_record)(kin_gpu_stream *stream, void *event);
    int (*event_wait)(void *event);
    int (*event_done)(void *event, int32_t *done);
    /* Later work of the stream waits for an event of any stream. */
    int (*event_follow)(kin_gpu_stream *stream, void *event);
    int (*event_between)(void *first, void *last, float *milliseconds);
    /* Waits for all work of the stream; tells its error. */
    int (*wait)(kin_gpu_stream *stream);
} kin_gpu_ops;

struct kin_screen_gpu_kernels; /* screen/screen_kernels.h */
struct kin_select_kernels;     /* select/select_kernels.h */
struct kin_tree_kernels;       /* tree/tree_kernels.h */
struct kin_graph_gpu_kernels;  /* graph/graph_kernels.h */
struct kin_papers_kernels;     /* papers/papers_kernels.h */

typedef struct kin_gpu_module {
    uint32_t version; /* KIN_GPU_VERSION; stands first in every version */
    uint32_t bytes;   /* sizeof(kin_gpu_module) */
    const kin_gpu_ops *ops;
    const struct kin_screen_gpu_kernels *screen;
    const struct kin_select_kernels *select; /* an array: a method's are at its number */
    const struct kin_tree_kernels *tree;
    const struct kin_graph_gpu_kernels *graph;
    const struct kin_papers_kernels *papers;
} kin_gpu_module;

#if defined(__cplusplus)
}
#endif
#endif
