/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * networks: lists, and which addresses are in them.
 */
#include <arpa/inet.h>

#include "daemon/access/access.h"
#include "tests/common/unit.h"

static struct networks networks;

static bool have(const char *text)
{
    const uint16_t family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    uint8_t address[16] = {0};

    ck_assert_int_eq(inet_pton(family, text, address), 1);
    return networks_have(&networks, family, address);
}

TEST(addresses_and_networks)
{
    ck_assert_ptr_null(networks_parse(NULL, &networks));
    ck_assert(!have("127.0.0.1"));
    ck_assert_ptr_null(networks_parse("192.0.2.7,10.0.0.0/8,2001:db8::/33,::1", &networks));
    ck_assert(have("192.0.2.7") && !have("192.0.2.6") && !have("192.0.2.8"));
    ck_assert(have("10.255.1.2") && !have("11.0.0.0"));
    ck_assert(have("2001:db8:7fff::1") && !have("2001:db8:8000::1"));
    ck_assert(have("::1") && !have("::2") && !have("::"));
    ck_assert_ptr_null(networks_parse("0.0.0.0/0", &networks));
    ck_assert(have("1.2.3.4") && !have("::1"));
}

TEST(lists_that_are_refused)
{
    static const char *const lists[] = {
        "",          "x",        "1.2.3",    "1.2.3.4/33", "::1/129",    "1.2.3.4/",
        "1.2.3.4/a", "::1,,::2", "1.2.3.4,", "1.2.3.4 ",   "1.2.3.4/-1", "host.invalid",
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        ck_assert_msg(networks_parse(lists[i], &networks) != NULL, "%s", lists[i]);
    }
}
