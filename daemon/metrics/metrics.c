/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets and the HTTP server of metrics: see metrics.h. libmicrohttpd does the protocol.
 * The functions that it calls run on its thread, one for each socket.
 *
 * The library is loaded when metrics are asked for, not linked: with GnuTLS and what that needs
 * it takes 2.5 MiB, half as much as an empty server.
 */
#include "daemon/metrics/metrics.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/metrics/metrics_text.h"
#include "daemon/net/sockets.h"
#include "daemon/net/sockets_tcp.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "daemon/worker/pulse.h"
#include "lib/base/buf.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* Of one socket: connections, bytes of memory and seconds of silence for each of them. */
#define CONNECTIONS_MAX 16u
#define MEMORY_BYTES    ((size_t)16 << 10)
#define SILENCE_S       5u

/* A worker has so long to answer, and is looked at so often. */
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
    F(MHD_lookup_connection_value)                                                             \
    F(MHD_create_response_from_buffer)                                                         \
    F(MHD_create_response_from_buffer_with_free_callback)

/* Its functions; [const] once metrics_open() has loaded it. It is never unloaded. */
static struct {
#define F(name) __typeof__(name) *name;
    FUNCTIONS(F)
#undef F
} mhd;

struct metrics {
    struct socket_list sockets;
    struct MHD_Daemon **daemons; /* owned; as many as sockets; NULL: not started */
    struct crew *crew;           /* [borrowed] */
};

/* ---- answers ----------------------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              struct MHD_Response *r)
{
    enum MHD_Result result = MHD_NO;

    if (r == NULL) {
        return MHD_NO; /* no memory: the connection is closed */
    }
    if (mhd.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES) {
        result = mhd.MHD_queue_response(c, status, r);
    }
    mhd.MHD_destroy_response(r);
    return result;
}

/* A line of text, which is copied. */
static enum MHD_Result answer_line(struct MHD_Connection *c, unsigned status, const char *line)
{
    char text[128];
    int n = snprintf(text, sizeof(text), "%s\n", line);

    return answer(c, status, "text/plain; charset=utf-8",
                  mhd.MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY));
}

static void release(void *p)
{
    mem_free(p);
}

static enum MHD_Result answer_metrics(const struct metrics *m, struct MHD_Connection *c)
{
    const char *accept =
        mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    enum metrics_format format = metrics_format_for(accept);
    struct MHD_Response *r;
    struct buf b;

    buf_init(&b);
    if (!metrics_compose(m->crew, format, &b)) {
        buf_fini(&b);
        return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    }
    must(b.begin == 0); /* so what is released is what was allocated */
    r = mhd.MHD_create_response_from_buffer_with_free_callback(buf_len(&b), b.base, release);
    if (r == NULL) {
        buf_fini(&b);
    }
    return answer(c, MHD_HTTP_OK, metrics_content_type(format), r);
}

static enum MHD_Result answer_health(const struct metrics *m, struct MHD_Connection *c)
{
    char line[96];
    usec_t delay;

    pulse_ask(m->crew);
    while ((delay = pulse_delay_us(m->crew)) != 0 && delay < PULSE_MAX_US) {
        usleep(PULSE_LOOK_US);
    }
    if (delay == 0) {
        return answer_line(c, MHD_HTTP_OK, "ok");
    }
    snprintf(line, sizeof(line), "a worker has not answered for %" PRId64 " ms",
             (int64_t)(delay / 1000));
    return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, line);
}

static enum MHD_Result answer_ready(const struct metrics *m, struct MHD_Connection *c)
{
    return atomic_load(&m->crew->is_accepting)
               ? answer_line(c, MHD_HTTP_OK, "ready")
               : answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no connections are accepted");
}

static const struct {
    const char *path;
    enum MHD_Result (*answer)(const struct metrics *m, struct MHD_Connection *c);
} pages[] = {
    {"/metrics", answer_metrics}, {"/healthz", answer_health}, {"/readyz", answer_ready}};

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    static char is_begun;

    (void)version;
    (void)upload;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return *upload_bytes == 0
                   ? answer_line(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD")
                   : MHD_NO;
    }
    /* The first call comes before the end of the header. */
    if (*request == NULL) {
        *request = &is_begun;
        return MHD_YES;
    }
    if (*upload_bytes != 0) {
        return MHD_NO; /* a body nobody asked for: the connection is closed */
    }
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(url, pages[i].path) == 0) {
            return pages[i].answer(arg, c);
        }
    }
    return answer_line(c, MHD_HTTP_NOT_FOUND, "/metrics, /healthz or /readyz");
}

/* What the library has to say is about single clients. */
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

static struct MHD_Daemon *start_daemon(struct metrics *m, int fd)
{
    return mhd.MHD_start_daemon(
        MHD_USE_ITC | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, on_request, m, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        SILENCE_S, MHD_OPTION_END);
}

int metrics_start(struct metrics *m, struct crew *crew)
{
    must_be_main();
    if (m == NULL) {
        return 0;
    }
    m->crew = crew;
    m->daemons = mem_zalloc(m->sockets.count * sizeof(*m->daemons));
    for (uint32_t i = 0; i < m->sockets.count; i++) {
        if (m->daemons == NULL ||
            (m->daemons[i] = start_daemon(m, m->sockets.items[i].fd)) == NULL) {
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
    for (uint32_t i = 0; m->daemons != NULL && i < m->sockets.count; i++) {
        if (m->daemons[i] != NULL) {
            /* The sockets stay ours. */
            (void)mhd.MHD_quiesce_daemon(m->daemons[i]);
            mhd.MHD_stop_daemon(m->daemons[i]);
        }
    }
    mem_free(m->daemons);
    socket_list_close(&m->sockets);
    mem_free(m);
    *p = NULL;
}
