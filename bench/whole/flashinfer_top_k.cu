/* SPDX-License-Identifier: Apache-2.0
 * FlashInfer's own selection, of the headers in its package, for select_peers.py: without what its
 * Python needs besides. FOLDER is that of an unpacked flashinfer-python.
 *
 *     nvcc -std=c++17 -O3 -arch=native -shared -Xcompiler -fPIC -I FOLDER/flashinfer/data/include \
 *         -I FOLDER/flashinfer/data/cccl/libcudacxx/include -o top_k.so flashinfer_top_k.cu
 *     KITH_FLASHINFER=top_k.so bench_select.py --side cuda --only today
 */
#include <cstdint>

#include <flashinfer/sampling.cuh>
#include <flashinfer/topk.cuh>

#define TOP_K(NAME, TYPE)                                                                     \
    extern "C" int NAME(TYPE *values, int32_t *ids, TYPE *found, uint32_t rows, uint32_t k,   \
                        uint32_t cols, void *states, bool deterministic)                      \
    {                                                                                         \
        using namespace flashinfer::sampling;                                                 \
        return (int)TopKDispatch<TYPE, int32_t>(values, ids, found, rows, k, cols,            \
                                                (RadixRowState *)states, true, deterministic, \
                                                TopKTieBreak::None, nullptr);                 \
    }

TOP_K(top_k_float32, float)
TOP_K(top_k_float16, half)
TOP_K(top_k_bfloat16, __nv_bfloat16)
