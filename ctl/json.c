/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/json.h"

#include <inttypes.h>
#include <math.h>

#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "proto/encode.h"

void json_init(struct json *j, FILE *out)
{
    *j = (struct json){.out = out};
}

void json_init_lines(struct json *j, FILE *out)
{
    *j = (struct json){.out = out, .is_line = true};
}

/* Write the comma that separates a name or a value from what is before it. */
static void put_comma(struct json *j)
{
    if (j->is_named) {
        j->is_named = false;
        return;
    }
    if (j->has_some[j->depth]) {
        fputs(j->depth == 1 && !j->is_line ? ",\n" : ", ", j->out);
    }
    j->has_some[j->depth] = true;
}

static void put_quoted(struct json *j, struct span s)
{
    fputc('"', j->out);
    while (s.len > 0) {
        char text[UTF8_JSON_MAX];
        size_t taken;

        fwrite(text, 1, utf8_to_json(s, text, &taken), j->out);
        s = span_of(s.ptr + taken, s.len - taken);
    }
    fputc('"', j->out);
}

void json_name(struct json *j, struct span name)
{
    if (j->out == NULL) {
        return;
    }
    must(!j->is_named);
    put_comma(j);
    put_quoted(j, name);
    fputs(": ", j->out);
    j->is_named = true;
}

/* Write the name of a value, or the comma before it. False: nothing is written at all. */
static bool begin_value(struct json *j, const char *name)
{
    if (j->out != NULL && name != NULL) {
        json_name(j, span_str(name));
    }
    if (j->out != NULL) {
        put_comma(j);
    }
    return j->out != NULL;
}

void json_begin(struct json *j, const char *name, char kind)
{
    if (!begin_value(j, name)) {
        return;
    }
    fputc(kind, j->out);
    must(j->depth < JSON_DEPTH_MAX);
    j->has_some[++j->depth] = false;
}

void json_end(struct json *j, char kind)
{
    if (j->out == NULL) {
        return;
    }
    must(j->depth > 0 && !j->is_named);
    j->depth--;
    fputc(kind == '{' ? '}' : ']', j->out);
    if (j->depth == 0) {
        fputc('\n', j->out);
        j->has_some[0] = false;
    }
}

void json_text(struct json *j, const char *name, struct span s)
{
    if (!begin_value(j, name)) {
        return;
    }
    if (s.ptr == NULL) {
        fputs("null", j->out);
    } else {
        put_quoted(j, s);
    }
}

#define put_value(j, name, ...)                                                                \
    do {                                                                                       \
        if (begin_value(j, name)) {                                                            \
            fprintf((j)->out, __VA_ARGS__);                                                    \
        }                                                                                      \
    } while (0)

void json_u64(struct json *j, const char *name, uint64_t v)
{
    put_value(j, name, "%" PRIu64, v);
}

void json_i64(struct json *j, const char *name, int64_t v)
{
    put_value(j, name, "%" PRId64, v);
}

void json_double(struct json *j, const char *name, double v)
{
    put_value(j, name, isfinite(v) ? "%.10g" : "null", v);
}

void json_bool(struct json *j, const char *name, bool v)
{
    put_value(j, name, "%s", v ? "true" : "false");
}

void json_i64_or_null(struct json *j, const char *name, int64_t v, int64_t none)
{
    put_value(j, name, v == none ? "null" : "%" PRId64, v);
}

/* The number of digits that s begins with. */
static size_t digits(struct span s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9') {
        n++;
    }
    return n;
}

/*
 * Is it a number of JSON without an exponent? It may have a minus and a fraction, but no
 * leading zeros, and 24 bytes at most.
 */
static bool is_number(struct span s)
{
    if (s.len > 24) {
        return false;
    }
    if (s.len > 0 && s.ptr[0] == '-') {
        s = span_of(s.ptr + 1, s.len - 1);
    }
    size_t n = digits(s);
    if (n == 0 || (n > 1 && s.ptr[0] == '0')) {
        return false;
    }
    s = span_of(s.ptr + n, s.len - n);
    return s.len == 0 ||
           (s.len > 1 && s.ptr[0] == '.' && digits(span_of(s.ptr + 1, s.len - 1)) == s.len - 1);
}

void json_scalar(struct json *j, const char *name, struct span s)
{
    if (is_number(s)) {
        put_value(j, name, "%.*s", (int)s.len, s.ptr);
    } else {
        json_text(j, name, s);
    }
}

void json_pair(struct json *j, struct span name, struct span value)
{
    json_name(j, name);
    json_scalar(j, NULL, value);
}

bool json_bytes(struct json *j, const char *name, struct span s)
{
    char long_name[64];

    if (utf8_is_valid(s)) {
        json_text(j, name, s);
        return true;
    }
    char *text = mem_alloc(ENCODE_BASE64_BYTES(s.len));
    if (text == NULL) {
        return false;
    }
    snprintf(long_name, sizeof(long_name), "%s_base64", name);
    json_text(j, long_name, span_of(text, encode_base64(text, s)));
    mem_free(text);
    return true;
}
