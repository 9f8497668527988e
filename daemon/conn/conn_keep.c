/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conn_steps.h. On the worker.
 */
#include "daemon/conn/conn_steps.h"

#include "lib/base/context.h"
#include "lib/base/counters.h"

/* A larger buffer of which little is used is replaced. */
#define SHRINK_BYTES (16u * 1024)

bool conn_count_kept(struct conn *c, size_t n)
{
    bool is_good = client_count_input(&c->client, c->worker, c->in.cap);

    must_be_worker(c->worker);
    if (c->client.kept != NULL) {
        holder_sent(c->worker, &c->client.kept->holder, n);
    }
    return is_good;
}

/* Replace a large buffer of which little is used by a smaller one. */
static void shrink(struct buf *b)
{
    struct buf small = {0};

    if (b->cap <= SHRINK_BYTES || buf_len(b) >= b->cap / 4) {
        return;
    }
    if (buf_append(&small, buf_begin(b), buf_len(b))) {
        buf_fini(b);
        *b = small;
    }
}

bool conn_keep_input(struct conn *c, enum input_kind kind, const char *p, size_t len,
                     size_t used)
{
    must_be_worker(c->worker);
    if (kind == INPUT_KEPT) {
        buf_consume(&c->in, used);
        shrink(&c->in);
    } else if (used < len && !buf_append(&c->in, p + used, len - used)) {
        ctr_add(&c->worker->counters, CTR_read_buf_oom, 1);
        return false;
    }
    if (buf_len(&c->in) == 0 && c->in.cap > 0) {
        buf_fini(&c->in);
    }
    if (!conn_count_kept(c, kind == INPUT_READ ? len - used : 0)) {
        ctr_add(&c->worker->counters, CTR_read_buf_oom, 1);
        return false;
    }
    return true;
}
