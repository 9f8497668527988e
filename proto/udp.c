/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of a datagram. Any thread.
 */
#include "proto/udp.h"

#include "lib/base/load.h"

bool udp_frame_read(struct span datagram, struct udp_frame *frame, struct span *payload)
{
    if (datagram.len < UDP_FRAME_BYTES) {
        return false;
    }
    frame->id = load_be16(datagram.ptr);
    frame->seq = load_be16(datagram.ptr + 2);
    frame->total = load_be16(datagram.ptr + 4);
    *payload = span_of(datagram.ptr + UDP_FRAME_BYTES, datagram.len - UDP_FRAME_BYTES);
    return true;
}

void udp_frame_write(char *out, const struct udp_frame *frame)
{
    store_be16(out, frame->id);
    store_be16(out + 2, frame->seq);
    store_be16(out + 4, frame->total);
    store_be16(out + 6, 0);
}
