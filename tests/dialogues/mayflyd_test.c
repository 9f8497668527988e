/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon for scripted dialogues: the same libraries and options, a frozen clock
 * from the start, and a sampler that is held. With MAYFLY_TEST_CONTROL=<path> in the
 * environment it listens on a second unix socket for lines:
 *
 *     advance <ms>      move the clock ahead
 *     step <ms>         set the wall clock, ahead or back
 *     sampler on|off    let expired keys be collected, or hold that
 *     counters          name and value of every counter, one a line, then END
 *
 * The first three are answered with OK when every worker has done what falls due at the new
 * moment, so that a script needs no sleep. Anything else is answered with a line that begins
 * with ERROR. Clients are served one command at a time; the control runs on the main thread's
 * loop.
 */
#include "daemon/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/conn/conn_steps.h"
#include "daemon/options/options.h"
#include "daemon/service/privs.h"
#include "daemon/service/server.h"
#include "daemon/stats/stats.h"
#include "daemon/worker/worker.h"
#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/shard/expire.h"
#include "lib/shard/upkeep.h"

/* Longest control line. */
#define LINE_MAX_BYTES 128u

/* The most slices that a worker runs to settle: far more than any dialogue needs. */
#define SETTLE_SLICES 10000u

struct control;

/* Asks one worker to do what is due, then goes back to main. */
struct settle {
    struct message message;
    struct control *control; /* [borrowed] */
};

struct control {
    /* [const] */
    struct server *server;
    const char *path;
    bool is_open;
    /* [main] */
    uv_pipe_t listener;
    uv_pipe_t client;
    bool has_client;
    bool is_settling;  /* a command waits for the workers */
    bool is_over;      /* the server stops: nothing is executed any more */
    uint32_t settling; /* workers that have not answered yet */
    struct buf in;
    char read_buf[LINE_MAX_BYTES];
    struct settle *settles; /* owned; one for each worker */
    /* [atomic] */
    _Atomic bool is_held;
};

static void serve_lines(struct control *c);

/* ---- answers ----------------------------------------------------------------------------- */

struct answer {
    uv_write_t write; /* must be first */
    struct buf bytes;
};

static void on_written(uv_write_t *write, int status)
{
    struct answer *a = (struct answer *)(void *)write;

    (void)status;
    buf_fini(&a->bytes);
    mem_free(a);
}

/* Send the bytes; takes ownership of them. */
static void send_bytes(struct control *c, struct buf *bytes)
{
    struct answer *a = mem_alloc(sizeof(*a));

    must(a != NULL);
    a->bytes = *bytes;
    uv_buf_t piece = uv_buf_init(buf_begin(&a->bytes), (unsigned)buf_len(&a->bytes));
    if (!c->has_client ||
        uv_write(&a->write, (uv_stream_t *)&c->client, &piece, 1, on_written) != 0) {
        on_written(&a->write, 0);
    }
}

static void send_line(struct control *c, const char *line)
{
    struct buf bytes = {0};

    must(buf_printf(&bytes, "%s\n", line));
    send_bytes(c, &bytes);
}

static void send_counters(struct control *c)
{
    uint64_t sum[CTR_COUNT];
    struct buf bytes = {0};

    stats_sum_raw(&c->server->crew, sum);
    for (unsigned id = 0; id < CTR_COUNT; id++) {
        const struct counter_row *row = &counter_rows[id];

        must(buf_printf(&bytes, "%s %" PRId64 "\n", row->line, (int64_t)sum[id]));
        if (strcmp(row->line, row->name) != 0) {
            must(buf_printf(&bytes, "%s %" PRId64 "\n", row->name, (int64_t)sum[id]));
        }
    }
    must(buf_append(&bytes, "END\n", 4));
    send_bytes(c, &bytes);
}

/* ---- settling ---------------------------------------------------------------------------- */

/* Back on main: the last worker's answer lets the command be answered. */
static void on_settled(struct message *m, void *receiver)
{
    struct control *c = ((struct settle *)(void *)m)->control;

    (void)receiver;
    if (--c->settling == 0) {
        c->is_settling = false;
        send_line(c, "OK");
        serve_lines(c);
    }
}

/*
 * On a worker: expire and maintain until nothing is due, check its connections, then go back to
 * main.
 */
static void on_settle(struct message *m, void *receiver)
{
    struct worker *w = receiver;
    struct settle *s = (struct settle *)(void *)m;
    msec_t now = worker_now(w);
    struct cycle_config cfg;

    cron_expire_config(w, &cfg);
    for (uint32_t i = 0; i < w->home_count; i++) {
        struct shard *shard = w->homes[i]->shard;

        for (unsigned n = 0; n < SETTLE_SLICES && shard_maintain(shard, now, 1000); n++) {
        }
        for (unsigned n = 0;
             n < SETTLE_SLICES && !atomic_load(&s->control->is_held) &&
             setting_get(w->settings, engine.active_expire) && shard_next_due(shard) <= now;
             n++) {
            shard_expire_slice(shard, CYCLE_SLOW, &cfg);
        }
    }
    cron_poked(w);
    conn_ready_retry(w, true);
    conn_idle_check(w, now);
    m->fn = on_settled;
    mailbox_post(&w->crew->main_mailbox, m);
}

static void settle_all(struct control *c)
{
    c->is_settling = true;
    c->settling = roster_created(&c->server->crew.roster);
    for (uint32_t i = 0; i < roster_created(&c->server->crew.roster); i++) {
        c->settles[i].control = c;
        c->settles[i].message.fn = on_settle;
        mailbox_post(&c->server->crew.workers[i].mailbox, &c->settles[i].message);
    }
}

/* ---- commands ---------------------------------------------------------------------------- */

static void hold_sampler(struct control *c, bool is_held)
{
    atomic_store(&c->is_held, is_held);
    engine_hold_sampler(&c->server->crew.engine, is_held);
}

static void execute(struct control *c, struct span line)
{
    int64_t ms;

    if (span_is(line, "counters")) {
        send_counters(c);
    } else if (span_is(line, "sampler on") || span_is(line, "sampler off")) {
        hold_sampler(c, span_is(line, "sampler off"));
        settle_all(c);
    } else if (line.len > 8 && memcmp(line.ptr, "advance ", 8) == 0 &&
               num_i64(span_of(line.ptr + 8, line.len - 8), &ms) == MF_OK && ms >= 0) {
        clock_advance(&c->server->crew.engine.clock, ms);
        settle_all(c);
    } else if (line.len > 5 && memcmp(line.ptr, "step ", 5) == 0 &&
               num_i64(span_of(line.ptr + 5, line.len - 5), &ms) == MF_OK) {
        clock_step_wall(&c->server->crew.engine.clock, ms);
        settle_all(c);
    } else {
        send_line(c, "ERROR unknown command");
    }
}

/* Execute the complete lines, up to one that has to wait for the workers. */
static void serve_lines(struct control *c)
{
    while (!c->is_settling && !c->is_over && buf_len(&c->in) > 0) {
        const char *begin = buf_begin(&c->in);
        const char *end = memchr(begin, '\n', buf_len(&c->in));

        if (end == NULL) {
            return;
        }
        execute(c, span_of(begin, (size_t)(end - begin)));
        buf_consume(&c->in, (size_t)(end - begin) + 1);
    }
}

/* ---- the socket -------------------------------------------------------------------------- */

static void on_client_closed(uv_handle_t *handle)
{
    struct control *c = handle->data;

    buf_clear(&c->in);
    c->has_client = false;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct control *c = handle->data;

    (void)suggested;
    *out = uv_buf_init(c->read_buf, sizeof(c->read_buf));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct control *c = stream->data;

    if (n < 0) {
        uv_close((uv_handle_t *)stream, on_client_closed);
        return;
    }
    must(buf_append(&c->in, bytes->base, (size_t)n));
    serve_lines(c);
}

static void on_client(uv_stream_t *listener, int status)
{
    struct control *c = listener->data;

    if (status != 0 || c->has_client) {
        /*
         * One client at a time: this one waits in the backlog, and is tried again only when
         * another comes.
         */
        return;
    }
    uv_pipe_init(listener->loop, &c->client, 0);
    c->client.data = c;
    c->has_client = true;
    if (uv_accept(listener, (uv_stream_t *)&c->client) != 0 ||
        uv_read_start((uv_stream_t *)&c->client, on_alloc, on_read) != 0) {
        uv_close((uv_handle_t *)&c->client, on_client_closed);
    }
}

static bool control_open(struct control *c, struct server *server)
{
    memset(c, 0, sizeof(*c));
    c->server = server;
    c->path = getenv("MAYFLY_TEST_CONTROL");
    clock_freeze(&server->crew.engine.clock);
    hold_sampler(c, true);
    if (c->path == NULL) {
        return true;
    }
    c->settles = mem_zalloc(roster_created(&server->crew.roster) * sizeof(*c->settles));
    must(c->settles != NULL);
    uv_pipe_init(&server->loop, &c->listener, 0);
    c->listener.data = c;
    c->is_open = true;
    int err = uv_pipe_bind(&c->listener, c->path);
    if (err == 0) {
        err = uv_listen((uv_stream_t *)&c->listener, 4, on_client);
    }
    if (err != 0) {
        log_error("control, cannot listen on %s (%s)", c->path, uv_strerror(err));
        return false;
    }
    return true;
}

/* Close the handles; server_stop() runs the loop until they are gone. */
static void control_close(struct control *c)
{
    if (c->is_open) {
        uv_close((uv_handle_t *)&c->listener, NULL);
        (void)unlink(c->path);
    }
    if (c->has_client && !uv_is_closing((uv_handle_t *)&c->client)) {
        uv_close((uv_handle_t *)&c->client, on_client_closed);
    }
    c->is_over = true;
    c->has_client = false;
}

static void control_fini(struct control *c)
{
    buf_fini(&c->in);
    mem_free(c->settles);
}

static int run(struct settings *settings)
{
    static struct control control;
    struct server *server = mem_alloc_aligned(sizeof(*server), 64);

    if (server == NULL) {
        return EX_OSERR;
    }
    int status = server_start(server, settings);
    if (status == 0) {
        if (control_open(&control, server)) {
            server_serve(server);
        } else {
            status = EX_OSERR;
        }
        control_close(&control);
        server_stop(server);
        control_fini(&control);
    }
    mem_free(server);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings;
    int status = privs_open_std_fds();

    if (status != 0) {
        return status;
    }
    if (options_parse(argc, argv, &settings, &status) == OPTIONS_RUN) {
        status = run(&settings);
    }
    settings_fini(&settings);
    return status;
}
