/* SPDX-License-Identifier: Apache-2.0
 * A laboratory, not a method of kith: would another merge make the merge queue faster?
 *
 *     bench_merge [--runs 7] [--queues 32768] [--csv FILE] [--help]
 *
 * Idea. The merge queue (Tang, Huang, Eyers, Mills and Guo 2015, section III.C) merges two falling
 * runs of L words with the reverse bitonic network. The paper's last section names adaptive bitonic
 * merge and merge path as its future. All three merge the same words here, for L = 8 to 1024, and
 * merge/bench_merge.cuh says how each works.
 *
 * Layouts:
 *   lane          a lane owns a queue; the places of 32 queues lie side by side in device memory.
 *                 This is kith's merge queue; `bitonic` and `path by fours` are its own functions.
 *   lane shared   the same in shared memory, as far as a block may have that much
 *   warp          a warp owns a queue, in shared memory
 * Kept: `both` runs, as the merge queue needs, or the `smaller` half alone.
 *
 * How it is measured. A launch merges every queue `rounds` times, each time from the same unmerged
 * words, which it copies to the queue's place before; rounds x L is 1024, so that short merges are
 * found in the caches, as in a queue that is at work. floor: the same launch without the merge,
 * every word copied once. net: what is beyond the floor, for one merge, as throughput of a device
 * with all queues at work. Runs are of random words, their median counts. What every kernel leaves
 * is compared, word by word, with a plain merge of the host; so are 2,048 queues with equal words,
 * runs that do not overlap, and empty places. One word that differs makes the program fail.
 *
 * Cost in comparisons and accesses (words read or written; searches at most, exchanges of the
 * adaptive merge on random words: half of the pairs; its plan and first words of runs not counted)
 * for one queue, both kept, l = log2 L:
 *
 *                  comparisons            accesses
 *   bitonic        L (1 + l)              4 L (1 + l / 3), rounded up: three stages in registers
 *   adaptive       4.25 L at most         2 L a stage, 4 L for the last three, 2 a search's step
 *   path           2 L                    6 L, 2 L of it to copy a run aside (a warp: 4 L)
 *   path by fours  4 L                    8 L (a warp: 6 L)
 *
 * Limits. Words of 64 bits, runs of one length that is a power of two. Lanes of a warp always merge
 * together, as in an aligned queue. Exits with 77 where there is no GPU. */
#include "merge/bench_merge.cuh"
#include "merge/bench_merge_batch.cuh"

#include <inttypes.h>
#include <time.h>

typedef enum layout { LANE, LANE_SHARED, WARP, LAYOUTS } layout;

enum {
    LEAST_LENGTH = 8,
    LANE_WARPS = 12, /* as the merge queue's kernel asks for */
    MOST_RUNS = 64,
    NO_GPU = 77,
};

static const char *const layout_names[LAYOUTS] = {"lane", "lane shared", "warp"};
static const char *const method_names[METHODS] = {"floor", "bitonic", "adaptive", "path",
                                                  "path by fours"};

/* ---- Kernels: a warp a block ---------------------------------------------------------------- */

typedef struct merge_task {
    const kin_word64 *from; /* unmerged queues */
    kin_word64 *to;
    kin_word64 *spare; /* half a queue each */
    int64_t pitch;     /* LANES; not a constant in the merge queue either */
    int32_t length;
    int32_t rounds;
} merge_task;

template <merge_method METHOD, bool SMALLER, bool SHARED>
static __global__ void __launch_bounds__(LANES, LANE_WARPS)
    lane_kernel(const __grid_constant__ merge_task task)
{
    extern __shared__ kin_word64 shared[];
    const int32_t lane = (int32_t)threadIdx.x;
    const int32_t places = 2 * task.length;
    const int64_t front = (int64_t)blockIdx.x * places * LANES + lane;
    const lane_queue from = {(kin_word64 *)task.from + front, task.pitch, places};
    const lane_queue to = {task.to + front, task.pitch, places};
    const lane_queue inside = {shared + lane, task.pitch, places};
    const lane_queue queue = SHARED ? inside : to;
    const lane_queue spare = {SHARED
                                  ? shared + places * LANES + lane
                                  : task.spare + (int64_t)blockIdx.x * task.length * LANES + lane,
                              task.pitch, task.length};
    for (int32_t round = 0; round < task.rounds; round++) {
        lane_copy(from, queue, places);
        lane_merge<METHOD, SMALLER>(queue, spare, task.length);
    }
    if (SHARED) {
        const int32_t first = SMALLER ? task.length : 0;
        lane_copy(part_of(queue, first, places - first), part_of(to, first, places - first),
                  places - first);
    }
}

template <merge_method METHOD, bool SMALLER>
static __global__ void __launch_bounds__(LANES) warp_kernel(const __grid_constant__ merge_task task)
{
    extern __shared__ kin_word64 shared[];
    const int32_t lane = (int32_t)threadIdx.x;
    const int32_t places = 2 * task.length;
    const int64_t front = (int64_t)blockIdx.x * places;
    const bool aside = METHOD == PATH || METHOD == PATH_FOURS;
    const warp_queue queue = {shared, 0};
    const warp_queue other = {shared + padded(places), 0};
    const warp_queue merged = aside ? other : queue;
    wrong_pairs *plan = (wrong_pairs *)other.words;
    for (int32_t round = 0; round < task.rounds; round++) {
        for (int32_t at = lane; at < places; at += LANES) {
            word_at(queue, at) = task.from[front + at];
        }
        __syncwarp(); /* the queue is there */
        warp_merge<METHOD, SMALLER>(queue, merged, plan, lane, task.length);
    }
    for (int32_t at = (SMALLER ? task.length : 0) + lane; at < places; at += LANES) {
        task.to[front + at] = word_at(merged, at);
    }
}

typedef void (*merge_kernel)(const merge_task task);

#define LANE_KERNELS(smaller, shared)                                                   \
    {                                                                                   \
        lane_kernel<FLOOR, smaller, shared>, lane_kernel<BITONIC, smaller, shared>,     \
            lane_kernel<ADAPTIVE, smaller, shared>, lane_kernel<PATH, smaller, shared>, \
            lane_kernel<PATH_FOURS, smaller, shared>                                    \
    }
#define WARP_KERNELS(smaller)                                           \
    {                                                                   \
        warp_kernel<FLOOR, smaller>, warp_kernel<BITONIC, smaller>,     \
            warp_kernel<ADAPTIVE, smaller>, warp_kernel<PATH, smaller>, \
            warp_kernel<PATH_FOURS, smaller>                            \
    }
static const merge_kernel kernels[LAYOUTS][2][METHODS] = {
    {LANE_KERNELS(false, false), LANE_KERNELS(true, false)},
    {LANE_KERNELS(false, true), LANE_KERNELS(true, true)},
    {WARP_KERNELS(false), WARP_KERNELS(true)},
};

/* ---- What a merge costs on paper ------------------------------------------------------------ */

typedef struct merge_cost {
    double comparisons;
    double accesses;
} merge_cost;

static int32_t passes_of(layout where, int32_t count, int32_t stages)
{
    const int32_t widest = where == WARP ? warp_stages_of(count) : 3;
    return (stages + widest - 1) / widest;
}

/* Of the table above, with what the smaller half alone needs. */
static merge_cost cost_of(layout where, merge_method method, bool smaller, int32_t length)
{
    const int32_t log = log_of(length);
    const int32_t count = smaller ? length : 2 * length;
    const double search = log + 1;
    merge_cost cost = {};
    if (method == BITONIC) {
        cost.comparisons = length + count / 2.0 * log;
        cost.accesses = (smaller ? 3.0 : 4.0) * length + 2.0 * count * passes_of(where, count, log);
    } else if (method == ADAPTIVE) {
        cost.comparisons = search + 1.5 * count;
        cost.accesses = 2.0 * search + (smaller ? 1.0 : 2.0) * length +
                        2.0 * count * passes_of(where, count, 3);
        for (int32_t half = length / 2; half >= 8; half /= 2) {
            const double compared = count / (2.0 * half) * (log_of(half) + 1);
            cost.comparisons += compared;
            cost.accesses += 2.0 * compared + count;
        }
    } else if (method != FLOOR) {
        const double each = method == PATH_FOURS ? 2.0 : 1.0;
        const double searches = where == WARP ? (count < LANES ? count : LANES)
                                : smaller     ? 1.0
                                              : 0.0;
        const double aside = where != WARP && !smaller ? 2.0 * length : 0.0;
        cost.comparisons = searches * search + each * count;
        cost.accesses = 2.0 * searches * search + aside + (each + 1.0) * count;
    }
    return cost;
}

/* ---- Measuring ------------------------------------------------------------------------------ */

typedef struct bench {
    int64_t queues;
    int runs;
    const char *csv;
    cudaDeviceProp device;
    cudaEvent_t begin;
    cudaEvent_t end;
    kin_word64 *to;
    kin_word64 *spare;
    unsigned long long *wrong;
} bench;

typedef struct result {
    layout where;
    bool smaller;
    int32_t length;
    merge_method method;
    double seconds; /* median of the launches */
    double fastest;
    double slowest;
    double floor;
    double net; /* seconds of one merge */
} result;

/* Shared memory of a block, or -1 where the layout does not take the length. */
static int64_t shared_bytes(layout where, merge_method method, bool smaller, int32_t length)
{
    const bool path = method == PATH || method == PATH_FOURS;
    if (where == LANE) {
        return 0;
    }
    int64_t words = 0;
    if (where == LANE_SHARED) {
        words = (int64_t)LANES * length * (path && !smaller ? 3 : 2);
    } else if (method == PATH_FOURS && (smaller ? 1 : 2) * length < 4 * LANES) {
        return -1;
    } else {
        words = (int64_t)padded(2 * length) * (path ? 2 : 1);
    }
    const int64_t plan = where == WARP ? length / 8 * (int64_t)sizeof(wrong_pairs) : 0;
    return words * (int64_t)sizeof(kin_word64) + (method == ADAPTIVE ? plan : 0);
}

static double run_once(const bench *b, const batch *of, const result *r, int32_t rounds,
                       int64_t bytes)
{
    const merge_task task = {
        r->where == WARP ? of->rows : of->lanes, b->to, b->spare, LANES, of->length, rounds};
    const unsigned blocks = (unsigned)(r->where == WARP ? of->queues : of->queues / LANES);
    float milliseconds = 0.0F;
    must(cudaEventRecord(b->begin), "timing:");
    kernels[r->where][r->smaller ? 1 : 0][r->method]<<<blocks, LANES, (size_t)bytes>>>(task);
    must(cudaGetLastError(), "launching:");
    must(cudaEventRecord(b->end), "timing:");
    must(cudaEventSynchronize(b->end), "merging:");
    must(cudaEventElapsedTime(&milliseconds, b->begin, b->end), "timing:");
    return 1e-3 * (double)milliseconds;
}

/* What was there before can be no answer: it is wiped out before the merge. */
static void wipe(const bench *b, const batch *of)
{
    must(cudaMemset(b->to, 0x5a, (size_t)batch_words(of) * sizeof(kin_word64)), "wiping:");
}

static bool is_right(const bench *b, const batch *of, const result *r)
{
    const int64_t words = batch_words(of);
    unsigned long long wrong = 0;
    must(cudaMemset(b->wrong, 0, sizeof wrong), "checking:");
    check_kernel<<<blocks_of(words), CHECK_THREADS>>>(b->to, of->expected, words, 2 * of->length,
                                                      r->smaller ? of->length : 0, r->where != WARP,
                                                      b->wrong);
    must(cudaGetLastError(), "checking:");
    must(cudaMemcpy(&wrong, b->wrong, sizeof wrong, cudaMemcpyDeviceToHost), "checking:");
    if (wrong != 0) {
        printf("WRONG: %s, %s, L %d: %llu words differ\n", layout_names[r->where],
               method_names[r->method], r->length, wrong);
    }
    return wrong == 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* False if a word is wrong. */
static bool measure(const bench *b, const batch *timed, const batch *mixed, int64_t bytes,
                    result *r)
{
    double seconds[MOST_RUNS];
    const int32_t rounds = MOST_LENGTH / timed->length;
    const merge_kernel kernel = kernels[r->where][r->smaller ? 1 : 0][r->method];
    must(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              (int)bytes),
         "shared memory:");
    bool right = true;
    if (r->method != FLOOR) {
        wipe(b, mixed);
        (void)run_once(b, mixed, r, 1, bytes);
        right = is_right(b, mixed, r);
    }
    wipe(b, timed);
    (void)run_once(b, timed, r, rounds, bytes);
    for (int run = 0; run < b->runs; run++) {
        seconds[run] = run_once(b, timed, r, rounds, bytes);
    }
    right = (r->method == FLOOR || is_right(b, timed, r)) && right;
    qsort(seconds, (size_t)b->runs, sizeof *seconds, by_size);
    r->seconds = seconds[b->runs / 2];
    r->fastest = seconds[0];
    r->slowest = seconds[b->runs - 1];
    return right;
}

/* ---- What is printed ------------------------------------------------------------------------ */

static void print_head(const bench *b)
{
    printf("%s, kith %s (%s), %" PRId64 " queues, median of %d\n", b->device.name, kith_version(),
           kith_commit(), b->queues, b->runs);
    printf("net: one merge beyond the floor; times: how many times faster than bitonic; "
           "comparisons and accesses: one queue, on paper\n");
    printf("%-12s %-8s %5s %-14s %9s %9s %9s %9s %9s %6s %12s %9s\n", "layout", "kept", "L",
           "method", "ms", "least", "most", "floor ms", "net ns", "times", "comparisons",
           "accesses");
}

static void print_row(const result *r, double bitonic)
{
    const merge_cost cost = cost_of(r->where, r->method, r->smaller, r->length);
    printf("%-12s %-8s %5d %-14s %9.4f %9.4f %9.4f %9.4f %9.3f %6.2f %12.0f %9.0f\n",
           layout_names[r->where], r->smaller ? "smaller" : "both", r->length,
           method_names[r->method], 1e3 * r->seconds, 1e3 * r->fastest, 1e3 * r->slowest,
           1e3 * r->floor, 1e9 * r->net, r->net > 0.0 ? bitonic / r->net : 0.0, cost.comparisons,
           cost.accesses);
    (void)fflush(stdout);
}

static FILE *open_csv(const bench *b)
{
    FILE *out = fopen(b->csv, "a");
    if (out == NULL) {
        stop("cannot write", b->csv);
    }
    if (fseek(out, 0, SEEK_END) == 0 && ftell(out) == 0) {
        (void)fprintf(out, "date,commit,device,layout,kept,length,method,queues,rounds,runs,"
                           "seconds,seconds_min,seconds_max,floor,net_ns,comparisons,accesses,"
                           "checked\n");
    }
    return out;
}

static void append_row(FILE *out, const bench *b, const result *r, bool right)
{
    const merge_cost cost = cost_of(r->where, r->method, r->smaller, r->length);
    const time_t now = time(NULL);
    char date[16] = "";
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    (void)fprintf(out, "%s,%s,%s,%s,%s,%d,%s,%" PRId64 ",%d,%d,%.7f,%.7f,%.7f,%.7f,", date,
                  kith_commit(), b->device.name, layout_names[r->where],
                  r->smaller ? "smaller" : "both", r->length, method_names[r->method], b->queues,
                  MOST_LENGTH / r->length, b->runs, r->seconds, r->fastest, r->slowest, r->floor);
    (void)fprintf(out, "%.4f,%.0f,%.0f,%s\n", 1e9 * r->net, cost.comparisons, cost.accesses,
                  right ? "same" : "WRONG");
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* One layout, one half or both, one length: every method beside the floor. */
static bool compare(const bench *b, const batch *timed, const batch *mixed, result r, FILE *csv)
{
    double floor = 0.0;
    double bitonic = 0.0;
    bool all_right = true;
    for (int method = FLOOR; method < METHODS; method++) {
        r.method = (merge_method)method;
        const int64_t bytes = shared_bytes(r.where, r.method, r.smaller, r.length);
        if (bytes < 0 || bytes > (int64_t)b->device.sharedMemPerBlockOptin) {
            continue;
        }
        const bool right = measure(b, timed, mixed, bytes, &r);
        all_right = all_right && right;
        floor = method == FLOOR ? r.seconds : floor;
        r.floor = floor;
        r.net = (r.seconds - floor) * r.length / MOST_LENGTH / (double)b->queues;
        bitonic = method == BITONIC ? r.net : bitonic;
        if (method == FLOOR) {
            continue;
        }
        print_row(&r, bitonic);
        if (csv != NULL) {
            append_row(csv, b, &r, right);
        }
    }
    return all_right;
}

static bool compare_all(const bench *b)
{
    FILE *csv = b->csv == NULL ? NULL : open_csv(b);
    bool right = true;
    print_head(b);
    for (int32_t length = LEAST_LENGTH; length <= MOST_LENGTH; length *= 2) {
        const batch timed = batch_make(length, b->queues, false);
        const batch mixed = batch_make(length, MIXED_QUEUES, true);
        for (int where = LANE; where < LAYOUTS; where++) {
            for (int smaller = 0; smaller < 2; smaller++) {
                const result wanted = {(layout)where, smaller != 0, length, FLOOR};
                right = compare(b, &timed, &mixed, wanted, csv) && right;
            }
        }
        batch_free(&timed);
        batch_free(&mixed);
    }
    if (csv != NULL && fclose(csv) != 0) {
        stop("cannot write", b->csv);
    }
    printf("%s\n", right ? "every word as expected" : "WRONG words: see above");
    return right;
}

static const char *value_of(int argc, char **argv, int *at)
{
    *at += 1;
    return *at < argc ? argv[*at] : "";
}

static bench options(int argc, char **argv)
{
    bench b = {};
    b.queues = 32768;
    b.runs = 7;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0) {
            b.runs = atoi(value_of(argc, argv, &i));
        } else if (strcmp(argv[i], "--queues") == 0) {
            b.queues = atoll(value_of(argc, argv, &i));
        } else if (strcmp(argv[i], "--csv") == 0) {
            b.csv = value_of(argc, argv, &i);
        } else if (strcmp(argv[i], "--help") == 0) {
            printf("bench_merge [--runs 7] [--queues 32768] [--csv FILE]: merges of two runs, on a "
                   "GPU\n");
            exit(0);
        } else {
            stop("unknown option", argv[i]);
        }
    }
    if (b.runs < 1 || b.runs > MOST_RUNS) {
        stop("--runs:", "give 1 to 64");
    }
    if (b.queues < MIXED_QUEUES || b.queues > 1 << 20 || b.queues % LANES != 0) {
        stop("--queues:", "give a multiple of 32 from 2048 to 1048576");
    }
    return b;
}

int main(int argc, char **argv)
{
    bench b = options(argc, argv);
    int devices = 0;
    const cudaError_t found = cudaGetDeviceCount(&devices);
    if (found != cudaSuccess || devices == 0) {
        printf("bench_merge: no GPU (%s)\n",
               found != cudaSuccess ? cudaGetErrorString(found) : "none is visible");
        return NO_GPU;
    }
    must(cudaGetDeviceProperties(&b.device, 0), "device:");
    must(cudaEventCreate(&b.begin), "device:");
    must(cudaEventCreate(&b.end), "device:");
    b.to = on_device(b.queues * 2 * MOST_LENGTH);
    b.spare = on_device(b.queues * MOST_LENGTH);
    b.wrong = (unsigned long long *)on_device(1);
    const bool right = compare_all(&b);
    must(cudaFree(b.to), "freeing:");
    must(cudaFree(b.spare), "freeing:");
    must(cudaFree(b.wrong), "freeing:");
    must(cudaEventDestroy(b.begin), "freeing:");
    must(cudaEventDestroy(b.end), "freeing:");
    return right ? 0 : 1;
}
