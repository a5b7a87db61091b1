/* SPDX-License-Identifier: Apache-2.0
 *
 * How large the parts of a work are: what is wished for speed, and less where the room is small.
 * Everything but the lists is bounded by a constant.
 */
#include "fused/fused_size.h"

#include "base/base_size.h"
#include "fused/fused_schedule.h"

/* Chosen for one H200: a seed that costs a percent of a million rows' screen; units that load their
 * rows (two tiles' worth) rarely, and are still many for each processor. */
enum {
    SEED_COLUMNS = 1024,
    SEED_A_NEIGHBOUR = 8, /* columns of a graph's seed for each of the k */
    SAMPLE_COLUMNS = 4096,
    SAMPLE_A_NEIGHBOUR = 16,
    HOME_MARGIN = 8, /* tiles of a seed beside the home of a block */
    WHOLE_HOME = 24, /* tiles; of larger homes a share goes into the seed, */
    HOME_SHARE = 2,
    SEED_SHARE = 8,         /* as long as seeds are at most this part of all columns */
    AMPLE = 4096,           /* entries of lists of few rows, */
    AMPLE_A_NEIGHBOUR = 32, /* and for each of the k */
    WIDE_POINTS = 16000000,
    LEAST_UNIT_TILES = 8,
    MOST_UNIT_TILES = 64,
    UNITS_A_PROCESSOR = 16,
    PROCESSORS = 132
};
static const uint64_t MATRIX_BYTES = 256u << 20;
static const uint64_t TILE_BYTES = 128u << 20;
static const uint64_t CUT_SHORT_TILE_BYTES = 1u << 30;
static const uint64_t TILE_COLUMN_BYTES = KIN_FUSED_TILE * sizeof(uint32_t);

bool kin_fused_is_wide(int64_t points)
{
    return points >= WIDE_POINTS;
}

int32_t kin_fused_capacity(int64_t k)
{
    return (int32_t)kin_round_up(4 * k + 64, 8);
}

static uint64_t lists_bytes(int64_t rows, int32_t capacity)
{
    const uint64_t a_row =
        (uint64_t)capacity * sizeof(uint64_t) + sizeof(int32_t) + sizeof(double) + sizeof(uint8_t);
    return kin_size_mul((uint64_t)kin_round_up(rows, KIN_FUSED_BLOCK), a_row);
}

/* Few rows, which have no order and so no home, get lists that hold whole clusters. */
int32_t kin_fused_search_capacity(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const int32_t plain = kin_fused_capacity(k);
    const int64_t wished = kin_min_i64(AMPLE_A_NEIGHBOUR * k + AMPLE, kin_round_up(cols, 8) + 8);
    const bool fits = lists_bytes(rows, (int32_t)wished) <= room / 8;
    return rows < KIN_FUSED_ORDERED_ROWS && fits && wished > plain ? (int32_t)wished : plain;
}

/* Few rows against few columns make small units, so that every processor has some. */
static uint32_t unit_tiles_of(int64_t blocks, int64_t tiles)
{
    const int64_t fair = blocks * tiles / (PROCESSORS * UNITS_A_PROCESSOR);
    return (uint32_t)kin_max_i64(LEAST_UNIT_TILES, kin_min_i64(fair, MOST_UNIT_TILES));
}

/* Tiles of a seed: as many as are wished, fewer where the costs of one block of rows would take
 * more than a quarter of the room. */
static int64_t seed_tiles_of(int64_t wished, uint64_t room)
{
    const uint64_t a_tile = KIN_FUSED_BLOCK * TILE_COLUMN_BYTES;
    const uint64_t fit = room / 4 / a_tile;
    return kin_max_i64(1, fit < (uint64_t)wished ? (int64_t)fit : wished);
}

/* Tiles of a seed near home: queries in the corpus' own order have tiles / blocks of it to a block.
 */
static int64_t near_tiles_of(int64_t blocks, int64_t tiles, int64_t k)
{
    const int64_t home = kin_ceil_div(tiles, kin_max_i64(blocks, 1));
    const int64_t share = home <= WHOLE_HOME
                              ? home + HOME_MARGIN
                              : kin_max_i64(WHOLE_HOME + HOME_MARGIN, home / HOME_SHARE);
    return kin_max_i64(share, kin_fused_tiles_of(SAMPLE_A_NEIGHBOUR * k));
}

bool kin_fused_wants_homes(int64_t rows, int64_t cols, int64_t k)
{
    const int64_t tiles = kin_fused_tiles_of(cols);
    return rows >= KIN_FUSED_ORDERED_ROWS &&
           near_tiles_of(kin_fused_blocks_of(rows), tiles, k) * SEED_SHARE <= tiles;
}

kin_fused_sizes kin_fused_sizes_of(int64_t rows, int64_t cols, int64_t k, kin_fused_seeding how,
                                   uint64_t room)
{
    const bool cut_short = how == KIN_FUSED_SEED_CUT_SHORT;
    const bool graph = how == KIN_FUSED_SEED_GRAPH || cut_short;
    const int64_t blocks = kin_fused_blocks_of(rows);
    const int64_t tiles = kin_fused_tiles_of(cols);
    kin_fused_sizes s = {0};
    if (graph) {
        const int64_t wished = kin_max_i64(SEED_COLUMNS, SEED_A_NEIGHBOUR * k);
        const int64_t seed_tiles = seed_tiles_of(kin_fused_tiles_of(wished), room);
        const int64_t reach = kin_ceil_div(seed_tiles / 2 - 1, 2);
        s.seed_blocks = kin_fused_seed_blocks(blocks, reach);
        s.seed_tiles = 2 * s.seed_blocks;
    } else {
        const int64_t spread =
            kin_fused_tiles_of(kin_max_i64(SAMPLE_COLUMNS, SAMPLE_A_NEIGHBOUR * k));
        const int64_t wished =
            how == KIN_FUSED_SEED_NEAR ? near_tiles_of(blocks, tiles, k) : spread;
        s.seed_tiles = kin_min_i64(seed_tiles_of(wished, room), tiles);
    }
    const uint64_t block_bytes = KIN_FUSED_BLOCK * (uint64_t)s.seed_tiles * TILE_COLUMN_BYTES;
    const uint64_t bytes = MATRIX_BYTES < room / 4 ? MATRIX_BYTES : room / 4;
    s.batch_blocks = kin_max_i64(1, kin_min_i64((int64_t)(bytes / block_bytes), blocks));
    const int64_t step_tiles = graph ? 2 : 1;
    const int64_t most = graph ? kin_fused_offsets_end(blocks) : tiles;
    const uint64_t wide = cut_short ? CUT_SHORT_TILE_BYTES : TILE_BYTES;
    const uint64_t table = wide < room / 8 ? wide : room / 8;
    const int64_t fitting =
        (int64_t)(table / sizeof(uint32_t)) / (kin_max_i64(blocks, 1) * step_tiles);
    s.stretch = kin_max_i64(1, kin_min_i64(fitting, most));
    s.unit_tiles = unit_tiles_of(blocks, graph ? tiles / 2 : tiles);
    const int64_t seed_table = how == KIN_FUSED_SEED_SPREAD ? s.seed_tiles : blocks * s.seed_tiles;
    const int64_t stage_tiles =
        cut_short && kin_fused_is_wide(rows) ? KIN_FUSED_WIDE_TILES : s.stretch * step_tiles;
    s.tile_count = kin_max_i64(seed_table, blocks * stage_tiles);
    const int64_t seed_units = blocks * kin_ceil_div(s.seed_tiles, KIN_FUSED_SEED_UNIT_TILES);
    s.unit_count = kin_max_i64(seed_units, kin_fused_plan_units(blocks, stage_tiles, s.unit_tiles));
    return s;
}

void kin_fused_sizes_share(kin_fused_sizes *sizes, int64_t rows, int32_t parts)
{
    const int64_t blocks = kin_fused_blocks_of(rows);
    const int64_t planned = kin_fused_plan_share(blocks, parts);
    const int64_t fitting = sizes->tile_count / kin_max_i64(1, 2 * planned);
    const int64_t stretch = kin_min_i64(fitting, kin_fused_offsets_end(blocks));
    sizes->stretch = kin_max_i64(sizes->stretch, stretch);
    sizes->tile_count = kin_max_i64(sizes->tile_count, planned * sizes->stretch * 2);
    sizes->unit_count = kin_max_i64(
        sizes->unit_count, kin_fused_plan_units(planned, sizes->stretch * 2, sizes->unit_tiles));
}

static uint64_t tables_bytes(const kin_fused_sizes *s, int64_t rows)
{
    return (uint64_t)s->tile_count * sizeof(uint32_t) +
           (uint64_t)s->unit_count * sizeof(kin_fused_unit) +
           (uint64_t)kin_fused_tiles_of(rows + KIN_FUSED_BLOCK) * sizeof(kin_fused_worst);
}

static uint64_t work_bytes(int64_t rows, int64_t cols, int64_t k, kin_fused_seeding how,
                           uint64_t room)
{
    const kin_fused_sizes s = kin_fused_sizes_of(rows, cols, k, how, room);
    const uint64_t matrix = (uint64_t)s.batch_blocks * KIN_FUSED_BLOCK * (uint64_t)s.seed_tiles;
    return matrix * TILE_COLUMN_BYTES + tables_bytes(&s, rows);
}

uint64_t kin_fused_seedless_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const kin_fused_sizes s = kin_fused_sizes_of(rows, cols, k, KIN_FUSED_SEED_SPREAD, room);
    const int32_t capacity = kin_fused_search_capacity(rows, cols, k, room);
    return kin_size_add(lists_bytes(rows, capacity), tables_bytes(&s, rows));
}

uint64_t kin_fused_cut_short_bytes(int64_t rows, int64_t k, int32_t capacity, uint64_t room)
{
    const uint64_t before = (uint64_t)kin_round_up(rows, KIN_FUSED_BLOCK) * sizeof(int32_t);
    const uint64_t work = work_bytes(rows, rows, k, KIN_FUSED_SEED_CUT_SHORT, room);
    return kin_size_add(lists_bytes(rows, capacity), kin_size_add(work, before));
}

uint64_t kin_fused_work_bytes(int64_t rows, int64_t cols, int64_t k, uint64_t room)
{
    const uint64_t graph = rows == cols ? work_bytes(rows, cols, k, KIN_FUSED_SEED_GRAPH, room) : 0;
    const uint64_t spread = work_bytes(rows, cols, k, KIN_FUSED_SEED_SPREAD, room);
    const bool homes = kin_fused_wants_homes(rows, cols, k);
    const uint64_t near = homes ? work_bytes(rows, cols, k, KIN_FUSED_SEED_NEAR, room) : 0;
    const uint64_t search = near > spread ? near : spread;
    const int32_t capacity = kin_fused_search_capacity(rows, cols, k, room);
    return kin_size_add(lists_bytes(rows, capacity), graph > search ? graph : search);
}
