/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the lines of an answer. All functions are pure. The bytes are not trusted: a function
 * returns false for a line that is not of its form. Spans that are returned lie in the line.
 */
#ifndef MAYFLY_CTL_ANSWER_H
#define MAYFLY_CTL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

/* Longest key that is taken from an answer; the protocol allows 250 bytes. */
#define ANSWER_KEY_MAX 1024

/* Is it "ERROR", "CLIENT_ERROR ..." or "SERVER_ERROR ..."? */
bool answer_is_error(struct span line);

/* Is it "END", "OK" or "RESET": the last line of an answer of statistics? */
bool answer_is_end(struct span line);

/* Parse "STAT name value"; `first` is the first word. The value may be empty or have spaces. */
bool answer_pair(struct span line, const char *first, struct span *name, struct span *value);

/*
 * Remove the next "name=value" from the front of a line; false: there is none. A word without
 * '=' is a value without a name.
 */
bool answer_field(struct span *line, struct span *name, struct span *value);

/* Decode %XX. False: the text is malformed, or longer than `room` bytes when decoded. */
bool answer_uri(char *out, size_t room, size_t *len, struct span text);

/* An answer to a meta command. */
struct meta_answer {
    char code[2];       /* HD, VA, EN, NS, ... */
    uint64_t value_len; /* of VA; else 0 */
    bool has_ttl;
    int64_t ttl_s; /* negative: no deadline */
    uint64_t flags, cas, last_s;
    bool was_hit;
    bool is_stale;
};
bool answer_meta(struct span line, struct meta_answer *m);
static inline bool answer_code_is(const struct meta_answer *m, const char *code)
{
    return m->code[0] == code[0] && m->code[1] == code[1];
}

/* A line of `lru_crawler metadump`. */
struct dump_item {
    char key[ANSWER_KEY_MAX];
    size_t key_len;
    int64_t deadline_s; /* unix; -1: none */
    int64_t access_s;   /* unix */
    uint64_t cas, size, flags;
    bool was_fetched;
};
bool answer_dump_item(struct span line, struct dump_item *item);

/* A line of `lru_crawler mgdump`: only the key is filled in. */
bool answer_dump_key(struct span line, struct dump_item *item);

#endif
