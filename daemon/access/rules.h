/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may what: the rules of a file (--access), and what they grant to one client. Nothing here
 * reads files or logs; access.h does that, and gives the table to the workers.
 *
 *     # a comment
 *     user app1 read,write prefix=app1: prefix=shared:
 *     certificate "Build Machine 7" read
 *     listener public read
 *     default read,write
 *
 * A line is a kind, a name, rights, and what limits them. The rights are read, write, admin,
 * which has replicate in it, and replicate, in a list, all, or none. Words are separated by
 * blanks; a part of a word within "" may have any byte: \" \\ and \xHH stand for one. Each kind
 * and name may be there once.
 */
#ifndef MAYFLY_DAEMON_ACCESS_RULES_H
#define MAYFLY_DAEMON_ACCESS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/access/rights.h"
#include "lib/base/span.h"

/* Most prefixes of a rule; longest prefix, as a key, and longest line and file, bytes. */
#define RULES_PREFIXES_MAX 8u
#define RULES_PREFIX_BYTES 250u
#define RULES_LINE_MAX     4096u
#define RULES_FILE_MAX     (1u << 20)

struct rules;

/* Something is wrong with a line. */
typedef void (*rules_complain_fn)(void *arg, unsigned line, const char *why);

/*
 * Make a table of a text. NULL: something is wrong, and fn was told of all of it; line 0 stands
 * for the text as a whole. Context: any thread.
 */
struct rules *rules_create(struct span text, rules_complain_fn fn, void *arg);

/* Release it; accepts NULL. Context: any thread. */
void rules_destroy(struct rules *rules);

/* A number that no other table of the process has; not 0. Context: any thread. */
uint32_t rules_generation(const struct rules *rules);

/* The number of rules. Context: any thread. */
size_t rules_count(const struct rules *rules);

/* Tell fn of each listener that is named. Context: any thread. */
void rules_each_listener(const struct rules *rules,
                         void (*fn)(void *arg, struct span name, unsigned line), void *arg);

/* No rule: of grant.rule. */
#define RULES_NONE ((uint32_t)INT32_MAX)

/* What a client may do. */
struct grant {
    uint8_t rights;   /* RIGHT_READ and others */
    bool is_explicit; /* a rule says so, and not only the default of the server */
    uint32_t rule;    /* whose prefixes limit its keys; RULES_NONE: none do */
};

/*
 * The first rule in the file, of those for certificates, whose name is this one: returns it, or
 * best if that comes first. Begin with RULES_NONE. Context: any thread.
 */
uint32_t rules_find_certificate(const struct rules *rules, struct span name, uint32_t best);

/*
 * What a client may: by its user (empty: it has not said), by the rule of its certificate
 * (RULES_NONE: there is none) and by the name of its listener. The rule of a user counts before
 * that of a certificate; who has neither gets what its listener grants, and without a rule for
 * that the default. Nobody gets more than a rule for the listener grants. Without any of them
 * it is `otherwise`.
 *
 * RIGHT_CONFIG, which stands for more than memcached's commands, is granted by admin only where
 * both the listener and the user or certificate have it. Context: any thread.
 */
struct grant rules_grant(const struct rules *rules, struct span user, uint32_t certificate,
                         struct span listener, uint8_t otherwise);

/* May a client of this grant use the key? Context: any thread. */
bool rules_allow_key(const struct rules *rules, uint32_t rule, struct span key);

#endif
