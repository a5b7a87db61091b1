/* SPDX-License-Identifier: Apache-2.0
 *
 * Idea. Points are on every GPU, lists are owned: part p has those of the positions firsts[p] ..
 * firsts[p + 1] - 1, samples them and lets their samples meet. What that leaves for points of
 * others goes to slots, and a slot keeps the least word, whoever wrote it: so the slots that all
 * have left for a point are combined by its owner, word by word, and are what one GPU would have
 * left. A graph has the same bytes on any number of GPUs.
 *
 *      sample    own lists -> slots of all points     | least of all, to the owner
 *      collect   own slots -> ids
 *      join      own ids meet -> offers to all points | least of all, to the owner
 *      merge     own offers -> own lists              | counts are added up
 *
 * What foreign points the kernels read: rounded rows and their terms, or rows as given, which are
 * on every GPU, and in join the last word of each list, which its owner sends before.
 *
 * Starts are divided in the same way: each fills the lists that it owns. Ids of graphs that are
 * given come to all, a part brought by each; of two graphs that are made one the reach that each
 * proves of its own positions goes to all, and so does how far a share of the tiles looks. A graph
 * under a relative is made in lockstep, too, and its first member's ids go to the others.
 *
 * Neighbours stand near each other, so most slots of points of others stay empty: the few that are
 * not are gathered and sent with their places, 16 bytes each. Where they are more than one in
 * GATHERED, slots go as a whole.
 *
 * Bytes of a round, to each of G GPUs, at most: 8 n of last words, and (G - 1) / G of n (16 reverse
 * + 8 SLOTS), which with 16 samples and 32 slots is 512 for each point: 15 GB of 4 * 10^7 points on
 * 4 GPUs, 50 ms where they see each other, a second by way of the host.
 *
 * Memory. Slots and graph are as large as on one GPU; beside them a piece of what others left, and
 * 16 bytes for one in GATHERED of SLOTS slots.
 */
#include "graph/graph_run_gpu.h"

/* What is fetched of another's slots at a time. */
static const uint64_t PIECE_WORDS = 32u << 20;
enum { GATHERED = 8 };

static int64_t sent_room(int64_t points, int32_t parts)
{
    return (points / parts + KIN_SCREEN_GPU_BLOCK) * KIN_GRAPH_GPU_SLOTS / GATHERED;
}

static uint64_t got_words(int64_t points, int32_t parts)
{
    const uint64_t all =
        kin_size_mul((uint64_t)(points / parts + KIN_SCREEN_GPU_BLOCK), KIN_GRAPH_GPU_MOST_SAMPLES);
    return all < PIECE_WORDS ? all : PIECE_WORDS;
}

uint64_t kin_graph_gpu_share_bytes(int64_t points, int32_t parts)
{
    const uint64_t sent = kin_size_mul((uint64_t)sent_room(points, parts) * (uint64_t)parts,
                                       sizeof(kin_graph_gpu_sent));
    return kin_size_add(sent, (got_words(points, parts) + (uint64_t)points) * sizeof(uint64_t));
}

/* Room for one in GATHERED of the slots; where there is none they go as a whole. */
static kith_status make_room(kin_graph_gpu_run *run)
{
    kin_graph_gpu_share *share = &run->share;
    const uint64_t parts = (uint64_t)share->parts;
    share->room = sent_room(run->count, share->parts);
    KIN_GPU_NEW(run->hold, run->on.gpu, share->counts, parts, "counts");
    KIN_GPU_NEW(run->hold, run->on.gpu, share->sent, kin_size_mul((uint64_t)share->room, parts),
                "slots for other GPUs");
    return KITH_OK;
}

kith_status kin_graph_gpu_share_make(kin_graph_gpu_run *run)
{
    kin_gpu *gpu = run->on.gpu;
    kin_graph_gpu_share *share = &run->share;
    share->part = kin_gpu_part(gpu);
    share->parts = kin_gpu_parts(gpu) > 1 ? kin_gpu_parts(gpu) : 0;
    if (share->parts == 0) {
        return KITH_OK;
    }
    kin_gpu_divide(run->count, KIN_SCREEN_GPU_BLOCK, share->parts, share->firsts);
    run->graph.first = share->firsts[share->part];
    run->graph.end = share->firsts[share->part + 1];
    share->got_words = got_words(run->count, share->parts);
    KIN_GPU_NEW(run->hold, gpu, share->lasts, (uint64_t)run->count, "ends of lists");
    KIN_GPU_NEW(run->hold, gpu, share->got, share->got_words, "slots of other GPUs");
    if (make_room(run) != KITH_OK) {
        kin_forgive(run->on.ctx);
        share->room = 0;
    }
    return KITH_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* What a part shows: its slots, and those of others that it has gathered. */
typedef struct slots {
    const uint64_t *words;
    const kin_graph_gpu_sent *sent;
    int64_t room;
    uint64_t counts[KIN_GPU_TEAM_MOST]; /* beyond room: they are too many, and go as a whole */
} slots;

static kith_status gather(const kin_graph_gpu_run *run, const uint64_t *words, int64_t a_point,
                          slots *mine)
{
    const kin_graph_gpu_share *share = &run->share;
    kith_ctx *ctx = run->on.ctx;
    kin_gpu *gpu = run->on.gpu;
    const uint64_t bytes = (uint64_t)share->parts * sizeof *share->counts;
    *mine = (slots){.words = words, .sent = share->sent, .room = share->room};
    if (share->sent == NULL) {
        memset(mine->counts, 0xff, sizeof mine->counts);
        return kin_gpu_wait(ctx, gpu);
    }
    kin_graph_gpu_gather job = {.words = words,
                                .part = share->part,
                                .parts = share->parts,
                                .room = share->room,
                                .sent = share->sent,
                                .counts = share->counts};
    for (int32_t p = 0; p <= share->parts; p++) {
        job.bounds[p] = share->firsts[p] * a_point;
    }
    KIN_TRY(kin_gpu_fill(ctx, gpu, share->counts, 0, bytes));
    KIN_TRY(KIN_ROOM_LAUNCH(run, gather, &job, "gathering slots"));
    KIN_TRY(kin_gpu_download(ctx, gpu, mine->counts, share->counts, bytes));
    return kin_gpu_wait(ctx, gpu);
}

/* Whole slots of one part, a piece at a time. */
static kith_status take_whole(const kin_graph_gpu_run *run, uint64_t *words, int64_t a_point,
                              int32_t p, const slots *theirs)
{
    const kin_graph_gpu_share *share = &run->share;
    const uint64_t first = (uint64_t)share->firsts[share->part] * (uint64_t)a_point;
    const uint64_t end = (uint64_t)share->firsts[share->part + 1] * (uint64_t)a_point;
    for (uint64_t at = first; at < end; at += share->got_words) {
        const uint64_t count = end - at < share->got_words ? end - at : share->got_words;
        const kin_graph_gpu_least job = {
            .words = words + at, .others = share->got, .count = (int64_t)count};
        KIN_TRY(kin_gpu_copy_from(run->on.ctx, run->on.gpu, p, share->got, theirs->words + at,
                                  count * sizeof *words));
        KIN_TRY(KIN_ROOM_LAUNCH(run, least, &job, "combining slots"));
    }
    return KITH_OK;
}

/* What one part has gathered for this one. */
static kith_status take_sent(const kin_graph_gpu_run *run, uint64_t *words, int32_t p,
                             const slots *theirs)
{
    const kin_graph_gpu_share *share = &run->share;
    kin_graph_gpu_sent *got = (kin_graph_gpu_sent *)share->got;
    const int64_t most = (int64_t)(share->got_words * sizeof *share->got / sizeof *got);
    const int64_t all = (int64_t)theirs->counts[share->part];
    const kin_graph_gpu_sent *from = theirs->sent + (int64_t)share->part * theirs->room;
    for (int64_t at = 0; at < all; at += most) {
        const int64_t count = kin_min_i64(most, all - at);
        const kin_graph_gpu_settle job = {.words = words, .sent = got, .count = count};
        KIN_TRY(kin_gpu_copy_from(run->on.ctx, run->on.gpu, p, got, from + at,
                                  (uint64_t)count * sizeof *got));
        KIN_TRY(KIN_ROOM_LAUNCH(run, settle, &job, "combining slots"));
    }
    return KITH_OK;
}

static kith_status fetch_least(const kin_graph_gpu_run *run, uint64_t *words, int64_t a_point)
{
    const kin_graph_gpu_share *share = &run->share;
    kith_status status = KITH_OK;
    for (int32_t turn = 1; turn < share->parts; turn++) {
        const int32_t p = (share->part + turn) % share->parts;
        const slots *theirs = kin_gpu_shown(run->on.gpu, p);
        KIN_THEN(status, theirs->counts[share->part] <= (uint64_t)theirs->room
                             ? take_sent(run, words, p, theirs)
                             : take_whole(run, words, a_point, p, theirs));
    }
    KIN_KEEP(status, kin_gpu_wait(run->on.ctx, run->on.gpu)); /* of a failure, too: others wait */
    return status;
}

kith_status kin_graph_gpu_share_least(const kin_graph_gpu_run *run, uint64_t *words,
                                      int64_t a_point)
{
    kin_gpu *gpu = run->on.gpu;
    slots mine;
    if (run->share.parts == 0) {
        return KITH_OK;
    }
    const kith_status made = gather(run, words, a_point, &mine);
    kin_gpu_show(gpu, &mine);
    KIN_TRY(kin_gpu_meet(gpu, made));
    return kin_gpu_meet(gpu, fetch_least(run, words, a_point));
}

kith_status kin_graph_gpu_share_ids(const kin_graph_gpu_run *run, const kin_graph_gpu_found *found)
{
    int64_t firsts[KIN_GPU_TEAM_MOST + 1] = {0};
    for (int32_t p = 1; p <= run->share.parts; p++) {
        firsts[p] = run->rows;
    }
    return kin_gpu_gather(run->on.ctx, run->on.gpu, found->ids,
                          (uint64_t)found->k * sizeof *found->ids, firsts);
}
