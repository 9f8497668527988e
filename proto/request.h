/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What was asked. Spans point into the input buffer. Filled in by the parsers, read by
 * the executors.
 */
#ifndef MAYFLY_PROTO_REQUEST_H
#define MAYFLY_PROTO_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

enum command {
    CMD_NONE,
#define COMMAND(id, ...) CMD_##id,
#include "proto/command.def"
#undef COMMAND
    CMD_COUNT
};

/* Classes: which fields of a request are set, and which handler family runs it. */
enum command_class {
    CLASS_GET,   /* get gets gat gats: key, more keys */
    CLASS_STORE, /* a value follows */
    CLASS_DELETE,
    CLASS_ARITH,
    CLASS_TOUCH,
    CLASS_ADMIN, /* args */
    CLASS_META,  /* key, args: the flags; proto/meta.h */
    /* Binary protocol; what is set depends on opcode. */
    CLASS_BINARY,
    CLASS_BINARY_ADMIN, /* the same, to be run where CLASS_ADMIN is */
};

/*
 * The command of a name, CMD_NONE when there is none. Names are compared byte by byte: commands
 * are lower case. Context: any thread.
 */
enum command command_find(struct span name);

/* The name and the class of a command; an empty name for CMD_NONE. Context: any thread. */
struct span command_name(enum command command);
enum command_class command_class_of(enum command command);

/* A field that the command has no use for is empty. */
struct request {
    uint64_t hash;     /* of key; set by the executor's batching, not by the parser */
    struct span key;   /* the first key; len 0: none */
    struct span value; /* store: the bytes, when they are all in the buffer */
    size_t value_len;  /* store: announced bytes, without line end */
    int64_t exptime;   /* as sent: seconds; flush_all: delay, 0 when none was sent */
    uint32_t flags;
    uint8_t command; /* enum command */
    uint8_t cls;     /* enum command_class */
    bool noreply;
    bool invalidate; /* with PARSE_REPLY: the store failed, drop the key's old value */
    /* cas unique; arith: delta; verbosity, cache_memlimit: the number; meta: set of flags */
    uint64_t cas;
    union {
        struct span more; /* get family: the line behind the first key; len 0: no more keys */
        struct {
            uint64_t delta;
            uint64_t initial;
        } number; /* binary incr, decr */
    };
    struct span args; /* admin: what follows the command's name, meta: the flags; trimmed */
    bool wants_cas;   /* gets, gats */
    uint8_t opcode;   /* binary */
    uint32_t opaque;  /* binary: comes back in the answer */
};

/* Bytes that end a value on the wire: its line end. Context: any thread. */
static inline size_t request_value_end(const struct request *req)
{
    return req->cls == CLASS_BINARY ? 0 : 2;
}

#endif
