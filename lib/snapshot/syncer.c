/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that makes a file durable: see syncer.h.
 */
#include "lib/snapshot/syncer.h"

#include <errno.h>

#include "lib/base/check.h"
#include "lib/base/handoff.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

struct syncer {
    const struct io_calls *io; /* [borrowed] */
    struct thread thread;
    struct handoff file; /* to the thread: */
    int fd;
};

static void run(void *arg)
{
    struct syncer *s = arg;

    while (handoff_take(&s->file) >= 0) {
        bool is_good = s->io->fsync(s->fd) == 0;

        handoff_done(&s->file, is_good ? 0 : errno != 0 ? errno : EIO);
    }
}

static const struct thread_kind syncer_kind = {.name = "log sync", .run = run};

void syncer_begin(struct syncer *s, int fd)
{
    must(fd >= 0);
    s->fd = fd;
    must(handoff_give(&s->file));
}

bool syncer_is_over(const struct syncer *s)
{
    return handoff_is_idle(&s->file);
}

int syncer_end(struct syncer *s)
{
    return handoff_wait(&s->file, 0, HANDOFF_EVER);
}

static void release(struct syncer *s)
{
    handoff_fini(&s->file);
    mem_free(s);
}

struct syncer *syncer_create(const struct io_calls *io, void (*tell)(void *arg), void *arg)
{
    struct syncer *s = mem_alloc(sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    *s = (struct syncer){.io = io};
    handoff_init(&s->file, 1, tell, arg);
    if (thread_start(&s->thread, &syncer_kind, s) != 0) {
        release(s);
        return NULL;
    }
    return s;
}

void syncer_destroy(struct syncer **sp)
{
    struct syncer *s = *sp;

    if (s != NULL) {
        must(handoff_is_idle(&s->file));
        handoff_close(&s->file, 0);
        thread_join(&s->thread);
        release(s);
        *sp = NULL;
    }
}
