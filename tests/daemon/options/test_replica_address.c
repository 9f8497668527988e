/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replica_address: the forms of an address, and what is wrong with others.
 */
#include "daemon/options/replica_address.h"

#include "tests/common/unit.h"

static char host[REPLICA_HOST_BYTES];
static char port[REPLICA_PORT_BYTES];
static const char *why;

static const struct {
    const char *text;
    const char *host;
    const char *port;
} good[] = {
    {"example.net 11211", "example.net", "11211"},
    {"example.net:11211", "example.net", "11211"},
    {"example.net \t 1", "example.net", "1"},
    {"192.0.2.7:65535", "192.0.2.7", "65535"},
    {"192.0.2.7 00080", "192.0.2.7", "80"},
    {"::1 11211", "::1", "11211"},
    {"[::1]:11211", "::1", "11211"},
    {"[2001:db8::7] 11211", "2001:db8::7", "11211"},
    {"[fe80::1%eth0]:11211", "fe80::1%eth0", "11211"},
    {"no:1", "no", "1"},
    {"no 1", "no", "1"},
    {"", "", ""},
    {"no", "", ""},
    {"no one", "", ""},
    {"NO ONE", "", ""},
    {"no \t one", "", ""},
    {"none 1", "none", "1"},
    {"n 1", "n", "1"},
    {"noone 1", "noone", "1"},
};

TEST(addresses_are_split)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(replica_address_parse(good[i].text, host, port, &why), "%s: %s",
                      good[i].text, why);
        ck_assert_str_eq(host, good[i].host);
        ck_assert_str_eq(port, good[i].port);
        ck_assert_int_eq(replica_address_is_none(good[i].text), good[i].host[0] == '\0');
    }
}

static const struct {
    const char *text;
    const char *why;
} bad[] = {
    {"example.net", "the port is missing (HOST PORT)"},
    {"example.net:", "the port is missing (HOST PORT)"},
    {"example.net ", "the port is missing (HOST PORT)"},
    {"[::1]", "the port is missing (HOST PORT)"},
    {"no two", "the port is not a number from 1 to 65535"},
    {"h 0", "the port is not a number from 1 to 65535"},
    {"h:65536", "the port is not a number from 1 to 65535"},
    {"h 4294967297", "the port is not a number from 1 to 65535"},
    {"h -1", "the port is not a number from 1 to 65535"},
    {"h 1 ", "the port is followed by something else"},
    {"h 1 2", "the port is followed by something else"},
    {"no one 1", "the port is followed by something else"},
    {"h x", "the port is not a number from 1 to 65535"},
    {":1", "the host is missing"},
    {" h 1", "the host is missing"},
    {"[]:1", "the host is missing"},
    {"a,b 1", "the host is neither a name nor an address"},
    {"h\n 1", "the host is neither a name nor an address"},
    {"h\xc3\xa9 1", "the host is neither a name nor an address"},
    {"http://h:1", "an IPv6 address needs brackets, or a blank before the port"},
    {"::1:11211", "an IPv6 address needs brackets, or a blank before the port"},
    {"h:1 2", "the host is not an IPv6 address"},
    {"[h]:1", "the host is not an IPv6 address"},
    {"[::1%]:1", "the host is not an IPv6 address"},
    {"[::1:11211", "a bracket is not closed"},
    {"[::1]11211", "a bracket is followed by something else than a port"},
};

TEST(what_is_wrong_with_others_is_said)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!replica_address_parse(bad[i].text, host, port, &why), "%s", bad[i].text);
        ck_assert_msg(strcmp(why, bad[i].why) == 0, "%s: %s", bad[i].text, why);
    }
}

TEST(a_host_has_255_bytes_at_most)
{
    char text[REPLICA_HOST_BYTES + 4];

    memset(text, 'h', REPLICA_HOST_BYTES);
    snprintf(text + REPLICA_HOST_BYTES - 1, 3, " 1");
    ck_assert(replica_address_parse(text, host, port, &why));
    ck_assert_uint_eq(strlen(host), 255);
    memset(text, 'h', REPLICA_HOST_BYTES);
    snprintf(text + REPLICA_HOST_BYTES, 3, ":1");
    ck_assert(!replica_address_parse(text, host, port, &why));
    ck_assert_str_eq(why, "the host is longer than 255 bytes");
}

static const struct {
    const char *text;
    const char *joined;
} joined[] = {
    {"example.net 00080", "example.net:80"},
    {"::1 11211", "[::1]:11211"},
    {"[fe80::1%eth0]:1", "[fe80::1%eth0]:1"},
    {"no one", ""},
    {"nonsense", ""},
};

TEST(one_word_is_made_of_it)
{
    for (size_t i = 0; i < sizeof(joined) / sizeof(joined[0]); i++) {
        char out[REPLICA_ADDRESS_BYTES];

        replica_address_join(joined[i].text, out);
        ck_assert_str_eq(out, joined[i].joined);
    }
}

TEST(two_words_are_one_address)
{
    ck_assert(replica_address_has_two_words("h", "11211"));
    ck_assert(replica_address_has_two_words("h", "99999")); /* refused as a port later */
    ck_assert(replica_address_has_two_words("no", "one"));
    ck_assert(!replica_address_has_two_words("h:1", "hz"));
    ck_assert(!replica_address_has_two_words("no", "1"));
    ck_assert(!replica_address_has_two_words("h", "1k"));
    ck_assert(!replica_address_has_two_words("h", ""));
}
