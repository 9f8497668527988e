/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look-aside client for the bench: every request is a get, and a set of the same key after a
 * miss. Keys are drawn by Zipf's law or uniformly, or come from a trace on standard input, one
 * request a line, whose first field is the number of the key. It tells the hit ratio and the
 * CPU time of the server process for each operation, gets and sets.
 *
 *     bench_aside --port N [--pid N] [--conns N] [--pipeline N] [--size BYTES[-BYTES]]
 *                 [--keys N [--theta T (0: uniform)] --ops N | --tenants N < trace]
 *                 [--warmup N] [--set (stores only)] [--seed N]
 *     bench_aside --sim ITEMS [the same keys]
 *
 * With --sim it plays the same requests to ideal caches of so many items instead: LRU, and
 * S3-FIFO (J. Yang et al., SOSP 2023) with a threshold of one and of two hits. Tenants play the
 * trace each with keys of its own, each beginning a part of it after the one before. Prints one
 * line of JSON. Exit status 1 when a reply was wrong, 2 when it could not work.
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

#define READ_BYTES (1024u * 1024)
#define KEY_BYTES  22u
#define WAIT_MS    20000
#define BATCH_MAX  256

static struct {
    int port, conns, pipeline;
    pid_t pid;
    uint64_t keys, ops, warmup, seed, sim, tenants;
    uint64_t size_low, size_high;
    double theta;
    bool sets;
} opt = {
    .conns = 8, .pipeline = 1, .seed = 1, .size_low = 4000, .size_high = 4000, .theta = 0.99};

/* One connection: a batch of sets for what was missed, then gets. */
struct conn {
    int fd;
    char *out;
    size_t out_len, out_at, out_cap;
    uint64_t gets[BATCH_MAX];
    uint64_t missed[BATCH_MAX];
    unsigned sets_waiting, get_count, gets_done, missed_count;
    bool has_value; /* the get that is being answered was a hit */
    uint64_t skip;  /* bytes of a value still to come */
    char tail[256];
    size_t tail_len;
    bool is_writing;
};

static struct conn *conns;
static int epoll_fd;
static char *read_buf;
static char *text;
static uint32_t *request; /* key numbers, in order */
static uint64_t requests, next_request, last_request;
static uint64_t gets, hits, stores, wrong;
static char first_wrong[160];

static void die(const char *what)
{
    fprintf(stderr, "bench_aside: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *must_alloc(void *p)
{
    if (p == NULL) {
        die("memory");
    }
    return p;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* ---- requests ---------------------------------------------------------------------------- */

static uint64_t size_of(uint64_t id)
{
    return opt.size_low + mix(id + 77) % (opt.size_high - opt.size_low + 1);
}

static void draw_keys(void)
{
    double *sum = must_alloc(malloc(opt.keys * sizeof(*sum))), total = 0;
    uint64_t state = opt.seed;

    for (uint64_t i = 0; i < opt.keys; i++) {
        total += pow((double)(i + 1), -opt.theta);
        sum[i] = total;
    }
    requests = opt.ops + opt.warmup;
    request = must_alloc(malloc(requests * sizeof(*request)));
    for (uint64_t i = 0; i < requests; i++) {
        double x = (double)(mix(state += 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53 * total;
        uint64_t low = 0, high = opt.keys - 1;

        while (low < high) {
            uint64_t mid = (low + high) / 2;
            if (sum[mid] < x) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        request[i] = (uint32_t)low;
    }
    free(sum);
}

/* The tenants take turns; each begins a part of the trace after the one before. */
static void read_trace(void)
{
    char line[4096];
    uint64_t n = 0, cap = 1 << 20, lag, at = 0;
    uint32_t *base = must_alloc(malloc(cap * sizeof(*base)));

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (n == cap) {
            cap *= 2;
            base = must_alloc(realloc(base, cap * sizeof(*base)));
        }
        base[n++] = (uint32_t)strtoul(line, NULL, 10);
    }
    lag = n / (16 * opt.tenants);
    requests = n * opt.tenants;
    request = must_alloc(malloc((requests + 1) * sizeof(*request)));
    for (uint64_t i = 0; i < n + lag * (opt.tenants - 1); i++) {
        for (uint64_t t = 0; t < opt.tenants; t++) {
            if (i >= t * lag && i - t * lag < n) {
                request[at++] = (uint32_t)(base[i - t * lag] * opt.tenants + t);
            }
        }
    }
    free(base);
}

/* ---- the ideal --------------------------------------------------------------------------- */

enum place { NOWHERE, IN_SMALL, IN_MAIN, IN_GHOST };

struct queue {
    uint32_t head, tail; /* newest, oldest; 0: none. Keys are counted from 1 here */
    uint64_t count;
};

static uint32_t *older, *newer;
static uint8_t *place, *heat;

static void push(struct queue *q, uint32_t k)
{
    newer[k] = 0;
    older[k] = q->head;
    if (q->head != 0) {
        newer[q->head] = k;
    } else {
        q->tail = k;
    }
    q->head = k;
    q->count++;
}

static void take_out(struct queue *q, uint32_t k)
{
    if (newer[k] != 0) {
        older[newer[k]] = older[k];
    } else {
        q->head = older[k];
    }
    if (older[k] != 0) {
        newer[older[k]] = newer[k];
    } else {
        q->tail = newer[k];
    }
    q->count--;
}

static double sim_lru(uint64_t items)
{
    struct queue q = {0, 0, 0};
    uint64_t found = 0;

    for (uint64_t i = 0; i < requests; i++) {
        uint32_t k = request[i] + 1;

        if (place[k] != NOWHERE) {
            found += i >= opt.warmup;
            take_out(&q, k);
        } else if (q.count == items) {
            uint32_t victim = q.tail;
            take_out(&q, victim);
            place[victim] = NOWHERE;
        }
        place[k] = IN_SMALL;
        push(&q, k);
    }
    return (double)found / (double)(requests - opt.warmup);
}

struct s3fifo {
    struct queue small, main, ghost;
    uint64_t items;
    int threshold;
};

static void remember(struct s3fifo *c, uint32_t k)
{
    place[k] = IN_GHOST;
    push(&c->ghost, k);
    if (c->ghost.count > c->items) {
        uint32_t last = c->ghost.tail;
        take_out(&c->ghost, last);
        place[last] = NOWHERE;
    }
}

static void evict_one(struct s3fifo *c)
{
    while (c->small.count > c->items / 10 || c->main.count == 0) {
        uint32_t k = c->small.tail;

        take_out(&c->small, k);
        if (heat[k] < c->threshold) {
            remember(c, k);
            return;
        }
        heat[k] = 0;
        place[k] = IN_MAIN;
        push(&c->main, k);
    }
    for (;;) {
        uint32_t k = c->main.tail;

        take_out(&c->main, k);
        if (heat[k] == 0) {
            place[k] = NOWHERE;
            return;
        }
        heat[k]--;
        push(&c->main, k);
    }
}

static double sim_s3fifo(uint64_t items, int threshold)
{
    struct s3fifo c = {.items = items, .threshold = threshold};
    uint64_t found = 0;

    for (uint64_t i = 0; i < requests; i++) {
        uint32_t k = request[i] + 1;
        bool was_ghost = place[k] == IN_GHOST;

        if (place[k] == IN_SMALL || place[k] == IN_MAIN) {
            found += i >= opt.warmup;
            heat[k] += heat[k] < 3;
            continue;
        }
        if (was_ghost) {
            take_out(&c.ghost, k);
        }
        place[k] = NOWHERE;
        while (c.small.count + c.main.count >= items) {
            evict_one(&c);
        }
        heat[k] = 0;
        place[k] = was_ghost ? IN_MAIN : IN_SMALL;
        push(was_ghost ? &c.main : &c.small, k);
    }
    return (double)found / (double)(requests - opt.warmup);
}

static void forget(uint64_t keys)
{
    memset(place, 0, keys);
    memset(heat, 0, keys);
}

static void simulate(void)
{
    uint64_t keys = 0;
    double lru, s3, s31;

    for (uint64_t i = 0; i < requests; i++) {
        keys = request[i] + 2 > keys ? request[i] + 2 : keys;
    }
    older = must_alloc(calloc(keys, sizeof(*older)));
    newer = must_alloc(calloc(keys, sizeof(*newer)));
    place = must_alloc(calloc(keys, 1));
    heat = must_alloc(calloc(keys, 1));
    lru = sim_lru(opt.sim);
    forget(keys);
    s31 = sim_s3fifo(opt.sim, 1);
    forget(keys);
    s3 = sim_s3fifo(opt.sim, 2);
    printf("{\"requests\": %" PRIu64 ", \"lru\": %.4f, \"s3fifo_1\": %.4f, "
           "\"s3fifo_2\": %.4f}\n",
           requests, lru, s31, s3);
    free(older);
    free(newer);
    free(place);
    free(heat);
}

/* ---- sending ----------------------------------------------------------------------------- */

static char *room(struct conn *c, size_t n)
{
    if (c->out_len + n > c->out_cap) {
        c->out_cap = (c->out_len + n) * 2;
        c->out = must_alloc(realloc(c->out, c->out_cap));
    }
    return c->out + c->out_len;
}

static void put_set(struct conn *c, uint64_t id)
{
    uint64_t size = size_of(id);
    char *p = room(c, size + 128), *start = p;

    p += sprintf(p, "set %0*" PRIu64 " 0 0 %" PRIu64 "\r\n", (int)KEY_BYTES, id, size);
    memcpy(p, text, size);
    memcpy(p + size, "\r\n", 2);
    c->out_len += (size_t)(p + size + 2 - start);
    c->sets_waiting++;
}

static void put_get(struct conn *c, uint64_t id)
{
    char *p = room(c, 64);

    c->out_len += (size_t)sprintf(p, "get %0*" PRIu64 "\r\n", (int)KEY_BYTES, id);
    c->gets[c->get_count++] = id;
}

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

static bool is_waiting(const struct conn *c)
{
    return c->sets_waiting != 0 || c->gets_done < c->get_count;
}

static void next_batch(struct conn *c)
{
    c->out_len = c->out_at = 0;
    for (unsigned i = 0; i < c->missed_count; i++) {
        put_set(c, c->missed[i]);
    }
    c->missed_count = c->get_count = c->gets_done = 0;
    for (int i = 0; i < opt.pipeline && next_request < last_request; i++) {
        if (opt.sets) {
            put_set(c, request[next_request++]);
        } else {
            put_get(c, request[next_request++]);
        }
    }
    send_out(c);
}

/* ---- replies ----------------------------------------------------------------------------- */

static void wrong_reply(const char *line, size_t len)
{
    if (wrong++ == 0) {
        (void)snprintf(first_wrong, sizeof(first_wrong), "%.*s", (int)(len < 100 ? len : 100),
                       line);
    }
}

static void get_answered(struct conn *c)
{
    uint64_t id = c->gets[c->gets_done++];

    gets++;
    if (c->has_value) {
        hits++;
    } else {
        c->missed[c->missed_count++] = id;
    }
    c->has_value = false;
}

static void on_line(struct conn *c, const char *line, size_t len)
{
    if (len > 6 && memcmp(line, "VALUE ", 6) == 0) {
        uint64_t size = size_of(c->gets[c->gets_done]);

        c->has_value = true;
        c->skip = size + 2;
        if (strtoull(line + 6, NULL, 10) != c->gets[c->gets_done] ||
            strtoull(line + 6 + KEY_BYTES + 3, NULL, 10) != size) {
            wrong_reply(line, len);
        }
    } else if (len == 3 && memcmp(line, "END", 3) == 0 && c->gets_done < c->get_count) {
        get_answered(c);
    } else if (c->sets_waiting != 0) {
        c->sets_waiting--;
        stores++;
        if (len != 6 || memcmp(line, "STORED", 6) != 0) {
            wrong_reply(line, len);
        }
    } else {
        errno = EPROTO;
        die("an answer to nothing");
    }
}

static void on_readable(struct conn *c)
{
    char *end, *p = read_buf;
    ssize_t n;

    memcpy(read_buf, c->tail, c->tail_len);
    n = recv(c->fd, read_buf + c->tail_len, READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        die("the server closed a connection");
    }
    end = read_buf + c->tail_len + n;
    while (p < end) {
        uint64_t left = (uint64_t)(end - p);
        char *nl;

        if (c->skip != 0) {
            uint64_t take = c->skip < left ? c->skip : left;
            c->skip -= take;
            p += take;
            continue;
        }
        nl = memchr(p, '\n', left);
        if (nl == NULL) {
            break;
        }
        on_line(c, p, (size_t)(nl - 1 - p));
        p = nl + 1;
    }
    c->tail_len = (size_t)(end - p);
    if (c->tail_len > sizeof(c->tail)) {
        errno = EPROTO;
        die("a reply line is too long");
    }
    memcpy(c->tail, p, c->tail_len);
    if (!is_waiting(c)) {
        next_batch(c);
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static bool is_anything_waiting(void)
{
    for (int i = 0; i < opt.conns; i++) {
        if (is_waiting(&conns[i])) {
            return true;
        }
    }
    return false;
}

/* Send the next n requests over all connections and read all replies. */
static void run_phase(uint64_t n)
{
    struct epoll_event events[256];

    last_request = next_request + n;
    for (int i = 0; i < opt.conns; i++) {
        next_batch(&conns[i]);
    }
    while (is_anything_waiting()) {
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

static void play(void)
{
    clockid_t server = CLOCK_MONOTONIC;
    double cpu;

    read_buf = must_alloc(malloc(READ_BYTES + sizeof(conns->tail)));
    text = must_alloc(malloc(opt.size_high + 1));
    for (uint64_t i = 0; i < opt.size_high; i++) {
        text[i] = (char)('a' + (i * 7919 + i / 26) % 26);
    }
    open_connections();
    if (opt.pid != 0 && clock_getcpuclockid(opt.pid, &server) != 0) {
        die("no such server process");
    }
    run_phase(opt.warmup);
    gets = hits = stores = 0;
    cpu = seconds_of(server);
    run_phase(requests - opt.warmup);
    cpu = seconds_of(server) - cpu;
    printf("{\"gets\": %" PRIu64 ", \"stores\": %" PRIu64 ", \"hit_ratio\": %.4f, "
           "\"server_us_per_op\": %.4f, \"wrong\": %" PRIu64 ", \"first_wrong\": \"%s\"}\n",
           gets, stores, gets != 0 ? (double)hits / (double)gets : 0,
           opt.pid != 0 ? cpu * 1e6 / (double)(gets + stores) : 0, wrong, first_wrong);
    for (int i = 0; i < opt.conns; i++) {
        (void)close(conns[i].fd);
        free(conns[i].out);
    }
    free(conns);
    free(read_buf);
    free(text);
}

static void parse_sizes(const char *s)
{
    char *end;

    opt.size_low = strtoull(s, &end, 10);
    opt.size_high = *end == '-' ? strtoull(end + 1, NULL, 10) : opt.size_low;
}

static void parse_options(int argc, char **argv)
{
    static const struct option longs[] = {
        {"port", 1, NULL, 'p'},  {"pid", 1, NULL, 'i'},    {"conns", 1, NULL, 'c'},
        {"size", 1, NULL, 's'},  {"keys", 1, NULL, 'k'},   {"pipeline", 1, NULL, 'l'},
        {"theta", 1, NULL, 'z'}, {"ops", 1, NULL, 'n'},    {"tenants", 1, NULL, 't'},
        {"seed", 1, NULL, 'e'},  {"warmup", 1, NULL, 'u'}, {"set", 0, NULL, 'o'},
        {"sim", 1, NULL, 'm'},   {NULL, 0, NULL, 0}};
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
        case 'c':
            opt.conns = (int)n;
            break;
        case 'l':
            opt.pipeline = (int)n;
            break;
        case 's':
            parse_sizes(optarg);
            break;
        case 'k':
            opt.keys = n;
            break;
        case 'z':
            opt.theta = strtod(optarg, NULL);
            break;
        case 't':
            opt.tenants = n;
            break;
        case 'n':
            opt.ops = n;
            break;
        case 'u':
            opt.warmup = n;
            break;
        case 'o':
            opt.sets = true;
            break;
        case 'e':
            opt.seed = n;
            break;
        case 'm':
            opt.sim = n;
            break;
        default:
            exit(2);
        }
    }
    if ((opt.port <= 0) == (opt.sim == 0) || (opt.keys == 0) == (opt.tenants == 0) ||
        opt.conns <= 0 || opt.pipeline <= 0 || opt.pipeline > BATCH_MAX || opt.size_low == 0 ||
        opt.size_high < opt.size_low) {
        fprintf(stderr, "bench_aside: --port or --sim, --keys or --tenants; see the source\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    if (opt.keys != 0) {
        draw_keys();
    } else {
        read_trace();
    }
    if (requests <= opt.warmup) {
        errno = EINVAL;
        die("no requests");
    }
    if (opt.sim != 0) {
        simulate();
    } else {
        play();
    }
    free(request);
    return wrong != 0;
}
