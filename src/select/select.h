/* SPDX-License-Identifier: Apache-2.0
 * k-selection. CONTRACT of all methods, on the processor and on a GPU:
 *
 *   input    rows x cols values of a dtype, rows stride_bytes apart, any alignment of the dtype's
 *            size; ids likewise, or NULL: then the id is the place in the row
 *   answer   of each row the k words that come first (select_word.h), 1 <= k <= cols, written as
 *            values and ids; ascending, or in any order where `sorted` is false. Words decide
 *            alone: every method, machine, cut and thread count gives the same bytes
 *   kth      instead: the k-th value of each row
 *   NaN, 0   as select_word.h says. Nothing is refused
 *   aliases  outputs overlap neither each other nor the input
 *
 * Who may call what: api/ and the engines call kin_select_host and kin_select_device; methods are
 * reached through kin_select_body (processor) and select_kernels.h (GPU) alone.
 *
 * A new method is a row of KITH_SELECT_MAP (kith.h) or of KITH_PAPERS_SELECT_MAP (kith_papers.h), a
 * body kin_select_NAME, or kin_papers_NAME, and a launch of that name. Names, numbers, lists in
 * messages and bounds of loops come from the row. */
#ifndef KIN_SELECT_SELECT_H
#define KIN_SELECT_SELECT_H

#include "base/base_ctx.h"
#include "select/select_kernels.h"

struct kin_gpu; /* gpu/gpu.h; whoever selects on the processor needs to know no more of it */

struct kin_select_body; /* below */

typedef struct kin_select_method {
    kith_select_method number; /* of the public header, and the place of its launches in the table
                                  of a module */
    const char *name;
    uint32_t switches; /* KITH_SWITCH_... of kith_papers.h */
    const struct kin_select_body *(*body)(kin_isa isa);
} kin_select_method;

/* Ours; NULL where the number is none of them. */
const kin_select_method *kin_select_method_of(kith_select_method number);

/* A chip of select_tune.inc: the processor, or GPUs by kin_gpu_chip. */
enum { KIN_SELECT_ON_CPU = 0 };

/* The job's method; where it names none, ours for such a job on that chip, by the table of
 * select_tune.inc. A GPU whose chip has no rows there is given those of an H200. */
const kin_select_method *kin_select_choose(int32_t chip, const kin_select_job *job);
/* `make tune` ran there. */
bool kin_select_tuned(int32_t chip);

/* All memory is the host's. Rows are dealt to the threads of ctx; few long rows are cut, and what
 * the cuts give is selected from once more. KITH_E_MEMORY, E_LIMIT, E_CANCELLED. */
kith_status kin_select_host(kith_ctx *ctx, const kin_select_job *job);

/* on_device: values, ids and outputs are device memory; else the host's, copied in batches of rows
 * (or of columns, where one row is too much) that fit. Answers are complete when it returns.
 * KITH_E_DEVICE, E_DEVICE_MEMORY, E_CANCELLED, and those of kin_select_host. */
kith_status kin_select_device(kith_ctx *ctx, struct kin_gpu *gpu, const kin_select_job *job,
                              bool on_device);
/* Of rows, at least one, on the device, as a part of another job: on the stream, and nothing is
 * told of its progress. */
kith_status kin_select_part(kith_ctx *ctx, struct kin_gpu *gpu, const kin_select_job *job);
/* Scratch memory that all rows of such a job take at once, where it lies on the device. */
uint64_t kin_select_device_scratch(const struct kin_gpu *gpu, const kin_select_job *job);

/* ---- Bodies of a method ---------------------------------------------------------------------- */

/* What a method of selection on the processor is: it sees one run of one row and gives words.
 *
 * Each method has a body for words of 64 and of 128 bits, generated from one text: select_twice.inc
 * reads it once a width. */

/* A run of values of one row: places [first, first + count). */
typedef struct kin_run {
    const char *values;  /* of place `first` */
    const uint32_t *ids; /* of place `first`, or NULL: ids are first, first + 1 ... */
    int64_t first;
    int64_t count;
    kin_select_type dtype;
    bool largest;
} kin_run;

/* words[i] = word of place at + i of the run, 0 <= i < count. For float64 words is kin_word128. */
void kin_select_load64(const kin_run *run, int64_t at, int64_t count, kin_word64 *words);
void kin_select_load128(const kin_run *run, int64_t at, int64_t count, kin_word128 *words);

/* out: the first min(k, run->count) words of the run, ascending where job->sorted (they may be
 * ascending anyway). scratch: as many bytes as the method's function of that name says, 64-byte
 * aligned, contents undefined before and after. out is kin_word64 or kin_word128 by the dtype.
 * Cannot fail, allocates nothing, reads no global state but constants. */
typedef struct kin_select_body {
    uint64_t (*scratch_bytes)(const kin_select_job *job, int64_t longest_run);
    void (*select)(const kin_select_job *job, const kin_run *run, void *scratch, void *out);
} kin_select_body;

/* The body of each method on a machine: select_quick.c, select_radix.c, and select_scan.c with
 * select_scan_portable.c, _avx2.c, _avx512.c. */
#define KIN_SELECT_DECLARE(NAME, number, name) \
    const kin_select_body *kin_select_##name(kin_isa isa);
KITH_SELECT_MAP(KIN_SELECT_DECLARE)
#undef KIN_SELECT_DECLARE

#endif
