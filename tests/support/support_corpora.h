/* SPDX-License-Identifier: Apache-2.0
 * Real data for tests: the folder that KITH_DATA names. */
#ifndef SUPPORT_CORPORA_H
#define SUPPORT_CORPORA_H

/* Skips the running test where KITH_DATA is not set: to be called before anything is held. */
void test_need_corpora(void);
/* Calls fn for each corpus (.fbin, .u8bin, .i8bin; not queries, not labels). */
void test_each_corpus(void (*fn)(const char *path, const char *name, void *arg), void *arg);

#endif
