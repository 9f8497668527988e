/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON (RFC 8259) as it is written: names and values one after another, commas and quotes by
 * themselves. Whatever the bytes are, the output is valid: what is not UTF-8 in a text becomes
 * U+FFFD; where bytes matter, json_bytes() gives them in base64.
 */
#ifndef MAYFLY_CTL_JSON_H
#define MAYFLY_CTL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/span.h"

#define JSON_DEPTH_MAX 8

struct json {
    FILE *out; /* [borrowed] */
    unsigned depth;
    bool has_some[JSON_DEPTH_MAX + 1]; /* at each depth: a comma goes before the next */
    bool is_named;                     /* the name of what comes next is written */
    bool is_line;                      /* all of it on one line */
};

void json_init(struct json *j, FILE *out);

/* The same for one object on each line. */
void json_init_lines(struct json *j, FILE *out);

/* Begin and end an object '{' or an array '['. */
void json_begin(struct json *j, char kind);
void json_end(struct json *j, char kind);

/* The name of what comes next, in an object. */
void json_name(struct json *j, const char *name);
void json_name_of(struct json *j, struct span name);

void json_text(struct json *j, struct span s);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_unsigned_or_null(struct json *j, int64_t v); /* null, if it is negative */
void json_double(struct json *j, double v);            /* null, unless it is finite */
void json_bool(struct json *j, bool v);
void json_null(struct json *j);

/* A value of statistics: a number where it is one as JSON writes numbers, else a text. */
void json_scalar(struct json *j, struct span s);

/*
 * Two members in one: "name": text if the bytes are UTF-8, else "name_base64": their base64.
 * False: no memory; then neither.
 */
bool json_bytes(struct json *j, const char *name, struct span s);

#endif
