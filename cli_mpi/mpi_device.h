/* SPDX-License-Identifier: Apache-2.0
 * Which GPUs of a machine each of its ranks computes on. Knows nothing of MPI.
 *
 *                    4 ranks, 2 GPUs        2 ranks, 4 GPUs        3 ranks, 8 GPUs
 *     all, a list    0  1  0  1             0,1  2,3               0,1  2,3,4  5,6,7
 *     one each       0  1  0  1             0    1                 0    1      2
 */
#ifndef MPI_DEVICE_H
#define MPI_DEVICE_H

#include <stdint.h>

enum { MPI_DEVICE_MOST = 16 }; /* as kith has them */

typedef struct mpi_device {
    int32_t index[MPI_DEVICE_MOST];
    int count;
    char name[64]; /* "cuda:0", "cuda:2,3"; "": no GPU, or none that is known: what was given stands
                      and is judged by who reads it */
    int sharers;   /* ranks of the machine that compute there, with this one */
} mpi_device;

/* The part of rank `rank` of the `ranks` of its machine. given: as --device has it, NULL: nothing;
 * cuda, auto and nothing are one GPU each. */
void mpi_device_divide(const char *given, int rank, int ranks, mpi_device *own);

/* Bytes that each who shares them may take of each one's memory, as long as nobody has taken any;
 * 0: one does not say. */
uint64_t mpi_device_share(const mpi_device *own);

#endif
