/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See guard.h. Every value that a client chose is in quotes, short, and printable.
 */
#include "daemon/command/guard.h"

#include "daemon/base/log.h"
#include "daemon/net/origin.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

/* Maximum bytes of a command with its arguments in a line. */
#define COMMAND_MAX 128u

static void put_shown(struct span text, size_t max, bool has_spaces, char *out)
{
    size_t n = text.len < max ? text.len : max;

    for (size_t i = 0; i < n; i++) {
        char byte = text.ptr[i];
        bool is_shown = byte > ' ' && byte <= '~' && byte != '"';

        out[i] = is_shown || (has_spaces && byte == ' ') ? byte : '?';
    }
    out[n] = '\0';
}

void audit_put_name(struct span name, char out[AUDIT_NAME_MAX + 1])
{
    put_shown(name, AUDIT_NAME_MAX, false, out);
}

/* The limits of the kinds of lines. */
enum { KIND_GOOD, KIND_BAD, KIND_ALLOWED, KIND_REFUSED, KINDS };
static struct log_limit limits[KINDS] = {
    {.burst = AUDIT_BURST},
    {.burst = AUDIT_BURST},
    {.burst = AUDIT_BURST},
    {.burst = AUDIT_BURST},
};

static bool is_on(const struct worker *w)
{
    return setting_get(w->settings, audit_log);
}

void audit_login(const struct client *c, const struct worker *w, struct span user, bool is_good)
{
    char name[AUDIT_NAME_MAX + 1];
    char peer[CLIENT_PEER_MAX];
    struct span listener = origin_name(c->origin);

    must_be_worker(w);
    if (!is_on(w)) {
        return;
    }
    audit_put_name(user, name);
    c->duties->put_peer(c, peer);
    log_write_about(&limits[is_good ? KIND_GOOD : KIND_BAD], LOG_LEVEL_NOTICE,
                    &(struct log_about){.peer = peer, .user = name},
                    "audit, login user=\"%s\" peer=%s listener=%.*s method=%s outcome=%s", name,
                    peer, (int)listener.len, listener.ptr,
                    w->settings->auth_file != NULL ? "text" : "sasl",
                    is_good ? "accepted" : "failed");
}

/* The first name of a certificate. */
static void on_name(void *arg, struct span name)
{
    char *out = arg;

    if (out[0] == '\0') {
        audit_put_name(name, out);
    }
}

/* The client's identity, preceded by the kind of the name; empty without authentication. */
static const char *put_who(const struct client *c, char out[AUDIT_NAME_MAX + 1])
{
    out[0] = '\0';
    if (c->user != NULL) {
        audit_put_name(span_str(c->user), out);
        return "user";
    }
    io_each_peer_name(&c->io, on_name, out);
    return out[0] != '\0' ? "certificate" : "user";
}

void audit_command(const struct turn *t, const struct request *r, bool is_allowed)
{
    const struct client *c = t->client;
    char command[COMMAND_MAX + 1];
    char args[COMMAND_MAX + 1];
    char who[AUDIT_NAME_MAX + 1];
    char peer[CLIENT_PEER_MAX];

    must_be_worker(t->w);
    if (!is_on(t->w) || c == NULL) {
        return;
    }
    struct span listener = origin_name(c->origin);
    const char *kind = put_who(c, who);
    put_shown(command_name((enum command)r->command), COMMAND_MAX, true, command);
    put_shown(request_is_binary(r) ? r->key : r->args, COMMAND_MAX, true, args);
    c->duties->put_peer(c, peer);
    log_write_about(&limits[is_allowed ? KIND_ALLOWED : KIND_REFUSED], LOG_LEVEL_NOTICE,
                    &(struct log_about){.peer = peer, .user = who},
                    "audit, command=\"%s%s%s\" %s=\"%s\" peer=%s listener=%.*s outcome=%s",
                    command, args[0] != '\0' ? " " : "", args, kind, who, peer,
                    (int)listener.len, listener.ptr, is_allowed ? "executed" : "refused");
}
