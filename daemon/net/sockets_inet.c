/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP and UDP sockets. Without -l they are on the loopback interface, v4 and v6; a machine
 * without v6 is not an error then. With -l every address of a name is bound, and a failure to
 * bind any of them is an error, so that the server never serves less than was asked for.
 *
 * The UDP sockets of an address share it by SO_REUSEPORT. The first is bound without the
 * option, so an address that another process has is an error and not shared with that process.
 * The option is set after this bind and lets the others in.
 */
#include "daemon/net/sockets_parts.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/net/passed_on.h"
#include "lib/base/context.h"

/*
 * A socket buffers this many bytes in addition to its peer's window and those on the network.
 * Without this bound the kernel takes 2.6 MB over loopback from the start, however little the
 * peer reads. A thousand peers that do not read would fill the memory that the system has for
 * all TCP, and other programs that use TCP would lose packets. Bytes in flight do not count, so
 * no transfer gets slower.
 */
#define UNSENT_BYTES (128 * 1024)

/*
 * Room in the kernel for bursts of datagrams that come while a worker is busy: as much as it
 * allows, up to 4 MiB. Getting less is not an error.
 */
#define RECEIVE_BYTES (4 * 1024 * 1024)

/* ---- one socket -------------------------------------------------------------------------- */

static bool set_number(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/* A number of TCP; 0 leaves what the system has. */
static bool set_tcp(int fd, int option, uint32_t number)
{
    return number == 0 || set_number(fd, IPPROTO_TCP, option, (int)number);
}

void sockets_set_tcp_options(const struct settings *settings, int fd)
{
    /* Accepted connections inherit these, which saves as many calls for each. */
    if (!set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1) || !set_tcp(fd, TCP_NODELAY, 1) ||
        !set_tcp(fd, TCP_NOTSENT_LOWAT, UNSENT_BYTES) ||
        !set_tcp(fd, TCP_KEEPIDLE, settings->tcp_keepalive_s) ||
        !set_tcp(fd, TCP_KEEPINTVL, settings->tcp_keepalive_interval_s) ||
        !set_tcp(fd, TCP_KEEPCNT, settings->tcp_keepalive_probes) ||
        !set_tcp(fd, TCP_USER_TIMEOUT, settings->tcp_user_timeout_ms)) {
        log_warn("listener, cannot set an option (%s)", strerror(errno));
    }
}

/* Sockets of one kind that are opened at some address. */
struct opening {
    const struct settings *settings; /* [borrowed] */
    struct conn_origin origin;
    struct listen_fault
        fault;     /* what a message says; its call and reason are those that fail */
    char port[24]; /* the name of a port, in place of an address */
};

static const char *name_of(const struct opening *o)
{
    return o->fault.type == SOCK_STREAM ? "TCP" : "UDP";
}

/* For messages: the port of an option; below 0 it is any. */
static void name_port(struct opening *o, int32_t port)
{
    o->fault.port = port > 0 ? (uint16_t)port : 0;
    snprintf(o->port, sizeof(o->port), "%s port %u", name_of(o), (unsigned)o->fault.port);
    o->fault.where = span_str(o->port);
}

/* Options that are set before the bind. */
static bool set_options(const struct opening *o, int fd, int family, bool is_first)
{
    if (family == AF_INET6 && !set_number(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) {
        return false;
    }
    if (o->fault.type == SOCK_DGRAM) {
        (void)set_number(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES);
        return is_first || set_number(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    if (!set_number(fd, SOL_SOCKET, SO_REUSEADDR, 1)) {
        return false;
    }
    sockets_set_tcp_options(o->settings, fd);
    return true;
}

/* What follows the bind. */
static bool begin_use(struct opening *o, int fd, bool is_first)
{
    if (o->fault.type == SOCK_DGRAM) {
        o->fault.call = "setsockopt()";
        return !is_first || set_number(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    }
    o->fault.call = "listen()";
    return listen(fd, o->settings->backlog < INT_MAX ? (int)o->settings->backlog : INT_MAX) ==
           0;
}

/* A bound socket, which listens if it is of TCP; or -1 with errno and the call that failed. */
static int open_socket(struct opening *o, const struct sockaddr *addr, socklen_t len,
                       bool is_first)
{
    struct passed_on *passed = o->settings->passed;
    const int type = o->fault.type;
    int fd = type == SOCK_STREAM ? passed_on_take(passed, addr, len) : -1;

    if (fd >= 0) {
        if (!passed_on_is_shown(passed)) {
            sockets_set_tcp_options(o->settings, fd);
        }
        return fd;
    }
    o->fault.call = "socket()";
    fd = socket(addr->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    o->fault.call = "setsockopt()";
    if (set_options(o, fd, addr->sa_family, is_first)) {
        o->fault.call = "bind()";
        bool is_bound = bind(fd, addr, len) == 0;
        if (!is_bound && errno == EADDRINUSE && passed_on_makes_way(passed, addr, type)) {
            if (passed_on_is_shown(passed)) {
                return fd;
            }
            is_bound = bind(fd, addr, len) == 0;
        }
        if (is_bound && begin_use(o, fd, is_first)) {
            return fd;
        }
    }
    int err = errno;
    close(fd);
    errno = err;
    return -1;
}

/*
 * Open the sockets of one address: one of TCP, or one of UDP for each worker. A port of 0 is
 * any; then it becomes the one that the first socket got. False: errno and the call that
 * failed.
 */
static bool open_address(struct opening *o, union socket_address *addr, socklen_t len,
                         struct socket_list *out)
{
    /* Where the one that runs has the address, another socket would get its datagrams. */
    const uint32_t count =
        o->fault.type == SOCK_DGRAM && !passed_on_is_shown(o->settings->passed)
            ? setting_get(o->settings, threads)
            : 1;

    for (uint32_t i = 0; i < count; i++) {
        int fd = open_socket(o, &addr->sa, len, i == 0);

        if (fd < 0) {
            return false;
        }
        if (socket_address_port(addr) == 0 && getsockname(fd, &addr->sa, &len) != 0) {
            o->fault.call = "getsockname()";
            close(fd);
            return false;
        }
        if (socket_list_add(out, fd, &o->origin) != 0) {
            o->fault.call = "memory";
            errno = ENOMEM;
            return false;
        }
    }
    return true;
}

/* Print the message. Returns the exit status. */
static int failed(const struct opening *o)
{
    return passed_on_excuse(o->settings->passed, listen_fault(o->settings, &o->fault));
}

struct conn_origin sockets_tcp_origin(const struct settings *settings,
                                      const struct listen_address *address)
{
    bool is_plain = address != NULL && address->is_plain;
    struct conn_origin origin = {
        .transport = settings->ssl_enabled && !is_plain ? CONN_TLS : CONN_TCP,
        .protocol = (uint8_t)settings->protocol,
        .rights = RIGHTS_ORDINARY,
    };

    if (address != NULL) {
        memcpy(origin.tag, address->tag, sizeof(origin.tag));
        origin.is_proxied = address->is_proxied;
        origin.verify = address->verify;
        if (address->has_protocol) {
            origin.protocol = address->protocol;
        }
    }
    return origin;
}

/* ---- the default: loopback --------------------------------------------------------------- */

static bool is_without_family(int err)
{
    return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == EPROTONOSUPPORT;
}

/* Open both loopback addresses, whose port is that of an option. */
static int open_loopback(struct opening *o, struct socket_list *out)
{
    union socket_address addr = {.in = {.sin_family = AF_INET}};

    addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_address_set_port(&addr, o->fault.port);
    if (!open_address(o, &addr, sizeof(addr.in), out)) {
        int status = failed(o);

        if (status != 0) {
            return status;
        }
    }
    /* With any free port the v6 socket gets the same number, if it is free there too. */
    const uint16_t port = socket_address_port(&addr);
    addr.in6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
    bool is_open = open_address(o, &addr, sizeof(addr.in6), out);
    if (!is_open && errno == EADDRINUSE && o->fault.port == 0) {
        socket_address_set_port(&addr, 0);
        is_open = open_address(o, &addr, sizeof(addr.in6), out);
    }
    if (!is_open && is_without_family(errno)) {
        log_info("listener, serves %s over IPv4 only (%s)", name_of(o), strerror(errno));
        return 0;
    }
    return is_open ? 0 : failed(o);
}

/* ---- the addresses of -l ----------------------------------------------------------------- */

/* Open every address of a host; an empty one means every address of the machine. */
static int open_host(struct opening *o, const char *host, struct socket_list *out)
{
    const bool is_udp = o->fault.type == SOCK_DGRAM;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = o->fault.type};
    struct addrinfo *first = NULL;
    int status = getaddrinfo(host[0] != '\0' ? host : NULL, "0", &hints, &first);

    if (status != 0) {
        o->fault.call = "getaddrinfo()";
        o->fault.reason = status == EAI_SYSTEM ? strerror(errno) : gai_strerror(status);
        return failed(o);
    }
    for (const struct addrinfo *ai = first; ai != NULL && status == 0; ai = ai->ai_next) {
        union socket_address addr;

        if (ai->ai_addrlen > sizeof(addr) ||
            (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)) {
            continue;
        }
        memcpy(&addr, ai->ai_addr, ai->ai_addrlen);
        socket_address_set_port(&addr, o->fault.port);
        if (!socket_list_has(out, &addr, is_udp) &&
            !open_address(o, &addr, ai->ai_addrlen, out) &&
            !(errno == EAFNOSUPPORT && ai->ai_next != NULL)) {
            status = failed(o);
        }
    }
    freeaddrinfo(first);
    return status;
}

/* A list of addresses, as an option has it. */
struct address_list {
    enum option_id id;
    const char *text; /* NULL: empty */
    /* Read an element of it. Returns what is wrong with it, or NULL. */
    const char *(*read)(const struct settings *, struct span, struct listen_address *);
};

static int address_failed(const struct settings *settings, enum option_id id, struct span text,
                          const char *reason)
{
    return listen_fault(settings,
                        &(struct listen_fault){.id = id, .where = text, .reason = reason});
}

/* Read an element of -l; its port is that of -p if it has none. */
static const char *read_address(const struct settings *settings, struct span text,
                                struct listen_address *addr)
{
    const char *error = listen_address_parse(text, addr);

    if (error != NULL) {
        return error;
    }
    if (addr->verify != TLS_VERIFY_BY_MODE && (addr->is_plain || !settings->ssl_enabled)) {
        return "btls: and mtls: need TLS (-Z)";
    }
    if (addr->is_proxied && settings->proxy_from == NULL) {
        return "proxied: needs --proxy-from";
    }
    /* When clients must authenticate, no address may offer a way around it. */
    if (addr->has_protocol && (settings->auth_file != NULL || settings->sasl) &&
        addr->protocol != settings->protocol) {
        return "clients that must authenticate speak one protocol";
    }
    if (!addr->has_port) {
        addr->port = settings->port > 0 ? (unsigned)settings->port : 0;
    }
    return NULL;
}

/* The same for a listener that is not for clients of the cache. */
static const char *read_plain_address(const struct settings *settings, struct span text,
                                      struct listen_address *addr)
{
    const char *error = listen_address_parse(text, addr);

    (void)settings;
    if (error == NULL && (addr->is_plain || addr->verify != TLS_VERIFY_BY_MODE ||
                          addr->is_proxied || addr->has_protocol || addr->tag[0] != '\0')) {
        error = "prefixes are for clients of the cache";
    } else if (error == NULL && !addr->has_port) {
        error = "the port is missing";
    }
    return error;
}

static struct address_list clients_of(const struct settings *settings)
{
    return (struct address_list){OPTION_listen, settings->listen, read_address};
}

static struct address_list metrics_of(const struct settings *settings)
{
    return (struct address_list){OPTION_metrics, settings->metrics, read_plain_address};
}

/* Read every element of a list; returns the status of the first error. */
static int check_list(const struct settings *settings, struct address_list list)
{
    const char *at = list.text;
    struct listen_address addr;
    struct span text;
    int first = 0;

    while (at != NULL && listen_address_next(&at, &text)) {
        const char *error = list.read(settings, text, &addr);

        if (error != NULL) {
            const int status = address_failed(settings, list.id, text, error);

            first = first == 0 ? status : first;
        }
    }
    return first;
}

int sockets_check_tcp(const struct settings *settings)
{
    return check_list(settings, clients_of(settings));
}

int sockets_check_metrics(const struct settings *settings)
{
    return check_list(settings, metrics_of(settings));
}

/* Listen on every element of a list; stops at the first error. */
static int open_list(const struct settings *settings, struct address_list list,
                     struct socket_list *out)
{
    const char *at = list.text;
    struct span text;
    int status = 0;

    while (status == 0 && at != NULL && listen_address_next(&at, &text)) {
        struct listen_address addr;
        const char *error = list.read(settings, text, &addr);

        if (error != NULL) {
            return address_failed(settings, list.id, text, error);
        }
        struct opening o = {.settings = settings,
                            .origin = sockets_tcp_origin(settings, &addr),
                            .fault = {.id = list.id,
                                      .where = text,
                                      .port = (uint16_t)addr.port,
                                      .type = SOCK_STREAM}};
        status = open_host(&o, addr.host, out);
    }
    return status;
}

int sockets_open_tcp(const struct settings *settings, struct socket_list *out)
{
    struct opening o = {.settings = settings,
                        .origin = sockets_tcp_origin(settings, NULL),
                        .fault = {.id = OPTION_port, .type = SOCK_STREAM}};

    name_port(&o, settings->port);
    return settings->listen == NULL ? open_loopback(&o, out)
                                    : open_list(settings, clients_of(settings), out);
}

int sockets_open_metrics(const struct settings *settings, struct socket_list *out)
{
    return open_list(settings, metrics_of(settings), out);
}

int sockets_open_udp(const struct settings *settings, struct socket_list *out)
{
    const char *at = settings->listen;
    struct opening o = {
        .settings = settings,
        .origin = {.transport = CONN_UDP, .protocol = (uint8_t)settings->protocol},
        .fault = {.id = OPTION_udp_port, .type = SOCK_DGRAM}};
    struct span text;
    int status = 0;

    must_be_main();
    if (settings->udp_port == 0) {
        return 0;
    }
    name_port(&o, settings->udp_port);
    if (at == NULL) {
        return open_loopback(&o, out);
    }
    while (status == 0 && listen_address_next(&at, &text)) {
        struct listen_address addr;

        /* The port is that of -U. TCP has reported already what is wrong with an address. */
        o.fault.reason = listen_address_parse(text, &addr);
        status = o.fault.reason != NULL ? failed(&o) : open_host(&o, addr.host, out);
    }
    return status;
}
