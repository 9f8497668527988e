/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of a datagram. Any thread.
 */
#include "proto/udp.h"

#include <endian.h>
#include <string.h>

static uint16_t get16(const char *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return be16toh(v);
}

static void put16(char *p, uint16_t v)
{
    uint16_t be = htobe16(v);

    memcpy(p, &be, sizeof(be));
}

bool udp_frame_read(struct span datagram, struct udp_frame *frame, struct span *payload)
{
    if (datagram.len < UDP_FRAME_BYTES) {
        return false;
    }
    frame->id = get16(datagram.ptr);
    frame->seq = get16(datagram.ptr + 2);
    frame->total = get16(datagram.ptr + 4);
    *payload = span_of(datagram.ptr + UDP_FRAME_BYTES, datagram.len - UDP_FRAME_BYTES);
    return true;
}

void udp_frame_write(char *out, const struct udp_frame *frame)
{
    put16(out, frame->id);
    put16(out + 2, frame->seq);
    put16(out + 4, frame->total);
    put16(out + 6, 0);
}
