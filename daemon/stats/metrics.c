/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets and the HTTP server of metrics: see metrics.h. libmicrohttpd does the protocol.
 * The functions that it calls run on its thread, one for each socket.
 *
 * The library is loaded only if metrics are configured, not linked: with GnuTLS and its
 * dependencies it takes 2.5 MiB, half as much as an empty server.
 */
#include "daemon/stats/metrics.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/sockets.h"
#include "daemon/net/sockets_parts.h"
#include "daemon/options/settings.h"
#include "daemon/replica/replication.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/worker.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/base/span.h"

/* Methods that all pages know. */
#define METHODS "GET, HEAD, OPTIONS"

/* Of each connection: bytes of memory and seconds of silence. */
#define MEMORY_BYTES ((size_t)16 << 10)
#define SILENCE_S    5u

/* Time in which a worker has to answer, and interval of the checks. */
#define PULSE_MAX_US  1000000
#define PULSE_LOOK_US 2000

/* Its name for the dynamic linker: of the interface that its header describes. */
#define LIBRARY "libmicrohttpd.so.12"

#define FUNCTIONS(F)                                                                           \
    F(MHD_start_daemon)                                                                        \
    F(MHD_stop_daemon)                                                                         \
    F(MHD_quiesce_daemon)                                                                      \
    F(MHD_queue_response)                                                                      \
    F(MHD_destroy_response)                                                                    \
    F(MHD_add_response_header)                                                                 \
    F(MHD_get_connection_info)                                                                 \
    F(MHD_lookup_connection_value)                                                             \
    F(MHD_get_connection_values_n)                                                             \
    F(MHD_create_response_from_buffer)                                                         \
    F(MHD_create_response_from_buffer_with_free_callback)

/* Its functions; [const] once metrics_open() has loaded it. It is never unloaded. */
static struct {
#define F(name) __typeof__(name) *name;
    FUNCTIONS(F)
#undef F
} mhd;

/* A socket and its server. */
struct door {
    struct MHD_Daemon *daemon; /* owned; NULL: not started */
    struct crew *crew;         /* [borrowed] */
    struct places places;      /* of the server's thread */
};

struct metrics {
    struct socket_list sockets;
    struct door *doors; /* owned; as many as sockets; NULL: not started */
};

/* The place that the library keeps with a connection; NULL: none. */
static struct place *place_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

/* ---- answers ----------------------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              struct MHD_Response *r)
{
    enum MHD_Result result = MHD_NO;

    if (r == NULL) {
        return MHD_NO; /* no memory: the connection is closed */
    }
    if (mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
        mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, METHODS) == MHD_YES) {
        result = mhd.MHD_queue_response(c, status, r);
        place_takes(place_of(c), clock_mono_us());
    }
    mhd.MHD_destroy_response(r);
    return result;
}

/* A line of text, which is copied. */
static enum MHD_Result answer_line(struct MHD_Connection *c, unsigned status, const char *line)
{
    char text[2 * REPL_TARGET_MAX];
    int n = snprintf(text, sizeof(text), "%s\n", line);

    must((size_t)n < sizeof(text));
    return answer(c, status, "text/plain; charset=utf-8",
                  mhd.MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result answer_empty(struct MHD_Connection *c)
{
    return answer(c, MHD_HTTP_NO_CONTENT, "text/plain; charset=utf-8",
                  mhd.MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

static void release_body(void *p)
{
    mem_free(p);
}

static enum MHD_Result answer_metrics(struct crew *crew, struct MHD_Connection *c)
{
    const char *accept =
        mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    enum metrics_format format = metrics_format_for(accept);
    struct MHD_Response *r;
    struct buf b = {0};

    if (!metrics_compose(crew, format, &b)) {
        buf_fini(&b);
        return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    }
    must(b.begin == 0); /* the library frees the start of the allocation */
    r = mhd.MHD_create_response_from_buffer_with_free_callback(buf_len(&b), b.base,
                                                               release_body);
    if (r == NULL) {
        buf_fini(&b);
    }
    return answer(c, MHD_HTTP_OK, metrics_content_type(format), r);
}

static enum MHD_Result answer_health(struct crew *crew, struct MHD_Connection *c)
{
    char line[96];
    usec_t delay;

    pulse_ask(crew);
    while ((delay = pulse_delay_us(crew)) != 0 && delay < PULSE_MAX_US) {
        usleep(PULSE_LOOK_US);
    }
    if (delay == 0) {
        return answer_line(c, MHD_HTTP_OK, "ok");
    }
    snprintf(line, sizeof(line), "a worker has not answered for %" PRId64 " ms",
             (int64_t)(delay / 1000));
    return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, line);
}

static enum MHD_Result answer_ready(struct crew *crew, struct MHD_Connection *c)
{
    return atomic_load(&crew->is_accepting)
               ? answer_line(c, MHD_HTTP_OK, "ready")
               : answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no connections are accepted");
}

/* ---- the role ---------------------------------------------------------------------------- */

/* The query of a URL: lag=MILLISECONDS or empty. */
struct query {
    bool takes_lag, has_lag, is_bad;
    uint32_t lag_ms;
};

static enum MHD_Result read_argument(void *arg, enum MHD_ValueKind kind, const char *name,
                                     size_t name_len, const char *value, size_t value_len)
{
    struct query *q = arg;
    const struct span number = {value, value_len};

    (void)kind;
    if (q->takes_lag && !q->has_lag && span_is((struct span){name, name_len}, "lag") &&
        value != NULL && num_u32(number, &q->lag_ms) == MF_OK) {
        q->has_lag = true;
        return MHD_YES;
    }
    q->is_bad = true;
    return MHD_NO;
}

static struct query read_query(struct MHD_Connection *c, bool takes_lag)
{
    struct query q = {.takes_lag = takes_lag};

    mhd.MHD_get_connection_values_n(c, MHD_GET_ARGUMENT_KIND, read_argument, &q);
    return q;
}

/* The state of a replica, and the reason of the state. */
static void describe_replica(const struct repl_info *info, char *line, size_t size)
{
    snprintf(line, size, "replica, %s%s%s", repl_state_text(info->state),
             info->why[0] != '\0' ? ": " : "", info->why);
}

static enum MHD_Result answer_primary(struct crew *crew, struct MHD_Connection *c)
{
    char line[REPL_TARGET_MAX];
    struct repl_info info;

    if (read_query(c, false).is_bad) {
        return answer_line(c, MHD_HTTP_BAD_REQUEST, "/primary takes no arguments");
    }
    replication_look(crew->replication, &info);
    if (info.state == REPL_PRIMARY) {
        return answer_line(c, MHD_HTTP_OK, "primary");
    }
    describe_replica(&info, line, sizeof(line));
    return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, line);
}

static enum MHD_Result answer_replica(struct crew *crew, struct MHD_Connection *c)
{
    const struct query q = read_query(c, true);
    char line[REPL_TARGET_MAX];
    struct repl_info info;
    unsigned status = MHD_HTTP_SERVICE_UNAVAILABLE;

    if (q.is_bad) {
        return answer_line(c, MHD_HTTP_BAD_REQUEST, "usage: /replica or /replica?lag=MS");
    }
    replication_look(crew->replication, &info);
    if (info.state == REPL_PRIMARY) {
        return answer_line(c, status, "primary");
    }
    if (info.state != REPL_ONLINE) {
        describe_replica(&info, line, sizeof(line));
    } else if (info.level_ms < 0) {
        /* It became online by the full sync, and has received nothing since. */
        snprintf(line, sizeof(line), "replica, online, lag not known");
        status = q.has_lag ? status : MHD_HTTP_OK;
    } else {
        bool is_late = q.has_lag && info.level_ms > (int64_t)q.lag_ms;

        snprintf(line, sizeof(line), "replica, online, lag %" PRId64 " ms%s", info.level_ms,
                 is_late ? " is more than asked for" : "");
        status = is_late ? status : MHD_HTTP_OK;
    }
    return answer_line(c, status, line);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Probes answer OPTIONS like GET: HAProxy sends it by default, and reads only the status. */
static const struct page {
    const char *path;
    enum MHD_Result (*answer)(struct crew *crew, struct MHD_Connection *c);
    bool is_probe;
} pages[] = {{"/metrics", answer_metrics, false},
             {"/healthz", answer_health, true},
             {"/readyz", answer_ready, true},
             {"/primary", answer_primary, true},
             {"/replica", answer_replica, true}};

static enum MHD_Result answer_page(struct crew *crew, struct MHD_Connection *c, const char *url,
                                   bool is_options)
{
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(url, pages[i].path) == 0) {
            return is_options && !pages[i].is_probe ? answer_empty(c)
                                                    : pages[i].answer(crew, c);
        }
    }
    /* The default request of HAProxy, and OPTIONS * for the server as a whole. */
    if (is_options && (strcmp(url, "/") == 0 || strcmp(url, "*") == 0)) {
        return answer_empty(c);
    }
    return answer_line(c, MHD_HTTP_NOT_FOUND,
                       "/metrics, /healthz, /readyz, /primary or /replica");
}

static enum MHD_Result on_arrival(void *arg, const struct sockaddr *from, socklen_t len)
{
    struct door *door = arg;

    (void)len;
    return places_admit(&door->places, from, clock_mono_us()) ? MHD_YES : MHD_NO;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **place,
                          enum MHD_ConnectionNotificationCode what)
{
    struct door *door = arg;
    const union MHD_ConnectionInfo *fd;
    const union MHD_ConnectionInfo *from;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        place_leave(*place); /* its descriptor is closed after this */
        return;
    }
    fd = mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    from = mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (fd != NULL && from != NULL) {
        *place =
            places_enter(&door->places, fd->connect_fd, from->client_addr, clock_mono_us());
    }
}

static void on_completed(void *arg, struct MHD_Connection *c, void **request,
                         enum MHD_RequestTerminationCode how)
{
    (void)arg;
    (void)request;
    (void)how;
    place_asks(place_of(c), clock_mono_us());
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    static char is_begun;
    struct door *door = arg;
    const bool is_options = strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0;

    (void)version;
    (void)upload;
    if (!is_options && strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
        strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return *upload_bytes == 0 ? answer_line(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only " METHODS)
                                  : MHD_NO;
    }
    /* The first call comes before the end of the header. */
    if (*request == NULL) {
        *request = &is_begun;
        return MHD_YES;
    }
    if (*upload_bytes != 0) {
        return MHD_NO; /* a body that is not expected: the connection is closed */
    }
    return answer_page(door->crew, c, url, is_options);
}

/* The messages of the library are about single clients. */
static MF_PRINTF(2, 0) void on_log(void *arg, const char *format, va_list values)
{
    char text[256];

    (void)arg;
    vsnprintf(text, sizeof(text), format, values);
    text[strcspn(text, "\n")] = '\0';
    log_info("metrics, %s", text);
}

/* ---- start and stop ---------------------------------------------------------------------- */

static bool load_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        log_error("metrics, cannot load %s (%s)", LIBRARY, dlerror());
        return false;
    }
    /* POSIX lets a pointer to data become one to a function, C does not. */
#define F(name)                                                                                \
    *(void **)(void *)&mhd.name = dlsym(library, #name);                                       \
    if (mhd.name == NULL) {                                                                    \
        log_error("metrics, cannot use %s (it lacks %s)", LIBRARY, #name);                     \
        return false;                                                                          \
    }
    FUNCTIONS(F)
#undef F
    return true;
}

int metrics_check(const struct settings *settings)
{
    must_be_main();
    return settings->metrics == NULL || load_library() ? 0 : EX_OSERR;
}

int metrics_open(const struct settings *settings, struct metrics **out)
{
    struct socket_list sockets = {.count = 0};
    bool is_inherited;
    int status = sockets_inherit(settings, INHERIT_METRICS, &sockets, &is_inherited);

    must_be_main();
    *out = NULL;
    if (status == 0 && !is_inherited && settings->metrics != NULL) {
        status = sockets_open_metrics(settings, &sockets);
    }
    if (status == 0 && sockets.count == 0) {
        return 0;
    }
    if (status == 0 && !load_library()) {
        status = EX_OSERR;
    }
    if (status == 0) {
        *out = mem_zalloc(sizeof(**out));
        if (*out == NULL) {
            log_error("metrics, cannot start (out of memory)");
            status = EX_OSERR;
        }
    }
    if (status != 0) {
        socket_list_close(&sockets);
        return status;
    }
    (*out)->sockets = sockets;
    for (uint32_t i = 0; i < sockets.count; i++) {
        log_notice("metrics, listens on %s", sockets.items[i].name);
    }
    return 0;
}

static struct MHD_Daemon *start_daemon(struct door *door, int fd)
{
    return mhd.MHD_start_daemon(
        MHD_USE_ITC | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0,
        on_arrival, door, on_request, door, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_CONNECTION, on_connection, door,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT,
        PLACES_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S, MHD_OPTION_END);
}

int metrics_start(struct metrics *m, struct crew *crew)
{
    must_be_main();
    if (m == NULL) {
        return 0;
    }
    m->doors = mem_zalloc(m->sockets.count * sizeof(*m->doors));
    for (uint32_t i = 0; i < m->sockets.count; i++) {
        struct door *door = m->doors != NULL ? &m->doors[i] : NULL;

        if (door != NULL) {
            door->crew = crew;
            door->daemon = start_daemon(door, m->sockets.items[i].fd);
        }
        if (door == NULL || door->daemon == NULL) {
            log_error("metrics, cannot serve %s", m->sockets.items[i].name);
            return EX_OSERR;
        }
    }
    return 0;
}

void metrics_each_socket(const struct metrics *m, void (*fn)(void *arg, int fd), void *arg)
{
    must_be_main();
    for (uint32_t i = 0; m != NULL && i < m->sockets.count; i++) {
        fn(arg, m->sockets.items[i].fd);
    }
}

void metrics_close(struct metrics **p)
{
    struct metrics *m = *p;

    must_be_main();
    if (m == NULL) {
        return;
    }
    for (uint32_t i = 0; m->doors != NULL && i < m->sockets.count; i++) {
        if (m->doors[i].daemon != NULL) {
            /* Keep ownership of the sockets. */
            (void)mhd.MHD_quiesce_daemon(m->doors[i].daemon);
            mhd.MHD_stop_daemon(m->doors[i].daemon);
        }
    }
    mem_free(m->doors);
    socket_list_close(&m->sockets);
    mem_free(m);
    *p = NULL;
}
