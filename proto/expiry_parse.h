/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses commands of the text protocol that are taken from Redis: those that set deadlines or
 * ask for them, and unlink. memcached has none of these commands.
 */
#ifndef MAYFLY_PROTO_EXPIRY_PARSE_H
#define MAYFLY_PROTO_EXPIRY_PARSE_H

#include "proto/reply.h"
#include "proto/request.h"
#include "proto/words.h"

/* Most milliseconds between a deadline and now, or 1970; times farther away are refused. */
#define EXPIRY_MS_MAX (INT64_MAX / 4)

/* The same limit for storage commands, in seconds. */
#define EXPTIME_MAX (EXPIRY_MS_MAX / 1000)

/*
 * Parse a line of CLASS_DEADLINE, CLASS_TTL or CLASS_UNLINK, without its end, to a request
 * whose command is set; args are its words after the name.
 *
 *     expire|pexpire|expireat|pexpireat key time [NX|XX|GT|LT ...] [noreply]
 *         exptime has the time in milliseconds, flags the conditions
 *     persist key [noreply]
 *     ttl|pttl|expiretime|pexpiretime key
 *     unlink key [key ...] [noreply]
 *         more has the line after the first key, without noreply
 *
 * Returns REPLY_NONE, or why it cannot be executed. Context: any thread.
 */
enum reply expiry_parse(const struct args *args, struct request *req);

#endif
