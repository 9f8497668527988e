/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto/ translates the protocols: it parses bytes to requests, and writes outcomes as bytes.
 *
 *     request, reply      what every parser fills in; the fixed replies
 *     *_parse, *_compose  parsers and writers of the text, meta and binary protocols
 *     expiry_parse        text commands that memcached does not have
 *     text_auth           the one text command before authentication
 *     udp                 the frame at the beginning of a datagram
 *     words, encode       words and numbers of a line; keys made printable, and back
 *     *.def               the tables of commands, opcodes and replies
 *
 * The folder knows nothing of connections, threads or the engine. It allocates nothing, keeps
 * no state between calls, and writes only to buffers of the caller, so every function may be
 * called on any thread and every parser can be fuzzed as it is. Of lib/ it includes check.h,
 * err.h, num.h and span.h of lib/base/ (tests/check_layering.sh).
 *
 * This header defines a request: parsers fill it in, executors read it. Its spans are borrowed
 * from the input buffer, so it is valid as long as the buffer is.
 */
#ifndef MAYFLY_PROTO_REQUEST_H
#define MAYFLY_PROTO_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

/* Longest key of any protocol, in bytes. */
#define REQUEST_KEY_MAX 250

enum command {
    CMD_NONE,
#define COMMAND(id, ...) CMD_##id,
#include "proto/command.def"
#undef COMMAND
    CMD_COUNT
};

enum command_kind {
#define KIND(id, ...) KIND_##id,
#include "proto/kinds.def"
#undef KIND
    KIND_COUNT
};

/* Classes: which fields of a request are set, and which family of handlers executes it. */
enum command_class {
    CLASS_GET,   /* get gets gat gats: key, more keys */
    CLASS_STORE, /* a value follows the line */
    CLASS_DELETE,
    CLASS_ARITH,
    CLASS_TOUCH,
    CLASS_META,     /* key; args with the flags: proto/meta_parse.h */
    CLASS_DEADLINE, /* key, exptime, conditions: proto/expiry_parse.h */
    CLASS_TTL,      /* key */
    CLASS_UNLINK,   /* key, more keys */
    /* Binary protocol; which fields are set depends on the opcode. */
    CLASS_BINARY,
    /*
     * Executed outside a section (read-side critical section); in the text protocol with args.
     */
    CLASS_ADMIN,
    CLASS_BINARY_ADMIN,
    /*
     * A refused request of any other class: the client lacks the rights (`refusal` has the
     * reply), or the parser returned PARSE_REPLY and that was answered. Parsers do not set
     * these.
     */
    CLASS_REFUSED,
    CLASS_BINARY_REFUSED,
};

/* The rights that a command requires, as a set. */
enum command_needs {
    NEED_NOTHING = 0,
    NEED_READ = 1 << 0,
    NEED_WRITE = 1 << 1,
    NEED_ADMIN = 1 << 2,     /* commands of operators */
    NEED_REPLICATE = 1 << 4, /* commands of replicas */
};

/*
 * The command with this name; CMD_NONE when there is none. Names are compared byte by byte:
 * commands are lower case. Context: any thread.
 */
enum command command_find(struct span name);

/* The name of a command; empty for CMD_NONE and invalid numbers. Context: any thread. */
struct span command_name(enum command command);

/* The class of a command. Context: any thread. */
enum command_class command_class_of(enum command command);

/* By enum command: its enum command_kind. */
extern const uint8_t command_kinds[CMD_COUNT];

/* The name of a kind. Context: any thread. */
const char *command_kind_name(enum command_kind kind);

/* The rights that each use of a command requires: enum command_needs. Context: any thread. */
uint8_t command_needs(enum command command);

/* Is it a command that memcached does not have? Context: any thread. */
bool command_is_extension(enum command command);

/* Which items get a new deadline: a set of conditions, all of which must hold. */
enum deadline_only {
    ONLY_ENDLESS = 1 << 0,  /* NX: items without a deadline */
    ONLY_VOLATILE = 1 << 1, /* XX: items with a deadline */
    ONLY_LATER = 1 << 2,    /* GT: the old deadline is earlier; no deadline is the latest */
    ONLY_EARLIER = 1 << 3,  /* LT: the old deadline is later */
};

/* Result of parsing the front of the input. The comments of each parser say more. */
enum parse_status {
    /* *used bytes are one whole request. */
    PARSE_OK,
    /* The input ends inside a request: keep it and read on. */
    PARSE_MORE,
    /* *used bytes announce a value, which has not arrived as a whole yet. */
    PARSE_BODY,
    /* The request cannot be executed: answer *reply unless the client asked for no reply, drop
     * *used bytes, then swallow req->value_len more as they arrive. It has a key only if its
     * line was good and its value was not. */
    PARSE_REPLY,
    /* Answer *reply if there is one, and close the connection. */
    PARSE_CLOSE,
};

_Static_assert(CMD_COUNT <= UINT8_MAX, "a request keeps its command in a byte");

/* A field that the command does not use is empty. */
struct request {
    uint64_t hash;     /* of key; set by the executor's batching, not by the parser */
    struct span key;   /* the first key, at most REQUEST_KEY_MAX bytes; len 0: none */
    struct span value; /* store: the bytes, when all of them are in the buffer */
    size_t value_len;  /* store: announced bytes, without the line end */
    /* As sent: seconds; flush_all: delay, 0 when none was sent. CLASS_DEADLINE: in ms. */
    int64_t exptime;
    uint32_t flags;  /* CLASS_DEADLINE: set of enum deadline_only */
    uint8_t command; /* enum command */
    uint8_t cls;     /* enum command_class */
    bool noreply;
    bool invalidate; /* with PARSE_REPLY: the store failed, drop the key's old value */
    union {
        uint64_t cas;     /* cas, and all of the binary protocol: the unique to compare with */
        uint64_t letters; /* meta: the set of the letters of its flags */
        uint64_t amount;  /* verbosity: the level; cache_memlimit: megabytes */
        uint64_t refusal; /* CLASS_REFUSED: an enum reply */
    };
    union {
        struct span more; /* get family: the line after the first key; len 0: no more keys */
        struct {
            uint64_t delta;
            uint64_t initial; /* binary protocol only */
        } number;             /* incr, decr */
    };
    struct span
        args;        /* admin: what follows the name of the command; meta: the flags; trimmed */
    bool wants_cas;  /* gets, gats */
    uint8_t opcode;  /* binary */
    uint32_t opaque; /* binary: the reply repeats it */
};

/*
 * The rights that this request requires: those of its command, and NEED_WRITE for a meta get
 * with T or N. Context: any thread.
 */
uint8_t request_needs(const struct request *req);

/* Is it of the binary protocol? Context: any thread. */
static inline bool request_is_binary(const struct request *req)
{
    return req->cls == CLASS_BINARY || req->cls == CLASS_BINARY_ADMIN ||
           req->cls == CLASS_BINARY_REFUSED;
}

/* Bytes that end a value on the wire: its line end. Context: any thread. */
static inline size_t request_value_end(const struct request *req)
{
    return req->cls == CLASS_BINARY ? 0 : 2;
}

#endif
