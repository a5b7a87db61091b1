/* SPDX-License-Identifier: Apache-2.0
 * The one symbol that libkith_cuda.so exports. */
#include "kith/kith_papers.h"
#include "papers/papers_kernels.h"
#include "select/select_launch.cuh"

extern "C" const kin_screen_gpu_kernels kin_screen_gpu_table; /* screen/screen_table.cu */
extern "C" const kin_tree_kernels kin_tree_table;             /* tree/tree_table.cu */
extern "C" const kin_graph_gpu_kernels kin_graph_gpu_table;   /* graph/graph_lists.cu */
extern "C" const kin_papers_kernels kin_papers_table;         /* papers/papers_pipeline.cu */

#define PAPERS_LAUNCH(NAME, number, name, switches) KIN_SELECT_LAUNCH(kin_papers_##name)
KITH_PAPERS_SELECT_MAP(PAPERS_LAUNCH)

/* AUTO, which is none, ours, and the papers': in the order of their numbers. */
#define SELECT(NAME, number, name) {kin_select_##name##_scratch, kin_select_##name##_launch},
#define PAPERS(NAME, number, name, switches) \
    {kin_papers_##name##_scratch, kin_papers_##name##_launch},
static const kin_select_kernels select_table[] = {
    {NULL, NULL}, KITH_SELECT_MAP(SELECT) KITH_PAPERS_SELECT_MAP(PAPERS)};
#define PLACE(NAME, ...) PLACE_##NAME,
enum { KITH_SELECT_MAP(PLACE) KITH_PAPERS_SELECT_MAP(PLACE) };
#define IN_ORDER(NAME, ...) \
    static_assert((int)PLACE_##NAME + 1 == (int)KITH_SELECT_##NAME, "numbers are one sequence");
KITH_SELECT_MAP(IN_ORDER)
KITH_PAPERS_SELECT_MAP(IN_ORDER)

extern "C" __attribute__((visibility("default"))) const kin_gpu_module kith_cuda_module;
const kin_gpu_module kith_cuda_module = {
    KIN_GPU_VERSION, sizeof(kin_gpu_module), &kin_gpu_cuda_ops,    &kin_screen_gpu_table,
    select_table,    &kin_tree_table,        &kin_graph_gpu_table, &kin_papers_table};
