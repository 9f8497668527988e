/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lean load generator for the bench: one thread, one epoll set, closed loop. Every connection
 * sends a batch of requests, waits for all replies, sends the next. The CPU time of the server
 * process is read before and after the measured requests, so that connecting, filling
 * and warming up do not count.
 *
 *     bench_load --port N [--pid N] [--proto text|resp] [--conns N] [--pipeline N]
 *                [--op get|set|mixed|incr] [--ratio N (gets to one set, with mixed)]
 *                [--width N (keys of a get)] [--prefix C] [--keys N] [--size BYTES]
 *                [--zipf] [--ttl SECONDS] [--ops N] [--warmup N] [--fill] [--seed N]
 *
 * Prints one line: the figures as JSON. Exit status 1 when a reply was wrong, 2 when it could
 * not work. Each value is checked for its length, and byte by byte with --verify.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES  (1024u * 1024)
#define TAIL_BYTES  1024u
#define KEY_BYTES   20u
#define ZIPF_RING   (1u << 20)
#define ZIPF_THETA  0.99
#define TEXT_SPREAD 4096u
#define WAIT_MS     20000

enum op { OP_GET, OP_SET, OP_MIXED, OP_INCR };
enum proto { PROTO_TEXT, PROTO_RESP };

static struct {
    int port, conns, pipeline, width;
    pid_t pid;
    enum proto proto;
    enum op op;
    unsigned ratio;
    char prefix;
    uint64_t keys, size, ops, warmup, seed;
    unsigned ttl;
    bool zipf, fill, verify;
} opt = {.conns = 50,
         .pipeline = 1,
         .width = 1,
         .ratio = 1,
         .prefix = 'k',
         .keys = 10000,
         .size = 100,
         .seed = 1};

/* One connection: the batch in flight and how far its replies are read. */
struct conn {
    int fd;
    char *out;
    size_t out_len, out_at, out_cap;
    unsigned waiting;  /* requests without their whole reply */
    uint64_t skip;     /* bytes of a value still to come */
    uint64_t value_id; /* the key of that value */
    unsigned got;      /* text: values of the get that is being answered */
    unsigned array;    /* RESP: elements of an array still to come */
    char tail[TAIL_BYTES];
    size_t tail_len;
    bool is_writing;
};

struct counts {
    uint64_t done, hits, misses, wrong;
};

static struct conn *conns;
static int epoll_fd;
static char *read_buf;
static char *text; /* values are slices of it */
static uint32_t *zipf_ring;
static uint32_t zipf_at;
static uint64_t rng_state;
static struct counts counts;
static uint64_t to_send; /* requests of this phase not yet sent */
static uint64_t fill_next;
static char first_wrong[160];

static void die(const char *what)
{
    fprintf(stderr, "bench_load: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *must_alloc(void *p)
{
    if (p == NULL) {
        die("memory");
    }
    return p;
}

static uint64_t rng_next(void)
{
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * 0x2545f4914f6cdd1dULL;
}

static uint64_t rng_below(uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_next() * n) >> 64);
}

/* ---- keys and values --------------------------------------------------------------------- */

/*
 * A ring of picks by Zipf's law: the cumulative weights once, then a binary search for each
 * pick.
 */
static void make_zipf(void)
{
    double *sum = must_alloc(malloc(opt.keys * sizeof(*sum))), total = 0;

    for (uint64_t i = 0; i < opt.keys; i++) {
        total += pow((double)(i + 1), -ZIPF_THETA);
        sum[i] = total;
    }
    zipf_ring = must_alloc(malloc(ZIPF_RING * sizeof(*zipf_ring)));
    for (uint32_t i = 0; i < ZIPF_RING; i++) {
        double x = (double)(rng_next() >> 11) * 0x1p-53 * total;
        uint64_t low = 0, high = opt.keys - 1;

        while (low < high) {
            uint64_t mid = (low + high) / 2;
            if (sum[mid] < x) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        /* Ranks are scattered over the keys, so that hot keys are not neighbours. */
        zipf_ring[i] = (uint32_t)(low * 2654435761u % opt.keys);
    }
    free(sum);
}

static uint64_t pick_key(void)
{
    if (opt.zipf) {
        return zipf_ring[zipf_at++ % ZIPF_RING];
    }
    return rng_below(opt.keys);
}

static void put_key(char *out, uint64_t id)
{
    out[0] = opt.prefix;
    for (size_t i = KEY_BYTES - 1; i > 0; i--) {
        out[i] = (char)('0' + id % 10);
        id /= 10;
    }
}

static uint64_t read_key(const char *key)
{
    uint64_t id = 0;

    for (size_t i = 1; i < KEY_BYTES; i++) {
        id = id * 10 + (uint64_t)(key[i] - '0');
    }
    return id;
}

static const char *value_of(uint64_t id)
{
    return text + (id * 0x9e3779b97f4a7c15ULL >> 32) % TEXT_SPREAD;
}

static void make_text(void)
{
    size_t n = opt.size + TEXT_SPREAD;

    text = must_alloc(malloc(n));
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + (i * 7919 + i / 26) % 26);
    }
}

/* ---- requests ---------------------------------------------------------------------------- */

static char *room(struct conn *c, size_t n)
{
    if (c->out_len + n > c->out_cap) {
        c->out_cap = (c->out_len + n) * 2;
        c->out = must_alloc(realloc(c->out, c->out_cap));
    }
    return c->out + c->out_len;
}

static void put_get(struct conn *c)
{
    char *p = room(c, 64 + (size_t)opt.width * (KEY_BYTES + 8)), *start = p;

    if (opt.proto == PROTO_TEXT) {
        memcpy(p, "get", 3);
        p += 3;
        for (int i = 0; i < opt.width; i++) {
            *p++ = ' ';
            put_key(p, pick_key());
            p += KEY_BYTES;
        }
        memcpy(p, "\r\n", 2);
        p += 2;
    } else {
        p += opt.width == 1 ? sprintf(p, "*2\r\n$3\r\nGET\r\n")
                            : sprintf(p, "*%d\r\n$4\r\nMGET\r\n", opt.width + 1);
        for (int i = 0; i < opt.width; i++) {
            memcpy(p, "$20\r\n", 5);
            put_key(p + 5, pick_key());
            memcpy(p + 5 + KEY_BYTES, "\r\n", 2);
            p += 7 + KEY_BYTES;
        }
    }
    c->out_len += (size_t)(p - start);
}

static void put_set(struct conn *c, uint64_t id)
{
    char *p = room(c, opt.size + 256), *start = p, key[KEY_BYTES];
    char number[24];
    unsigned ttl = opt.ttl != 0 ? opt.ttl + (unsigned)rng_below(opt.ttl * 4) : 0;
    const char *value = value_of(id);
    size_t size = opt.size;

    if (opt.op == OP_INCR) {
        size = (size_t)sprintf(number, "%" PRIu64, id);
        value = number;
    }
    put_key(key, id);
    if (opt.proto == PROTO_TEXT) {
        p += sprintf(p, "set %.*s 0 %u %zu\r\n", (int)KEY_BYTES, key, ttl, size);
    } else {
        p += sprintf(p, "*%d\r\n$3\r\nSET\r\n$20\r\n%.*s\r\n$%zu\r\n", ttl != 0 ? 5 : 3,
                     (int)KEY_BYTES, key, size);
    }
    memcpy(p, value, size);
    p += size;
    memcpy(p, "\r\n", 2);
    p += 2;
    if (opt.proto == PROTO_RESP && ttl != 0) {
        char seconds[16];
        int n = sprintf(seconds, "%u", ttl);
        p += sprintf(p, "$2\r\nEX\r\n$%d\r\n%s\r\n", n, seconds);
    }
    c->out_len += (size_t)(p - start);
}

static void put_incr(struct conn *c)
{
    char *p = room(c, 128), key[KEY_BYTES];

    put_key(key, pick_key());
    c->out_len +=
        (size_t)(opt.proto == PROTO_TEXT
                     ? sprintf(p, "incr %.*s 1\r\n", (int)KEY_BYTES, key)
                     : sprintf(p, "*2\r\n$4\r\nINCR\r\n$20\r\n%.*s\r\n", (int)KEY_BYTES, key));
}

static void put_request(struct conn *c)
{
    if (opt.fill) {
        put_set(c, fill_next++);
        return;
    }
    switch (opt.op) {
    case OP_GET:
        put_get(c);
        break;
    case OP_SET:
        put_set(c, pick_key());
        break;
    case OP_INCR:
        put_incr(c);
        break;
    case OP_MIXED:
        if (rng_below(opt.ratio + 1) == 0) {
            put_set(c, pick_key());
        } else {
            put_get(c);
        }
        break;
    }
}

/* ---- replies ----------------------------------------------------------------------------- */

static void wrong_reply(const char *line, size_t len)
{
    if (counts.wrong++ == 0) {
        (void)snprintf(first_wrong, sizeof(first_wrong), "%.*s", (int)(len < 100 ? len : 100),
                       line);
    }
}

static void value_begins(struct conn *c, uint64_t len)
{
    counts.hits++;
    c->got++;
    c->skip = len + 2;
    if (opt.op != OP_INCR && len != opt.size) {
        wrong_reply("length", 6);
    }
}

static void reply_done(struct conn *c)
{
    c->waiting--;
    counts.done++;
}

/* A line of the text protocol; `end` points after its last character. */
static void text_line(struct conn *c, const char *line, const char *end)
{
    size_t len = (size_t)(end - line);

    if (len > 6 + KEY_BYTES && memcmp(line, "VALUE ", 6) == 0) {
        uint64_t n = 0;

        c->value_id = read_key(line + 6);
        for (const char *p = line + 6 + KEY_BYTES + 3; p < end && *p >= '0' && *p <= '9'; p++) {
            n = n * 10 + (uint64_t)(*p - '0');
        }
        value_begins(c, n);
        return;
    }
    if (!(len == 3 && memcmp(line, "END", 3) == 0) &&
        !(len == 6 && memcmp(line, "STORED", 6) == 0) &&
        !(len != 0 && *line >= '0' && *line <= '9')) {
        wrong_reply(line, len);
    }
    reply_done(c);
}

static void resp_line(struct conn *c, const char *line, const char *end)
{
    int64_t n = strtoll(line + 1, NULL, 10);

    switch (*line) {
    case '*':
        c->array = (unsigned)n;
        return;
    case '$':
        if (n >= 0) {
            c->value_id = UINT64_MAX;
            value_begins(c, (uint64_t)n);
        } else {
            counts.misses++;
        }
        if (c->array > 1) {
            c->array--;
            return;
        }
        c->array = 0;
        break;
    case '+':
    case ':':
        break;
    default:
        wrong_reply(line, (size_t)(end - line));
        break;
    }
    reply_done(c);
}

static void check_value(struct conn *c, const char *bytes, uint64_t n)
{
    uint64_t at = opt.size + 2 - c->skip;

    if (opt.verify && opt.op != OP_INCR && c->value_id != UINT64_MAX && at < opt.size) {
        uint64_t take = n < opt.size - at ? n : opt.size - at;
        if (memcmp(value_of(c->value_id) + at, bytes, take) != 0) {
            wrong_reply("value", 5);
        }
    }
}

/* Read what arrived; an unfinished line stays in the tail. */
static void take_replies(struct conn *c, const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < len) {
        if (c->skip != 0) {
            uint64_t n = c->skip < len - at ? c->skip : len - at;

            check_value(c, bytes + at, n);
            c->skip -= n;
            at += n;
            continue;
        }
        const char *nl = memchr(bytes + at, '\n', len - at);
        if (nl == NULL) {
            break;
        }
        const char *line = bytes + at;
        at = (size_t)(nl + 1 - bytes);
        if (opt.proto == PROTO_TEXT) {
            text_line(c, line, nl - 1);
        } else {
            resp_line(c, line, nl - 1);
        }
    }
    c->tail_len = len - at;
    if (c->tail_len > TAIL_BYTES) {
        errno = EPROTO;
        die("a reply line is too long");
    }
    memcpy(c->tail, bytes + at, c->tail_len);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void watch(struct conn *c, bool for_writing)
{
    struct epoll_event ev = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0), .data.ptr = c};

    if (c->is_writing != for_writing && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &ev) != 0) {
        die("epoll_ctl");
    }
    c->is_writing = for_writing;
}

static void send_out(struct conn *c)
{
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            watch(c, true);
            return;
        }
        if (n < 0) {
            die("send");
        }
        c->out_at += (size_t)n;
    }
    watch(c, false);
}

static void next_batch(struct conn *c)
{
    c->out_len = c->out_at = 0;
    for (int i = 0; i < opt.pipeline && to_send > 0; i++) {
        put_request(c);
        to_send--;
        c->waiting++;
    }
    send_out(c);
}

static void on_readable(struct conn *c)
{
    memcpy(read_buf, c->tail, c->tail_len);
    ssize_t n = recv(c->fd, read_buf + c->tail_len, READ_BYTES, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        die("the server closed a connection");
    }
    take_replies(c, read_buf, c->tail_len + (size_t)n);
    if (c->waiting == 0 && to_send > 0) {
        next_batch(c);
    }
}

/* Send n requests over all connections and read all replies. */
static void run_phase(uint64_t n)
{
    struct epoll_event events[256];
    uint64_t until = counts.done + n;

    to_send = n;
    for (int i = 0; i < opt.conns && to_send > 0; i++) {
        next_batch(&conns[i]);
    }
    while (counts.done < until) {
        int ready = epoll_wait(epoll_fd, events, 256, WAIT_MS);

        if (ready == 0) {
            errno = ETIMEDOUT;
            die("no reply");
        }
        for (int i = 0; i < ready; i++) {
            struct conn *c = events[i].data.ptr;

            if ((events[i].events & EPOLLOUT) != 0) {
                send_out(c);
            }
            if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
                on_readable(c);
            }
        }
    }
}

static void open_connections(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)opt.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    conns = must_alloc(calloc((size_t)opt.conns, sizeof(*conns)));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < opt.conns; i++) {
        struct conn *c = &conns[i];
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        int one = 1;

        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
            die("connect");
        }
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) != 0) {
            die("epoll_ctl");
        }
    }
}

static double seconds_of(clockid_t id)
{
    struct timespec t;

    if (clock_gettime(id, &t) != 0) {
        die("clock");
    }
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(void)
{
    clockid_t server = CLOCK_MONOTONIC;

    if (opt.pid != 0 && clock_getcpuclockid(opt.pid, &server) != 0) {
        die("no such server process");
    }
    if (!opt.fill && opt.warmup > 0) {
        run_phase(opt.warmup);
    }
    uint64_t misses = counts.misses;
    counts.hits = 0;
    double cpu = seconds_of(server), wall = seconds_of(CLOCK_MONOTONIC);
    double mine = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t n = opt.fill ? opt.keys : opt.ops;
    run_phase(n);
    cpu = seconds_of(server) - cpu;
    wall = seconds_of(CLOCK_MONOTONIC) - wall;
    mine = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - mine;
    printf("{\"ops\": %" PRIu64 ", \"server_us_per_op\": %.4f, \"server_busy\": %.3f, "
           "\"client_busy\": %.3f, \"ops_per_s\": %.0f, \"hits\": %" PRIu64
           ", \"misses\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"first_wrong\": \"%s\"}\n",
           n, opt.pid != 0 ? cpu * 1e6 / (double)n : 0, cpu / wall, mine / wall,
           (double)n / wall, counts.hits, counts.misses - misses, counts.wrong, first_wrong);
}

static enum op parse_op(const char *s)
{
    static const char *const names[] = {"get", "set", "mixed", "incr"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(s, names[i]) == 0) {
            return (enum op)i;
        }
    }
    fprintf(stderr, "bench_load: no such operation: %s\n", s);
    exit(2);
}

static void parse_options(int argc, char **argv)
{
    static const struct option longs[] = {
        {"port", 1, NULL, 'p'},  {"pid", 1, NULL, 'i'},      {"proto", 1, NULL, 'P'},
        {"conns", 1, NULL, 'c'}, {"pipeline", 1, NULL, 'l'}, {"op", 1, NULL, 'o'},
        {"ratio", 1, NULL, 'r'}, {"width", 1, NULL, 'w'},    {"prefix", 1, NULL, 'x'},
        {"keys", 1, NULL, 'k'},  {"size", 1, NULL, 's'},     {"zipf", 0, NULL, 'z'},
        {"ttl", 1, NULL, 't'},   {"ops", 1, NULL, 'n'},      {"warmup", 1, NULL, 'u'},
        {"fill", 0, NULL, 'f'},  {"seed", 1, NULL, 'e'},     {"verify", 0, NULL, 'v'},
        {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;

        switch (c) {
        case 'p':
            opt.port = (int)n;
            break;
        case 'i':
            opt.pid = (pid_t)n;
            break;
        case 'P':
            opt.proto = strcmp(optarg, "resp") == 0 ? PROTO_RESP : PROTO_TEXT;
            break;
        case 'c':
            opt.conns = (int)n;
            break;
        case 'l':
            opt.pipeline = (int)n;
            break;
        case 'o':
            opt.op = parse_op(optarg);
            break;
        case 'r':
            opt.ratio = (unsigned)n;
            break;
        case 'w':
            opt.width = (int)n;
            break;
        case 'x':
            opt.prefix = optarg[0];
            break;
        case 'k':
            opt.keys = n;
            break;
        case 's':
            opt.size = n;
            break;
        case 'z':
            opt.zipf = true;
            break;
        case 't':
            opt.ttl = (unsigned)n;
            break;
        case 'n':
            opt.ops = n;
            break;
        case 'u':
            opt.warmup = n;
            break;
        case 'f':
            opt.fill = true;
            break;
        case 'e':
            opt.seed = n;
            break;
        case 'v':
            opt.verify = true;
            break;
        default:
            exit(2);
        }
    }
    if (opt.port <= 0 || opt.conns <= 0 || opt.pipeline <= 0 || opt.width <= 0 ||
        opt.keys == 0) {
        fprintf(stderr, "bench_load: --port is needed, counts are positive\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    rng_state = opt.seed * 0x9e3779b97f4a7c15ULL | 1;
    make_text();
    if (opt.zipf) {
        make_zipf();
    }
    read_buf = must_alloc(malloc(READ_BYTES + TAIL_BYTES));
    open_connections();
    measure();
    for (int i = 0; i < opt.conns; i++) {
        (void)close(conns[i].fd);
        free(conns[i].out);
    }
    free(conns);
    free(read_buf);
    free(text);
    free(zipf_ring);
    return counts.wrong != 0;
}
