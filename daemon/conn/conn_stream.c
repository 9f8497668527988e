/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A watching connection, on its worker. After the OK it only receives lines: its input is read
 * and dropped, so that its end is noticed. Its lines wait in the ring of its watcher and are
 * sent in small portions as its socket becomes writable. Main skips lines that do not fit the
 * ring, so a client that does not read holds no more memory than that.
 */
#include "daemon/conn/conn_steps.h"

#include "daemon/worker/watch.h"
#include "lib/base/context.h"
#include "lib/base/counters.h"

/* Lines handed to the socket at once. */
#define PORTION_BYTES (16u * 1024)

void conn_stream(struct conn *c)
{
    must_be_worker(c->worker);
    while (!conn_is_closed(c) && c->client.watcher != NULL && !client_has_output(&c->client)) {
        struct byte_ring *ring = &c->client.watcher->text;
        struct span text = byte_ring_front(ring);
        size_t n = text.len < PORTION_BYTES ? text.len : PORTION_BYTES;

        if (n == 0) {
            return;
        }
        if (!client_append(&c->client, text.ptr, n)) {
            ctr_add(&c->worker->counters, CTR_response_obj_oom, 1);
            conn_close(c);
            return;
        }
        byte_ring_drop(ring, n);
        /* A portion is far below what one connection may keep, so this is never too much. */
        (void)client_count_output(&c->client, c->worker);
        conn_write(c);
    }
}

void conn_serve_watchers(struct worker *w)
{
    struct watcher *next;

    must_be_worker(w);
    for (struct watcher *x = w->watchers; x != NULL; x = next) {
        next = x->next; /* closing removes it from the list */
        conn_stream(conn_of_client(x->client));
    }
}
