/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of the binary protocol for tests, byte by byte: it shares no code with what it tests.
 */
#ifndef MAYFLY_TESTS_PROTO_BIN_FRAMES_H
#define MAYFLY_TESTS_PROTO_BIN_FRAMES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A frame. Its says_ lengths are 0 to announce the true ones, or SAYS() to announce others. */
struct frame {
    int magic;
    int opcode;
    const char *extras;
    size_t extras_len;
    const char *key;
    size_t key_len;
    const char *value;
    size_t value_len;
    int64_t says_extras;
    int64_t says_key;
    int64_t says_body;
    uint16_t status; /* or virtual bucket */
    uint8_t datatype;
    uint32_t opaque;
    uint64_t cas;
};

#define FRAME(op, ...)                                                                         \
    ((struct frame){.magic = 0x80, .opcode = (op), .opaque = 0xdeadbeef, __VA_ARGS__})

/* A length that a header claims. */
#define SAYS(n) ((int64_t)(n) + 1)

/* A literal with its length, NULs included. */
#define EXTRAS(text) .extras = (text), .extras_len = sizeof(text) - 1
#define KEY(text)    .key = (text), .key_len = sizeof(text) - 1
#define VALUE(text)  .value = (text), .value_len = sizeof(text) - 1

static inline void frame_put(char *out, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (char)(number >> 8 * (bytes - 1 - i));
    }
}

/* The bytes of a frame; the caller frees them. */
static inline char *frame_bytes(const struct frame *f, size_t *len)
{
    size_t body = f->extras_len + f->key_len + f->value_len;
    char *out = calloc(1, 24 + body);
    char *p = out + 24;

    if (out == NULL) {
        abort();
    }
    out[0] = (char)f->magic;
    out[1] = (char)f->opcode;
    frame_put(out + 2, f->says_key > 0 ? (uint64_t)f->says_key - 1 : f->key_len, 2);
    frame_put(out + 4, f->says_extras > 0 ? (uint64_t)f->says_extras - 1 : f->extras_len, 1);
    frame_put(out + 5, f->datatype, 1);
    frame_put(out + 6, f->status, 2);
    frame_put(out + 8, f->says_body > 0 ? (uint64_t)f->says_body - 1 : body, 4);
    frame_put(out + 12, f->opaque, 4);
    frame_put(out + 16, f->cas, 8);
    if (f->extras_len > 0) {
        memcpy(p, f->extras, f->extras_len);
    }
    p += f->extras_len;
    if (f->key_len > 0) {
        memcpy(p, f->key, f->key_len);
    }
    p += f->key_len;
    if (f->value_len > 0) {
        memcpy(p, f->value, f->value_len);
    }
    *len = 24 + body;
    return out;
}

#endif
