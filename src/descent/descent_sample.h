/* SPDX-License-Identifier: Apache-2.0
 * Samples of a round (the paper's section 4.1): who meets at a point. Of each kind, NEW and OLD:
 *
 *   forward   the first p entries of that kind in the point's own list
 *   reverse   up to p of those in whose forward samples the point is
 *
 * A reverse edge goes to the slot of its target that a hash names; of what meets in a slot the
 * least stays, so that no edge waits for another and any number of threads leaves the same. To make
 * the choice random, and another one for each target, a slot holds the sampler's number after a
 * permutation of all 32-bit numbers that depends on target and round, and is read by its inverse.
 */
#ifndef KIN_DESCENT_DESCENT_SAMPLE_H
#define KIN_DESCENT_DESCENT_SAMPLE_H

#include "descent/descent_lists.h"

/* Which of a target's slots: twice as many as are wanted, so that few edges are lost to others. */
enum { KIN_DESCENT_SLOTS_A_SAMPLE = 2 };

typedef struct kin_descent_samples {
    int64_t points;
    int32_t most;             /* p */
    int32_t slots;            /* of each kind a point */
    _Atomic uint32_t *to_new; /* points x slots; UINT32_MAX: empty */
    _Atomic uint32_t *to_old;
} kin_descent_samples;

void kin_descent_samples_name(kin_layout *layout, int64_t points, int32_t most,
                              kin_descent_samples *samples);

/* Empties the slots of points [first, last). */
void kin_descent_samples_clear(const kin_descent_samples *samples, int64_t first, int64_t last);

/* Tells the forward samples of a point that it has them. Any thread; slots are all empty before the
 * first of a round. */
void kin_descent_samples_tell(const kin_descent_samples *samples, const kin_descent_lists *lists,
                              uint32_t position, uint64_t salt);

/* Who meets at a point: both kinds, distinct, the point itself not among them, and who is NEW is
 * not OLD, too. The NEW ones stand first. */
typedef struct kin_descent_meeting {
    uint32_t *positions; /* room for 4 p */
    int32_t new_count;
    int32_t old_count;
} kin_descent_meeting;

/* A thread's set of the positions that it has seen at a point: open, never more than half full. */
typedef struct kin_descent_seen {
    uint64_t *cells; /* number of the meeting << 32 | position */
    uint32_t mask;
    uint32_t meeting;
} kin_descent_seen;

void kin_descent_seen_name(kin_layout *layout, int32_t most, kin_descent_seen *seen);

/* After all have told. Where nobody is NEW, nobody is OLD either: they have met. */
void kin_descent_samples_meet(const kin_descent_samples *samples, const kin_descent_lists *lists,
                              uint32_t position, uint64_t salt, kin_descent_seen *seen,
                              kin_descent_meeting *meeting);

#endif
