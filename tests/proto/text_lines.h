/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of the classic text protocol and what text_parse() makes of them: one row per form. The
 * answers are those of memcached where faults of its own do not count (numbers that it cuts).
 */
#ifndef MAYFLY_TESTS_PROTO_TEXT_LINES_H
#define MAYFLY_TESTS_PROTO_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/text.h"

struct good_row {
    const char *input;
    size_t used; /* 0: all of the input */
    enum command command;
    const char *key, *more, *value, *args;
    uint64_t cas;
    int64_t exptime;
    uint32_t flags;
    bool noreply, wants_cas;
};

static const struct good_row good_rows[] = {
    {"get a\r\n", .command = CMD_GET, .key = "a"},
    {"get a\n", .command = CMD_GET, .key = "a"},
    {"get abcdefgh\r\n", .command = CMD_GET, .key = "abcdefgh"},
    {"get abcdefghijklmnopqrst\r\n", .command = CMD_GET, .key = "abcdefghijklmnopqrst"},
    {"get abc\r\nget d\r\n", .used = 9, .command = CMD_GET, .key = "abc"},
    {"get abc\nget d\r\n", .used = 8, .command = CMD_GET, .key = "abc"},
    {"get a b\r\n", .command = CMD_GET, .key = "a", .more = "b"},
    {"get a  b c \r\n", .command = CMD_GET, .key = "a", .more = "b c "},
    {"get a \r\n", .command = CMD_GET, .key = "a"},
    {"  get  a\r\n", .command = CMD_GET, .key = "a"},
    {"get a\tb\r\n", .command = CMD_GET, .key = "a\tb"},
    {"get a\r\r\n", .command = CMD_GET, .key = "a\r"},
    {"get a\rb\r\n", .command = CMD_GET, .key = "a\rb"},
    {"get \x01\r\n", .command = CMD_GET, .key = "\x01"},
    {"get \xff\xa0\x80\r\n", .command = CMD_GET, .key = "\xff\xa0\x80"},
    {"get noreply\r\n", .command = CMD_GET, .key = "noreply"},
    {"get HTTP/1.1\r\n", .command = CMD_GET, .key = "HTTP/1.1"},
    {"bget a b\r\n", .command = CMD_GET, .key = "a", .more = "b"},
    {"gets a b\r\n", .command = CMD_GETS, .key = "a", .more = "b", .wants_cas = true},
    {"gat 10 a\r\n", .command = CMD_GAT, .key = "a", .exptime = 10},
    {"gat -1 a b\n", .command = CMD_GAT, .key = "a", .more = "b", .exptime = -1},
    {"gats 0 a\r\n", .command = CMD_GATS, .key = "a", .wants_cas = true},

    {"set a 1 2 3\r\nxyz\r\n", .command = CMD_SET, .key = "a", .value = "xyz", .flags = 1,
     .exptime = 2},
    {"set a 1 2 3\nxyz\r\n", .command = CMD_SET, .key = "a", .value = "xyz", .flags = 1,
     .exptime = 2},
    {"set a 1 2 0\r\n\r\n", .command = CMD_SET, .key = "a", .value = "", .flags = 1,
     .exptime = 2},
    {"set a 0 0 4\r\n\r\n\r\n\r\n", .command = CMD_SET, .key = "a", .value = "\r\n\r\n"},
    {"set a 0 0 7\r\nget b\r\n\r\n", .command = CMD_SET, .key = "a", .value = "get b\r\n"},
    {"set a 0 0 1 noreply\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .noreply = true},
    {"set a 0 0 1  noreply  \r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .noreply = true},
    {"set a 0 0 1 noreplyx\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x"},
    {"set a 0 0 1 NOREPLY\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x"},
    {"set noreply 0 0 1\r\nx\r\n", .command = CMD_SET, .key = "noreply", .value = "x"},
    {"set a 4294967295 0 1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .flags = UINT32_MAX},
    {"set a 0 -1 1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x", .exptime = -1},
    {"set a 0 9223372036854775807 1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .exptime = INT64_MAX},
    {"set a 0 -9223372036854775808 1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .exptime = INT64_MIN},
    {"set a 0 999999999999999999 1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x",
     .exptime = 999999999999999999},
    {"set a +1 +2 +1\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x", .flags = 1,
     .exptime = 2},
    {"set a -0 -0 -0\r\n\r\n", .command = CMD_SET, .key = "a", .value = ""},
    {"set a 007 0 01\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x", .flags = 7},
    {"set a 0000000000000000000000007 0 1\r\nx\r\n", .command = CMD_SET, .key = "a",
     .value = "x", .flags = 7},
    {"set a \t1 1\tz 1\v\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x", .flags = 1,
     .exptime = 1},
    {"set a 0 0 1\r\r\nx\r\n", .command = CMD_SET, .key = "a", .value = "x"},
    {"add a 0 0 1\r\nx\r\n", .command = CMD_ADD, .key = "a", .value = "x"},
    {"replace a 0 0 1\r\nx\r\n", .command = CMD_REPLACE, .key = "a", .value = "x"},
    {"append a 0 0 1\r\nx\r\n", .command = CMD_APPEND, .key = "a", .value = "x"},
    {"prepend a 0 0 1 noreply\r\nx\r\n", .command = CMD_PREPEND, .key = "a", .value = "x",
     .noreply = true},
    {"cas a 1 2 1 18446744073709551615\r\nx\r\n", .command = CMD_CAS, .key = "a", .value = "x",
     .flags = 1, .exptime = 2, .cas = UINT64_MAX},
    {"cas a 0 0 1 5 noreply\r\nx\r\n", .command = CMD_CAS, .key = "a", .value = "x", .cas = 5,
     .noreply = true},
    {"cas a 0 0 1 5 x\r\nx\r\n", .command = CMD_CAS, .key = "a", .value = "x", .cas = 5},

    {"delete a\r\n", .command = CMD_DELETE, .key = "a"},
    {"delete a 0\r\n", .command = CMD_DELETE, .key = "a"},
    {"delete a noreply\r\n", .command = CMD_DELETE, .key = "a", .noreply = true},
    {"delete a 0 noreply\r\n", .command = CMD_DELETE, .key = "a", .noreply = true},
    {"delete noreply\r\n", .command = CMD_DELETE, .key = "noreply"},

    {"incr a 1\r\n", .command = CMD_INCR, .key = "a", .cas = 1},
    {"incr abcdefghijklmnopqrst 12\r\n", .command = CMD_INCR, .key = "abcdefghijklmnopqrst",
     .cas = 12},
    {"incr a 18446744073709551615\r\n", .command = CMD_INCR, .key = "a", .cas = UINT64_MAX},
    {"incr a 1 noreply\r\n", .command = CMD_INCR, .key = "a", .cas = 1, .noreply = true},
    {"incr a 1 other\r\n", .command = CMD_INCR, .key = "a", .cas = 1},
    {"decr a  5\n", .command = CMD_DECR, .key = "a", .cas = 5},
    {"decr a 5\r\nget b\r\n", .used = 10, .command = CMD_DECR, .key = "a", .cas = 5},
    {"touch a 7\r\n", .command = CMD_TOUCH, .key = "a", .exptime = 7},
    {"touch a -7 noreply\r\n", .command = CMD_TOUCH, .key = "a", .exptime = -7,
     .noreply = true},

    {"version\r\n", .command = CMD_VERSION},
    {" version  x y \r\n", .command = CMD_VERSION, .args = "x y"},
    {"version noreply\r\n", .command = CMD_VERSION, .args = "noreply"},
    {"version HTTP/1.1\r\n", .command = CMD_VERSION, .args = "HTTP/1.1"},
    {"quit\n", .command = CMD_QUIT},
    {"stats\r\n", .command = CMD_STATS},
    {"stats  detail  on \r\n", .command = CMD_STATS, .args = "detail  on"},
    {"stats a b c d e f g h\r\n", .command = CMD_STATS, .args = "a b c d e f g h"},
    {"flush_all\r\n", .command = CMD_FLUSH_ALL},
    {"flush_all 5\r\n", .command = CMD_FLUSH_ALL, .args = "5", .exptime = 5},
    {"flush_all -1 x\r\n", .command = CMD_FLUSH_ALL, .args = "-1 x", .exptime = -1},
    {"flush_all noreply\r\n", .command = CMD_FLUSH_ALL, .args = "noreply", .noreply = true},
    {"flush_all 5 noreply\r\n", .command = CMD_FLUSH_ALL, .args = "5 noreply", .exptime = 5,
     .noreply = true},
    {"verbosity 2\r\n", .command = CMD_VERBOSITY, .args = "2", .cas = 2},
    {"verbosity 2 noreply\r\n", .command = CMD_VERBOSITY, .args = "2 noreply", .cas = 2,
     .noreply = true},
    {"cache_memlimit 64\r\n", .command = CMD_CACHE_MEMLIMIT, .args = "64", .cas = 64},
    {"shutdown graceful\r\n", .command = CMD_SHUTDOWN, .args = "graceful"},
    {"slabs automove 0\r\n", .command = CMD_SLABS, .args = "automove 0"},
    {"lru mode flat\r\n", .command = CMD_LRU, .args = "mode flat"},
    {"lru_crawler metadump all\r\n", .command = CMD_LRU_CRAWLER, .args = "metadump all"},
    {"watch fetchers\r\n", .command = CMD_WATCH, .args = "fetchers"},
    {"refresh_certs\r\n", .command = CMD_REFRESH_CERTS},
    {"extstore a b\r\n", .command = CMD_EXTSTORE, .args = "a b"},
};

struct bad_row {
    const char *input;
    enum reply reply;
    size_t used;    /* 0: all of the input */
    size_t swallow; /* value_len */
    bool invalidate;
};

static const struct bad_row bad_rows[] = {
    /* not a command */
    {"\r\n", .reply = REPLY_ERROR},
    {"\n", .reply = REPLY_ERROR},
    {"  \r\n", .reply = REPLY_ERROR},
    {"\r\r\n", .reply = REPLY_ERROR},
    {"foo\r\n", .reply = REPLY_ERROR},
    {"foo bar noreply\r\n", .reply = REPLY_ERROR},
    {"GET a\r\n", .reply = REPLY_ERROR},
    {"get\ta\r\n", .reply = REPLY_ERROR},
    {"getx a\r\n", .reply = REPLY_ERROR},
    {"ge\r\n", .reply = REPLY_ERROR},
    {"bgets a\r\n", .reply = REPLY_ERROR},
    {"stat\r\n", .reply = REPLY_ERROR},
    {"foo HTTP/1.1 x\r\n", .reply = REPLY_ERROR},
    {"foo XHTTP/1.1\r\n", .reply = REPLY_ERROR},
    {"foo HTTP\r\n", .reply = REPLY_ERROR},
    {"\x80\r\n", .reply = REPLY_ERROR}, /* binary is known by the first byte of all */
    {"\x81\r\n", .reply = REPLY_ERROR},
    {"debugtime p\r\n", .reply = REPLY_ERROR},
    {"foo\r\nget a\r\n", .reply = REPLY_ERROR, .used = 5},

    /* the get family */
    {"get\r\n", .reply = REPLY_ERROR},
    {"get \r\n", .reply = REPLY_ERROR},
    {"gets\r\n", .reply = REPLY_ERROR},
    {"bget\r\n", .reply = REPLY_ERROR},
    {"gat\r\n", .reply = REPLY_ERROR},
    {"gats \r\n", .reply = REPLY_ERROR},
    {"gat 0\r\n", .reply = REPLY_END},
    {"gats 0 \r\n", .reply = REPLY_END},
    {"gat a b\r\n", .reply = REPLY_BAD_EXPTIME},
    {"gat a\r\n", .reply = REPLY_BAD_EXPTIME},
    {"gat 1.5 b\r\n", .reply = REPLY_BAD_EXPTIME},
    {"gat 99999999999999999999 b\r\n", .reply = REPLY_BAD_EXPTIME},

    /* stores: number of words */
    {"set\r\n", .reply = REPLY_ERROR},
    {"set a\r\n", .reply = REPLY_ERROR},
    {"set a 0\r\n", .reply = REPLY_ERROR},
    {"set a 0 0\r\n", .reply = REPLY_ERROR},
    {"set a 0 0 1 noreply x\r\nx\r\n", .reply = REPLY_ERROR, .used = 23},
    {"add a 0 0 1 x x\r\nx\r\n", .reply = REPLY_ERROR, .used = 17},
    {"cas a 0 0 1\r\nx\r\n", .reply = REPLY_ERROR, .used = 13},
    {"cas a 0 0 1 1 noreply x\r\nx\r\n", .reply = REPLY_ERROR, .used = 25},

    /* stores: numbers; nothing is swallowed, the value is read as the next command */
    {"set a x 0 1\r\nx\r\n", .reply = REPLY_BAD_FORMAT, .used = 13},
    {"set a -1 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 4294967296 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a -18446744073709551615 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 99999999999999999999 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0x10 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a + 0 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 x 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 - 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 1.5 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 9223372036854775808 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 -9223372036854775809 1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 x\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 -1\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 1x\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 -1 noreply\r\n", .reply = REPLY_NONE},
    {"set a 0 0 noreply\r\n", .reply = REPLY_NONE},
    {"set a 0 0 -1 other\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 2147483646\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 2147483648\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 4294967296\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 18446744073709551615\r\n", .reply = REPLY_BAD_FORMAT},
    {"set a 0 0 18446744073709551616\r\n", .reply = REPLY_BAD_FORMAT},
    {"cas a 0 0 1 x\r\n", .reply = REPLY_BAD_FORMAT},
    {"cas a 0 0 1 -1\r\n", .reply = REPLY_BAD_FORMAT},
    {"cas a 0 0 1 18446744073709551616\r\n", .reply = REPLY_BAD_FORMAT},
    {"cas a 0 0 1 noreply\r\n", .reply = REPLY_NONE},
    {"cas a 0 0 2000 x\r\n", .reply = REPLY_BAD_FORMAT},

    /* stores: values */
    {"set a 0 0 1\r\nxy\r\n", .reply = REPLY_BAD_CHUNK, .used = 16},
    {"set a 0 0 1\r\nx\ny", .reply = REPLY_BAD_CHUNK, .used = 16},
    {"set a 0 0 0\r\nxy", .reply = REPLY_BAD_CHUNK},
    {"set a 0 0 1\r\nx\r\r", .reply = REPLY_BAD_CHUNK},
    {"set a 0 0 1\r\nx\n\n", .reply = REPLY_BAD_CHUNK},
    {"set a 0 0 1 noreply\r\nxyz", .reply = REPLY_NONE},
    {"append a 0 0 3\r\nx\r\ny\r\n", .reply = REPLY_BAD_CHUNK, .used = 21},
    {"set a 0 0 1000\r\n", .reply = REPLY_TOO_LARGE, .swallow = 1002, .invalidate = true},
    {"set a 0 0 1000 noreply\r\n", .reply = REPLY_NONE, .swallow = 1002, .invalidate = true},
    {"set a 0 0 2147483645\r\n", .reply = REPLY_TOO_LARGE, .swallow = 2147483647,
     .invalidate = true},
    {"add a 0 0 1000\r\n", .reply = REPLY_TOO_LARGE, .swallow = 1002},
    {"replace a 0 0 1000\r\n", .reply = REPLY_TOO_LARGE, .swallow = 1002},
    {"append a 0 0 1000\r\n", .reply = REPLY_TOO_LARGE, .swallow = 1002},
    {"prepend a 0 0 1000 noreply\r\n", .reply = REPLY_NONE, .swallow = 1002},
    {"cas a 0 0 1000 1\r\n", .reply = REPLY_TOO_LARGE, .swallow = 1002},
    {"cas a 0 0 1000 1 noreply\r\n", .reply = REPLY_NONE, .swallow = 1002},

    {"delete\r\n", .reply = REPLY_ERROR},
    {"delete a 5\r\n", .reply = REPLY_DELETE_USAGE},
    {"delete a 00\r\n", .reply = REPLY_DELETE_USAGE},
    {"delete a x\r\n", .reply = REPLY_DELETE_USAGE},
    {"delete a 0 x\r\n", .reply = REPLY_DELETE_USAGE},
    {"delete a noreply 0\r\n", .reply = REPLY_DELETE_USAGE},
    {"delete a 5 noreply\r\n", .reply = REPLY_NONE},
    {"delete a noreply noreply\r\n", .reply = REPLY_NONE},
    {"delete a 0 noreply x\r\n", .reply = REPLY_ERROR},

    {"incr\r\n", .reply = REPLY_ERROR},
    {"incr a\r\n", .reply = REPLY_ERROR},
    {"incr a 1 noreply x\r\n", .reply = REPLY_ERROR},
    {"incr a abc\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a -1\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a 1.5\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a 0x1\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a ++1\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a 18446744073709551616\r\n", .reply = REPLY_BAD_DELTA},
    {"incr a abc noreply\r\n", .reply = REPLY_NONE},
    {"decr a noreply\r\n", .reply = REPLY_NONE},
    {"decr\r\n", .reply = REPLY_ERROR},
    {"decrx a 1\r\n", .reply = REPLY_ERROR},

    {"touch\r\n", .reply = REPLY_ERROR},
    {"touch a\r\n", .reply = REPLY_ERROR},
    {"touch a 0 noreply x\r\n", .reply = REPLY_ERROR},
    {"touch a x\r\n", .reply = REPLY_BAD_EXPTIME},
    {"touch a 1.5\r\n", .reply = REPLY_BAD_EXPTIME},
    {"touch a 99999999999999999999\r\n", .reply = REPLY_BAD_EXPTIME},
    {"touch a x noreply\r\n", .reply = REPLY_NONE},
    {"touch a noreply\r\n", .reply = REPLY_NONE},

    {"flush_all x\r\n", .reply = REPLY_BAD_EXPTIME},
    {"flush_all x noreply\r\n", .reply = REPLY_NONE},
    {"flush_all noreply 0\r\n", .reply = REPLY_BAD_EXPTIME},
    {"flush_all 0 0 0\r\n", .reply = REPLY_ERROR},
    {"flush_all 0 noreply x\r\n", .reply = REPLY_ERROR},
    {"verbosity\r\n", .reply = REPLY_ERROR},
    {"verbosity x\r\n", .reply = REPLY_BAD_FORMAT},
    {"verbosity -1\r\n", .reply = REPLY_BAD_FORMAT},
    {"verbosity noreply\r\n", .reply = REPLY_NONE},
    {"verbosity 0 x y\r\n", .reply = REPLY_ERROR},
    {"cache_memlimit\r\n", .reply = REPLY_ERROR},
    {"cache_memlimit x\r\n", .reply = REPLY_ERROR},
    {"cache_memlimit -1\r\n", .reply = REPLY_ERROR},
    {"cache_memlimit noreply\r\n", .reply = REPLY_NONE},
    {"cache_memlimit 64 noreply x\r\n", .reply = REPLY_ERROR},
};

#endif
