/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h.
 */
#include "daemon/service/server.h"

#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

void listener_list_note_ports(const struct socket_list *list, struct crew *crew)
{
    must_be_main();
    for (uint32_t i = 0; i < list->count; i++) {
        const struct conn_origin *origin = &list->items[i].origin;
        _Atomic uint32_t *port = origin->transport == CONN_TLS ? &crew->tls_port : &crew->port;

        if (origin->transport != CONN_UNIX && !origin->is_proxied && atomic_load(port) == 0) {
            atomic_store(port, socket_port(list->items[i].fd));
        }
    }
}

/* Replicas come over TCP, and speak text. */
static bool may_come(const struct conn_origin *origin, const struct settings *settings)
{
    return settings->extensions && origin->transport != CONN_UNIX && !origin->is_proxied &&
           origin->protocol != PROTOCOL_BINARY;
}

struct conn_origin *listener_list_make_beyond(struct socket_list *list,
                                              const struct settings *settings)
{
    struct conn_origin *beyond = mem_zalloc((list->count + 1) * sizeof(*beyond));

    must_be_main();
    if (beyond == NULL) {
        log_error("listener, cannot start (out of memory)");
        return NULL;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        struct conn_origin *origin = &list->items[i].origin;

        if (may_come(origin, settings)) {
            beyond[i] = *origin;
            beyond[i].is_beyond = true;
            origin->beyond = &beyond[i];
        }
    }
    return beyond;
}

void listener_list_warn(const struct socket_list *list, const struct settings *settings)
{
    bool has_proxied = false;
    bool asks = false;

    must_be_main();
    for (uint32_t i = 0; i < list->count; i++) {
        has_proxied |= list->items[i].origin.is_proxied;
        asks |= list->items[i].origin.verify == TLS_VERIFY_REQUIRE;
    }
    if (settings->proxy_from != NULL && !has_proxied) {
        log_warn("listener, --proxy-from has no effect (no address of -l is marked proxied:)");
    }
    if (asks && settings->ssl_ca_cert == NULL) {
        log_warn("listener, mtls: rejects every client (ssl_ca_cert is not set)");
    }
}
