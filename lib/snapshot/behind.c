/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing behind: see behind.h.
 */
#include "lib/snapshot/behind.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#define BUFFERS 2

struct behind {
    struct thread thread;
    char *buffer[BUFFERS]; /* the owner's until it is handed over, then the thread's */
    size_t used;           /* of the one that is filled; the owner's */
    pthread_mutex_t mutex; /* a leaf; the rest is under it */
    pthread_cond_t changed;
    struct newfile *file; /* [borrowed] */
    size_t len[BUFFERS];
    uint64_t handed, written; /* buffers so far */
    bool has_failed;
    bool is_ending;
};

static void run(void *arg)
{
    struct behind *b = arg;

    pthread_mutex_lock(&b->mutex);
    while (b->written != b->handed || !b->is_ending) {
        unsigned i = b->written % BUFFERS;
        bool is_good;

        if (b->written == b->handed) {
            pthread_cond_wait(&b->changed, &b->mutex);
            continue;
        }
        pthread_mutex_unlock(&b->mutex);
        is_good = newfile_write(b->file, b->buffer[i], b->len[i]);
        pthread_mutex_lock(&b->mutex);
        b->has_failed |= !is_good;
        b->written++;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->mutex);
}

static const struct thread_kind behind_kind = {.name = "snapshot write", .run = run};

/* What was filled is the thread's; wait until at most so many buffers are. */
static bool hand_over(struct behind *b, unsigned most)
{
    bool is_good;

    must_not_be_reading();
    pthread_mutex_lock(&b->mutex);
    if (b->used != 0) {
        b->len[b->handed % BUFFERS] = b->used;
        b->handed++;
        b->used = 0;
        pthread_cond_broadcast(&b->changed);
    }
    while (b->handed - b->written > most) {
        pthread_cond_wait(&b->changed, &b->mutex);
    }
    is_good = !b->has_failed;
    pthread_mutex_unlock(&b->mutex);
    return is_good;
}

void behind_begin(struct behind *b, struct newfile *f)
{
    must(b->handed == b->written && b->used == 0);
    b->file = f;
    b->has_failed = false;
}

bool behind_write(struct behind *b, const void *bytes, size_t n)
{
    const char *p = bytes;
    bool is_good = true;

    while (n != 0 && is_good) {
        size_t part = BEHIND_BYTES - b->used;

        part = n < part ? n : part;
        memcpy(b->buffer[b->handed % BUFFERS] + b->used, p, part);
        b->used += part;
        p += part;
        n -= part;
        if (b->used == BEHIND_BYTES) {
            is_good = hand_over(b, BUFFERS - 1);
        }
    }
    return is_good;
}

bool behind_end(struct behind *b)
{
    return hand_over(b, 0);
}

static void release(struct behind *b)
{
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->mutex);
    for (unsigned i = 0; i < BUFFERS; i++) {
        mem_free(b->buffer[i]);
    }
    mem_free(b);
}

struct behind *behind_create(void)
{
    struct behind *b = mem_zalloc(sizeof(*b));
    bool has_memory = true;

    if (b == NULL) {
        return NULL;
    }
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    for (unsigned i = 0; i < BUFFERS; i++) {
        b->buffer[i] = mem_alloc_aligned(BEHIND_BYTES, NEWFILE_ALIGN);
        has_memory = has_memory && b->buffer[i] != NULL;
    }
    if (!has_memory || thread_start(&b->thread, &behind_kind, b) != 0) {
        release(b);
        return NULL;
    }
    return b;
}

void behind_destroy(struct behind **bp)
{
    struct behind *b = *bp;

    if (b != NULL) {
        must(b->handed == b->written);
        pthread_mutex_lock(&b->mutex);
        b->is_ending = true;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->mutex);
        thread_join(&b->thread);
        release(b);
        *bp = NULL;
    }
}
