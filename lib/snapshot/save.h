/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/snapshot: saving items to a file and loading them.
 *
 *     save         save an engine to a file; its bytes per second may be limited
 *     behind       writes the file asynchronously
 *     load         load a file
 *     apply        store what was read in an engine
 *     claim        one server for a file
 *
 * The folder is above lib/log, and may include everything of lib that is below it.
 *
 * Saving an engine to a file while it serves requests. Each key that is present during the
 * whole save is in the file, with a state that it had meanwhile. Expired items are left out.
 * Writers pay nothing for a save.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_SAVE_H
#define MAYFLY_LIB_SNAPSHOT_SAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/format/encode.h"
#include "lib/format/io.h"

struct behind;
struct engine;

/* How a save ended. */
enum save_end {
    SAVE_DONE,
    SAVE_STOPPED, /* by save_stop() */
    SAVE_FLUSHED, /* everything was flushed meanwhile: the written items must not be loaded */
    SAVE_FAILED,  /* see save.error, an errno; or save.write has failed */
    SAVE_NO_MEMORY,
};

struct save {
    /* set by the caller before save_run() */
    struct engine *engine; /* [borrowed] */
    /*
     * NULL: save to a file with this dir and name. Otherwise all bytes are passed to write(),
     * in order, and no file is made. They are valid only if the save ends with SAVE_DONE.
     */
    snap_write_fn write;
    void *write_arg;           /* [borrowed] */
    const struct io_calls *io; /* [borrowed] */
    const char *dir, *name;    /* [borrowed] */
    struct behind *behind;     /* [borrowed] writes the file; NULL: the caller's thread does */
    bool is_direct;            /* past the page cache: the file is not about to be read */
    bool is_packed;            /* needs pack_is_there() */
    uint32_t flags;            /* of the file's header, as these two: see log/keylog.h */
    uint64_t chain, log;
    _Atomic uint64_t rate_max; /* bytes a second; 0: no limit. May change meanwhile. */
    /*
     * Callbacks about flushes that the engine does not know of; each may be NULL. is_void() is
     * called between blocks: should the save be given up? The other two are called just before
     * and after the file is renamed to its name. If before_naming() returns false, the file is
     * not renamed, and after_naming() is not called. is_named: the file durably has the name;
     * false: it may or may not have it.
     */
    bool (*is_void)(void *arg);
    bool (*before_naming)(void *arg);
    void (*after_naming)(void *arg, bool is_named);
    void *arg; /* [borrowed] */
    /* [atomic] progress, for other threads; zeroed by save_run() */
    _Atomic uint64_t items, items_total; /* walked, and about how many there are */
    _Atomic uint64_t bytes;              /* of the file */
    _Atomic uint64_t expired;            /* left out because they were due */
    _Atomic uint64_t left_out;           /* large values that could not be kept until they were
                                            written */
    _Atomic bool is_to_stop;
    /* out */
    int error;
    int64_t unix_ms;    /* when it began */
    int64_t to_unix_ms; /* the number added to deadlines to convert them to Unix time */
};

/* Save. Context: a registered thread of its own, outside a section. */
enum save_end save_run(struct save *s);

/* End the save soon; a save that is not running yet ends at once. Context: any thread. */
static inline void save_stop(struct save *s)
{
    atomic_store_explicit(&s->is_to_stop, true, memory_order_relaxed);
}

/* ---- the limit of its rate --------------------------------------------------------------- */

/*
 * Rate limit for writing.
 */

/* The part that was written at one rate. Zeroed: nothing was written. */
struct rate {
    uint64_t per_second; /* bytes; 0: no limit */
    usec_t since_us;     /* clock_mono_us() at its beginning */
    uint64_t from;       /* bytes that had been written then */
};

/*
 * `bytes` is the total written so far: sleep as long as the rate requires, in steps of 10 ms.
 * Each step checks for a stop and for a changed rate, which applies from then on. rate_max:
 * bytes per second, 0: no limit. Context: any thread, outside a section.
 */
void rate_keep(struct rate *r, uint64_t bytes, const _Atomic uint64_t *rate_max,
               const _Atomic bool *is_to_stop);

#endif
