/* SPDX-License-Identifier: Apache-2.0
 * Rows into the cheap type of a frame, with what the screen needs to know of each: term, norm,
 * lost. Contract: screen_kernels.h. Cost: one read of the rows, one write of half of it or less.
 *
 * Why the bounds hold (docs/notes/numerics.md, "Rows"). b = fl(fl(x - mean) * fl(1 / scale)) is
 * within 2^-50 |b| of a. The residual b - x^ is subtracted in double whatever the rounding to x^
 * was, so clamped, zeroed and twice rounded components are all accounted for. Sums of squares have
 * at most 2^17 additions in a lane, 5 among lanes: their relative error is below 2^-35. |b| itself
 * is not summed: |b| <= |x^| + |b - x^|, so
 *
 *     lost = (|b - x^| + 2^-50 (|x^| + |b - x^|) + 2^-500) (1 + 2^-30),    rounded up to fp32.
 *
 * A row that overflows on the way has lost = +inf, which keeps everything. */
#include "screen/screen_row.cuh"

/* Above this |x^|^2 a cost of quantised rows might leave 32 bits (docs/notes/numerics.md, "Ranges
 * of 32 bits"). */
#define LARGEST_NORM_SQ 0x1p28
#define MOST_S8 127.0
#define LEAST_S8 (-128.0)

/* Both ends of the range of fp16 rows: products are then multiples of 2^-76 below 2^30. */
#define MOST_F16 0x1p15
#define LEAST_F16 0x1p-14

typedef struct row_sums {
    double stored_sq;
    double lost_sq;
    double given_sq; /* bytes alone; else 0 */
} row_sums;

KIN_DEVICE double clamped(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* The row that a position holds, or -1: padding. */
KIN_DEVICE int64_t row_of(const kin_screen_gpu_round &job, int64_t position)
{
    if (position >= job.points) {
        return -1;
    }
    const uint32_t id = job.ids != NULL ? job.ids[position] : 0;
    return id == KITH_ID_NONE ? -1 : job.ids != NULL ? (int64_t)id : job.first + position;
}

/* ---- Facts ---------------------------------------------------------------------------------- */

KIN_DEVICE void store_facts(const kin_screen_gpu_round &job, int64_t position,
                            kin_screen_gpu_word term, kin_screen_gpu_word half, float norm,
                            float lost)
{
    kin_screen_gpu_facts facts;
    facts.term = term;
    facts.norm = norm;
    facts.lost = lost;
    facts.unused = 0.0F;
    job.facts[position] = facts;
    job.half[position] = half;
}

KIN_DEVICE void store_padding(const kin_screen_gpu_round &job, int64_t position)
{
    kin_screen_gpu_word pad;
    if (job.frame.type == KIN_SCREEN_GPU_F16) {
        pad.f = KIN_SCREEN_GPU_PAD_FLOAT;
    } else {
        pad.i = KIN_SCREEN_GPU_PAD_INT;
    }
    store_facts(job, position, pad, pad, 0.0F, 0.0F);
}

/* term and half of integers: half is rounded down, for negatives too. */
KIN_DEVICE void store_integer(const kin_screen_gpu_round &job, int64_t position, int64_t value,
                              float norm, float lost)
{
    kin_screen_gpu_word term;
    kin_screen_gpu_word half;
    term.i = (int32_t)value;
    half.i = (int32_t)(value >> 1);
    store_facts(job, position, term, half, norm, lost);
}

/* Facts of a row with bounds, by the first lane of its team; all lanes must come. */
KIN_DEVICE void finish_row(const kin_screen_gpu_round &job, int64_t position, bool leads,
                           int64_t row, row_sums sums)
{
    const bool real = row >= 0;
    const bool lost_before = real && job.off != NULL;
    const double before =
        lost_before ? (double)job.off[row * job.off_stride] / job.frame.scale : 0.0;
    const bool product = job.frame.bound == KIN_BOUND_PRODUCT;
    const double off = sqrt(sums.lost_sq);
    const double length = sqrt(sums.stored_sq);
    const double loss = (before + off + 0x1p-50 * (length + off) + 0x1p-500) * KIN_BOUND_WIDEN;
    const float norm = real ? __double2float_ru(length * KIN_BOUND_WIDEN) : 0.0F;
    const float lost = real ? __double2float_ru(loss) : 0.0F;
    if (leads && real && job.frame.type == KIN_SCREEN_GPU_F16) {
        kin_screen_gpu_word term;
        kin_screen_gpu_word half;
        term.f = product ? 0.0F : (float)sums.stored_sq;
        half.f = 0.5F * term.f;
        store_facts(job, position, term, half, norm, lost);
    } else if (leads && real) {
        store_integer(job, position, product ? 0 : (int64_t)sums.stored_sq, norm, lost);
    } else if (leads && position < job.padded) {
        store_padding(job, position);
    }
    if (job.worst != NULL) {
        kin_screen_gpu_raise(&job.worst[0], norm);
        kin_screen_gpu_raise(&job.worst[1], lost);
    }
}

/* A row that another set in this frame has, from there: these are the bytes that rounding it again
 * would give. */
KIN_DEVICE void copy_past(const kin_screen_gpu_round &job, kin_screen_gpu_place me, int64_t row,
                          int32_t team)
{
    const int64_t place = job.past.places[row];
    const int32_t chunks = job.frame.row_bytes / KIN_SCREEN_GPU_CHUNK;
    const uint4 *from = (const uint4 *)job.past.set.rounded + place * chunks;
    uint4 *to = (uint4 *)job.rounded + me.row * chunks;
    const kin_screen_gpu_facts facts = job.past.set.facts[place];
#pragma unroll 4
    for (int32_t at = me.lane; at < chunks; at += team) {
        to[at] = __ldg(from + at);
    }
    if (me.lane == 0) {
        store_facts(job, me.row, facts.term, job.past.set.half[place], facts.norm, facts.lost);
    }
}

/* ---- Values in the frame -------------------------------------------------------------------- */

/* b of the components in a chunk; 0 behind the last column. */
template <kith_dtype DTYPE>
KIN_DEVICE void values_in_frame(const kin_screen_gpu_round &job, const uint4 &chunk, int32_t col,
                                const kin_row_transform *transform, double inverse, double *b)
{
    for (int i = 0; i < kin_screen_gpu_dtype<DTYPE>::VALUES; i++) {
        double x = kin_screen_gpu_chunk_value<DTYPE>(chunk, i);
        if (transform != NULL) {
            x = kin_row_apply(transform, x);
        }
        const bool inside = col + i < job.frame.cols;
        const double mean =
            job.frame.mean != NULL && inside ? __ldg(job.frame.mean + col + i) : 0.0;
        b[i] = inside ? (x - mean) * inverse : 0.0;
    }
}

/* count bytes of words, count a power of two, all aligned to it. */
template <int BYTES> KIN_DEVICE void store_bytes(unsigned char *to, const uint32_t *words)
{
    if (BYTES >= 16) {
        for (int i = 0; i < BYTES / 16; i++) {
            ((uint4 *)to)[i] =
                make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
        }
    } else if (BYTES == 8) {
        *(uint2 *)to = make_uint2(words[0], words[1]);
    } else if (BYTES == 4) {
        *(uint32_t *)to = words[0];
    } else {
        *(uint16_t *)to = (uint16_t)words[0];
    }
}

/* ---- fp16, and quantised bytes -------------------------------------------------------------- */

KIN_DEVICE uint32_t half_of(double b, row_sums *sums)
{
    const double inside = fabs(b) < LEAST_F16 ? 0.0 : clamped(b, MOST_F16);
    const __half stored = __float2half_rn((float)inside);
    const double x = (double)__half2float(stored);
    const double off = b - x;
    sums->stored_sq += x * x;
    sums->lost_sq += off * off;
    return __half_as_ushort(stored);
}

KIN_DEVICE uint32_t byte_of(double b, row_sums *sums)
{
    const double x = fmin(fmax(rint(b), LEAST_S8), MOST_S8); /* a zero of uint8 is -128 */
    const double off = b - x;
    sums->stored_sq += x * x;
    sums->lost_sq += off * off;
    sums->given_sq += b * b;
    return (uint32_t)(int32_t)x & 0xff;
}

template <kin_screen_gpu_type TYPE, kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    round_framed_kernel(const __grid_constant__ kin_screen_gpu_round job, int32_t team)
{
    constexpr int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    constexpr int stored_bytes = TYPE == KIN_SCREEN_GPU_F16 ? 2 : 1;
    constexpr int a_word = 4 / stored_bytes;
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    const int64_t r = row_of(job, me.row);
    if (job.places != NULL && r >= 0 && me.lane == 0) {
        job.places[r] = (uint32_t)me.row;
    }
    /* A warp whose rows are not all known rounds those that are, too. */
    if (__all_sync(KIN_SCREEN_GPU_ALL_LANES, r >= 0 && r < job.past.known)) {
        copy_past(job, me, r, team);
        return;
    }
    const char *row = kin_screen_gpu_row(job.rows, r < 0 ? 0 : r);
    const kin_row_transform *transforms = job.rows.transforms;
    const kin_row_transform *transform = transforms != NULL && r >= 0 ? &transforms[r] : NULL;
    const int64_t bytes = r < 0 ? 0 : (int64_t)job.frame.cols * kin_screen_gpu_dtype<DTYPE>::BYTES;
    const double inverse = 1.0 / job.frame.scale;
    const int32_t wide = me.row < job.padded ? job.frame.row_bytes / stored_bytes : 0;
    unsigned char *out = job.rounded + me.row * job.frame.row_bytes;
    row_sums sums = {0.0, 0.0, 0.0};
#pragma unroll 2
    for (int32_t col = me.lane * values; col < wide; col += team * values) {
        const int64_t at = (int64_t)col * kin_screen_gpu_dtype<DTYPE>::BYTES;
        uint32_t words[(values + a_word - 1) / a_word] = {0};
        if (at < bytes) {
            double b[values];
            values_in_frame<DTYPE>(job, kin_screen_gpu_chunk<ALIGNED>(row, at, bytes), col,
                                   transform, inverse, b);
            for (int i = 0; i < values; i++) {
                const uint32_t x =
                    TYPE == KIN_SCREEN_GPU_F16 ? half_of(b[i], &sums) : byte_of(b[i], &sums);
                words[i / a_word] |= x << (i % a_word * 8 * stored_bytes);
            }
        }
        store_bytes<stored_bytes * values>(out + stored_bytes * (int64_t)col, words);
    }
    sums.stored_sq = kin_screen_gpu_team_sum(sums.stored_sq, team);
    sums.lost_sq = kin_screen_gpu_team_sum(sums.lost_sq, team);
    if (TYPE == KIN_SCREEN_GPU_S8) {
        sums.given_sq = kin_screen_gpu_team_sum(sums.given_sq, team);
    }
    if (TYPE == KIN_SCREEN_GPU_S8 && sums.stored_sq > LARGEST_NORM_SQ) {
        /* A row far outside of the frame: the origin stands for it, and loses all of it. */
        sums.lost_sq = sums.given_sq;
        sums.stored_sq = 0.0;
        const uint32_t zeros[(values + 3) / 4] = {0};
        for (int32_t col = me.lane * values; col < wide; col += team * values) {
            store_bytes<values>(out + col, zeros);
        }
    }
    finish_row(job, me.row, me.lane == 0, r, sums);
}

/* ---- Rows of bytes as they are, and of floats that are such ---------------------------------- */

/* The bytes of a word that lie in the row; count may be any number. */
KIN_DEVICE uint32_t word_mask(int64_t count)
{
    return count >= 4 ? 0xffffffffu : count <= 0 ? 0 : (1u << (8 * (int)count)) - 1;
}

/* What is subtracted of each value: u8 moves by 128 into s8, which changes no difference; what it
 * does to products stands in the term. */
template <kith_dtype DTYPE> KIN_DEVICE int32_t shift_of(const kin_screen_gpu_round &job)
{
    return DTYPE == KITH_U8 ? 128 : DTYPE == KITH_I8 ? 0 : job.frame.shift;
}

/* The values of a chunk that lie in the row, as bytes; zeros behind them. left: bytes of the row
 * from the chunk on. */
template <kith_dtype DTYPE>
KIN_DEVICE void bytes_of(const uint4 &chunk, int64_t left, int32_t shift, uint32_t *words)
{
    constexpr int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    if (kin_screen_gpu_dtype<DTYPE>::BYTES == 1) {
        const uint32_t move = shift != 0 ? 0x80808080u : 0;
        for (int i = 0; i < values / 4; i++) {
            words[i] = (kin_screen_gpu_chunk_word(chunk, i) ^ move) & word_mask(left - 4 * i);
        }
    } else {
        for (int i = 0; i < values; i++) {
            const bool inside = i * kin_screen_gpu_dtype<DTYPE>::BYTES < left;
            const int32_t x = (int32_t)kin_screen_gpu_chunk_value<DTYPE>(chunk, i) - shift;
            words[i / 4] |= (inside ? (uint32_t)x & 0xff : 0) << (i % 4 * 8);
        }
    }
}

/* All sums are exact: cols <= 8,192. */
template <kith_dtype DTYPE, bool ALIGNED>
static __global__ void __launch_bounds__(KIN_SCREEN_GPU_THREADS)
    round_integers_kernel(const __grid_constant__ kin_screen_gpu_round job, int32_t team)
{
    constexpr int values = kin_screen_gpu_dtype<DTYPE>::VALUES;
    constexpr int count = values < 4 ? 1 : values / 4;
    const kin_screen_gpu_place me = kin_screen_gpu_my_place(team);
    const int64_t r = row_of(job, me.row);
    const char *row = kin_screen_gpu_row(job.rows, r < 0 ? 0 : r);
    const int64_t bytes = r < 0 ? 0 : (int64_t)job.frame.cols * kin_screen_gpu_dtype<DTYPE>::BYTES;
    const int32_t wide = me.row < job.padded ? job.frame.row_bytes : 0;
    const int32_t shift = shift_of<DTYPE>(job);
    unsigned char *out = job.rounded + me.row * job.frame.row_bytes;
    int32_t sum = 0;
    int32_t squares = 0;
    for (int32_t col = me.lane * values; col < wide; col += team * values) {
        const int64_t at = (int64_t)col * kin_screen_gpu_dtype<DTYPE>::BYTES;
        uint32_t words[count] = {0};
        if (at < bytes) {
            bytes_of<DTYPE>(kin_screen_gpu_chunk<ALIGNED>(row, at, bytes), bytes - at, shift,
                            words);
            for (int i = 0; i < count; i++) {
                sum = __dp4a((int)words[i], 0x01010101, sum);
                squares = __dp4a((int)words[i], (int)words[i], squares);
            }
        }
        store_bytes<values>(out + col, words);
    }
    for (int offset = team >> 1; offset > 0; offset >>= 1) {
        sum += __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, sum, offset);
        squares += __shfl_xor_sync(KIN_SCREEN_GPU_ALL_LANES, squares, offset);
    }
    if (me.lane != 0 || me.row >= job.padded) {
        return;
    }
    if (r < 0) {
        store_padding(job, me.row);
    } else if (job.rows.metric == KITH_INNER_PRODUCT) {
        const int64_t moved = shift;
        store_integer(job, me.row,
                      -2 * moved * (int64_t)sum - moved * moved * (int64_t)job.frame.cols, 0.0F,
                      0.0F);
    } else {
        store_integer(job, me.row, squares, 0.0F, 0.0F);
    }
}

/* ---- Launch --------------------------------------------------------------------------------- */

int kin_screen_gpu_launch_round(kin_gpu_stream *stream, const kin_screen_gpu_round *job)
{
    const kin_screen_gpu_rows *rows = &job->rows;
    if (job->padded == 0) {
        return 0;
    }
    const bool aligned = kin_screen_gpu_rows_aligned(rows, KIN_SCREEN_GPU_CHUNK);
    const int32_t team = kin_screen_gpu_team(kin_screen_gpu_row_bytes(rows));
    const unsigned blocks = kin_screen_gpu_team_blocks(job->padded, team);
    if (job->frame.bound == KIN_BOUND_INTEGER) {
#define LAUNCH_INTEGERS(DTYPE, ALIGNED)   \
    round_integers_kernel<DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, team)
        KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_INTEGERS)
#undef LAUNCH_INTEGERS
    } else if (job->frame.type == KIN_SCREEN_GPU_F16) {
#define LAUNCH_HALF(DTYPE, ALIGNED)                         \
    round_framed_kernel<KIN_SCREEN_GPU_F16, DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, team)
        KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_HALF)
#undef LAUNCH_HALF
    } else {
#define LAUNCH_QUANTISED(DTYPE, ALIGNED)                   \
    round_framed_kernel<KIN_SCREEN_GPU_S8, DTYPE, ALIGNED> \
        <<<blocks, KIN_SCREEN_GPU_THREADS, 0, stream->stream>>>(*job, team)
        KIN_SCREEN_GPU_LAUNCH_DTYPE(rows->dtype, aligned, LAUNCH_QUANTISED)
#undef LAUNCH_QUANTISED
    }
    return kin_gpu_launched();
}
