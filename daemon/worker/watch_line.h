/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events logged for watchers: the event as the worker stores it, and the line that watchers
 * get.
 */
#ifndef MAYFLY_DAEMON_WORKER_WATCH_LINE_H
#define MAYFLY_DAEMON_WORKER_WATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"
#include "lib/memory/item.h"

/* Streams, as bits of a mask. */
enum watch_stream_bit {
#define WATCH_STREAM(id, word) WATCH_BIT_##id,
#include "daemon/worker/watch_streams.def"
#undef WATCH_STREAM
};

enum watch_stream {
#define WATCH_STREAM(id, word) WATCH_##id = 1 << WATCH_BIT_##id,
#include "daemon/worker/watch_streams.def"
#undef WATCH_STREAM
};

/* The stream of a word, 0 when there is none. Context: any thread. */
uint32_t watch_stream_of(struct span word);

enum watch_kind {
    WATCH_ITEM_GET,   /* key status class fd size */
    WATCH_ITEM_STORE, /* key status command ttl class fd size */
    WATCH_EXPIRE,     /* an item was given a deadline: key command ttl class fd size */
    WATCH_PERSIST,    /* it lost its deadline: key command class fd size */
    WATCH_DELETED,    /* key command class size */
    WATCH_EVICTED,    /* key was_fetched ttl idle class size */
    WATCH_EXPIRED,    /* key late was_fetched size, how it was found as command */
    WATCH_CONN_NEW,   /* address as key, port transport fd */
    WATCH_CONN_CLOSE, /* the same, and the reason as status */
};

/*
 * An event; its key follows it in the ring of its worker. Fields that a kind does not have are
 * 0.
 */
struct watch_event {
    uint64_t gid;        /* number of the event */
    int64_t time_us;     /* unix time */
    const char *status;  /* [borrowed] constants */
    const char *command; /* likewise */
    int64_t ttl_ms;      /* stores: 0 none, -1 past; evictions: -1 none */
    int64_t late_ms;
    uint32_t size; /* bytes of value */
    uint32_t idle_s;
    int32_t fd; /* -1: not of a connection */
    uint16_t port;
    uint8_t kind; /* enum watch_kind */
    uint8_t class_id;
    uint8_t key_len;
    bool was_fetched;
};

/* The stream that a kind belongs to. Context: any thread. */
uint32_t watch_kind_stream(enum watch_kind kind);

/* Longest line, line end included: an encoded key, and numbers and words around it. */
#define WATCH_LINE_MAX (3 * ITEM_KEY_MAX + 320)

/*
 * Write the line of an event with this key, in memcached's form; returns its length. Context:
 * any thread.
 */
size_t watch_line(char out[WATCH_LINE_MAX], const struct watch_event *e, struct span key);

#endif
