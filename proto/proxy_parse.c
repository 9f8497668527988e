/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See proxy_parse.h. The protocol is described in proxy-protocol.txt of HAProxy.
 */
#include "proto/proxy_parse.h"

#include <arpa/inet.h>
#include <string.h>

#include "lib/base/num.h"
#include "lib/base/span.h"

/* ---- version 1: PROXY TCP4 SOURCE DESTINATION SOURCE-PORT DESTINATION-PORT --------------- */

#define LINE_BEGIN "PROXY "
#define LINE_MAX   107u /* with its end */

/* The next word, which ends at one space or at the end of the line. False: it is empty. */
static bool take_word(struct span *line, struct span *word)
{
    *word = span_cut(line, ' ');
    return word->len > 0;
}

static bool take_address(struct span *line, int family, uint8_t address[16])
{
    char text[INET6_ADDRSTRLEN];
    struct span word;

    if (!take_word(line, &word) || word.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    return strlen(text) == word.len && inet_pton(family, text, address) == 1;
}

static bool take_port(struct span *line, uint16_t *port)
{
    struct span word;
    uint32_t number;

    if (!take_word(line, &word) || num_u32(word, &number) != MF_OK || number > 65535) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

static bool parse_line(struct span line, struct proxy_header *out)
{
    uint8_t address[16];
    uint16_t port;
    struct span word;

    if (!take_word(&line, &word)) {
        return false;
    }
    if (span_is(word, "UNKNOWN")) {
        return true; /* whatever follows */
    }
    out->family = span_is(word, "TCP6") ? PROXY_INET6 : PROXY_INET;
    int family = out->family == PROXY_INET6 ? AF_INET6 : AF_INET;
    return (span_is(word, "TCP4") || span_is(word, "TCP6")) &&
           take_address(&line, family, out->address) && take_address(&line, family, address) &&
           take_port(&line, &out->port) && take_port(&line, &port) && line.len == 0;
}

static enum proxy_status parse_1(const char *p, size_t len, struct proxy_header *out,
                                 size_t *used)
{
    const size_t begin = sizeof(LINE_BEGIN) - 1;
    const char *end = memchr(p, '\n', len < LINE_MAX ? len : LINE_MAX);

    if (end == NULL) {
        return len < LINE_MAX ? PROXY_MORE : PROXY_BAD;
    }
    *used = (size_t)(end + 1 - p);
    if (*used < begin + 2 || end[-1] != '\r' ||
        !parse_line(span_of(p + begin, *used - begin - 2), out)) {
        return PROXY_BAD;
    }
    return PROXY_DONE;
}

/* ---- version 2 --------------------------------------------------------------------------- */

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define FIXED     16u /* signature, version and command, family and transport, length */

static unsigned byte_at(const char *p, size_t i)
{
    return (unsigned char)p[i];
}

static unsigned word_at(const char *p, size_t i)
{
    return byte_at(p, i) << 8 | byte_at(p, i + 1);
}

/*
 * Take two addresses of `bytes` bytes, the client's first, and two ports. Returns false if they
 * are truncated.
 */
static bool take_addresses(const char *p, size_t body, enum proxy_family family, size_t bytes,
                           struct proxy_header *out)
{
    if (body < 2 * bytes + 4) {
        return false;
    }
    out->family = family;
    memcpy(out->address, p + FIXED, bytes);
    out->port = (uint16_t)word_at(p, FIXED + 2 * bytes);
    return true;
}

/* Who connects, from a whole header. False: it is malformed. */
static bool parse_addresses(const char *p, size_t body, struct proxy_header *out)
{
    const unsigned transport = byte_at(p, 13) & 15u;

    if (transport > 1) {
        return false; /* datagrams, or nothing that there is */
    }
    switch (byte_at(p, 13) >> 4) {
    case 0: /* unknown */
        return true;
    case 1: /* IPv4 */
        return transport == 0 || take_addresses(p, body, PROXY_INET, 4, out);
    case 2: /* IPv6 */
        return transport == 0 || take_addresses(p, body, PROXY_INET6, 16, out);
    case 3: /* two paths of unix sockets */
        return body >= 216;
    default:
        return false;
    }
}

static enum proxy_status parse_2(const char *p, size_t len, struct proxy_header *out,
                                 size_t *used)
{
    if (len > 12 && (byte_at(p, 12) >> 4 != 2 || (byte_at(p, 12) & 15u) > 1)) {
        return PROXY_BAD;
    }
    if (len < FIXED) {
        return PROXY_MORE;
    }
    size_t body = word_at(p, 14);
    if (FIXED + body > PROXY_HEADER_MAX) {
        return PROXY_BAD;
    }
    if (len < FIXED + body) {
        return PROXY_MORE;
    }
    *used = FIXED + body;
    /* LOCAL: the balancer looks whether we are there, and what follows means nothing. */
    return (byte_at(p, 12) & 15u) == 1 && !parse_addresses(p, body, out) ? PROXY_BAD
                                                                         : PROXY_DONE;
}

/* ---- both -------------------------------------------------------------------------------- */

/* Does it begin so, as far as it goes? */
static bool begins_with(const char *p, size_t len, const char *begin, size_t n)
{
    return memcmp(p, begin, len < n ? len : n) == 0;
}

enum proxy_status proxy_parse(const char *p, size_t len, struct proxy_header *out, size_t *used)
{
    enum proxy_status status = PROXY_BAD;

    memset(out, 0, sizeof(*out));
    *used = 0;
    if (len == 0) {
        return PROXY_MORE;
    }
    if (begins_with(p, len, SIGNATURE, sizeof(SIGNATURE) - 1)) {
        status = parse_2(p, len, out, used);
    } else if (begins_with(p, len, LINE_BEGIN, sizeof(LINE_BEGIN) - 1)) {
        status = parse_1(p, len, out, used);
    }
    return status;
}
