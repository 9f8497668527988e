/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The elements of -l: see sockets_parts.h.
 */
#include "daemon/net/sockets_parts.h"

#include <string.h>

#include "lib/base/num.h"

#define LIST_SEPARATORS " ;,"

static bool starts_with(struct span s, const char *word)
{
    size_t n = strlen(word);

    return s.len >= n && memcmp(s.ptr, word, n) == 0;
}

/*
 * Take "word[x]:" off the front, where word has the first bracket, and close is the other one;
 * false: it is not there. When its end is missing, *error is set.
 */
static bool take_bracket(struct span *s, const char *word, char close, struct span *x,
                         const char **error)
{
    size_t head = strlen(word);

    if (!starts_with(*s, word)) {
        return false;
    }
    *x = span_after(*s, head);
    const char *end = memchr(x->ptr, close, x->len);
    if (end == NULL || end + 1 == s->ptr + s->len || end[1] != ':') {
        *error = "Invalid prefix of an address";
        return false;
    }
    x->len = (size_t)(end - x->ptr);
    *s = span_after(*s, head + x->len + 2);
    return true;
}

static const char *set_protocol(struct listen_address *out, struct span name)
{
    static const char *const names[] = {
        [PROTOCOL_AUTO] = "auto", [PROTOCOL_ASCII] = "ascii", [PROTOCOL_BINARY] = "binary"};

    if (span_is(name, "negotiating")) {
        name = span_str(names[PROTOCOL_AUTO]); /* memcached's own word for it */
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (span_is(name, names[i])) {
            out->has_protocol = true;
            out->protocol = (uint8_t)i;
            return NULL;
        }
    }
    return "Invalid protocol, not auto, ascii or binary";
}

static const char *set_tag(struct listen_address *out, struct span tag)
{
    if (tag.len == 0 || tag.len >= sizeof(out->tag)) {
        return "Invalid tag, not 1 to 31 bytes";
    }
    memcpy(out->tag, tag.ptr, tag.len);
    return NULL;
}

/* The last of two would be what counts, and one lets in who the other does not. */
static const char *set_verify(struct listen_address *out, enum tls_verify verify)
{
    if (out->verify != TLS_VERIFY_BY_MODE && out->verify != verify) {
        return "btls: or mtls:, not both";
    }
    out->verify = verify;
    return NULL;
}

/* Take memcached's prefixes, in any order. Returns what is wrong, or NULL. */
static const char *take_prefixes(struct span *s, struct listen_address *out)
{
    const char *error = NULL;

    while (error == NULL) {
        struct span x;

        if (starts_with(*s, "notls:")) {
            out->is_plain = true;
            *s = span_after(*s, 6);
        } else if (starts_with(*s, "btls:")) {
            error = set_verify(out, TLS_VERIFY_NONE);
            *s = span_after(*s, 5);
        } else if (starts_with(*s, "mtls:")) {
            error = set_verify(out, TLS_VERIFY_REQUIRE);
            *s = span_after(*s, 5);
        } else if (starts_with(*s, "proxied:")) {
            out->is_proxied = true;
            *s = span_after(*s, 8);
        } else if (take_bracket(s, "proto[", ']', &x, &error)) {
            error = set_protocol(out, x);
        } else if (take_bracket(s, "tag[", ']', &x, &error) ||
                   take_bracket(s, "tag_", '_', &x, &error)) {
            error = set_tag(out, x);
        } else {
            break;
        }
    }
    return error;
}

static const char *set_host(struct listen_address *out, struct span host)
{
    if (host.len >= sizeof(out->host)) {
        return "name too long";
    }
    if (!span_is(host, "*")) {
        memcpy(out->host, host.ptr, host.len);
        out->host[host.len] = '\0';
    }
    return NULL;
}

static const char *set_port(struct listen_address *out, struct span port)
{
    uint32_t number;

    if (num_u32(port, &number) != MF_OK || number > 65535) {
        return "Invalid port number";
    }
    out->has_port = true;
    out->port = number;
    return NULL;
}

const char *listen_address_parse(struct span text, struct listen_address *out)
{
    struct span host;
    struct span rest;
    const char *end;

    memset(out, 0, sizeof(*out));
    const char *error = take_prefixes(&text, out);
    if (error != NULL) {
        return error;
    }
    if (text.len == 0) {
        return "empty address";
    }
    if (text.ptr[0] == '[') {
        end = memchr(text.ptr, ']', text.len);
        if (end == NULL) {
            return "Invalid IPV6 address";
        }
        host = span_of(text.ptr + 1, (size_t)(end - text.ptr) - 1);
        rest = span_after(text, host.len + 2);
        if (rest.len > 0 && rest.ptr[0] != ':') {
            return "Invalid IPV6 address";
        }
    } else {
        end = memchr(text.ptr, ':', text.len);
        if (end != NULL &&
            memchr(end + 1, ':', text.len - (size_t)(end + 1 - text.ptr)) != NULL) {
            /* More than one colon: a v6 address without a port. */
            end = NULL;
        }
        host = span_of(text.ptr, end != NULL ? (size_t)(end - text.ptr) : text.len);
        rest = span_after(text, host.len);
    }
    error = set_host(out, host);
    if (error == NULL && rest.len > 0) {
        error = set_port(out, span_after(rest, 1));
    }
    return error;
}

bool listen_address_next(const char **at, struct span *text)
{
    *at += strspn(*at, LIST_SEPARATORS);
    *text = span_of(*at, strcspn(*at, LIST_SEPARATORS));
    *at += text->len;
    return text->len > 0;
}
