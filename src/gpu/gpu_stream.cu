/* SPDX-License-Identifier: Apache-2.0
 * Devices, streams, memory and copies: the CUDA runtime behind the table of gpu_module.h. No
 * kernels, no policy. */
#include "gpu/gpu_stream.cuh"

#include <stdlib.h>
#include <string.h>

static_assert(KIN_GPU_ERROR_MEMORY == (int)cudaErrorMemoryAllocation, "gpu_module.h");
static_assert(KIN_GPU_ERROR_OLD_DRIVER == (int)cudaErrorInsufficientDriver, "gpu_module.h");
static_assert(KIN_GPU_ERROR_NO_DEVICE == (int)cudaErrorNoDevice, "gpu_module.h");

/* The error of a call; the runtime's own memory of it is cleared, so that no later launch of
 * somebody else in this process trips over it. */
static int told(cudaError_t error)
{
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return (int)error;
}

/* ---- Devices --------------------------------------------------------------------------------- */

static int count_devices(int32_t *count)
{
    int found = 0;
    const int error = told(cudaGetDeviceCount(&found));
    *count = error == 0 ? found : 0;
    return error;
}

static int describe(int32_t index, kin_gpu_info *info)
{
    cudaDeviceProp found;
    KIN_CUDA_TRY(cudaGetDeviceProperties(&found, index));
    memset(info, 0, sizeof *info);
    memcpy(info->name, found.name,
           sizeof info->name < sizeof found.name ? sizeof info->name : sizeof found.name);
    info->name[sizeof info->name - 1] = '\0';
    info->major = found.major;
    info->minor = found.minor;
    info->processors = found.multiProcessorCount;
    info->integrated = found.integrated;
    info->total_bytes = found.totalGlobalMem;
    info->l2_bytes = (uint64_t)found.l2CacheSize;
    info->shared_bytes = found.sharedMemPerBlockOptin;
    return 0;
}

static const char *error_text(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}

static int enter(kin_gpu_stream *stream)
{
    return told(cudaSetDevice(stream->device));
}

static int current(int32_t *index)
{
    int found = 0;
    KIN_CUDA_TRY(cudaGetDevice(&found));
    *index = found;
    return 0;
}

static int make_current(int32_t index)
{
    return told(cudaSetDevice(index));
}

/* ---- Streams --------------------------------------------------------------------------------- */

static int read_attributes(kin_gpu_stream *stream)
{
    const struct {
        int32_t *to;
        cudaDeviceAttr attribute;
    } wanted[] = {{&stream->major, cudaDevAttrComputeCapabilityMajor},
                  {&stream->minor, cudaDevAttrComputeCapabilityMinor},
                  {&stream->processors, cudaDevAttrMultiProcessorCount},
                  {&stream->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin}};
    for (const auto &one : wanted) {
        int value = 0;
        KIN_CUDA_TRY(cudaDeviceGetAttribute(&value, one.attribute, stream->device));
        *one.to = value;
    }
    return 0;
}

static int take_stream(kin_gpu_stream *stream, void *foreign)
{
    if (foreign == NULL) {
        KIN_CUDA_TRY(cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking));
        stream->owned = 1;
        return 0;
    }
    stream->stream = (cudaStream_t)foreign;
    int device = 0;
    KIN_CUDA_TRY(cudaStreamGetDevice(stream->stream, &device));
    return device == stream->device ? 0 : (int)cudaErrorInvalidResourceHandle;
}

static int open_stream(int32_t index, void *foreign, kin_gpu_stream **out)
{
    *out = NULL;
    /* libkith's allocator is not at hand here, and these few bytes live as long as the stream. */
    kin_gpu_stream *stream = (kin_gpu_stream *)calloc(1, sizeof *stream);
    if (stream == NULL) {
        return (int)cudaErrorMemoryAllocation;
    }
    stream->device = index;
    int error = read_attributes(stream);
    if (error == 0) {
        error = take_stream(stream, foreign);
    }
    if (error != 0) {
        free(stream);
        return error;
    }
    *out = stream;
    return 0;
}

static void close_stream(kin_gpu_stream *stream)
{
    if (stream != NULL && stream->owned != 0) {
        (void)told(cudaStreamDestroy(stream->stream));
    }
    free(stream);
}

static int free_bytes(kin_gpu_stream *stream, uint64_t *bytes)
{
    (void)stream;
    size_t available = 0;
    size_t total = 0;
    KIN_CUDA_TRY(cudaMemGetInfo(&available, &total));
    *bytes = available;
    return 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int allocate(kin_gpu_stream *stream, uint64_t bytes, void **out)
{
    (void)stream;
    *out = NULL;
    return told(cudaMalloc(out, bytes));
}

static void release(kin_gpu_stream *stream, void *block)
{
    (void)stream;
    (void)told(cudaFree(block));
}

static int allocate_pinned(uint64_t bytes, void **out)
{
    *out = NULL;
    return told(cudaHostAlloc(out, bytes, cudaHostAllocDefault));
}

static void release_pinned(void *block)
{
    (void)told(cudaFreeHost(block));
}

static int copy_in(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream->stream));
}

static int copy_out(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream->stream));
}

static int copy_within(kin_gpu_stream *stream, void *to, const void *from, uint64_t bytes)
{
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream->stream));
}

static int fill(kin_gpu_stream *stream, void *to, int byte, uint64_t bytes)
{
    return told(cudaMemsetAsync(to, byte, bytes, stream->stream));
}

static int copy_peer(kin_gpu_stream *stream, void *to, const void *from, int32_t from_index,
                     uint64_t bytes)
{
    return told(cudaMemcpyPeerAsync(to, stream->device, from, from_index, bytes, stream->stream));
}

static int see_peer(int32_t index, int32_t peer, int32_t *direct)
{
    int can = 0;
    *direct = 0;
    KIN_CUDA_TRY(cudaDeviceCanAccessPeer(&can, index, peer));
    if (can == 0) {
        return 0;
    }
    /* Where it is refused copies go through the host. */
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    (void)cudaGetLastError();
    *direct = error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled ? 1 : 0;
    return 0;
}

static int where(const void *address, int32_t *device, int32_t *index)
{
    cudaPointerAttributes found;
    KIN_CUDA_TRY(cudaPointerGetAttributes(&found, address));
    *device = found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? 1 : 0;
    *index = found.device;
    return 0;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static int event_make(void **event)
{
    cudaEvent_t made = NULL;
    *event = NULL;
    KIN_CUDA_TRY(cudaEventCreate(&made));
    *event = made;
    return 0;
}

static void event_free(void *event)
{
    if (event != NULL) {
        (void)told(cudaEventDestroy((cudaEvent_t)event));
    }
}

static int event_record(kin_gpu_stream *stream, void *event)
{
    return told(cudaEventRecord((cudaEvent_t)event, stream->stream));
}

static int event_wait(void *event)
{
    return told(cudaEventSynchronize((cudaEvent_t)event));
}

static int event_done(void *event, int32_t *done)
{
    const cudaError_t error = cudaEventQuery((cudaEvent_t)event);
    *done = error == cudaSuccess ? 1 : 0;
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return 0;
    }
    return told(error);
}

static int event_follow(kin_gpu_stream *stream, void *event)
{
    return told(cudaStreamWaitEvent(stream->stream, (cudaEvent_t)event, 0));
}

static int event_between(void *first, void *last, float *milliseconds)
{
    return told(cudaEventElapsedTime(milliseconds, (cudaEvent_t)first, (cudaEvent_t)last));
}

static int wait(kin_gpu_stream *stream)
{
    return told(cudaStreamSynchronize(stream->stream));
}

/* By name: C++17 has no designators. */
static constexpr kin_gpu_ops make_ops()
{
    kin_gpu_ops ops = {};
    ops.count = count_devices;
    ops.describe = describe;
    ops.error_text = error_text;
    ops.open = open_stream;
    ops.close = close_stream;
    ops.enter = enter;
    ops.current = current;
    ops.make_current = make_current;
    ops.free_bytes = free_bytes;
    ops.allocate = allocate;
    ops.release = release;
    ops.allocate_pinned = allocate_pinned;
    ops.release_pinned = release_pinned;
    ops.copy_in = copy_in;
    ops.copy_out = copy_out;
    ops.copy_within = copy_within;
    ops.fill = fill;
    ops.copy_peer = copy_peer;
    ops.see_peer = see_peer;
    ops.where = where;
    ops.event_make = event_make;
    ops.event_free = event_free;
    ops.event_record = event_record;
    ops.event_wait = event_wait;
    ops.event_done = event_done;
    ops.event_follow = event_follow;
    ops.event_between = event_between;
    ops.wait = wait;
    return ops;
}

extern "C" const kin_gpu_ops kin_gpu_cuda_ops = make_ops();
