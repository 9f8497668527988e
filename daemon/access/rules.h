/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access rules: the rules of a file (--access), and what they grant to a client. Nothing here
 * reads files or logs; access.h does that, and gives the table to the workers.
 *
 *     # a comment
 *     user app1 read,write prefix=app1: prefix=shared:
 *     certificate "Build Machine 7" read
 *     listener public read
 *     default read,write
 *
 * A line has a kind, a name, rights, and their limits. The rights are a list of read, write,
 * admin (which includes replicate) and replicate, or all, or none. Words are separated by
 * blanks. A part of a word may be quoted by "", and then have any byte, also as \", \\ and
 * \xHH. Each kind and name may occur once.
 */
#ifndef MAYFLY_DAEMON_ACCESS_RULES_H
#define MAYFLY_DAEMON_ACCESS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

/* ---- rights.c ---------------------------------------------------------------------------- */

/*
 * The rights of a client, as bits. A listening socket grants them to connections that it
 * accepts (daemon/net/origin.h), and a connection starts with these (struct client).
 */

enum {
    RIGHT_READ = 1u << 0,   /* commands that change nothing */
    RIGHT_WRITE = 1u << 1,  /* commands that change items */
    RIGHT_ADMIN = 1u << 2,  /* commands of the operator that memcached has for every client */
    RIGHT_CONFIG = 1u << 3, /* commands reserved for operators, which show and change options */
    RIGHT_REPLICATE = 1u << 4, /* commands of replicas, which are sent all items */
};

/* The rights of every client unless a rule says otherwise, as with memcached. */
#define RIGHTS_ORDINARY ((uint8_t)(RIGHT_READ | RIGHT_WRITE | RIGHT_ADMIN | RIGHT_REPLICATE))

/* The rights of an operator, over the control socket or where they were granted. */
#define RIGHTS_OPERATOR ((uint8_t)(RIGHTS_ORDINARY | RIGHT_CONFIG))

/* ---- rules.c ----------------------------------------------------------------------------- */

/* Most prefixes of a rule; longest prefix, as a key, and longest line and file, bytes. */
#define RULES_PREFIXES_MAX 8u
#define RULES_PREFIX_BYTES 250u
#define RULES_LINE_MAX     4096u
#define RULES_FILE_MAX     (1u << 20)

/* Something is wrong with a line. */
typedef void (*rules_complain_fn)(void *arg, unsigned line, const char *why);

/*
 * Make a table from a text. NULL: the text has errors, and fn was called for each of them; line
 * 0 means the text as a whole. Context: any thread.
 */
struct rules *rules_create(struct span text, rules_complain_fn fn, void *arg);

/* Release it; accepts NULL. Context: any thread. */
void rules_destroy(struct rules *rules);

/* A number that no other table of the process has; not 0. Context: any thread. */
uint32_t rules_generation(const struct rules *rules);

/* The number of rules. Context: any thread. */
size_t rules_count(const struct rules *rules);

/* Call fn for each listener that is named. Context: any thread. */
void rules_each_listener(const struct rules *rules,
                         void (*fn)(void *arg, struct span name, unsigned line), void *arg);

/* No rule: of grant.rule. */
#define RULES_NONE ((uint32_t)INT32_MAX)

/* The rights of a client. */
struct grant {
    uint8_t rights;   /* RIGHT_READ and others */
    bool is_explicit; /* a rule grants it, not only the default of the server */
    uint32_t rule;    /* the rule whose prefixes limit its keys; RULES_NONE: none */
};

/*
 * The first rule in the file for a certificate with this name, or `best` if that rule is
 * earlier. For a certificate with several names, call it for each with the previous result,
 * beginning with RULES_NONE. Context: any thread.
 */
uint32_t rules_find_certificate(const struct rules *rules, struct span name, uint32_t best);

/*
 * The rights of a client. They depend on its user (empty: not logged in), the rule of its
 * certificate (RULES_NONE: there is none) and the name of its listener. The rule of a user
 * takes precedence over that of a certificate. A client with neither gets what the rule of its
 * listener grants, else the default. A rule for the listener is also the upper bound of all
 * rights. Without any rule the result is `otherwise`.
 *
 * RIGHT_CONFIG allows more than memcached's commands do. It is granted by admin only if both
 * the listener and the user or certificate have admin. Context: any thread.
 */
struct grant rules_grant(const struct rules *rules, struct span user, uint32_t certificate,
                         struct span listener, uint8_t otherwise);

/* May a client of this grant use the key? Context: any thread. */
bool rules_allow_key(const struct rules *rules, uint32_t rule, struct span key);

#endif
