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

/* Before a value, or before a name. */
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

void json_begin(struct json *j, char kind)
{
    put_comma(j);
    fputc(kind, j->out);
    must(j->depth < JSON_DEPTH_MAX);
    j->has_some[++j->depth] = false;
}

void json_end(struct json *j, char kind)
{
    must(j->depth > 0 && !j->is_named);
    j->depth--;
    fputc(kind == '{' ? '}' : ']', j->out);
    if (j->depth == 0) {
        fputc('\n', j->out);
        j->has_some[0] = false;
    }
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

void json_name_of(struct json *j, struct span name)
{
    must(!j->is_named);
    put_comma(j);
    put_quoted(j, name);
    fputs(": ", j->out);
    j->is_named = true;
}

void json_name(struct json *j, const char *name)
{
    json_name_of(j, span_str(name));
}

void json_text(struct json *j, struct span s)
{
    put_comma(j);
    put_quoted(j, s);
}

void json_u64(struct json *j, uint64_t v)
{
    put_comma(j);
    fprintf(j->out, "%" PRIu64, v);
}

void json_i64(struct json *j, int64_t v)
{
    put_comma(j);
    fprintf(j->out, "%" PRId64, v);
}

void json_double(struct json *j, double v)
{
    put_comma(j);
    if (isfinite(v)) {
        fprintf(j->out, "%.10g", v);
    } else {
        fputs("null", j->out);
    }
}

void json_bool(struct json *j, bool v)
{
    put_comma(j);
    fputs(v ? "true" : "false", j->out);
}

void json_null(struct json *j)
{
    put_comma(j);
    fputs("null", j->out);
}

void json_unsigned_or_null(struct json *j, int64_t v)
{
    if (v < 0) {
        json_null(j);
    } else {
        json_i64(j, v);
    }
}

/* The digits at s; returns how many. */
static size_t digits(struct span s)
{
    size_t n = 0;

    while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9') {
        n++;
    }
    return n;
}

/* Digits, perhaps a minus before and a fraction after them, no 0 too many; 24 bytes at most. */
static bool is_number(struct span s)
{
    size_t n;

    if (s.len > 24) {
        return false;
    }
    if (s.len > 0 && s.ptr[0] == '-') {
        s = span_of(s.ptr + 1, s.len - 1);
    }
    n = digits(s);
    if (n == 0 || (n > 1 && s.ptr[0] == '0')) {
        return false;
    }
    s = span_of(s.ptr + n, s.len - n);
    return s.len == 0 ||
           (s.len > 1 && s.ptr[0] == '.' && digits(span_of(s.ptr + 1, s.len - 1)) == s.len - 1);
}

void json_scalar(struct json *j, struct span s)
{
    if (is_number(s)) {
        put_comma(j);
        fwrite(s.ptr, 1, s.len, j->out);
    } else {
        json_text(j, s);
    }
}

bool json_bytes(struct json *j, const char *name, struct span s)
{
    char long_name[64];
    char *text;

    if (utf8_is_valid(s)) {
        json_name(j, name);
        json_text(j, s);
        return true;
    }
    text = mem_alloc(ENCODE_BASE64_BYTES(s.len));
    if (text == NULL) {
        return false;
    }
    snprintf(long_name, sizeof(long_name), "%s_base64", name);
    json_name(j, long_name);
    json_text(j, span_of(text, encode_base64(text, s)));
    mem_free(text);
    return true;
}
