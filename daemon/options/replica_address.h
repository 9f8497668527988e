/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the address of the server that a replica follows: the value of the option replicaof,
 * also as several words of `config set`.
 *
 *     HOST PORT    HOST:PORT    [IPV6]:PORT    no    no one
 */
#ifndef MAYFLY_DAEMON_OPTIONS_REPLICA_ADDRESS_H
#define MAYFLY_DAEMON_OPTIONS_REPLICA_ADDRESS_H

#include <stdbool.h>

/* Room for a name or address, and for the digits of a port, with the NUL at their ends. */
#define REPLICA_HOST_BYTES 256
#define REPLICA_PORT_BYTES 6

/*
 * Split the text into host, without brackets, and port, 1 to 65535 without leading zeros. host
 * and port are empty where the text means none: "", "no" or "no one". The host is not resolved.
 * Returns false on an error: *why is a constant message. Context: any thread.
 */
bool replica_address_parse(const char *text, char host[REPLICA_HOST_BYTES],
                           char port[REPLICA_PORT_BYTES], const char **why);

/* HOST:PORT of such a text, with brackets where a host needs them. "": it means none. */
#define REPLICA_ADDRESS_BYTES (REPLICA_HOST_BYTES + REPLICA_PORT_BYTES + 3)
void replica_address_join(const char *text, char out[REPLICA_ADDRESS_BYTES]);

/* Does the text mean none? Context: any thread. */
bool replica_address_is_none(const char *text);

/*
 * Are these two words one value: a host and a port, or "no one"? For commands where blanks
 * separate words. Context: any thread.
 */
bool replica_address_has_two_words(const char *word, const char *next);

#endif
