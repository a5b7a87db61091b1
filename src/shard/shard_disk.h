/* SPDX-License-Identifier: Apache-2.0
 * A thread at the disk while the engine computes: lists are written, then the next ones are read.
 */
#ifndef KIN_SHARD_DISK_H
#define KIN_SHARD_DISK_H

#include "shard/shard_run.h"

typedef struct kin_shard_disk {
    kin_shard_run *run;
    int32_t wanted[2]; /* shards to be read; -1: none */
    int32_t slots[2];  /* and where to */
    kith_status status;
    bool started;
    bool joined;
    pthread_t thread;
} kin_shard_disk;

/* Writes what is dirty, then reads the wanted shards, which have free slots, and touches their
 * rows. Where no thread can be had this is done at once. */
void kin_shard_disk_start(kin_shard_run *run, kin_shard_disk *disk);
/* Waits. Nothing is dirty afterwards, or the status says why. What could not be read is in no slot:
 * who needs it reads it again, and hears why. */
kith_status kin_shard_disk_wait(kin_shard_disk *disk);

/* The slot of a shard, or -1. */
int32_t kin_shard_slot_of(const kin_shard_run *run, int32_t shard);

/* Pages of a shard's rows in a mapped file: brings them into memory. */
void kin_shard_touch_rows(const kin_shard_run *run, int32_t shard);

#endif
