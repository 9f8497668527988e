/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A writer of JSON (RFC 8259): names and values one after another; commas and quotes are added.
 * The output is valid for any bytes: in a text, bytes that are not UTF-8 become U+FFFD. Where
 * bytes matter, json_bytes() writes them in base64.
 */
#ifndef MAYFLY_CTL_JSON_H
#define MAYFLY_CTL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/span.h"

#define JSON_DEPTH_MAX 8

struct json {
    FILE *out; /* [borrowed] NULL: nothing is written */
    unsigned depth;
    bool has_some[JSON_DEPTH_MAX + 1]; /* at each depth: a comma goes before the next */
    bool is_named;                     /* the name of the next value is written */
    bool is_line;                      /* all of it on one line */
};

/* out NULL: nothing is written, so that code which prints text or JSON needs no condition. */
void json_init(struct json *j, FILE *out);

/* The same for one object on each line. */
void json_init_lines(struct json *j, FILE *out);

/* Write the name of the next value in an object, if the name is no constant. */
void json_name(struct json *j, struct span name);

/*
 * Begin and end an object '{' or an array '['; write a value. name: of a member of an object;
 * NULL: an element of an array, or a value whose name was written.
 */
void json_begin(struct json *j, const char *name, char kind);
void json_end(struct json *j, char kind);
void json_text(struct json *j, const char *name, struct span s); /* s.ptr NULL: null */
void json_u64(struct json *j, const char *name, uint64_t v);
void json_i64(struct json *j, const char *name, int64_t v);
/* none: the value that is written as null. */
void json_i64_or_null(struct json *j, const char *name, int64_t v, int64_t none);
void json_double(struct json *j, const char *name, double v); /* not finite: null */
void json_bool(struct json *j, const char *name, bool v);

/* A value of a statistic: a JSON number if it has the form of one, else a text. */
void json_scalar(struct json *j, const char *name, struct span s);
void json_pair(struct json *j, struct span name, struct span value);

/*
 * Bytes as one member: "name": text if they are UTF-8, else "name_base64": their base64. False:
 * no memory; then nothing is written.
 */
bool json_bytes(struct json *j, const char *name, struct span s);

#endif
