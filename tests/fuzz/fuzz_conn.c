/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a client's stream of bytes to a worker, which measures latencies, slow requests
 * and hot keys while another client watches. The input is
 *   - a byte of flags (enum flag);
 *   - the lengths of the pieces in which the stream is sent, used in turn, up to a line feed: a
 *     byte each, those above 127 in steps of 512; none: it is sent as one piece;
 *   - the stream.
 * What must hold for any input:
 *   - the worker serves other clients meanwhile and afterwards;
 *   - it closes the connection once the client has ended its stream, and keeps nothing of it;
 *   - watchers and operators get printable characters only, whatever the keys are;
 *   - replies to a text stream do not depend on its pieces or on when the client reads.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "proto/text_parse.h"
#include "tests/daemon/conn/solo.h"

/* Of the first byte. */
enum flag {
    SMALL_SNDBUF = 1 << 0, /* the socket takes few replies at a time */
    READS_LATE = 1 << 1,   /* the client reads only what keeps the worker from going on */
    LEAVES = 1 << 2,       /* it closes without reading the rest of the replies */
};

/* Bytes of a stream that are sent; of a longer one, the rest is ignored. */
#define STREAM_MAX ((size_t)64 * 1024)

#define PIECE_STEP 512u

/* Pieces of a stream; more of them would take long. The last one is what is left. */
#define PIECES_MAX 200u

struct stream {
    struct span lengths;
    struct span bytes;
    unsigned flags;
};

static const struct conn_origin client_origin = {.transport = CONN_UNIX,
                                                 .rights = RIGHT_READ | RIGHT_WRITE};
static uv_loop_t main_loop;
static int admin; /* an operator */
static int watcher;

/* ---- the worker -------------------------------------------------------------------------- */

static void nothing(struct worker *w)
{
    (void)w;
}

static bool is_shown(char c)
{
    return (c >= ' ' && c <= '~') || c == '\r' || c == '\n' || c == '\t';
}

static void take_watched(void)
{
    char text[16384];
    ssize_t n;

    while ((n = recv(watcher, text, sizeof(text), MSG_DONTWAIT)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            require(is_shown(text[i]));
        }
    }
    require(n < 0 && errno == EAGAIN);
}

/* Let the worker go on for a turn of its loop, and then main. */
static void serve(void)
{
    solo_run(nothing);
    uv_run(&main_loop, UV_RUN_NOWAIT);
    take_watched();
}

static void put(int fd, const char *bytes, size_t n)
{
    require(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

/*
 * Look at all that tells of requests, and forget it and the items. Replies come as long as the
 * worker serves others.
 */
static void look_and_forget(void)
{
    static const char lines[] = "slowlog get -1\r\nstats latency\r\nstats hotkeys\r\n"
                                "stats conns\r\nslowlog reset\r\nflush_all\r\nmn\r\n";
    static const char end[] = "END\r\nOK\r\nOK\r\nMN\r\n";
    static char reply[1024 * 1024];
    const size_t end_len = sizeof(end) - 1;
    size_t len = 0;

    put(admin, lines, sizeof(lines) - 1);
    do {
        ssize_t n = recv(admin, reply + len, sizeof(reply) - len, 0);

        if (n < 0 && errno == EINTR) {
            n = 0; /* the fuzzer's timer */
        } else {
            require(n > 0);
        }
        for (ssize_t i = 0; i < n; i++) {
            require(is_shown(reply[len + (size_t)i]));
        }
        len += (size_t)n;
    } while (len < end_len || memcmp(reply + len - end_len, end, end_len) != 0);
}

static void close_fd(int fd)
{
    require(close(fd) == 0);
}

static void stop(void)
{
    close_fd(admin);
    close_fd(watcher);
    while (solo_counter(CTR_curr_connections) > 0 || atomic_load(&solo.crew.watch.count) > 0) {
        solo_run(nothing);
        uv_run(&main_loop, UV_RUN_NOWAIT);
    }
    solo_stop();
    uv_run(&main_loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&main_loop) == 0);
    settings_fini(&solo.settings);
}

/* Once. */
static void start(void)
{
    static bool is_started;
    char ok[4];

    if (is_started) {
        return;
    }
    settings_init(&solo.settings);
    setting_set(&solo.settings, latency_stats, true);
    setting_set(&solo.settings, slowlog_us, 1);
    setting_set(&solo.settings, hotkeys, 1);
    solo_start_with(64 * (uint64_t)MIB, 1, true);
    require(uv_loop_init(&main_loop) == 0);
    require(mailbox_init(&solo.crew.main_mailbox, &main_loop, NULL) == 0);
    admin = wire_dial(0);
    watcher = wire_dial(0);
    solo.origin = &client_origin;
    static const char watch[] = "watch fetchers mutations evictions connevents deletions "
                                "expirations sysevents\r\n";
    put(watcher, watch, sizeof(watch) - 1);
    require(recv(watcher, ok, sizeof(ok), MSG_WAITALL) == sizeof(ok));
    require(memcmp(ok, "OK\r\n", sizeof(ok)) == 0);
    atexit(stop);
    is_started = true;
}

/* ---- the client -------------------------------------------------------------------------- */

/* Read what there is, or some of it; false: the worker has closed. */
static bool take(int fd, struct buf *replies, size_t max)
{
    char part[16384];
    size_t left = max;
    ssize_t n = 1;

    while (left > 0 && n > 0) {
        n = recv(fd, part, left < sizeof(part) ? left : sizeof(part), MSG_DONTWAIT);
        if (n > 0) {
            require(buf_append(replies, part, (size_t)n));
            left -= (size_t)n;
        }
    }
    require(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static int unread(int fd)
{
    int bytes = 0;

    require(ioctl(fd, SIOCOUTQ, &bytes) == 0);
    return bytes;
}

/* Send a piece, and let the worker read it. False: it has closed. */
static bool send_piece(int fd, struct span piece, unsigned flags, struct buf *replies)
{
    size_t max = (flags & READS_LATE) != 0 ? 1000 : SIZE_MAX;

    while (piece.len > 0) {
        ssize_t n = send(fd, piece.ptr, piece.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        bool is_stuck;
        int before;

        require(n > 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
        if (n > 0) {
            piece = span_of(piece.ptr + n, piece.len - (size_t)n);
        } else if (errno != EAGAIN) {
            return false;
        }
        do {
            before = unread(fd);
            serve();
            is_stuck = before > 0 && unread(fd) == before;
            if (((flags & READS_LATE) == 0 || is_stuck) && !take(fd, replies, max)) {
                return false;
            }
        } while (unread(fd) > 0);
    }
    return true;
}

/* The length of the next piece. */
static size_t piece_len(const struct stream *s, size_t *turn)
{
    unsigned c = s->lengths.len > 0 ? (unsigned char)s->lengths.ptr[*turn] : 0;

    if (s->lengths.len == 0) {
        return SIZE_MAX;
    }
    *turn = (*turn + 1) % s->lengths.len;
    return c > 127 ? (c - 127) * PIECE_STEP : c + (c == 0);
}

/* A connection for the stream, from its first byte to its end. */
static void run(const struct stream *s, struct buf *replies)
{
    int fd = wire_dial((s->flags & SMALL_SNDBUF) != 0 ? SMALL_SOCKET : 0);
    struct span left = s->bytes;
    bool is_open = true;
    size_t turn = 0;

    for (unsigned i = 1; is_open && left.len > 0; i++) {
        size_t n = piece_len(s, &turn);

        n = n < left.len && i < PIECES_MAX ? n : left.len;
        is_open = send_piece(fd, span_of(left.ptr, n), s->flags, replies);
        left = span_of(left.ptr + n, left.len - n);
    }
    if ((s->flags & LEAVES) == 0) {
        shutdown(fd, SHUT_WR);
        while (take(fd, replies, SIZE_MAX)) {
            serve();
        }
    }
    close_fd(fd);
    while (solo_counter(CTR_curr_connections) > 2) {
        serve();
    }
    require(solo_counter(CTR_in_pending_bytes) == 0);
    require(solo_counter(CTR_body_pending_bytes) == 0);
}

/* ---- the same in one piece --------------------------------------------------------------- */

/*
 * Are the replies the same in each run, but for digits? Not those of the binary protocol, which
 * have numbers in binary, nor statistics. A line that is too long for a line without end closes
 * the connection at once or later, as its pieces are.
 */
static bool is_repeatable(struct span stream)
{
    size_t line = 0;

    if (stream.len == 0 || stream.ptr[0] == '\x80' ||
        memmem(stream.ptr, stream.len, "stats", 5) != NULL) {
        return false;
    }
    for (size_t i = 0; i < stream.len; i++) {
        line = stream.ptr[i] == '\n' ? 0 : line + 1;
        if (line >= TEXT_UNENDED_MAX) {
            return false;
        }
    }
    return true;
}

static size_t drop_digits(char *text, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            text[kept++] = text[i];
        }
    }
    return kept;
}

static void check_whole(const struct stream *s, struct buf *replies)
{
    struct stream whole = {.bytes = s->bytes};
    struct buf again = {0};

    run(&whole, &again);
    size_t len = drop_digits(buf_begin(replies), buf_len(replies));
    require(drop_digits(buf_begin(&again), buf_len(&again)) == len);
    require(len == 0 || memcmp(buf_begin(replies), buf_begin(&again), len) == 0);
    buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data + 1, '\n', size - 1) : NULL;
    struct buf replies = {0};

    if (newline == NULL) {
        return 0;
    }
    size_t head = (size_t)(newline - data) + 1;
    struct stream s = (struct stream){
        .flags = data[0],
        .lengths = span_of(data + 1, head - 2),
        .bytes = span_of(data + head, size - head < STREAM_MAX ? size - head : STREAM_MAX),
    };
    start();
    run(&s, &replies);
    look_and_forget();
    if ((s.flags & LEAVES) == 0 && is_repeatable(s.bytes)) {
        check_whole(&s, &replies);
        look_and_forget();
    }
    buf_fini(&replies);
    return 0;
}
