/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_parse: headers of both versions, whole, in pieces and malformed.
 */
#include <arpa/inet.h>

#include "proto/proxy_parse.h"
#include "tests/common/exact.h"
#include "tests/common/unit.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

/* Parse exactly these bytes, and every shorter part of them, which must ask for more. */
static enum proxy_status parse(const char *bytes, size_t len, struct proxy_header *out)
{
    enum proxy_status status;
    size_t used;

    for (size_t n = 0; n <= len; n++) {
        char *copy = exact_copy((const uint8_t *)bytes, n);

        status = proxy_parse(copy, n, out, &used);
        free(copy);
        if (status == PROXY_BAD) {
            break;
        }
        ck_assert_int_eq(status, n < len ? PROXY_MORE : status);
    }
    ck_assert(status != PROXY_DONE || used == len);
    return status;
}

static const struct {
    const char *line;
    enum proxy_status status;
    enum proxy_family family;
    const char *address;
    uint16_t port;
} lines[] = {
    {"PROXY TCP4 192.0.2.1 192.0.2.2 4711 11211\r\n", PROXY_DONE, PROXY_INET, "192.0.2.1",
     4711},
    {"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", PROXY_DONE, PROXY_INET6, "2001:db8::1", 65535},
    {"PROXY UNKNOWN\r\n", PROXY_DONE, PROXY_NONE, NULL, 0},
    {"PROXY UNKNOWN what ever it is\r\n", PROXY_DONE, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1 192.0.2.2 4711", PROXY_MORE, PROXY_NONE, NULL, 0},
    {"PROXY \r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 2001:db8::1 192.0.2.2 1 2\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"PROXY UNKNOWN\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"proxy UNKNOWN\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
    {"get a\r\n", PROXY_BAD, PROXY_NONE, NULL, 0},
};

TEST(lines_of_version_1)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct proxy_header h;
        char text[INET6_ADDRSTRLEN] = "";
        const enum proxy_status status = parse(lines[i].line, strlen(lines[i].line), &h);

        ck_assert_msg(status == lines[i].status, "%s", lines[i].line);
        if (status == PROXY_DONE) {
            ck_assert_int_eq(h.family, lines[i].family);
            ck_assert_uint_eq(h.port, lines[i].port);
        }
        if (status == PROXY_DONE && lines[i].address != NULL) {
            inet_ntop(h.family == PROXY_INET ? AF_INET : AF_INET6, h.address, text,
                      sizeof(text));
            ck_assert_str_eq(text, lines[i].address);
        }
    }
}

TEST(a_line_has_an_end)
{
    char line[200];
    struct proxy_header h;

    memset(line, 'x', sizeof(line));
    memcpy(line, "PROXY UNKNOWN ", 14);
    ck_assert_int_eq(parse(line, 106, &h), PROXY_MORE);
    ck_assert_int_eq(parse(line, 107, &h), PROXY_BAD);
    memcpy(line + 105, "\r\n", 2);
    ck_assert_int_eq(parse(line, 107, &h), PROXY_DONE);
}

/* A header of version 2 with this third part; returns its length. */
static size_t make(char *out, unsigned command, unsigned family, const char *body, size_t len)
{
    memcpy(out, SIGNATURE, 12);
    out[12] = (char)command;
    out[13] = (char)family;
    out[14] = (char)(len >> 8);
    out[15] = (char)len;
    memcpy(out + 16, body, len);
    return 16 + len;
}

static const char v4[] = "\xc0\0\2\1\xc0\0\2\2\x12\x67\x2b\xcb";
static const char v6[36] = " \1\r\xb8"
                           "aaaaaaaaaaa\1"
                           " \1\r\xb8"
                           "bbbbbbbbbbb\2"
                           "\x12\x67\x2b\xcb";

TEST(headers_of_version_2)
{
    char header[2048];
    char body[1200];
    struct proxy_header h;

    memset(body, 0, sizeof(body));
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x11, v4, 12), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_INET);
    ck_assert_int_eq(memcmp(h.address, v4, 4), 0);
    ck_assert_uint_eq(h.port, 0x1267);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x21, v6, 36), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_INET6);
    ck_assert_int_eq(memcmp(h.address, v6, 16), 0);
    ck_assert_uint_eq(h.port, 0x1267);
    /* More than the addresses. */
    memcpy(body, v4, 12);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x11, body, 500), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_INET);
    /* For itself, with any additions; for a unix socket; for an unknown client. */
    ck_assert_int_eq(parse(header, make(header, 0x20, 0x11, v4, 12), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_NONE);
    ck_assert_int_eq(parse(header, make(header, 0x20, 0, v4, 0), &h), PROXY_DONE);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x31, body, 216), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_NONE);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0, body, 0), &h), PROXY_DONE);
    ck_assert_int_eq(h.family, PROXY_NONE);
}

TEST(malformed_headers_of_version_2)
{
    char header[2048];
    char body[1200];
    struct proxy_header h;

    memset(body, 0, sizeof(body));
    ck_assert_int_eq(parse(header, make(header, 0x11, 0x11, v4, 12), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x22, 0x11, v4, 12), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x12, v4, 12), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x41, v4, 12), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x11, v4, 11), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x21, v6, 35), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0x31, body, 215), &h), PROXY_BAD);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0, body, PROXY_HEADER_MAX - 16), &h),
                     PROXY_DONE);
    ck_assert_int_eq(parse(header, make(header, 0x21, 0, body, PROXY_HEADER_MAX - 15), &h),
                     PROXY_BAD);
    header[3] = 'x';
    ck_assert_int_eq(parse(header, 16, &h), PROXY_BAD);
}
