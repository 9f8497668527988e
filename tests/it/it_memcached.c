/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon driven through libmemcached: single keys, multigets, cas, incr, large values,
 * expiry in the past, flush, over a unix socket and over TCP, with and without the client's
 * buffering, in text and in the binary protocol.
 */
#include "tests/common/daemon.h"

#include <inttypes.h>
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS        1000u
#define VALUE_BYTES 200u
#define LARGE_BYTES 900000u
#define PATIENCE_MS 60000u /* the default is five seconds */

#define check(x)                                                                               \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);              \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#define check_rc(m, call)                                                                      \
    do {                                                                                       \
        memcached_return_t rc_ = (call);                                                       \
        if (rc_ != MEMCACHED_SUCCESS) {                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                      \
                    memcached_strerror((m), rc_));                                             \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* The value of key i: bytes that belong to no other key. */
static void make_value(unsigned i, char *out, size_t n)
{
    char unit[16];
    size_t len = (size_t)snprintf(unit, sizeof(unit), "<%u>", i);

    for (size_t at = 0; at < n; at++) {
        out[at] = unit[at % len];
    }
}

static size_t make_key(unsigned i, char *out, size_t out_size)
{
    return (size_t)snprintf(out, out_size, "key-%u", i);
}

static bool value_is(memcached_st *m, const char *key, const char *want, size_t want_len)
{
    size_t len = 0;
    uint32_t flags = 0;
    memcached_return_t rc;
    char *got = memcached_get(m, key, strlen(key), &len, &flags, &rc);
    bool is_equal =
        rc == MEMCACHED_SUCCESS && len == want_len && (len == 0 || memcmp(got, want, len) == 0);

    free(got);
    return is_equal;
}

static bool is_missing(memcached_st *m, const char *key)
{
    size_t len = 0;
    uint32_t flags = 0;
    memcached_return_t rc;
    char *got = memcached_get(m, key, strlen(key), &len, &flags, &rc);

    free(got);
    return rc == MEMCACHED_NOTFOUND;
}

static void test_single(memcached_st *m, bool is_binary)
{
    size_t len = 0;
    uint32_t flags = 0;
    memcached_return_t rc;

    check(is_missing(m, "k"));
    check_rc(m, memcached_set(m, "k", 1, "value", 5, 0, 123456789));
    char *got = memcached_get(m, "k", 1, &len, &flags, &rc);
    check(rc == MEMCACHED_SUCCESS && len == 5 && memcmp(got, "value", 5) == 0);
    check(flags == 123456789);
    free(got);
    /* Only the binary protocol says why a store was refused. */
    check(memcached_add(m, "k", 1, "x", 1, 0, 0) ==
          (is_binary ? MEMCACHED_DATA_EXISTS : MEMCACHED_NOTSTORED));
    check(memcached_replace(m, "absent", 6, "x", 1, 0, 0) ==
          (is_binary ? MEMCACHED_NOTFOUND : MEMCACHED_NOTSTORED));
    check_rc(m, memcached_append(m, "k", 1, "-end", 4, 0, 0));
    check_rc(m, memcached_prepend(m, "k", 1, "start-", 6, 0, 0));
    check(value_is(m, "k", "start-value-end", 15));
    check_rc(m, memcached_exist(m, "k", 1));
    check_rc(m, memcached_touch(m, "k", 1, 1000));
    check_rc(m, memcached_delete(m, "k", 1, 0));
    check(memcached_delete(m, "k", 1, 0) == MEMCACHED_NOTFOUND);
    check(is_missing(m, "k"));
    check_rc(m, memcached_set(m, "empty", 5, "", 0, 0, 0));
    check(value_is(m, "empty", "", 0));
}

static void store_keys(memcached_st *m)
{
    char key[32], value[VALUE_BYTES];

    for (unsigned i = 0; i < KEYS; i += 2) {
        size_t len = make_key(i, key, sizeof(key));

        make_value(i, value, sizeof(value));
        memcached_return_t rc = memcached_set(m, key, len, value, sizeof(value), 0, i);
        check(rc == MEMCACHED_SUCCESS || rc == MEMCACHED_BUFFERED);
    }
    memcached_return_t rc = memcached_flush_buffers(m);
    check(rc == MEMCACHED_SUCCESS);
}

/* Every second key was stored: exactly those come, each once, with its own value. */
static void test_multiget(memcached_st *m)
{
    static char text[KEYS][32], want[VALUE_BYTES];
    static const char *keys[KEYS];
    static size_t lengths[KEYS];
    static bool is_seen[KEYS];
    char key[32];
    memcached_result_st result;
    memcached_return_t rc;
    unsigned count = 0;

    store_keys(m);
    memset(is_seen, 0, sizeof(is_seen));
    for (unsigned i = 0; i < KEYS; i++) {
        lengths[i] = make_key(i, text[i], sizeof(text[i]));
        keys[i] = text[i];
    }
    check_rc(m, memcached_mget(m, keys, lengths, KEYS));
    check(memcached_result_create(m, &result) != NULL);
    while (memcached_fetch_result(m, &result, &rc) != NULL) {
        unsigned i = KEYS;

        /* The end of a key from the binary protocol follows from its length only. */
        snprintf(key, sizeof(key), "%.*s", (int)memcached_result_key_length(&result),
                 memcached_result_key_value(&result));
        check(sscanf(key, "key-%u", &i) == 1 && i < KEYS);
        check(i % 2 == 0 && !is_seen[i]);
        is_seen[i] = true;
        make_value(i, want, sizeof(want));
        check(memcached_result_length(&result) == sizeof(want));
        check(memcmp(memcached_result_value(&result), want, sizeof(want)) == 0);
        check(memcached_result_flags(&result) == i);
        count++;
    }
    memcached_result_free(&result);
    check(count == KEYS / 2);
}

/* The cas value of a key, by gets. */
static uint64_t cas_of(memcached_st *m, const char *key)
{
    size_t len = strlen(key);
    memcached_result_st result;
    memcached_return_t rc;

    check_rc(m, memcached_mget(m, &key, &len, 1));
    check(memcached_result_create(m, &result) != NULL);
    check(memcached_fetch_result(m, &result, &rc) != NULL);
    uint64_t cas = memcached_result_cas(&result);
    check(memcached_fetch_result(m, &result, &rc) == NULL);
    memcached_result_free(&result);
    return cas;
}

static void test_cas(memcached_st *m)
{
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1));
    check_rc(m, memcached_set(m, "c", 1, "one", 3, 0, 0));
    uint64_t first = cas_of(m, "c");
    check(first != 0);
    check_rc(m, memcached_cas(m, "c", 1, "two", 3, 0, 0, first));
    check(memcached_cas(m, "c", 1, "bad", 3, 0, 0, first) == MEMCACHED_DATA_EXISTS);
    check(cas_of(m, "c") > first);
    check(value_is(m, "c", "two", 3));
    check(memcached_cas(m, "no", 2, "x", 1, 0, 0, first) == MEMCACHED_NOTFOUND);
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 0));
}

static void test_numbers(memcached_st *m)
{
    uint64_t n = 0;

    check(memcached_increment(m, "n", 1, 1, &n) == MEMCACHED_NOTFOUND);
    check_rc(m, memcached_set(m, "n", 1, "10", 2, 0, 0));
    check_rc(m, memcached_increment(m, "n", 1, 32, &n));
    check(n == 42);
    check_rc(m, memcached_decrement(m, "n", 1, 2, &n));
    check(n == 40);
    check_rc(m, memcached_decrement(m, "n", 1, 1000, &n));
    check(n == 0);
    check_rc(m, memcached_set(m, "n", 1, "18446744073709551615", 20, 0, 0));
    check_rc(m, memcached_increment(m, "n", 1, 2, &n));
    check(n == 1);
}

static void test_large(memcached_st *m)
{
    static char value[LARGE_BYTES], key[32];

    for (unsigned i = 0; i < 8; i++) {
        make_key(i, key, sizeof(key));
        make_value(i, value, sizeof(value) - i);
        check_rc(m, memcached_set(m, key, strlen(key), value, sizeof(value) - i, 0, 0));
    }
    for (unsigned i = 0; i < 8; i++) {
        make_key(i, key, sizeof(key));
        make_value(i, value, sizeof(value) - i);
        check(value_is(m, key, value, sizeof(value) - i));
    }
}

static void test_expired_and_flushed(memcached_st *m)
{
    check_rc(m, memcached_set(m, "past", 4, "x", 1, (time_t)2592001, 0));
    check(is_missing(m, "past"));
    check_rc(m, memcached_set(m, "stays", 5, "x", 1, (time_t)2592000, 0));
    check(value_is(m, "stays", "x", 1));
    check_rc(m, memcached_flush(m, 0));
    check(is_missing(m, "stays"));
    check(is_missing(m, "key-7"));
}

/* What libmemcached offers in the binary protocol only, or does with other commands there. */
static void test_binary(memcached_st *m)
{
    uint64_t n = 0;

    check_rc(m, memcached_increment_with_initial(m, "made", 4, 5, 1000, 0, &n));
    check(n == 1000);
    check_rc(m, memcached_increment_with_initial(m, "made", 4, 5, 1000, 0, &n));
    check(n == 1005);
    check_rc(m, memcached_decrement_with_initial(m, "made", 4, 6, 1000, 0, &n));
    check(n == 999);
    check_rc(m, memcached_append(m, "made", 4, "9", 1, 0, 0));
    check_rc(m, memcached_prepend(m, "made", 4, "1", 1, 0, 0));
    check(value_is(m, "made", "1999 9", 6));
    check_rc(m, memcached_touch(m, "made", 4, 1000));
    check(memcached_touch(m, "no", 2, 1000) == MEMCACHED_NOTFOUND);
    check_rc(m, memcached_delete(m, "made", 4, 0));
    check(is_missing(m, "made"));
}

static void test_statistics(memcached_st *m)
{
    memcached_return_t rc;
    memcached_stat_st *stat = memcached_stat(m, NULL, &rc);

    check(stat != NULL && rc == MEMCACHED_SUCCESS);
    char *threads = memcached_stat_get_value(m, stat, "threads", &rc);
    check(threads != NULL && strcmp(threads, "2") == 0);
    free(threads);
    memcached_stat_free(m, stat);
}

static void run_tests(const struct test_daemon *d, bool is_buffered, bool is_binary)
{
    memcached_st *m = memcached_create(NULL);

    check(m != NULL);
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, is_binary));
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, PATIENCE_MS));
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, PATIENCE_MS));
    if (d->port != 0) {
        check_rc(m, memcached_server_add(m, "127.0.0.1", d->port));
    } else {
        check_rc(m, memcached_server_add_unix_socket(m, d->socket));
    }
    check_rc(m, memcached_version(m));
    test_single(m, is_binary);
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, is_buffered));
    test_multiget(m);
    check_rc(m, memcached_behavior_set(m, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 0));
    test_cas(m);
    test_numbers(m);
    if (is_binary) {
        test_binary(m);
    }
    test_statistics(m);
    test_large(m);
    test_expired_and_flushed(m);
    memcached_free(m);
}

int main(void)
{
    static const char *const options[] = {"-t", "2", NULL};
    static const enum test_daemon_kind kinds[] = {TEST_DAEMON_UNIX, TEST_DAEMON_TCP};
    struct test_daemon d;
    char program[4096];

    if (!test_program("daemon/mayflyd", "MAYFLYD", program, sizeof(program))) {
        printf("1..0 # SKIP %s is not built\n", program);
        return 0;
    }
    puts("1..4");
    for (unsigned i = 0; i < 2; i++) {
        if (!test_daemon_start(&d, program, kinds[i], options)) {
            return 1;
        }
        run_tests(&d, i == 1, false);
        printf("ok - %s, text\n", i == 1 ? "TCP" : "unix socket");
        run_tests(&d, i == 1, true);
        int status = test_daemon_stop(&d);
        if (status != 0) {
            fprintf(stderr, "exit status %d\n", status);
            return 1;
        }
        printf("ok - %s, binary\n", i == 1 ? "TCP" : "unix socket");
    }
    return 0;
}
