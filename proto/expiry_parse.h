/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing Redis's commands for expiry and unlink in the text protocol: setting deadlines, and
 * queries for them. memcached has none of these commands.
 */
#ifndef MAYFLY_PROTO_EXPIRY_PARSE_H
#define MAYFLY_PROTO_EXPIRY_PARSE_H

#include "proto/reply.h"
#include "proto/request.h"
#include "proto/words.h"

/* Times are refused that are farther from now, or from 1970, than this many milliseconds. */
#define EXPIRY_MS_MAX (INT64_MAX / 4)

/* The same of stores, in seconds: no item is stored without the deadline that was asked for. */
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
