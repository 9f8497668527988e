/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections of a client of the bench: one thread, one epoll set. Requests are composed in
 * a connection's buffer and sent; what comes back is taken apart into lines, and the bytes of
 * values between them. Whatever goes wrong with a connection ends the program.
 */
#ifndef MAYFLY_TESTS_BENCH_WIRE_H
#define MAYFLY_TESTS_BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_TAIL_BYTES 1024u

/* One connection; the first member of a client's own struct. */
struct wire {
    int fd;
    bool is_writing; /* not everything was sent yet */
    char *out;       /* owned; the requests */
    size_t out_len, out_at, out_cap;
    uint64_t skip;              /* bytes of a value still to come, its line end included */
    char tail[WIRE_TAIL_BYTES]; /* a line that is not complete yet */
    size_t tail_len;
};

/* What the client does with what came. */
struct wire_client {
    /* A line, without its end. If a value follows, this sets w->skip. */
    void (*on_line)(struct wire *w, const char *line, size_t len);
    /* Bytes of a value, before they are taken off w->skip. May be NULL. */
    void (*on_value)(struct wire *w, const char *bytes, size_t n);
    /* All that one read brought was taken. */
    void (*on_taken)(struct wire *w);
};

/* Connect to a port of this machine; close. */
void wire_open(struct wire *w, int port);
void wire_close(struct wire *w);

/* Forget the requests of the last batch, which was sent. */
void wire_clear(struct wire *w);

/* Room for n more bytes of requests. The caller adds what it wrote to w->out_len. */
char *wire_room(struct wire *w, size_t n);

/* Send what was composed; what the socket does not take goes when it does. */
void wire_send(struct wire *w);

/* Send and receive on all connections until the client has enough. */
void wire_run(const struct wire_client *client, bool (*has_enough)(void));

/* Send and receive what is ready; wait for that up to the given number of seconds. */
void wire_poll(const struct wire_client *client, double wait_s);

/* A reply was not what it should be. The first is kept to be shown. */
void wire_is_wrong(const char *line, size_t len);
extern uint64_t wire_wrong;
extern char wire_first_wrong[160];

#endif
