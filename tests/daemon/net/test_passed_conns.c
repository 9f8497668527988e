/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passed_conns: what is written of connections is read again; what was cut, changed or written
 * by another version is not, but its descriptors are known where they can be.
 */
#include "daemon/net/passed_conns.h"

#include "lib/base/hash.h"
#include "tests/common/unit.h"

/* Where the fields of the head are. */
#define AT_SUM      8
#define AT_VERSION  16
#define AT_COUNT    20
#define AT_BODY_SUM 32
#define HEAD_BYTES  40
#define KEYS_BYTES  32
#define AT_USER_LEN 32 /* in a record */

static const struct passed_keys keys = {.text = {1, 2}, .sasl = {3, UINT64_MAX}};
static struct passed_conns conns;
static struct buf bytes;

static const struct passed_conn plain = {
    .fd = 7, .transport = 1, .protocol = 2, .idle_ms = 12345, .input = {"get ", 4}};

static const struct passed_conn full = {
    .fd = 100000,
    .login_failures = 4,
    .is_control = true,
    .is_proxied = true,
    .awaits_header = true,
    .has_login = true,
    .family = 10,
    .port = 65535,
    .address = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
    .swallow = UINT64_MAX,
    .login = {5, 6},
    .user = {"ann", 3},
    .output = {"STORED\r\n", 8},
};

static void setup(void)
{
    passed_conns_init(&conns);
    ck_assert(passed_conns_add(&conns, &plain));
    ck_assert(passed_conns_add(&conns, &full));
    ck_assert(passed_conns_encode(&conns, &keys, &bytes));
}

static void teardown(void)
{
    passed_conns_fini(&conns);
    buf_fini(&bytes);
}

TEST_FIXTURE(setup, teardown)

static bool is_same_span(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0) &&
           (a.len > 0 || b.len == 0);
}

static bool is_same(const struct passed_conn *a, const struct passed_conn *b)
{
    return a->fd == b->fd && a->transport == b->transport && a->protocol == b->protocol &&
           a->login_failures == b->login_failures && a->is_control == b->is_control &&
           a->is_proxied == b->is_proxied && a->awaits_header == b->awaits_header &&
           a->has_login == b->has_login && a->family == b->family && a->port == b->port &&
           memcmp(a->address, b->address, sizeof(a->address)) == 0 &&
           a->idle_ms == b->idle_ms && a->swallow == b->swallow &&
           siphash_same(&a->login, &b->login) == 1 && is_same_span(a->user, b->user) &&
           (a->user.ptr == NULL) == (b->user.ptr == NULL) && is_same_span(a->input, b->input) &&
           is_same_span(a->output, b->output);
}

/* Read from a copy of just that size, so that a sanitizer sees what is read beyond. */
static enum passed_state open_copy(struct passed_reader *r, size_t len, char **copy)
{
    *copy = malloc(len + 1);
    ck_assert_ptr_nonnull(*copy);
    memcpy(*copy, buf_begin(&bytes), len);
    *copy = realloc(*copy, len > 0 ? len : 1);
    return passed_conns_open(r, span_of(*copy, len));
}

static void put_u64(size_t at, uint64_t v)
{
    memcpy(buf_begin(&bytes) + at, &v, sizeof(v));
}

/* As if it had been written so. */
static void sum_again(void)
{
    char *p = buf_begin(&bytes);
    size_t body = HEAD_BYTES + 4 * passed_conns_count(&conns);

    put_u64(AT_BODY_SUM, XXH3_64bits(p + body, buf_len(&bytes) - body));
    put_u64(AT_SUM, XXH3_64bits(p + AT_VERSION, body - AT_VERSION));
}

TEST(what_is_written_is_read)
{
    struct passed_reader r;
    struct passed_conn c;

    ck_assert_uint_eq(passed_conns_count(&conns), 2);
    ck_assert_int_eq(passed_conns_fd(&conns, 1), full.fd);
    ck_assert_int_eq(passed_conns_open(&r, buf_span(&bytes)), PASSED_GOOD);
    ck_assert_uint_eq(r.count, 2);
    ck_assert_int_eq(passed_conns_number(&r, 0), plain.fd);
    ck_assert_int_eq(memcmp(&r.keys, &keys, sizeof(keys)), 0);
    ck_assert(passed_conns_next(&r, &c) && is_same(&c, &plain));
    ck_assert(passed_conns_next(&r, &c) && is_same(&c, &full));
    ck_assert(!passed_conns_next(&r, &c));
    ck_assert_uint_eq(r.next, r.count);
}

TEST(of_none_nothing_is_read)
{
    struct passed_reader r;
    struct passed_conn c;

    teardown();
    passed_conns_init(&conns);
    ck_assert(passed_conns_encode(&conns, &keys, &bytes));
    ck_assert_int_eq(passed_conns_open(&r, buf_span(&bytes)), PASSED_GOOD);
    ck_assert(r.count == 0 && !passed_conns_next(&r, &c));
}

TEST(cut_anywhere_it_is_damaged)
{
    for (size_t len = 0; len < buf_len(&bytes); len++) {
        struct passed_reader r;
        char *copy;

        ck_assert(open_copy(&r, len, &copy) == PASSED_DAMAGED);
        ck_assert(r.count == (len >= HEAD_BYTES + 8 ? 2 : 0));
        free(copy);
    }
}

TEST(a_changed_byte_is_noticed)
{
    for (size_t i = 0; i < buf_len(&bytes); i++) {
        for (unsigned change = 1; change < 256; change *= 2) {
            struct passed_reader r;
            char *copy;

            buf_begin(&bytes)[i] ^= (char)change;
            ck_assert(open_copy(&r, buf_len(&bytes), &copy) == PASSED_DAMAGED);
            ck_assert(r.count == (i >= HEAD_BYTES + 8 ? 2 : 0));
            free(copy);
            buf_begin(&bytes)[i] ^= (char)change;
        }
    }
}

TEST(of_another_version_the_descriptors_are_known)
{
    struct passed_reader r;
    char *copy;

    buf_begin(&bytes)[AT_VERSION]++;
    sum_again();
    put_u64(AT_BODY_SUM, 0); /* whatever that means there */
    put_u64(AT_SUM, XXH3_64bits(buf_begin(&bytes) + AT_VERSION, HEAD_BYTES + 8 - AT_VERSION));
    ck_assert_int_eq(open_copy(&r, HEAD_BYTES + 8, &copy), PASSED_FOREIGN);
    ck_assert_uint_eq(r.version, PASSED_CONNS_VERSION + 1);
    ck_assert_uint_eq(r.count, 2);
    ck_assert_int_eq(passed_conns_number(&r, 1), full.fd);
    free(copy);
}

/* Sums do not protect against their writer, so lengths are checked as well. */
TEST_LOOP(lengths_that_cannot_be_end_it, 3)
{
    static const uint64_t lengths[] = {13, UINT64_MAX, UINT64_MAX - 11};
    const size_t record = HEAD_BYTES + 8 + KEYS_BYTES + 80 + plain.input.len;

    for (size_t field = 0; field < 3; field++) {
        const size_t at = record + AT_USER_LEN + field * 8;
        struct passed_reader r;
        struct passed_conn c;
        uint64_t was;
        char *copy;

        memcpy(&was, buf_begin(&bytes) + at, sizeof(was));
        put_u64(at, lengths[_i]);
        sum_again();
        ck_assert_int_eq(open_copy(&r, buf_len(&bytes), &copy), PASSED_GOOD);
        ck_assert(passed_conns_next(&r, &c) && is_same(&c, &plain));
        ck_assert(!passed_conns_next(&r, &c));
        ck_assert_uint_eq(r.next, 1);
        free(copy);
        put_u64(at, was);
    }
}

TEST(more_connections_than_there_is_room_for_are_damage)
{
    static const uint32_t counts[] = {3, 1u << 30, UINT32_MAX};

    for (size_t i = 0; i < 3; i++) {
        struct passed_reader r;
        struct passed_conn c;
        char *copy;

        memcpy(buf_begin(&bytes) + AT_COUNT, &counts[i], sizeof(counts[i]));
        sum_again();
        if (open_copy(&r, buf_len(&bytes), &copy) == PASSED_GOOD) {
            while (passed_conns_next(&r, &c)) {
            }
            ck_assert_uint_lt(r.next, r.count);
        }
        free(copy);
    }
}

/* It is put into a place of that size. */
TEST(a_header_is_no_longer_than_it_can_be)
{
    static char input[PASSED_HEADER_MAX + 1];
    struct passed_conn half = {.fd = 8, .awaits_header = true, .input = {input, 0}};
    struct passed_reader r;
    struct passed_conn c;

    for (size_t over = 0; over < 2; over++) {
        half.input.len = PASSED_HEADER_MAX + over;
        teardown();
        passed_conns_init(&conns);
        ck_assert(passed_conns_add(&conns, &half));
        ck_assert(passed_conns_encode(&conns, &keys, &bytes));
        ck_assert_int_eq(passed_conns_open(&r, buf_span(&bytes)), PASSED_GOOD);
        ck_assert(passed_conns_next(&r, &c) == (over == 0));
    }
}
