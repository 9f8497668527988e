/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/answer.h"

#include <string.h>

#include "lib/base/num.h"
#include "proto/encode.h"

bool answer_is_error(struct span line)
{
    struct span first = span_word(&line);

    /* memcached ends some first words with a colon. */
    first.len -= first.len > 0 && first.ptr[first.len - 1] == ':';
    return span_is(first, "ERROR") || span_is(first, "CLIENT_ERROR") ||
           span_is(first, "SERVER_ERROR");
}

bool answer_is_end(struct span line)
{
    return span_is(line, "END") || span_is(line, "OK") || span_is(line, "RESET");
}

bool answer_pair(struct span line, const char *first, struct span *name, struct span *value)
{
    if (!span_is(span_word(&line), first)) {
        return false;
    }
    *name = span_word(&line);
    if (line.len > 0) { /* skip one space after the name */
        line = span_of(line.ptr + 1, line.len - 1);
    }
    *value = line;
    return name->len > 0;
}

bool answer_field(struct span *line, struct span *name, struct span *value)
{
    struct span word = span_word(line);

    if (!span_split(word, '=', name, value)) { /* a value without a name */
        *value = word;
        name->len = 0;
    }
    return word.len > 0;
}

static bool take_meta_flag(struct meta_answer *m, struct span flag)
{
    struct span rest = span_of(flag.ptr + 1, flag.len - 1);
    uint64_t number;

    switch (flag.ptr[0]) {
    case 't':
        m->has_ttl = true;
        return num_i64(rest, &m->ttl_s) == MF_OK;
    case 'f':
        return num_u64(rest, &m->flags) == MF_OK;
    case 'c':
        return num_u64(rest, &m->cas) == MF_OK;
    case 'l':
        return num_u64(rest, &m->last_s) == MF_OK;
    case 'h':
        if (num_u64(rest, &number) != MF_OK) {
            return false;
        }
        m->was_hit = number != 0;
        return true;
    case 'X':
        m->is_stale = true;
        return true;
    default:
        return true; /* k, b, O, s, W, Z: flags that are not asked for */
    }
}

bool answer_meta(struct span line, struct meta_answer *m)
{
    struct span code = span_word(&line);
    struct span flag;

    memset(m, 0, sizeof(*m));
    if (code.len != 2) {
        return false;
    }
    memcpy(m->code, code.ptr, 2);
    if (span_is(code, "VA") && num_u64(span_word(&line), &m->value_len) != MF_OK) {
        return false;
    }
    while ((flag = span_word(&line)).len > 0) {
        if (!take_meta_flag(m, flag)) {
            return false;
        }
    }
    return true;
}

bool answer_uri(char *out, size_t room, size_t *len, struct span text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (n == room) {
            return false;
        }
        if (c == '%') {
            const int byte = i + 2 < text.len ? num_hex_byte(text.ptr + i + 1) : -1;

            if (byte < 0) {
                return false;
            }
            c = (char)byte;
            i += 2;
        }
        out[n++] = c;
    }
    *len = n;
    return true;
}

bool answer_dump_item(struct span line, struct dump_item *item)
{
    struct span name, value;
    bool is_ok = true;
    bool has_key = false;

    memset(item, 0, sizeof(*item));
    item->deadline_s = -1;
    while (is_ok && answer_field(&line, &name, &value)) {
        if (span_is(name, "key")) {
            is_ok = answer_uri(item->key, sizeof(item->key), &item->key_len, value);
            has_key = item->key_len > 0;
        } else if (span_is(name, "exp")) {
            is_ok = num_i64(value, &item->deadline_s) == MF_OK;
        } else if (span_is(name, "la")) {
            is_ok = num_i64(value, &item->access_s) == MF_OK;
        } else if (span_is(name, "cas")) {
            is_ok = num_u64(value, &item->cas) == MF_OK;
        } else if (span_is(name, "size")) {
            is_ok = num_u64(value, &item->size) == MF_OK;
        } else if (span_is(name, "flags")) {
            is_ok = num_u64(value, &item->flags) == MF_OK;
        } else if (span_is(name, "fetch")) {
            item->was_fetched = span_is(value, "yes");
        }
    }
    return is_ok && has_key;
}

bool answer_dump_key(struct span line, struct dump_item *item)
{
    struct span first = span_word(&line);
    struct span key = span_word(&line);
    struct span flag = span_word(&line);

    memset(item, 0, sizeof(*item));
    item->deadline_s = -1;
    if (!span_is(first, "mg") || key.len == 0 || key.len > sizeof(item->key)) {
        return false;
    }
    if (span_is(flag, "b")) {
        return decode_base64(item->key, &item->key_len, key) && item->key_len > 0;
    }
    memcpy(item->key, key.ptr, key.len);
    item->key_len = key.len;
    return flag.len == 0;
}
