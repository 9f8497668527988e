/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a datagram as the server takes it: its frame, then requests until one does not
 * end in the datagram. What must hold for any input:
 *   - nothing outside the datagram is read;
 *   - a frame is written as it was read, except for its reserved word;
 *   - every request makes progress within the payload, and the walk ends;
 *   - a reply of any length is split into datagrams without a gap, none empty, none too long.
 */
#include "tests/fuzz/fuzz.h"

#include "proto/text_parse.h"
#include "proto/udp.h"

static void check_frame(const struct udp_frame *frame, const char *datagram)
{
    char again[UDP_FRAME_BYTES];

    udp_frame_write(again, frame);
    require(memcmp(again, datagram, UDP_FRAME_BYTES - 2) == 0);
    require(again[6] == 0 && again[7] == 0);
}

static void check_deal(size_t n)
{
    size_t count = udp_datagrams(n);
    size_t last = n - (count > 0 ? (count - 1) * UDP_PAYLOAD_MAX : 0);

    require((count == 0) == (n == 0));
    require(n == 0 || (last > 0 && last <= UDP_PAYLOAD_MAX));
}

static void walk(struct span payload)
{
    char key[TEXT_KEY_ROOM]; /* one that came as base64 */

    while (payload.len > 0) {
        char *room = key;
        struct text_limits limits = {
            .value_max = 60, .key_room = &room, .has_extensions = true};
        struct request req;
        enum reply reply;
        size_t used = 0;
        enum parse_status status =
            text_parse(payload.ptr, payload.len, &limits, &req, &used, &reply);

        if (status != PARSE_OK &&
            (status != PARSE_REPLY || req.cls == CLASS_STORE || req.command == CMD_MS)) {
            return;
        }
        require(used > 0 && used <= payload.len);
        check_deal(req.key.len * used);
        payload = span_of(payload.ptr + used, payload.len - used);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *datagram = exact_copy(data, size);
    struct udp_frame frame;
    struct span payload;

    if (udp_frame_read(span_of(datagram, size), &frame, &payload)) {
        require(payload.ptr == datagram + UDP_FRAME_BYTES &&
                payload.len == size - UDP_FRAME_BYTES);
        check_frame(&frame, datagram);
        check_deal(((size_t)frame.id << 16) + frame.total);
        walk(payload);
    } else {
        require(size < UDP_FRAME_BYTES);
    }
    free(datagram);
    return 0;
}
