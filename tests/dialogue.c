/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs scripted dialogues: what a user would type, what must come back, how the clock
 * moves, what must change in the counters. Each file gets a daemon of its own
 * (tests/mayflyd-test, whose clock stands still and whose sampler is held) and runs twice:
 * as written, and with every line delivered byte by byte.
 *
 *     # comment
 *     ! -M -m 8            options of the daemon; before anything else
 *     > line               send a line (CR LF is added)
 *     >> bytes\n           send bytes; \r \n \t \0 \\ \xHH are understood
 *     >* 1000 x            send a character so many times
 *     < line               this line must come
 *     <~ expression        a line that matches this extended regular expression must come
 *     <* 1000 x            a line of so many of this character must come
 *     <. line              lines may come, up to this one
 *     < [closed]           the daemon must close the connection
 *     ~ 2s                 move the clock (ms, s, m, h, d)
 *     ~ wall -2h           set the wall clock only, ahead or back
 *     + get_misses 1       counters must have grown by this since the last such line (or since
 *                          the start); others of the line are separated by commas
 *     @ 2                  go on with this connection (1 to 9; made when first named)
 *     half-close           send no more on this connection; answers may still come
 *     sampler on|off       let expired keys be collected, or hold that
 *
 * A dialogue ends with a `version` request on its connection, so that surplus answers show.
 * With DIALOGUE_SERVER=path the dialogues run against that server instead: lines `+` are
 * then left out, and `~` waits for real, to compare with memcached itself.
 */
#include "tests/common/daemon.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"

#define CONNS_MAX    10
#define COUNTERS_MAX 256
#define WAIT_MS      100000 /* only a hang takes so long */
#define BYTEWISE_MAX 4096u /* longer lines are sent whole also when bytes are sent one by one */

struct peer {
    int fd; /* -1: not yet made */
    char *in;
    size_t in_len, in_cap;
    bool is_closed;
};

struct counter {
    char name[64];
    long long value;
};

struct dialogue {
    const char *path;
    int line;
    bool is_bytewise, is_foreign, is_started;
    struct test_daemon daemon;
    const char *program;
    char *options[32];
    int option_count;
    struct peer peers[CONNS_MAX];
    int current;
    int control;
    char control_in[65536];
    size_t control_len;
    struct counter before[COUNTERS_MAX];
    int before_count;
};

static void dialogue_end(struct dialogue *d);

static _Noreturn void fail(struct dialogue *d, const char *fmt, ...) MF_PRINTF(2, 3);

static _Noreturn void fail(struct dialogue *d, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d%s: ", d->path, d->line, d->is_bytewise ? " (byte by byte)" : "");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    dialogue_end(d);
    exit(1);
}

/* ---- connections ------------------------------------------------------------------------- */

static struct peer *peer_now(struct dialogue *d)
{
    struct peer *p = &d->peers[d->current];

    if (p->fd < 0) {
        p->fd = test_daemon_connect(&d->daemon);
    }
    return p;
}

static void send_bytes(struct dialogue *d, const char *bytes, size_t n)
{
    struct peer *p = peer_now(d);

    if (d->is_bytewise && n <= BYTEWISE_MAX) {
        for (size_t i = 0; i < n; i++) {
            if (!test_send(p->fd, bytes + i, 1)) {
                return; /* closed by the daemon: the script says whether that is right */
            }
        }
        return;
    }
    (void)test_send(p->fd, bytes, n);
}

/* Read more; false at the end of the stream or when nothing comes. */
static bool receive(struct dialogue *d, struct peer *p)
{
    struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};

    if (p->is_closed) {
        return false;
    }
    if (poll(&poll_fd, 1, WAIT_MS) == 0) {
        fail(d, "no answer comes; unread: \"%.*s\"", (int)(p->in_len < 200 ? p->in_len : 200),
             p->in);
    }
    if (p->in_cap - p->in_len < 65536) {
        p->in_cap = p->in_cap * 2 + 131072;
        p->in = realloc(p->in, p->in_cap);
        if (p->in == NULL) {
            fail(d, "out of memory");
        }
    }
    ssize_t n = recv(p->fd, p->in + p->in_len, p->in_cap - p->in_len, 0);
    if (n <= 0) {
        p->is_closed = true;
        return false;
    }
    p->in_len += (size_t)n;
    return true;
}

/* The next line without its CR LF, NUL-terminated, NULL at the end; valid until dropped. */
static char *next_line(struct dialogue *d, size_t *len, size_t *whole)
{
    struct peer *p = peer_now(d);
    size_t scanned = 0;

    for (;;) {
        char *nl =
            p->in_len > scanned ? memchr(p->in + scanned, '\n', p->in_len - scanned) : NULL;
        if (nl != NULL) {
            *whole = (size_t)(nl + 1 - p->in);
            *len = nl > p->in && nl[-1] == '\r' ? *whole - 2 : *whole - 1;
            p->in[*len] = '\0';
            return p->in;
        }
        scanned = p->in_len;
        if (!receive(d, p)) {
            return NULL;
        }
    }
}

static void drop_line(struct dialogue *d, size_t whole)
{
    struct peer *p = peer_now(d);

    memmove(p->in, p->in + whole, p->in_len - whole);
    p->in_len -= whole;
}

/* ---- the control socket ------------------------------------------------------------------ */

/* One line of the control socket, NUL-terminated, in the caller's buffer. */
static void control_line(struct dialogue *d, char *out, size_t out_size)
{
    for (;;) {
        char *nl = memchr(d->control_in, '\n', d->control_len);

        if (nl != NULL) {
            size_t n = (size_t)(nl - d->control_in);
            (void)snprintf(out, out_size, "%.*s", (int)n, d->control_in);
            out[strcspn(out, "\r")] = '\0';
            d->control_len -= n + 1;
            memmove(d->control_in, nl + 1, d->control_len);
            return;
        }
        struct pollfd poll_fd = {.fd = d->control, .events = POLLIN};
        ssize_t n = poll(&poll_fd, 1, WAIT_MS) == 1
                        ? recv(d->control, d->control_in + d->control_len,
                               sizeof(d->control_in) - d->control_len, 0)
                        : 0;
        if (n <= 0) {
            fail(d, "the control socket does not answer");
        }
        d->control_len += (size_t)n;
    }
}

static void control(struct dialogue *d, const char *request)
{
    char line[256];
    int n = snprintf(line, sizeof(line), "%s\n", request);

    if (!test_send(d->control, line, (size_t)n)) {
        fail(d, "the control socket is closed");
    }
    control_line(d, line, sizeof(line));
    if (strcmp(line, "OK") != 0) {
        fail(d, "control, %s: %s", request, line);
    }
}

static int read_counters(struct dialogue *d, struct counter *out)
{
    char line[256];
    int count = 0;

    if (!test_send(d->control, "counters\n", 9)) {
        fail(d, "the control socket is closed");
    }
    for (;;) {
        control_line(d, line, sizeof(line));
        if (strcmp(line, "END") == 0 || strcmp(line, "OK") == 0) {
            return count;
        }
        if (count < COUNTERS_MAX &&
            sscanf(line, "%63s %lld", out[count].name, &out[count].value) == 2) {
            count++;
        }
    }
}

static bool counter_value(const struct counter *counters, int count, const char *name,
                          long long *value)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(counters[i].name, name) == 0) {
            *value = counters[i].value;
            return true;
        }
    }
    return false;
}

/* Do all deltas of a `+` line hold? Says which does not. */
static bool deltas_hold(struct dialogue *d, const char *spec, const struct counter *now,
                        int now_count, char *why, size_t why_size)
{
    char text[1024], *save = NULL;

    (void)snprintf(text, sizeof(text), "%s", spec);
    for (char *item = strtok_r(text, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        char name[64];
        long long want, before = 0, after = 0;

        if (sscanf(item, " %63s %lld", name, &want) != 2) {
            fail(d, "not a counter and a number: %s", item);
        }
        if (!counter_value(now, now_count, name, &after)) {
            fail(d, "there is no counter %s", name);
        }
        (void)counter_value(d->before, d->before_count, name, &before);
        if (after - before != want) {
            (void)snprintf(why, why_size, "%s grew by %lld, expected %lld", name,
                           after - before, want);
            return false;
        }
    }
    return true;
}

/* What other threads count (the sampler, the closing of a connection) may take a moment. */
static void check_deltas(struct dialogue *d, const char *spec)
{
    static struct counter now[COUNTERS_MAX];
    struct timespec ms = {0, 2000000};
    char why[160] = "";
    int count = 0;

    if (d->is_foreign) {
        return;
    }
    for (int tries = 0; tries < WAIT_MS / 4; tries++) {
        count = read_counters(d, now);
        if (deltas_hold(d, spec, now, count, why, sizeof(why))) {
            memcpy(d->before, now, sizeof(now));
            d->before_count = count;
            return;
        }
        (void)nanosleep(&ms, NULL);
    }
    fail(d, "%s", why);
}

static void move_clock(struct dialogue *d, const char *text)
{
    char unit[8] = "", request[64];
    long long n = 0, scale = 1;
    bool is_wall = strncmp(text, "wall ", 5) == 0;

    text += is_wall ? 5 : 0;

    if (sscanf(text, "%lld%7s", &n, unit) != 2) {
        fail(d, "not a time: %s", text);
    }
    if (strcmp(unit, "s") == 0) {
        scale = 1000;
    } else if (strcmp(unit, "m") == 0) {
        scale = 60000;
    } else if (strcmp(unit, "h") == 0) {
        scale = 3600000;
    } else if (strcmp(unit, "d") == 0) {
        scale = 86400000;
    } else if (strcmp(unit, "ms") != 0) {
        fail(d, "not a unit of time: %s", unit);
    }
    if (d->is_foreign && is_wall) {
        fail(d, "only the own daemon's wall clock can be set");
    }
    if (d->is_foreign) {
        struct timespec t = {n * scale / 1000, n * scale % 1000 * 1000000};
        (void)nanosleep(&t, NULL);
        return;
    }
    (void)snprintf(request, sizeof(request), "%s %lld", is_wall ? "step" : "advance",
                   n * scale);
    control(d, request);
}

/* ---- the script -------------------------------------------------------------------------- */

static void start(struct dialogue *d)
{
    if (d->is_started) {
        return;
    }
    d->is_started = true;
    d->options[d->option_count] = NULL;
    if (!test_daemon_start(&d->daemon, d->program,
                           d->is_foreign ? TEST_DAEMON_UNIX : TEST_DAEMON_CONTROL,
                           (const char *const *)d->options)) {
        fail(d, "the daemon does not start");
    }
    if (!d->is_foreign) {
        d->control = test_control_connect(&d->daemon);
        d->before_count = read_counters(d, d->before);
    }
}

static void add_options(struct dialogue *d, char *text)
{
    char *save = NULL;

    if (d->is_started) {
        fail(d, "options come first");
    }
    for (char *word = strtok_r(text, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        if (d->option_count < 30) {
            d->options[d->option_count++] = strdup(word);
        }
    }
}

/* Undo the escapes of `>>`, in place; returns the length. */
static size_t unescape(struct dialogue *d, char *text)
{
    static const char letters[] = "rnt0\\", bytes[] = "\r\n\t\0\\";
    char *out = text;

    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '\\') {
            *out++ = *p;
            continue;
        }
        p++;
        const char *at = *p != '\0' ? strchr(letters, *p) : NULL;
        if (at != NULL) {
            *out++ = bytes[at - letters];
        } else if (*p == 'x' && isxdigit((unsigned char)p[1]) &&
                   isxdigit((unsigned char)p[2])) {
            char hex[3] = {p[1], p[2], '\0'};
            *out++ = (char)strtol(hex, NULL, 16);
            p += 2;
        } else {
            fail(d, "unknown escape");
        }
    }
    return (size_t)(out - text);
}

static void repeat(struct dialogue *d, const char *text, size_t *count, char *c)
{
    if (sscanf(text, "%zu %c", count, c) != 2) {
        fail(d, "not a number and a character: %s", text);
    }
}

static void send_many(struct dialogue *d, const char *text)
{
    char block[65536], c = 0;
    size_t count = 0;

    repeat(d, text, &count, &c);
    memset(block, c, sizeof(block));
    while (count > 0) {
        size_t n = count < sizeof(block) ? count : sizeof(block);
        send_bytes(d, block, n);
        count -= n;
    }
}

static void expect_closed(struct dialogue *d)
{
    struct peer *p = peer_now(d);

    while (p->in_len == 0 && receive(d, p)) {
    }
    if (p->in_len != 0) {
        fail(d, "expected the end, got \"%.*s\"", (int)(p->in_len < 200 ? p->in_len : 200),
             p->in);
    }
}

static bool matches(struct dialogue *d, const char *expression, const char *line)
{
    regex_t re;

    if (regcomp(&re, expression, REG_EXTENDED | REG_NOSUB) != 0) {
        fail(d, "not a regular expression: %s", expression);
    }
    bool is_match = regexec(&re, line, 0, NULL, 0) == 0;
    regfree(&re);
    return is_match;
}

static void expect(struct dialogue *d, char kind, char *text)
{
    size_t len = 0, whole = 0, count = 0;
    bool is_right;
    char c = 0;

    if (kind == '<' && strcmp(text, "[closed]") == 0) {
        expect_closed(d);
        return;
    }
    char *line = next_line(d, &len, &whole);
    while (kind == '.' && line != NULL && strcmp(line, text) != 0) {
        drop_line(d, whole);
        line = next_line(d, &len, &whole);
    }
    if (line == NULL) {
        fail(d, "expected \"%s\", the connection was closed", text);
    }
    if (kind == '~') {
        is_right = matches(d, text, line);
    } else if (kind == '*') {
        repeat(d, text, &count, &c);
        is_right = len == count && strspn(line, (char[]){c, '\0'}) == count;
    } else {
        size_t n = unescape(d, text);
        is_right = len == n && memcmp(line, text, n) == 0;
    }
    if (!is_right) {
        fail(d, "expected \"%s\", got \"%.*s\"", text, (int)(len < 300 ? len : 300), line);
    }
    drop_line(d, whole);
}

/* The text behind a mark and one space. */
static char *behind(char *line, size_t mark)
{
    return line + mark + (line[mark] == ' ' ? 1 : 0);
}

static void do_line(struct dialogue *d, char *line)
{
    if (line[0] == '\0' || line[0] == '#') {
        return;
    }
    if (line[0] == '!') {
        add_options(d, behind(line, 1));
        return;
    }
    start(d);
    if (strncmp(line, ">>", 2) == 0) {
        char *text = behind(line, 2);
        send_bytes(d, text, unescape(d, text));
    } else if (strncmp(line, ">*", 2) == 0) {
        send_many(d, behind(line, 2));
    } else if (line[0] == '>') {
        char *text = behind(line, 1);
        size_t n = strlen(text);
        memcpy(text + n, "\r\n", 2); /* the caller left room */
        send_bytes(d, text, n + 2);
    } else if (line[0] == '<') {
        bool is_plain = line[1] != '~' && line[1] != '*' && line[1] != '.';
        expect(d, is_plain ? '<' : line[1], behind(line, is_plain ? 1 : 2));
    } else if (line[0] == '~') {
        move_clock(d, behind(line, 1));
    } else if (line[0] == '+') {
        check_deltas(d, behind(line, 1));
    } else if (line[0] == '@') {
        d->current = atoi(behind(line, 1)) % CONNS_MAX;
    } else if (strcmp(line, "half-close") == 0) {
        (void)shutdown(peer_now(d)->fd, SHUT_WR);
    } else if (strncmp(line, "sampler ", 8) == 0) {
        if (!d->is_foreign) {
            control(d, line);
        }
    } else {
        fail(d, "what does this mean: %s", line);
    }
}

/* A last request, so that an answer too many is noticed. */
static void check_surplus(struct dialogue *d)
{
    size_t len, whole;

    for (int i = 0; i < CONNS_MAX; i++) {
        struct peer *p = &d->peers[i];

        if (p->fd < 0 || p->is_closed) {
            continue;
        }
        d->current = i;
        if (!test_send(p->fd, "version\r\n", 9)) {
            continue; /* half-closed by the script */
        }
        const char *line = next_line(d, &len, &whole);
        if (line == NULL || strncmp(line, "VERSION ", 8) != 0) {
            fail(d, "at the end of connection %d: \"%s\"", i, line != NULL ? line : "closed");
        }
    }
}

static void dialogue_end(struct dialogue *d)
{
    for (int i = 0; i < CONNS_MAX; i++) {
        if (d->peers[i].fd >= 0) {
            (void)close(d->peers[i].fd);
        }
        free(d->peers[i].in);
        d->peers[i] = (struct peer){.fd = -1};
    }
    if (d->control >= 0) {
        (void)close(d->control);
        d->control = -1;
    }
    if (d->is_started) {
        int status = test_daemon_stop(&d->daemon);

        d->is_started = false;
        if (status != 0) {
            fprintf(stderr, "%s: the daemon ended with status %d\n", d->path, status);
            exit(1);
        }
    }
    for (int i = 0; i < d->option_count; i++) {
        free(d->options[i]);
    }
    d->option_count = 0;
}

static void run(const char *path, const char *program, bool is_foreign, bool is_bytewise)
{
    static struct dialogue d;
    char line[8192];
    FILE *f = fopen(path, "r");

    d = (struct dialogue){.path = path,
                          .program = program,
                          .is_foreign = is_foreign,
                          .is_bytewise = is_bytewise,
                          .current = 1,
                          .control = -1};
    for (int i = 0; i < CONNS_MAX; i++) {
        d.peers[i].fd = -1;
    }
    if (f == NULL) {
        fail(&d, "%s", strerror(errno));
    }
    while (fgets(line, sizeof(line) - 2, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        d.line++;
        do_line(&d, line);
    }
    (void)fclose(f);
    check_surplus(&d);
    dialogue_end(&d);
}

int main(int argc, char **argv)
{
    char program[4096];
    bool is_foreign = getenv("DIALOGUE_SERVER") != NULL;

    if (argc < 2) {
        fprintf(stderr, "usage: dialogue file...\n");
        return 2;
    }
    if (!test_program("tests/mayflyd-test", is_foreign ? "DIALOGUE_SERVER" : "MAYFLYD_TEST",
                      program, sizeof(program))) {
        fprintf(stderr, "%s is not built\n", program);
        return TEST_SKIPPED;
    }
    for (int i = 1; i < argc; i++) {
        run(argv[i], program, is_foreign, false);
        run(argv[i], program, is_foreign, true);
    }
    return 0;
}
