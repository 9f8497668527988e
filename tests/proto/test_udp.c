/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame of a datagram.
 */
#include "proto/udp.h"

#include "tests/common/unit.h"

TEST(frame_is_in_network_order)
{
    struct udp_frame frame = {.id = 0x1234, .seq = 2, .total = 0x0103};
    char bytes[UDP_FRAME_BYTES];

    memset(bytes, 0x55, sizeof(bytes));
    udp_frame_write(bytes, &frame);
    ck_assert_mem_eq(bytes, "\x12\x34\x00\x02\x01\x03\x00\x00", 8);
}

TEST(frames_are_read_as_written)
{
    for (unsigned i = 0; i < 65536; i += 257) {
        struct udp_frame in = {
            .id = (uint16_t)i, .seq = (uint16_t)(i * 7), .total = (uint16_t)~i};
        struct udp_frame out;
        struct span payload;
        char bytes[UDP_FRAME_BYTES + 3] = "........abc";

        udp_frame_write(bytes, &in);
        ck_assert(udp_frame_read(span_of(bytes, sizeof(bytes)), &out, &payload));
        ck_assert(out.id == in.id && out.seq == in.seq && out.total == in.total);
        ck_assert(span_is(payload, "abc"));
    }
}

TEST(short_datagram_has_no_frame)
{
    char bytes[UDP_FRAME_BYTES] = {0};
    struct udp_frame frame;
    struct span payload;

    for (size_t n = 0; n < UDP_FRAME_BYTES; n++) {
        ck_assert(!udp_frame_read(span_of(bytes, n), &frame, &payload));
    }
    ck_assert(udp_frame_read(span_of(bytes, UDP_FRAME_BYTES), &frame, &payload));
    ck_assert_uint_eq(payload.len, 0);
}

TEST(datagrams_of_a_reply)
{
    ck_assert_uint_eq(udp_datagrams(1), 1);
    ck_assert_uint_eq(udp_datagrams(UDP_PAYLOAD_MAX), 1);
    ck_assert_uint_eq(udp_datagrams(UDP_PAYLOAD_MAX + 1), 2);
    ck_assert_uint_eq(udp_datagrams(10 * UDP_PAYLOAD_MAX), 10);
}
