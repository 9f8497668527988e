/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See replica_address.h.
 */
#include "daemon/options/replica_address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/num.h"
#include "lib/base/span.h"

#define BLANKS " \t"

bool replica_address_is_none(const char *text)
{
    if (text[0] == '\0' || strcasecmp(text, "no") == 0) {
        return true;
    }
    if (strncasecmp(text, "no", 2) != 0) {
        return false;
    }
    text += 2;
    return strspn(text, BLANKS) > 0 && strcasecmp(text + strspn(text, BLANKS), "one") == 0;
}

bool replica_address_has_two_words(const char *word, const char *next)
{
    if (strcasecmp(word, "no") == 0) {
        return strcasecmp(next, "one") == 0;
    }
    return next[0] != '\0' && next[strspn(next, "0123456789")] == '\0';
}

/* An address of IPv6, perhaps with the name of an interface: fe80::1%eth0. */
static bool is_ipv6(const char *host)
{
    const size_t len = strcspn(host, "%");
    char address[INET6_ADDRSTRLEN];
    struct in6_addr bytes;

    if (len >= sizeof(address) || (host[len] == '%' && host[len + 1] == '\0')) {
        return false;
    }
    memcpy(address, host, len);
    address[len] = '\0';
    return inet_pton(AF_INET6, address, &bytes) == 1;
}

/* Take the host, whose length is known. Returns what is wrong with it, or NULL. */
static const char *take_host(const char *text, size_t len, bool is_bracketed, char *host)
{
    if (len == 0) {
        return "the host is missing";
    }
    if (len >= REPLICA_HOST_BYTES) {
        return "the host is longer than 255 bytes";
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f ||
            strchr("[],/\"'", text[i])) {
            return "the host is neither a name nor an address";
        }
    }
    memcpy(host, text, len);
    host[len] = '\0';
    if ((is_bracketed || strchr(host, ':') != NULL) && !is_ipv6(host)) {
        return "the host is not an IPv6 address";
    }
    return NULL;
}

static const char *take_port(const char *text, char *port)
{
    uint32_t number;

    if (text[0] == '\0') {
        return "the port is missing (HOST PORT)";
    }
    if (strpbrk(text, BLANKS) != NULL) {
        return "the port is followed by something else";
    }
    if (num_u32(span_str(text), &number) != MF_OK || number < 1 || number > 65535) {
        return "the port is not a number from 1 to 65535";
    }
    snprintf(port, REPLICA_PORT_BYTES, "%" PRIu16, (uint16_t)number);
    return NULL;
}

/* Returns what is wrong, or NULL. */
static const char *split_address(const char *text, char *host, char *port)
{
    const bool is_bracketed = text[0] == '[';
    const char *begin = text + is_bracketed;
    size_t len = strcspn(begin, is_bracketed ? "]" : BLANKS);
    const char *rest = begin + len;

    if (is_bracketed && *rest == '\0') {
        return "a bracket is not closed";
    }
    rest += is_bracketed;
    if (is_bracketed && *rest != '\0' && strchr(":" BLANKS, *rest) == NULL) {
        return "a bracket is followed by something else than a port";
    }
    if (!is_bracketed && *rest == '\0') {
        len = strcspn(begin, ":");
        rest = begin + len;
        if (*rest == ':' && strchr(rest + 1, ':') != NULL) {
            return "an IPv6 address needs brackets, or a blank before the port";
        }
    }
    rest += *rest == ':' ? 1 : strspn(rest, BLANKS);
    const char *why = take_host(begin, len, is_bracketed, host);
    return why != NULL ? why : take_port(rest, port);
}

bool replica_address_parse(const char *text, char host[REPLICA_HOST_BYTES],
                           char port[REPLICA_PORT_BYTES], const char **why)
{
    host[0] = '\0';
    port[0] = '\0';
    *why = replica_address_is_none(text) ? NULL : split_address(text, host, port);
    return *why == NULL;
}

void replica_address_join(const char *text, char out[REPLICA_ADDRESS_BYTES])
{
    char host[REPLICA_HOST_BYTES];
    char port[REPLICA_PORT_BYTES];
    const char *wrong;

    out[0] = '\0';
    if (replica_address_parse(text, host, port, &wrong) && host[0] != '\0') {
        bool is_ipv6_host = strchr(host, ':') != NULL;

        snprintf(out, REPLICA_ADDRESS_BYTES, "%s%s%s:%s", is_ipv6_host ? "[" : "", host,
                 is_ipv6_host ? "]" : "", port);
    }
}
