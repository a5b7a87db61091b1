/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_writer.h"

#include "cli_clock.h"

#include <signal.h>
#include <stdlib.h>

static void *write_chunks(void *arg)
{
    cli_writer *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->given == NULL && !w->ending) {
            (void)pthread_cond_wait(&w->changed, &w->lock);
        }
        if (w->given == NULL) {
            break;
        }
        const kith_neighbors *piece = w->given;
        kith_status status = w->status;
        (void)pthread_mutex_unlock(&w->lock);
        const double start = cli_clock_now();
        if (status == KITH_OK) {
            status = kith_result_stream_put(w->ctx, w->stream, piece);
        }
        (void)pthread_mutex_lock(&w->lock);
        w->seconds += cli_clock_now() - start;
        w->status = status;
        w->given = NULL;
        (void)pthread_cond_broadcast(&w->changed);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Ctrl-C belongs to the thread that computes. */
static int start_thread(cli_writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&w->thread, NULL, write_chunks, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static bool allocate(kith_neighbors *table, int64_t rows, int64_t k)
{
    const uint64_t count = (uint64_t)rows * (uint64_t)k; /* both below 2^32 */
    table->rows = rows;
    table->k = k;
    if (count <= SIZE_MAX / sizeof *table->ids) {
        table->ids = malloc(count * sizeof *table->ids);
        table->distances = malloc(count * sizeof *table->distances);
    }
    return table->ids != NULL && table->distances != NULL;
}

kith_status cli_writer_start(cli_writer *writer, kith_result_stream *stream, int64_t rows,
                             int64_t k, int tables)
{
    writer->stream = stream;
    for (int i = 0; i < tables; i++) {
        if (!allocate(&writer->tables[i], rows, k)) {
            return KITH_E_MEMORY;
        }
    }
    const kith_status status = kith_ctx_create(NULL, &writer->ctx);
    if (status != KITH_OK) {
        return status;
    }
    (void)pthread_mutex_init(&writer->lock, NULL);
    (void)pthread_cond_init(&writer->changed, NULL);
    writer->running = start_thread(writer) == 0;
    return writer->running ? KITH_OK : KITH_E_MEMORY;
}

kith_neighbors *cli_writer_table(cli_writer *writer)
{
    return &writer->tables[writer->next];
}

/* With the lock: until nothing is on its way. */
static kith_status wait_idle(cli_writer *w)
{
    while (w->given != NULL) {
        (void)pthread_cond_wait(&w->changed, &w->lock);
    }
    return w->status;
}

kith_status cli_writer_give(cli_writer *writer)
{
    (void)pthread_mutex_lock(&writer->lock);
    const kith_status status = wait_idle(writer);
    if (status == KITH_OK) {
        writer->given = &writer->tables[writer->next];
        writer->next = 1 - writer->next;
        (void)pthread_cond_broadcast(&writer->changed);
    }
    (void)pthread_mutex_unlock(&writer->lock);
    return status;
}

kith_status cli_writer_end(cli_writer *writer)
{
    if (!writer->running) {
        return writer->status;
    }
    (void)pthread_mutex_lock(&writer->lock);
    const kith_status status = wait_idle(writer);
    writer->ending = true;
    (void)pthread_cond_broadcast(&writer->changed);
    (void)pthread_mutex_unlock(&writer->lock);
    (void)pthread_join(writer->thread, NULL);
    writer->running = false;
    return status;
}

void cli_writer_free(cli_writer *writer)
{
    (void)cli_writer_end(writer);
    for (int i = 0; i < 2; i++) {
        free(writer->tables[i].ids);
        free(writer->tables[i].distances);
    }
    if (writer->ctx != NULL) { /* the lock was made behind it */
        (void)pthread_cond_destroy(&writer->changed);
        (void)pthread_mutex_destroy(&writer->lock);
    }
    kith_ctx_free(writer->ctx);
}
