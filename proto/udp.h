/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of memcached's UDP protocol: eight bytes before the request or reply in a datagram.
 * They are four 16-bit numbers in network order: request id, number of this datagram, number of
 * datagrams that belong together, and a reserved one.
 */
#ifndef MAYFLY_PROTO_UDP_H
#define MAYFLY_PROTO_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/span.h"

#define UDP_FRAME_BYTES 8u

/* Most bytes of a datagram of a reply, frame included: networks do not fragment it. */
#define UDP_DATAGRAM_MAX 1400u

/* Most bytes that one datagram carries after its frame. */
#define UDP_PAYLOAD_MAX (UDP_DATAGRAM_MAX - UDP_FRAME_BYTES)

struct udp_frame {
    uint16_t id;    /* chosen by the client; replies carry the same */
    uint16_t seq;   /* from 0 */
    uint16_t total; /* datagrams of this request or reply */
};

/*
 * Read the frame of a datagram; *payload is the rest of the datagram. False: too short to have
 * a frame. Context: any thread.
 */
bool udp_frame_read(struct span datagram, struct udp_frame *frame, struct span *payload);

/* Write a frame, UDP_FRAME_BYTES long. Context: any thread. */
void udp_frame_write(char *out, const struct udp_frame *frame);

/* The number of datagrams that a reply of n bytes requires. Context: any thread. */
static inline size_t udp_datagrams(size_t n)
{
    return (n + UDP_PAYLOAD_MAX - 1) / UDP_PAYLOAD_MAX;
}

#endif
