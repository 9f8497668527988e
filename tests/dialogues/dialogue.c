/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs scripted dialogues: what clients send, what must come back, how the clock moves, and
 * what must change in the counters. Each file gets a daemon of its own (mayflyd-test, whose
 * clock is frozen and whose sampler is held) and runs twice: as written, and with every line
 * delivered byte by byte; under the thread sanitizer only as written.
 *
 *     # comment
 *     ! -M -m 8            options of the daemon; before anything else
 *     > text               send a line (CR LF is added)
 *     >> text              send bytes, without a line end
 *     < text               this line must come
 *     <~ expression        a line that matches this extended regular expression must come
 *     <. text              lines may come, up to this one
 *     < [closed]           the daemon must close the connection
 *     ~ 2s                 move the clock (ms, s, m, h, d)
 *     ~ wall -2h           set the wall clock only, ahead or back
 *     + get_misses 1       counters must have grown by this since the last such line (or since
 *                          the start); several are separated by commas
 *     @ 2                  continue on this connection (1 to 9; made when first named)
 *     @ operator           or on one to the operator's control socket
 *     half-close           send no more on this connection; answers may still come
 *     sampler on|off       let expired keys be collected, or hold that
 *     repeat 1000          run the lines up to `end` this many times; may be nested
 *     end
 *
 * In a text, \r \n \t \0 \\ and \xHH mean bytes, and \*1000{text} repeats the text in braces
 * this many times; it has no escapes of its own.
 *
 * A dialogue ends with a `version` request on every connection, so that surplus answers show.
 * With DIALOGUE_SERVER=path the dialogues run against that server instead, to compare with
 * memcached itself: `+` is then ignored, and `~` waits for real.
 */
#include "tests/common/daemon.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/check.h"

#define CONNS_MAX    11
#define OPERATOR     10 /* the connection to the control socket */
#define COUNTERS_MAX 256
#define WAIT_MS      100000 /* only a hang takes longer */
#define BYTEWISE_MAX                                                                           \
    4096u /* longer texts are sent whole, also when bytes are sent one by one */
#define READ_BYTES 65536u

/* As written, and byte by byte: how a request is cut into reads concerns only one thread. */
#ifdef __SANITIZE_THREAD__
#define RUNS 1
#else
#define RUNS 2
#endif

struct peer {
    int fd;   /* -1: not yet made */
    char *in; /* owned; unread bytes are from in_at to in_len */
    size_t in_at, in_len, in_cap;
    bool is_closed;
};

struct counter {
    char name[64];
    long long value;
};

struct dialogue {
    const char *path;
    char **lines; /* owned */
    int line_count;
    int line; /* the one that runs, from 1 */
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
    jmp_buf failure; /* where fail() goes */
};

static _Noreturn void fail(struct dialogue *d, const char *fmt, ...) MF_PRINTF(2, 3);

static _Noreturn void fail(struct dialogue *d, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d%s: ", d->path, d->line, d->is_bytewise ? " (byte by byte)" : "");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    longjmp(d->failure, 1);
}

/* ---- connections ------------------------------------------------------------------------- */

static struct peer *peer_now(struct dialogue *d)
{
    struct peer *p = &d->peers[d->current];

    if (p->fd < 0) {
        p->fd = d->current == OPERATOR ? test_operator_connect(&d->daemon)
                                       : test_daemon_connect(&d->daemon);
        if (p->fd < 0) {
            fail(d, "no connection");
        }
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

static size_t unread(const struct peer *p)
{
    return p->in_len - p->in_at;
}

/* Where they are; NULL as long as nothing was read. */
static char *unread_at(const struct peer *p)
{
    return MF_AT(p->in, p->in_at);
}

/* Room to read into: whole blocks, after what is unread was moved to the front. */
static void make_room(struct dialogue *d, struct peer *p)
{
    if (p->in_at > 0) {
        memmove(p->in, p->in + p->in_at, unread(p));
        p->in_len -= p->in_at;
        p->in_at = 0;
    }
    if (p->in_cap - p->in_len < READ_BYTES) {
        p->in_cap = p->in_cap * 2 + 2 * READ_BYTES;
        p->in = realloc(p->in, p->in_cap);
        if (p->in == NULL) {
            fail(d, "out of memory");
        }
    }
}

/* Read more; false at the end of the stream, fails when nothing comes. */
static bool receive(struct dialogue *d, struct peer *p)
{
    struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};

    if (p->is_closed) {
        return false;
    }
    if (poll(&poll_fd, 1, WAIT_MS) == 0) {
        fail(d, "no answer comes; unread: \"%.*s\"", (int)(unread(p) < 200 ? unread(p) : 200),
             unread_at(p));
    }
    make_room(d, p);
    ssize_t n = recv(p->fd, p->in + p->in_len, p->in_cap - p->in_len, 0);
    if (n <= 0) {
        p->is_closed = true;
        return false;
    }
    p->in_len += (size_t)n;
    return true;
}

/*
 * Take the next line without its CR LF, NUL-terminated; NULL at the end. Valid until more is
 * received.
 */
static char *next_line(struct dialogue *d, size_t *len)
{
    struct peer *p = peer_now(d);
    size_t scanned = 0;

    for (;;) {
        char *from = unread_at(p);
        char *nl =
            unread(p) > scanned ? memchr(from + scanned, '\n', unread(p) - scanned) : NULL;

        if (nl != NULL) {
            *len = (size_t)(nl - from);
            *len -= *len > 0 && nl[-1] == '\r';
            from[*len] = '\0';
            p->in_at += (size_t)(nl + 1 - from);
            return from;
        }
        scanned = unread(p);
        if (!receive(d, p)) {
            return NULL;
        }
    }
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

/* Do all deltas of a `+` line hold? `why` names the first that does not. */
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

/* Other threads (the sampler, one that closes a connection) may count a moment later. */
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
        fail(d, "only mayflyd-test lets its wall clock be set");
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
        if (d->control < 0) {
            fail(d, "no control connection");
        }
        d->before_count = read_counters(d, d->before);
    }
}

static void add_options(struct dialogue *d, const char *text)
{
    char *copy = strdup(text), *save = NULL;

    if (d->is_started) {
        fail(d, "options come first");
    }
    for (char *word = strtok_r(copy, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        if (d->option_count < 30) {
            d->options[d->option_count++] = strdup(word);
        }
    }
    free(copy);
}

/* Bytes with their length; freed with text_free(). */
struct text {
    char *ptr;
    size_t len;
};

static void text_append(struct dialogue *d, struct text *t, const char *bytes, size_t n,
                        size_t times)
{
    if (n == 0 || times == 0) {
        return;
    }
    t->ptr = realloc(t->ptr, t->len + n * times);
    if (t->ptr == NULL) {
        fail(d, "out of memory");
    }
    for (size_t i = 0; i < times; i++) {
        memcpy(t->ptr + t->len, bytes, n);
        t->len += n;
    }
}

static void text_free(struct text *t)
{
    free(t->ptr);
    *t = (struct text){NULL, 0};
}

/* The escape `*1000{text}`; returns its last character. */
static const char *unescape_many(struct dialogue *d, struct text *out, const char *p)
{
    char *open = NULL;
    size_t count = strtoul(p + 1, &open, 10);
    const char *close = *open == '{' ? strchr(open, '}') : NULL;

    if (close == NULL) {
        fail(d, "not a number and a text in braces: %s", p);
    }
    text_append(d, out, open + 1, (size_t)(close - open - 1), count);
    return close;
}

/* The escape after a backslash; returns its last character. */
static const char *unescape_one(struct dialogue *d, struct text *out, const char *p)
{
    static const char letters[] = "rnt0\\", bytes[] = "\r\n\t\0\\";
    const char *at = *p != '\0' ? strchr(letters, *p) : NULL;

    if (at != NULL) {
        text_append(d, out, bytes + (at - letters), 1, 1);
    } else if (*p == '*') {
        p = unescape_many(d, out, p);
    } else if (*p == 'x' && isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])) {
        char hex[3] = {p[1], p[2], '\0'};
        char byte = (char)strtol(hex, NULL, 16);

        text_append(d, out, &byte, 1, 1);
        p += 2;
    } else {
        fail(d, "unknown escape");
    }
    return p;
}

static struct text unescape(struct dialogue *d, const char *text)
{
    struct text out = {NULL, 0};

    for (const char *p = text; *p != '\0'; p++) {
        size_t plain = strcspn(p, "\\");

        text_append(d, &out, p, plain, 1);
        p += plain;
        if (*p == '\0') {
            break;
        }
        p = unescape_one(d, &out, p + 1);
    }
    return out;
}

static void send_text(struct dialogue *d, const char *text, const char *line_end)
{
    struct text t = unescape(d, text);

    text_append(d, &t, line_end, strlen(line_end), 1);
    send_bytes(d, t.ptr, t.len);
    text_free(&t);
}

static void expect_closed(struct dialogue *d)
{
    struct peer *p = peer_now(d);

    while (unread(p) == 0 && receive(d, p)) {
    }
    if (unread(p) != 0) {
        fail(d, "expected the end, got \"%.*s\"", (int)(unread(p) < 200 ? unread(p) : 200),
             unread_at(p));
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

/* Is the line what `<`, `<.` or `<~` wants? */
static bool is_wanted(struct dialogue *d, char kind, const char *text, const char *line,
                      size_t len)
{
    if (kind == '~') {
        return matches(d, text, line);
    }
    struct text want = unescape(d, text);
    bool is_same = len == want.len && (len == 0 || memcmp(line, want.ptr, len) == 0);
    text_free(&want);
    return is_same;
}

static void expect(struct dialogue *d, char kind, const char *text)
{
    size_t len = 0;
    bool is_right = false;

    if (kind == '<' && strcmp(text, "[closed]") == 0) {
        expect_closed(d);
        return;
    }
    do {
        const char *line = next_line(d, &len);

        if (line == NULL) {
            fail(d, "expected \"%s\", the connection was closed", text);
        }
        is_right = is_wanted(d, kind, text, line, len);
        if (!is_right && kind != '.') {
            fail(d, "expected \"%s\", got \"%.*s\"", text, (int)(len < 300 ? len : 300), line);
        }
    } while (!is_right);
}

/* The text after a mark and one space. */
static const char *after(const char *line, size_t mark)
{
    return line + mark + (line[mark] == ' ' ? 1 : 0);
}

static void do_line(struct dialogue *d, const char *line)
{
    if (strncmp(line, ">>", 2) == 0) {
        send_text(d, after(line, 2), "");
    } else if (line[0] == '>') {
        send_text(d, after(line, 1), "\r\n");
    } else if (line[0] == '<') {
        bool is_plain = line[1] != '~' && line[1] != '.';
        expect(d, is_plain ? '<' : line[1], after(line, is_plain ? 1 : 2));
    } else if (line[0] == '~') {
        move_clock(d, after(line, 1));
    } else if (line[0] == '+') {
        check_deltas(d, after(line, 1));
    } else if (line[0] == '@') {
        d->current = strcmp(after(line, 1), "operator") == 0 ? OPERATOR
                                                             : atoi(after(line, 1)) % OPERATOR;
    } else if (strcmp(line, "half-close") == 0) {
        (void)shutdown(peer_now(d)->fd, SHUT_WR);
    } else if (strncmp(line, "sampler ", 8) == 0) {
        if (!d->is_foreign) {
            control(d, line);
        }
    } else {
        fail(d, "unknown directive: %s", line);
    }
}

/* Run the lines from `first` to `end`, or to the end of the file; returns where it stopped. */
static int do_lines(struct dialogue *d, int first)
{
    int at = first;

    while (at < d->line_count && strcmp(d->lines[at], "end") != 0) {
        const char *line = d->lines[at++];
        long times = 0;

        d->line = at;
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        if (line[0] == '!') {
            add_options(d, after(line, 1));
            continue;
        }
        start(d);
        if (sscanf(line, "repeat %ld", &times) == 1 && times > 0) {
            int begin = at;

            while (times-- > 0) {
                at = do_lines(d, begin);
            }
            if (at++ == d->line_count) {
                fail(d, "repeat without end");
            }
        } else {
            do_line(d, line);
        }
    }
    return at;
}

/* A last request, so that a surplus answer is noticed. */
static void check_surplus(struct dialogue *d)
{
    size_t len;

    for (int i = 0; i < CONNS_MAX; i++) {
        struct peer *p = &d->peers[i];

        if (p->fd < 0 || p->is_closed) {
            continue;
        }
        d->current = i;
        if (!test_send(p->fd, "version\r\n", 9)) {
            continue; /* half-closed by the script */
        }
        const char *line = next_line(d, &len);
        if (line == NULL || strncmp(line, "VERSION ", 8) != 0) {
            fail(d, "at the end of connection %d: \"%s\"", i, line != NULL ? line : "closed");
        }
    }
}

static void read_script(struct dialogue *d)
{
    FILE *f = fopen(d->path, "r");
    char *line = NULL;
    size_t cap = 0;

    if (f == NULL) {
        fail(d, "%s", strerror(errno));
    }
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        line[strcspn(line, "\n")] = '\0';
        d->lines = reallocarray(d->lines, (size_t)d->line_count + 1, sizeof(*d->lines));
        if (d->lines == NULL) {
            fail(d, "out of memory");
        }
        d->lines[d->line_count++] = line;
        line = NULL;
        cap = 0;
    }
    free(line);
    (void)fclose(f);
}

/* Close and stop everything; returns the daemon's exit status. */
static int release(struct dialogue *d)
{
    int status = 0;

    for (int i = 0; i < CONNS_MAX; i++) {
        if (d->peers[i].fd >= 0) {
            (void)close(d->peers[i].fd);
        }
        free(d->peers[i].in);
    }
    if (d->control >= 0) {
        (void)close(d->control);
    }
    if (d->is_started) {
        status = test_daemon_stop(&d->daemon);
    }
    for (int i = 0; i < d->option_count; i++) {
        free(d->options[i]);
    }
    for (int i = 0; i < d->line_count; i++) {
        free(d->lines[i]);
    }
    free(d->lines);
    return status;
}

static bool runs_through(struct dialogue *d)
{
    if (setjmp(d->failure) != 0) {
        return false;
    }
    read_script(d);
    if (do_lines(d, 0) < d->line_count) {
        fail(d, "end without repeat");
    }
    check_surplus(d);
    return true;
}

/* One run of a script; false when it failed. */
static bool play(const char *path, const char *program, bool is_foreign, bool is_bytewise)
{
    static struct dialogue d;

    d = (struct dialogue){.path = path,
                          .program = program,
                          .is_foreign = is_foreign,
                          .is_bytewise = is_bytewise,
                          .current = 1,
                          .control = -1};
    for (int i = 0; i < CONNS_MAX; i++) {
        d.peers[i].fd = -1;
    }
    bool is_good = runs_through(&d);
    int status = release(&d);
    if (status != 0) {
        fprintf(stderr, "%s: the daemon ended with status %d\n", path, status);
    }
    return is_good && status == 0;
}

int main(int argc, char **argv)
{
    char program[4096];
    bool is_foreign = getenv("DIALOGUE_SERVER") != NULL;
    int failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: dialogue file...\n");
        return 2;
    }
    if (!test_program("tests/dialogues/mayflyd-test",
                      is_foreign ? "DIALOGUE_SERVER" : "MAYFLYD_TEST", program,
                      sizeof(program))) {
        printf("1..0 # SKIP %s is not built\n", program);
        return 0;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%d\n", RUNS * (argc - 1));
    for (int i = 1; i < argc; i++) {
        for (int is_bytewise = 0; is_bytewise < RUNS; is_bytewise++) {
            bool is_good = play(argv[i], program, is_foreign, is_bytewise != 0);

            failed += !is_good;
            printf("%s - %s, %s\n", is_good ? "ok" : "not ok", argv[i],
                   is_bytewise != 0 ? "byte by byte" : "as written");
        }
    }
    return failed == 0 ? 0 : 1;
}
