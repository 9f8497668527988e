/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of events. Pure functions, any thread.
 *
 * Keys are URI-encoded, so a line is unambiguous for any key. Microseconds are written with all
 * six digits, so that a time can be parsed as a decimal fraction; memcached omits their leading
 * zeros.
 */
#include "daemon/worker/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/check.h"
#include "proto/encode.h"

uint32_t watch_stream_of(struct span word)
{
#define WATCH_STREAM(id, name)                                                                 \
    if (span_is(word, name)) {                                                                 \
        return WATCH_##id;                                                                     \
    }
#include "daemon/worker/watch_streams.def"
#undef WATCH_STREAM
    return 0;
}

uint32_t watch_kind_stream(enum watch_kind kind)
{
    static const uint32_t stream_of[] = {
        [WATCH_ITEM_GET] = WATCH_FETCHERS,     [WATCH_ITEM_STORE] = WATCH_MUTATIONS,
        [WATCH_EXPIRE] = WATCH_MUTATIONS,      [WATCH_PERSIST] = WATCH_MUTATIONS,
        [WATCH_DELETED] = WATCH_DELETIONS,     [WATCH_EVICTED] = WATCH_EVICTIONS,
        [WATCH_EXPIRED] = WATCH_EXPIRATIONS,   [WATCH_CONN_NEW] = WATCH_CONNEVENTS,
        [WATCH_CONN_CLOSE] = WATCH_CONNEVENTS,
    };

    return stream_of[kind];
}

/* A time to live in seconds, rounded up, as in memcached. */
static int64_t seconds(int64_t ms)
{
    return ms > 0 ? ms / 1000 + (ms % 1000 != 0) : ms;
}

static const char *transport(const struct watch_event *e)
{
    return e->port != 0 ? "tcp" : "local";
}

/* The part of a line after time and number, with the line end. */
static int put_event(char *p, size_t size, const struct watch_event *e, const char *key)
{
    const char *fetch = e->was_fetched ? "yes" : "no";

    switch ((enum watch_kind)e->kind) {
    case WATCH_ITEM_GET:
        return snprintf(p, size,
                        "type=item_get key=%s status=%s clsid=%u cfd=%" PRId32 " size=%" PRIu32
                        "\n",
                        key, e->status, e->class_id, e->fd, e->size);
    case WATCH_ITEM_STORE:
        return snprintf(p, size,
                        "type=item_store key=%s status=%s cmd=%s ttl=%" PRId64
                        " clsid=%u cfd=%" PRId32 " size=%" PRIu32 " ttl_ms=%" PRId64 "\n",
                        key, e->status, e->command, seconds(e->ttl_ms), e->class_id, e->fd,
                        e->size, e->ttl_ms);
    case WATCH_EXPIRE:
        return snprintf(p, size,
                        "type=expire key=%s cmd=%s ttl=%" PRId64 " clsid=%u cfd=%" PRId32
                        " size=%" PRIu32 " ttl_ms=%" PRId64 "\n",
                        key, e->command, seconds(e->ttl_ms), e->class_id, e->fd, e->size,
                        e->ttl_ms);
    case WATCH_PERSIST:
        return snprintf(
            p, size, "type=persist key=%s cmd=%s clsid=%u cfd=%" PRId32 " size=%" PRIu32 "\n",
            key, e->command, e->class_id, e->fd, e->size);
    case WATCH_DELETED:
        return snprintf(p, size, "type=deleted key=%s cmd=%s clsid=%u size=%" PRIu32 "\n", key,
                        e->command, e->class_id, e->size);
    case WATCH_EVICTED:
        return snprintf(p, size,
                        "type=eviction key=%s fetch=%s ttl=%" PRId64 " la=%" PRIu32
                        " clsid=%u size=%" PRIu32 " ttl_ms=%" PRId64 "\n",
                        key, fetch, seconds(e->ttl_ms), e->idle_s, e->class_id, e->size,
                        e->ttl_ms);
    case WATCH_EXPIRED:
        return snprintf(p, size,
                        "type=expired key=%s late_ms=%" PRId64 " fetch=%s size=%" PRIu32
                        " by=%s\n",
                        key, e->late_ms, fetch, e->size, e->command);
    case WATCH_CONN_NEW:
        return snprintf(p, size, "type=conn_new rip=%s rport=%u transport=%s cfd=%" PRId32 "\n",
                        key, e->port, transport(e), e->fd);
    case WATCH_CONN_CLOSE:
        return snprintf(
            p, size, "type=conn_close rip=%s rport=%u transport=%s reason=%s cfd=%" PRId32 "\n",
            key, e->port, transport(e), e->status, e->fd);
    }
    unreachable();
}

size_t watch_line(char out[WATCH_LINE_MAX], const struct watch_event *e, struct span key)
{
    char text[ENCODE_URI_BYTES(ITEM_KEY_MAX) + 1];
    bool is_address = e->kind == WATCH_CONN_NEW || e->kind == WATCH_CONN_CLOSE;
    int n = snprintf(out, WATCH_LINE_MAX, "ts=%" PRId64 ".%06" PRId64 " gid=%" PRIu64 " ",
                     e->time_us / 1000000, e->time_us % 1000000, e->gid);

    must(key.len <= ITEM_KEY_MAX);
    if (is_address) {
        memcpy(text, key.ptr, key.len);
        text[key.len] = '\0';
    } else {
        text[encode_uri(text, key)] = '\0';
    }
    n += put_event(out + n, WATCH_LINE_MAX - (size_t)n, e, text);
    must((size_t)n < WATCH_LINE_MAX);
    return (size_t)n;
}
