/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `save -` and sync, see exec.h. The work is that of a thread (daemon/persist/exports.h); a
 * portion is handed over when the socket has taken the one before. Meanwhile the client may go
 * to another worker, where the next message of the thread comes.
 */
#include "daemon/command/exec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/replica/replication.h"
#include "daemon/worker/crew.h"
#include "lib/base/mem.h"
#include "lib/replica/sealed_line.h"

/* The last line. */
#define LAST_MAX 160u

/* A client that is sent a snapshot. */
struct sending {
    struct late_answer late;   /* the first member */
    bool is_handed;            /* it has a portion that its socket did not take yet */
    bool is_over;              /* the thread no longer uses it */
    struct following *replica; /* [borrowed] the receiver; NULL: a client, of a snapshot */
    struct export export;
};

static struct sending *of_message(struct message *m, size_t offset)
{
    return (struct sending *)(void *)((char *)m - offset);
}

static void release(struct sending *s)
{
    export_fini(&s->export);
    mem_free(s);
}

/* The client has taken a portion, or is gone. */
static void on_taken(struct late_answer *late)
{
    struct sending *s = (struct sending *)(void *)late;

    s->is_handed = false;
    if (s->is_over) {
        release(s); /* it was shut down, and has closed */
    } else {
        export_taken(&s->export, late->client != NULL);
    }
}

/* The line in front of the bytes, and they. */
static struct span with_head(struct export *e)
{
    char head[EXPORT_HEAD_MAX];
    size_t n = (size_t)snprintf(head, sizeof(head), "PART %zu\r\n", e->len);

    must(n < sizeof(head));
    memcpy(e->buffer + EXPORT_HEAD_MAX - n, head, n);
    return span_of(e->buffer + EXPORT_HEAD_MAX - n, n + e->len);
}

static void on_portion(struct message *m, void *receiver)
{
    struct sending *s = of_message(m, offsetof(struct sending, export.portion));

    must_be_worker(receiver);
    if (s->late.client == NULL) {
        export_taken(&s->export, false);
        return;
    }
    s->is_handed = true;
    client_answer_portion(&s->late, with_head(&s->export), true, on_taken);
}

/* The last line for a replica: see exec.h. */
static struct span end_of_sync(const struct sending *s, const struct replication *r,
                               char line[LAST_MAX])
{
    const struct fullsync *sync = &s->export.sync;
    struct backlog_name name;
    char id[REPLID_CHARS + 1];

    backlog_get_name(shipper_backlog(sync->shipper), &name);
    replid_format(&name.id, id);
    int n =
        snprintf(line, LAST_MAX, "END %" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %u",
                 s->export.items, id, name.epoch, sync->offset, sync->serve_from,
                 (unsigned)(replication_has_lost(r) || sync->left_out != 0));
    must(n > 0 && (size_t)n < LAST_MAX - SEAL_BYTES);
    return span_of(line, line_seal(line, (size_t)n));
}

static struct span last_line(const struct sending *s, const struct replication *r,
                             char line[LAST_MAX])
{
    const struct export *e = &s->export;

    switch (e->end) {
    case EXPORT_DONE:
        if (s->replica != NULL) {
            return end_of_sync(s, r, line);
        }
        snprintf(line, LAST_MAX, "END %" PRIu64 "\r\n", e->items);
        return span_str(line);
    case EXPORT_BUSY:
        return reply_text(REPLY_EXPORT_BUSY);
    case EXPORT_LOST:
        return reply_text(REPLY_EXPORT_LOST);
    case EXPORT_FLUSHED:
        return reply_text(REPLY_EXPORT_FLUSHED);
    case EXPORT_STOPPED:
    case EXPORT_STALLED:
        return reply_text(REPLY_EXPORT_STOPPED);
    case EXPORT_FAILED:
        return reply_text(REPLY_EXPORT_FAILED);
    }
    unreachable();
}

static void on_over(struct message *m, void *receiver)
{
    struct sending *s = of_message(m, offsetof(struct sending, export.over));
    struct replication *r = ((struct worker *)receiver)->crew->replication;
    char line[LAST_MAX];

    must_be_worker(receiver);
    s->is_over = true;
    const struct span last = last_line(s, r, line); /* the role may change from the next on */
    if (s->replica != NULL) {
        following_end_sync(s->late.client, s->replica, s->export.sync.reader);
        replication_end_sync(r);
    }
    if (s->is_handed) {
        /* No line can follow an incomplete portion: the client is closed, then released. */
        shutdown(s->late.client->io.fd, SHUT_RDWR);
        return;
    }
    (void)client_answer(&s->late, last, true);
    release(s);
}

/* Begin; replica: see struct sending. */
static enum turn_stop begin(struct turn *t, const struct request *r, struct following *replica)
{
    struct sending *s = mem_zalloc(sizeof(*s));

    if (s == NULL) {
        return turn_answer(t, r, REPLY_NO_MEMORY);
    }
    s->replica = replica;
    if (replica != NULL) {
        s->export.is_sync = true;
        if (!replication_begin_sync(t->w->crew->replication, &s->export.sync)) {
            mem_free(s);
            return turn_answer(t, r, REPLY_EXPORT_BUSY);
        }
        following_begin_sync(replica);
    }
    s->export.portion.fn = on_portion;
    s->export.over.fn = on_over;
    client_expect_by(t->client, &s->late, &s->export.relay);
    if (!exports_begin(&t->w->crew->exports, &s->export, &t->w->mailbox)) {
        t->client->late = NULL;
        mem_free(s);
        if (replica != NULL) {
            following_end_sync(t->client, replica, NULL);
            replication_end_sync(t->w->crew->replication);
        }
        return turn_answer(t, r, REPLY_EXPORT_BUSY);
    }
    return TURN_ASKED;
}

enum turn_stop exec_export(struct turn *t, const struct request *r)
{
    if (t->w->settings->no_dump) {
        return turn_answer(t, r, REPLY_EXPORT_OFF);
    }
    if ((t->w->gate & GATE_MISSES) != 0) {
        return turn_answer(t, r, REPLY_NOT_IN_STEP);
    }
    return begin(t, r, NULL);
}

enum turn_stop exec_sync(struct turn *t, const struct request *r)
{
    must(t->client != NULL); /* refused in datagrams */
    struct following *replica = following_may_sync(t->client);
    if (r->args.len != 0 || replica == NULL) {
        return turn_answer(t, r, REPLY_SYNC_USAGE);
    }
    return begin(t, r, replica);
}
