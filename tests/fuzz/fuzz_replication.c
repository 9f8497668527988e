/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what replicas and operators say to a primary, over a few connections. Each line
 * of the input is a letter that says which command (see commands), a digit that says over which
 * connection, and the rest of the command, where
 *   %  is the id of the history,   #  the offset of its end,   ~  its epoch,
 *   @  the name of this process.
 * What must hold for any input:
 *   - the server is a primary afterwards, and serves;
 *   - no connection is left, and no place of a replica;
 *   - the stream has not become shorter, unless its history is another one.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/daemon/conn/solo.h"

#define CLIENTS    4u
#define LINE_BYTES 2048u

static const char value[] = "0123456789abcdef0123456789abcdef0123456789abcdef";

/* Commands; those that have no place for more are as they are. */
static const struct command {
    const char *text;
    bool has_args;
} commands[] = {
    {"psync ", true},
    {"sync", true},
    {"replconf ", true},
    {"wait ", true},
    {"role", true},
    {"promote ", true},
    {"failover ", true},
    {"replicaof no one", false},
    {"set k 0 0 1\r\nx", false},
    {"ms large 48\r\n", false}, /* with a value */
    {"delete k", false},
    {"flush_all ", true},
    {"mn", false},
    {"set short 0 1 1\r\nx", false},
    {"stats replication", false},
    {"", false}, /* the connection is closed, and another one made */
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static uv_loop_t main_loop;
static int admin;
static int clients[CLIENTS]; /* -1: not open */

static void nothing(struct worker *w)
{
    (void)w;
}

static void serve(void)
{
    solo_run(nothing);
    uv_run(&main_loop, UV_RUN_NOWAIT);
}

static void close_fd(int fd)
{
    require(close(fd) == 0);
}

/* Say something as the operator; the answer's first line has to begin so. */
static void expect(const char *line, const char *answer)
{
    char reply[1024];
    size_t len = 0;

    require(send(admin, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line));
    while (len == 0 || reply[len - 1] != '\n') {
        ssize_t n = recv(admin, reply + len, sizeof(reply) - 1 - len, 0);

        require(n > 0 || (n < 0 && errno == EINTR));
        len += n > 0 ? (size_t)n : 0;
    }
    reply[len] = '\0';
    if (strncmp(reply, answer, strlen(answer)) != 0) {
        fprintf(stderr, "%s is answered %s\n", line, reply);
    }
    require(strncmp(reply, answer, strlen(answer)) == 0);
}

/* ---- once -------------------------------------------------------------------------------- */

static void stop(void)
{
    struct repl_record record;

    exports_stop(&solo.crew.exports);
    close_fd(admin);
    while (solo_counter(CTR_curr_connections) > 0) {
        serve();
    }
    replication_drain(&solo.replication);
    replication_end(&solo.replication);
    (void)replication_stop(&solo.replication, &record);
    solo_stop();
    uv_run(&main_loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&main_loop) == 0);
    settings_fini(&solo.settings);
}

static void start(void)
{
    static bool is_started;

    if (is_started) {
        return;
    }
    settings_init(&solo.settings);
    solo_start_with(64 * (uint64_t)MIB, 1, false);
    require(uv_loop_init(&main_loop) == 0);
    require(mailbox_init(&solo.crew.main_mailbox, &main_loop, NULL) == 0);
    require(exports_start(&solo.crew.exports, &solo.settings, &solo.crew.engine) == 0);
    require(replication_start(&solo.replication, &solo.crew, NULL) == 0);
    require(replication_begin(&solo.replication) == 0);
    admin = wire_dial(0);
    atexit(stop);
    is_started = true;
}

/* ---- a run ------------------------------------------------------------------------------- */

/* Put a piece of text at the end, as far as there is room. */
static void add(char *line, size_t *len, const char *text, size_t n)
{
    n = n < LINE_BYTES - *len ? n : LINE_BYTES - *len;
    memcpy(line + *len, text, n);
    *len += n;
}

static void add_args(char *line, size_t *len, struct span args)
{
    char text[REPLID_CHARS + 1];
    struct repl_info info;

    replication_look(&solo.replication, &info);
    for (size_t i = 0; i < args.len; i++) {
        switch (args.ptr[i]) {
        case '%':
            replid_format(&info.name.id, text);
            break;
        case '#':
            snprintf(text, sizeof(text), "%" PRIu64, info.name.offset);
            break;
        case '~':
            snprintf(text, sizeof(text), "%" PRIu64, info.name.epoch);
            break;
        case '@':
            replid_format(&solo.replication.run, text);
            break;
        default:
            text[0] = args.ptr[i];
            text[1] = '\0';
            break;
        }
        add(line, len, text, text[0] == '\0' ? 1 : strlen(text));
    }
}

/* Read what there is. */
static void take(int fd)
{
    static char bytes[1 << 16];

    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        serve(); /* a portion is followed by the next one */
    }
}

static void say(int fd, const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN) {
            return; /* the worker has closed */
        }
        line += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        serve();
        take(fd);
    }
}

static void run_line(struct span input)
{
    static char line[LINE_BYTES + 64];
    const struct command *c = &commands[(unsigned char)input.ptr[0] % COMMANDS];
    unsigned which = input.len > 1 ? (unsigned char)input.ptr[1] % CLIENTS : 0;
    size_t len = 0;

    if (c->text[0] == '\0' || clients[which] < 0) {
        if (clients[which] >= 0) {
            close_fd(clients[which]);
        }
        clients[which] = wire_dial(0);
    }
    add(line, &len, c->text, strlen(c->text));
    if (c->has_args && input.len > 2) {
        add_args(line, &len, span_of(input.ptr + 2, input.len - 2));
    } else if (strncmp(c->text, "ms ", 3) == 0) {
        add(line, &len, value, sizeof(value) - 1);
    }
    memcpy(line + len, "\r\n", 2);
    say(clients[which], line, len > 0 ? len + 2 : 0);
}

static void end_run(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (clients[i] >= 0) {
            close_fd(clients[i]);
        }
    }
    while (solo_counter(CTR_curr_connections) > 1 ||
           replication_clients(&solo.replication) > 0) {
        serve();
    }
    expect("mn\r\n", "MN\r\n");
    expect("role\r\n", "ROLE primary primary ");
    expect("set probe 0 0 1\r\nx\r\n", "STORED\r\n");
    expect("delete probe\r\n", "DELETED\r\n");
    expect("flush_all\r\n", "OK\r\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    const char *end = at + size;
    struct repl_info before;
    struct repl_info after;

    start();
    replication_look(&solo.replication, &before);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = -1;
    }
    for (unsigned lines = 0; at < end && lines < 100; lines++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((newline != NULL ? newline : end) - at);

        if (n > 0) {
            run_line(span_of(at, n));
        }
        at += n + 1;
    }
    end_run();
    replication_look(&solo.replication, &after);
    require(!replid_equal(&before.name.id, &after.name.id) ||
            after.name.offset >= before.name.offset);
    return 0;
}
