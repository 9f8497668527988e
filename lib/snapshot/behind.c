/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous file writer: see behind.h.
 */
#include "lib/snapshot/behind.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/handoff.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#define BUFFERS 2

struct behind {
    struct thread thread;
    struct handoff full;   /* to the thread */
    char *buffer[BUFFERS]; /* the owner's until it is given, then the thread's */
    size_t len[BUFFERS];   /* likewise */
    size_t used;           /* of the one that is filled; the owner's */
    struct newfile *file;  /* [borrowed] */
};

static void behind_run(void *arg)
{
    struct behind *b = arg;
    int i;

    while ((i = handoff_take(&b->full)) >= 0) {
        bool is_good = newfile_write(b->file, b->buffer[i], b->len[i]);

        handoff_done(&b->full, is_good ? 0 : b->file->error);
    }
}

static const struct thread_kind behind_kind = {.name = "snapshot write", .run = behind_run};

/* Pass the filled buffer to the thread. Wait until at most `most` buffers are unwritten. */
static bool hand_over(struct behind *b, unsigned most)
{
    if (b->used != 0) {
        b->len[handoff_next(&b->full)] = b->used;
        b->used = 0;
        must(handoff_give(&b->full));
    }
    return handoff_wait(&b->full, most, HANDOFF_EVER) == 0;
}

void behind_begin(struct behind *b, struct newfile *f)
{
    must(handoff_is_idle(&b->full) && b->used == 0);
    b->file = f;
}

bool behind_write(struct behind *b, const void *bytes, size_t n)
{
    const char *p = bytes;
    bool is_good = true;

    while (n != 0 && is_good) {
        size_t part = BEHIND_BYTES - b->used;

        part = n < part ? n : part;
        memcpy(b->buffer[handoff_next(&b->full)] + b->used, p, part);
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

static void behind_release(struct behind *b)
{
    handoff_fini(&b->full);
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
    handoff_init(&b->full, BUFFERS, NULL, NULL);
    for (unsigned i = 0; i < BUFFERS; i++) {
        b->buffer[i] = mem_alloc_aligned(BEHIND_BYTES, NEWFILE_ALIGN);
        has_memory = has_memory && b->buffer[i] != NULL;
    }
    if (!has_memory || thread_start(&b->thread, &behind_kind, b) != 0) {
        behind_release(b);
        return NULL;
    }
    return b;
}

void behind_destroy(struct behind **bp)
{
    struct behind *b = *bp;

    if (b != NULL) {
        must(handoff_is_idle(&b->full));
        handoff_close(&b->full, 0);
        thread_join(&b->thread);
        behind_release(b);
        *bp = NULL;
    }
}
