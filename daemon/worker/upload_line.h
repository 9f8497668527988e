/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of uploads. All uploads together have a memory limit. Uploads that reach it are
 * queued, over all workers, in order of arrival. The first in the queue may exceed the limit
 * until it is done. Otherwise each could hold a part of its value and all would wait for each
 * other forever. The others continue when memory is released, before new uploads.
 *
 * Without waiting uploads the queue costs one load.
 */
#ifndef MAYFLY_DAEMON_WORKER_UPLOAD_LINE_H
#define MAYFLY_DAEMON_WORKER_UPLOAD_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "lib/base/lock.h"

/* The place of an upload; all zero: it has none. */
struct upload_place {
    /* under the line's lock */
    struct list_link link;
    struct worker *worker; /* NULL: it is not in the line; also read by this worker */
    bool waits;            /* its last upload_line_lets() returned false */
};

struct upload_line {
    struct lock lock;   /* a leaf; workers are posted to while it is held */
    struct list places; /* under the lock; in order of arrival */
    /* [atomic] */
    _Atomic uint32_t waiting; /* how many wait; changed under the lock */
    _Atomic uint32_t moves;   /* number of times that an upload in the line could continue */
};

/*
 * May this upload take more memory? is_full: all uploads together have reached the limit. If it
 * may not, it is queued, or keeps its place. Context: the upload's worker.
 */
bool upload_line_lets(struct upload_line *l, struct upload_place *p, struct worker *w,
                      bool is_full);

/*
 * An upload is done, was aborted, or pauses; it need not be in the queue. Waiting uploads are
 * notified, because memory was released or their positions have changed. Context: the upload's
 * worker.
 */
void upload_line_leave(struct upload_line *l, struct upload_place *p);

#endif
