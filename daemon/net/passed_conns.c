/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections as bytes: see passed_conns.h.
 */
#include "daemon/net/passed_conns.h"

#include <string.h>

#include "lib/base/hash.h"

#define MAGIC "MAYFLYC\n"

struct head {
    char magic[8];
    uint64_t sum; /* of what follows, up to the end of the numbers */
    uint32_t version;
    uint32_t count;
    uint64_t body_bytes;
    uint64_t body_sum;
};

enum record_flag {
    FLAG_CONTROL = 1,
    FLAG_PROXIED = 2,
    FLAG_AWAITS_HEADER = 4,
    FLAG_LOGIN = 8,
    FLAG_USER = 16,
};

/* Its bytes follow: the user, the input, the output. */
struct record {
    uint64_t idle_ms;
    uint64_t swallow;
    struct siphash_digest login;
    uint64_t user_len;
    uint64_t input_len;
    uint64_t output_len;
    uint8_t address[16];
    uint16_t family;
    uint16_t port;
    uint8_t transport;
    uint8_t protocol;
    uint8_t login_failures;
    uint8_t flags;
};

_Static_assert(sizeof(struct head) == 40, "it looks the same in each version");
_Static_assert(sizeof(struct record) == 80, "another size is another version");

#define SUM_BEGIN offsetof(struct head, version)

/* ---- those to be passed on --------------------------------------------------------------- */

void passed_conns_init(struct passed_conns *p)
{
    *p = (struct passed_conns){0};
    pthread_mutex_init(&p->lock, NULL);
}

void passed_conns_fini(struct passed_conns *p)
{
    buf_fini(&p->numbers);
    buf_fini(&p->records);
    pthread_mutex_destroy(&p->lock);
}

static void passed_put(struct buf *b, const void *bytes, size_t n)
{
    if (n > 0) {
        memcpy(buf_end(b), bytes, n);
        b->end += n;
    }
}

static uint8_t flags_of(const struct passed_conn *c)
{
    return (uint8_t)((c->is_control ? FLAG_CONTROL : 0) | (c->is_proxied ? FLAG_PROXIED : 0) |
                     (c->awaits_header ? FLAG_AWAITS_HEADER : 0) |
                     (c->has_login ? FLAG_LOGIN : 0) | (c->user.ptr != NULL ? FLAG_USER : 0));
}

bool passed_conns_add(struct passed_conns *p, const struct passed_conn *c)
{
    const int32_t number = c->fd;
    const size_t bytes = sizeof(struct record) + c->user.len + c->input.len + c->output.len;
    struct record r;

    memset(&r, 0, sizeof(r));
    r.idle_ms = c->idle_ms;
    r.swallow = c->swallow;
    r.login = c->login;
    r.user_len = c->user.len;
    r.input_len = c->input.len;
    r.output_len = c->output.len;
    memcpy(r.address, c->address, sizeof(r.address));
    r.family = c->family;
    r.port = c->port;
    r.transport = c->transport;
    r.protocol = c->protocol;
    r.login_failures = c->login_failures;
    r.flags = flags_of(c);
    pthread_mutex_lock(&p->lock);
    bool has_room = buf_len(&p->records) + bytes <= PASSED_CONNS_BYTES_MAX &&
                    buf_reserve(&p->numbers, sizeof(number)) && buf_reserve(&p->records, bytes);
    if (has_room) {
        passed_put(&p->numbers, &number, sizeof(number));
        passed_put(&p->records, &r, sizeof(r));
        passed_put(&p->records, c->user.ptr, c->user.len);
        passed_put(&p->records, c->input.ptr, c->input.len);
        passed_put(&p->records, c->output.ptr, c->output.len);
    }
    pthread_mutex_unlock(&p->lock);
    return has_room;
}

size_t passed_conns_bytes(struct passed_conns *p)
{
    pthread_mutex_lock(&p->lock);
    size_t bytes = buf_len(&p->records);
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

uint32_t passed_conns_count(const struct passed_conns *p)
{
    return (uint32_t)(buf_len(&p->numbers) / sizeof(int32_t));
}

static int number_at(struct span numbers, uint32_t i)
{
    int32_t number;

    memcpy(&number, numbers.ptr + i * sizeof(number), sizeof(number));
    return number;
}

int passed_conns_fd(const struct passed_conns *p, uint32_t i)
{
    return number_at(buf_span(&p->numbers), i);
}

static uint64_t sum_of(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

bool passed_conns_encode(const struct passed_conns *p, const struct passed_keys *keys,
                         struct buf *out)
{
    struct head h = {.magic = MAGIC,
                     .version = PASSED_CONNS_VERSION,
                     .count = passed_conns_count(p),
                     .body_bytes = sizeof(*keys) + buf_len(&p->records)};
    const size_t body = sizeof(h) + buf_len(&p->numbers);

    if (!buf_reserve(out, body + h.body_bytes)) {
        return false;
    }
    passed_put(out, &h, sizeof(h));
    passed_put(out, buf_begin(&p->numbers), buf_len(&p->numbers));
    passed_put(out, keys, sizeof(*keys));
    passed_put(out, buf_begin(&p->records), buf_len(&p->records));
    h.body_sum = sum_of(buf_begin(out) + body, h.body_bytes);
    memcpy(buf_begin(out), &h, sizeof(h));
    h.sum = sum_of(buf_begin(out) + SUM_BEGIN, body - SUM_BEGIN);
    memcpy(buf_begin(out), &h, sizeof(h));
    return true;
}

/* ---- those that were --------------------------------------------------------------------- */

/* The first n bytes, which are there. */
static struct span cut(struct span *from, size_t n)
{
    struct span out = span_of(from->ptr, n);

    from->ptr += n;
    from->len -= n;
    return out;
}

enum passed_state passed_conns_open(struct passed_reader *r, struct span bytes)
{
    const struct span all = bytes;
    struct head h;

    memset(r, 0, sizeof(*r));
    if (bytes.len < sizeof(h)) {
        return PASSED_DAMAGED;
    }
    memcpy(&h, cut(&bytes, sizeof(h)).ptr, sizeof(h));
    if (memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0 || bytes.len / sizeof(int32_t) < h.count) {
        return PASSED_DAMAGED;
    }
    struct span body = bytes;
    r->numbers = cut(&body, h.count * sizeof(int32_t));
    if (h.sum != sum_of(all.ptr + SUM_BEGIN, all.len - body.len - SUM_BEGIN)) {
        return PASSED_DAMAGED;
    }
    r->version = h.version;
    r->count = h.count;
    if (h.version != PASSED_CONNS_VERSION) {
        return PASSED_FOREIGN;
    }
    if (body.len != h.body_bytes || body.len < sizeof(r->keys) ||
        h.body_sum != sum_of(body.ptr, body.len)) {
        return PASSED_DAMAGED;
    }
    memcpy(&r->keys, cut(&body, sizeof(r->keys)).ptr, sizeof(r->keys));
    r->records = body;
    return PASSED_GOOD;
}

int passed_conns_number(const struct passed_reader *r, uint32_t i)
{
    return number_at(r->numbers, i);
}

bool passed_conns_next(struct passed_reader *r, struct passed_conn *out)
{
    struct span *left = &r->records;
    struct record rec;

    if (r->next >= r->count || left->len < sizeof(rec)) {
        return false;
    }
    memcpy(&rec, cut(left, sizeof(rec)).ptr, sizeof(rec));
    if ((rec.flags & FLAG_AWAITS_HEADER) != 0 && rec.input_len > PASSED_HEADER_MAX) {
        return false;
    }
    if (rec.user_len > left->len || rec.input_len > left->len - rec.user_len ||
        rec.output_len > left->len - rec.user_len - rec.input_len) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->fd = passed_conns_number(r, r->next);
    out->transport = rec.transport;
    out->protocol = rec.protocol;
    out->login_failures = rec.login_failures;
    out->is_control = (rec.flags & FLAG_CONTROL) != 0;
    out->is_proxied = (rec.flags & FLAG_PROXIED) != 0;
    out->awaits_header = (rec.flags & FLAG_AWAITS_HEADER) != 0;
    out->has_login = (rec.flags & FLAG_LOGIN) != 0;
    out->family = rec.family;
    out->port = rec.port;
    memcpy(out->address, rec.address, sizeof(out->address));
    out->idle_ms = rec.idle_ms;
    out->swallow = rec.swallow;
    out->login = rec.login;
    out->user = cut(left, rec.user_len);
    if ((rec.flags & FLAG_USER) == 0) {
        out->user.ptr = NULL;
    }
    out->input = cut(left, rec.input_len);
    out->output = cut(left, rec.output_len);
    r->next++;
    return true;
}
