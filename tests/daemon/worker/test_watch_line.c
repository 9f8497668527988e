/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of watched events: their bytes, and that the longest fits.
 */
#include "daemon/worker/watch.h"

#include "tests/common/unit.h"

#define HEAD "ts=1795292534.085179 gid=9 "

static struct watch_event event(enum watch_kind kind)
{
    return (struct watch_event){
        .gid = 9,
        .time_us = 1795292534085179,
        .kind = (uint8_t)kind,
        .fd = 11,
        .class_id = 1,
        .size = 3,
    };
}

static void line_is(const struct watch_event *e, const char *key, const char *want)
{
    char out[WATCH_LINE_MAX];
    size_t n = watch_line(out, e, span_str(key));

    ck_assert_msg(n == strlen(want) && memcmp(out, want, n) == 0, "%.*s, not %s", (int)n, out,
                  want);
}

TEST(lines_are_memcacheds)
{
    struct watch_event e = event(WATCH_ITEM_GET);

    e.status = "found";
    line_is(&e, "foo", HEAD "type=item_get key=foo status=found clsid=1 cfd=11 size=3\n");
    e = event(WATCH_ITEM_STORE);
    e.status = "stored";
    e.command = "set";
    e.ttl_ms = 100000;
    line_is(&e, "a:b",
            HEAD "type=item_store key=a%3Ab status=stored cmd=set ttl=100 clsid=1 cfd=11 "
                 "size=3 ttl_ms=100000\n");
    e = event(WATCH_DELETED);
    e.command = "md";
    line_is(&e, "foo", HEAD "type=deleted key=foo cmd=md clsid=1 size=3\n");
    e = event(WATCH_EVICTED);
    e.ttl_ms = -1;
    e.idle_s = 7;
    line_is(&e, "foo",
            HEAD "type=eviction key=foo fetch=no ttl=-1 la=7 clsid=1 size=3 ttl_ms=-1\n");
}

TEST(lines_of_connections)
{
    struct watch_event e = event(WATCH_CONN_NEW);

    e.port = 57378;
    line_is(&e, "127.0.0.1",
            HEAD "type=conn_new rip=127.0.0.1 rport=57378 transport=tcp cfd=11\n");
    e.kind = WATCH_CONN_CLOSE;
    e.status = "normal";
    line_is(&e, "::1",
            HEAD "type=conn_close rip=::1 rport=57378 transport=tcp reason=normal cfd=11\n");
    e.port = 0;
    line_is(&e, "unix",
            HEAD "type=conn_close rip=unix rport=0 transport=local reason=normal cfd=11\n");
}

TEST(lines_of_our_own)
{
    struct watch_event e = event(WATCH_EXPIRED);

    e.command = "active";
    e.late_ms = 12;
    e.was_fetched = true;
    line_is(&e, "foo", HEAD "type=expired key=foo late_ms=12 fetch=yes size=3 by=active\n");
    e = event(WATCH_EXPIRE);
    e.command = "gat";
    e.ttl_ms = 400;
    line_is(&e, "foo",
            HEAD "type=expire key=foo cmd=gat ttl=1 clsid=1 cfd=11 size=3 ttl_ms=400\n");
    e = event(WATCH_PERSIST);
    e.command = "touch";
    line_is(&e, "foo", HEAD "type=persist key=foo cmd=touch clsid=1 cfd=11 size=3\n");
}

TEST(longest_line_fits)
{
    char key[ITEM_KEY_MAX];
    char out[WATCH_LINE_MAX];

    memset(key, ' ', sizeof(key));
    for (int kind = WATCH_ITEM_GET; kind <= WATCH_EXPIRED; kind++) {
        struct watch_event e = {
            .gid = UINT64_MAX,
            .time_us = INT64_MAX,
            .kind = (uint8_t)kind,
            .status = "not_stored",
            .command = "prepend",
            .ttl_ms = INT64_MIN,
            .late_ms = INT64_MAX,
            .size = UINT32_MAX,
            .idle_s = UINT32_MAX,
            .fd = INT32_MIN,
            .class_id = UINT8_MAX,
        };
        size_t n = watch_line(out, &e, span_of(key, sizeof(key)));

        ck_assert_uint_gt(n, 3 * sizeof(key));
        ck_assert_uint_lt(n, sizeof(out));
        ck_assert_int_eq(out[n - 1], '\n');
    }
}

TEST(streams_have_memcacheds_words)
{
    ck_assert_uint_eq(watch_stream_of(span_str("fetchers")), WATCH_FETCHERS);
    ck_assert_uint_eq(watch_stream_of(span_str("proxyuser")), WATCH_PROXYUSER);
    ck_assert_uint_eq(watch_stream_of(span_str("expirations")), WATCH_EXPIRATIONS);
    ck_assert_uint_eq(watch_stream_of(span_str("Fetchers")), 0);
    ck_assert_uint_eq(watch_stream_of(span_str("fetcher")), 0);
    ck_assert_uint_eq(watch_stream_of(span_str("")), 0);
}
