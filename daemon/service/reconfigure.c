/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h. Everything but write_files() runs on main.
 */
#include "daemon/service/server.h"

#include <stdio.h>
#include <sysexits.h>

#include "daemon/base/file.h"
#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/base/pool.h"
#include "daemon/command/exec.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "daemon/service/notify.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "proto/text_compose.h"

/* Maximum length of a reason. Longer ones are truncated; the log has the whole text. */
#define WHY_BYTES 1024

/* A reload that waits for the certificates to be loaded. */
struct reload_wait {
    struct main_ask certs; /* must be first: freed with the whole struct */
    struct main_ask *ask;  /* NULL: answered already */
    struct list_link link; /* [main] */
    char why[WHY_BYTES];   /* the error of an earlier step; "": none */
};

struct reconfigure {
    struct pool_job job; /* must be first; comes back to main */

    /* [const] */
    struct server *server; /* [borrowed] */
    struct pool *pool;     /* owned; one thread; NULL: no --config, or stopped */
    bool is_stopped;
    bool is_abandoned; /* the thread still uses this object: do not free it */

    /* [main] */
    struct list reloads;   /* of struct reload_wait, each completed with its certificates */
    struct list waiting;   /* of struct main_ask: for the next rewrite */
    struct list under_way; /* of struct main_ask: for the running rewrite */
    bool is_writing;

    /* of the job while it runs, else [main] */
    struct options_rewrite plan; /* valid while is_writing */
    char why[WHY_BYTES];         /* the error; "": written */
};

static struct reconfigure *reconfigure_of(struct server *s)
{
    must_be_main();
    return s->reconfigure;
}

/* ---- answers ----------------------------------------------------------------------------- */

/* Add a line about an option before the final line of the answer. */
static void add_line(struct main_ask *ask, const char *word, enum option_id id,
                     const char *value)
{
    char name[OPTION_TEXT_BYTES];

    option_shown_name(id, name);
    ask->is_composed = ask->is_composed && buf_printf(&ask->reply, "%s %s ", word, name) &&
                       conf_value_append(&ask->reply, value) &&
                       buf_append(&ask->reply, "\r\n", 2);
}

static void answer(struct main_ask *ask)
{
    mailbox_post(ask->to, &ask->answer);
}

static void answer_ok(struct main_ask *ask)
{
    ask->is_composed =
        ask->is_composed && buf_append(&ask->reply, REPLY_BYTES(OK), REPLY_LEN(OK));
    answer(ask);
}

/*
 * compose: text_compose_refusal() for an error that the operator can fix, else ..._failure().
 */
static void answer_error(struct main_ask *ask, size_t (*compose)(char *, struct span),
                         const char *why)
{
    char text[TEXT_REPLY_MAX];
    const size_t len = compose(text, span_str(why));

    buf_clear(&ask->reply);
    ask->is_composed = buf_append(&ask->reply, text, len);
    answer(ask);
}

/* Remove and return the first request of the list; NULL: empty. */
static struct main_ask *take_ask(struct list *l)
{
    struct list_link *link = list_take_first(l);

    return link != NULL ? MF_OUTER(link, struct main_ask, link) : NULL;
}

static void answer_all(struct list *l, size_t (*compose)(char *, struct span), const char *why)
{
    struct main_ask *ask;

    while ((ask = take_ask(l)) != NULL) {
        answer_error(ask, compose, why);
    }
}

/* ---- reloading files --------------------------------------------------------------------- */

/* Log changed options, and those that need a restart. before: the previous live options. */
static void log_options(const struct settings *now, const struct settings *before,
                        const struct settings *fresh, const enum option_id *taken,
                        unsigned count)
{
    enum option_id waiting[OPTION_COUNT];
    char old[OPTION_TEXT_BYTES];
    char new[OPTION_TEXT_BYTES];
    char where[OPTION_WHERE_BYTES];
    const unsigned waits = options_differing(now, fresh, false, waiting);

    for (unsigned i = 0; i < count; i++) {
        log_notice("options, %s: %s -> %s (%s)", option_name(taken[i]),
                   option_typed(before, taken[i], old), option_typed(fresh, taken[i], new),
                   option_where(fresh, taken[i], where));
    }
    for (unsigned i = 0; i < waits; i++) {
        log_notice("options, %s: %s -> %s needs a restart (%s)", option_name(waiting[i]),
                   option_typed(now, waiting[i], old), option_typed(fresh, waiting[i], new),
                   option_where(fresh, waiting[i], where));
    }
}

/* Add a line for each option that is not live and has another value in the files. */
static void tell_waiting(struct main_ask *ask, const struct settings *now,
                         const struct settings *next)
{
    enum option_id ids[OPTION_COUNT];
    char text[OPTION_TEXT_BYTES];
    const unsigned count = options_differing(now, next, false, ids);

    for (unsigned i = 0; i < count; i++) {
        add_line(ask, "RESTART", ids[i], option_typed(next, ids[i], text));
    }
}

/*
 * Reload the configuration files, and apply all changes or none; in the latter case `said` has
 * the reason. ask: NULL, or the request to which options that need a restart are reported.
 */
static void reload_options(struct server *s, struct main_ask *ask, struct option_messages *said)
{
    struct settings *now = s->crew.settings;
    struct settings before = {0};
    struct settings fresh;
    struct live_refusal refusal;
    enum option_id ids[OPTION_COUNT];
    char where[OPTION_WHERE_BYTES];
    unsigned count;

    options_copy_live(&before, now);
    if (!options_read_again(now, OPTIONS_AGAIN_ALL, &fresh, NULL, said)) {
        log_error("options, unchanged because the files have errors");
        settings_fini(&fresh);
        return;
    }
    said->first[0] = '\0'; /* it may hold a warning */
    if (live_take(&s->crew, &fresh, ids, &count, &refusal)) {
        log_options(now, &before, &fresh, ids, count);
        log_notice("options, read again (%u changed)", count);
        if (ask != NULL) {
            tell_waiting(ask, now, &fresh);
        }
    } else {
        log_error("options, unchanged: %s: %s", option_name(refusal.id), refusal.why);
        snprintf(said->first, sizeof(said->first), "%.*s: %s: %s", WHY_BYTES / 4,
                 option_where(&fresh, refusal.id, where), option_name(refusal.id), refusal.why);
    }
    settings_fini(&fresh);
}

/* Do not report readiness while the server stops. */
static void tell_manager(const struct server *s, bool begins)
{
    if (s->stopping == CREW_STOP_NONE) {
        if (begins) {
            notify_reloading();
        } else {
            notify_ready("serving");
        }
    }
}

static void end_reload(struct main_ask *ask, const char *why)
{
    if (why[0] != '\0') {
        answer_error(ask, text_compose_refusal, why);
    } else {
        answer_ok(ask);
    }
}

static void on_certs(struct message *m, void *receiver)
{
    struct reload_wait *wait = MF_OUTER(m, struct reload_wait, certs.answer);

    must_be_main();
    (void)receiver;
    list_remove(&wait->link);
    if (wait->ask != NULL) {
        end_reload(wait->ask,
                   wait->why[0] != '\0' || wait->certs.is_loaded ? wait->why : wait->certs.why);
    }
    mem_free(wait);
}

/* Start loading the certificates; ask, which may be NULL, is answered when that is done. */
static void reload_certs(struct server *s, struct main_ask *ask, const char *why)
{
    struct reconfigure *r = reconfigure_of(s);
    struct reload_wait *wait = ask != NULL ? mem_zalloc(sizeof(*wait)) : NULL;

    if (wait == NULL) {
        renewal_want(s);
        if (ask != NULL) {
            answer_error(ask, text_compose_failure, "out of memory");
        }
        return;
    }
    wait->ask = ask;
    snprintf(wait->why, sizeof(wait->why), "%s", why);
    wait->certs.answer.fn = on_certs;
    wait->certs.to = &s->crew.main_mailbox;
    list_append(&r->reloads, &wait->link);
    renewal_ask(s, &wait->certs);
}

/* Reopen the log file, which may have been renamed for rotation. Returns an error, or NULL. */
static const char *reopen_log(const struct settings *settings)
{
    const char *why;

    if (settings->log_file == NULL) {
        return NULL;
    }
    if (log_open_file(settings->log_file, &why)) {
        log_notice("log, reopened %s", settings->log_file);
        return NULL;
    }
    log_write(LOG_LEVEL_ERROR, "log, keeps the open file, because %s cannot be opened (%s)",
              settings->log_file, why);
    return "log-file: the file cannot be opened again, see the log";
}

static void reload(struct server *s, struct main_ask *ask)
{
    const bool has_options =
        s->crew.settings->config_path != NULL || s->crew.settings->memcached_conf_path != NULL;
    bool has_new;
    const bool has_access = access_reload(&s->crew.access, &has_new);
    struct option_messages said = {.is_logged = true};

    must_be_main();
    tell_manager(s, true);
    const char *log_fault = reopen_log(s->crew.settings);
    if (has_options) {
        reload_options(s, ask, &said);
    }
    if (has_new) {
        crew_doubt_logins(&s->crew);
        access_log_reload(&s->crew.access);
        listeners_check_rules(s);
    }
    const char *why = said.first[0] != '\0' ? said.first
                      : log_fault != NULL   ? log_fault
                                            : access_complaint(&s->crew.access);
    if (s->crew.tls != NULL) {
        reload_certs(s, ask, why); /* answers when it is done */
        return;
    }
    tell_manager(s, false);
    if (!has_options && !has_access && s->crew.settings->log_file == NULL) {
        log_notice("server, has nothing to reload");
        why = "there is nothing to reload: no file was given";
    }
    if (ask != NULL) {
        end_reload(ask, why);
    }
}

void reconfigure_reload(struct server *s)
{
    reload(s, NULL);
}

/* ---- writing files ----------------------------------------------------------------------- */

static bool prepare_edits(struct options_rewrite *plan, struct file_edit *edits,
                          unsigned *count, char why[WHY_BYTES])
{
    for (size_t i = 0; i < plan->texts.count; i++) {
        struct conf_text *text = &plan->texts.items[i];

        if (!text->is_edited) {
            continue;
        }
        edits[*count] = (struct file_edit){
            .path = text->path,
            .old = span_of(text->old.bytes, text->old.len),
            .text = buf_span(&text->now),
        };
        if (!file_edit_prepare(&edits[*count], why, WHY_BYTES)) {
            return false;
        }
        (*count)++;
    }
    return true;
}

/* All new files are synced to disk before the first one replaces an old file. */
static void write_files(struct pool_job *job)
{
    struct reconfigure *r = (struct reconfigure *)(void *)job;
    struct file_edit *edits = mem_zalloc((r->plan.texts.count + 1) * sizeof(*edits));
    unsigned count = 0;
    unsigned done = 0;

    must_be_pool();
    r->why[0] = '\0';
    if (edits == NULL) {
        snprintf(r->why, sizeof(r->why), "out of memory");
        return;
    }
    if (prepare_edits(&r->plan, edits, &count, r->why)) {
        while (done < count && file_edit_commit(&edits[done], r->why, sizeof(r->why))) {
            done++;
        }
    }
    for (; done < count; done++) {
        file_edit_discard(&edits[done]);
    }
    mem_free(edits);
}

static void begin_rewrite(struct reconfigure *r);

/* Notes for the operator after a successful rewrite. */
static void tell_notes(const struct reconfigure *r, struct main_ask *ask)
{
    char text[OPTION_TEXT_BYTES];

    for (unsigned i = 0; i < r->plan.overridden_count; i++) {
        add_line(ask, "OVERRIDDEN", r->plan.overridden[i],
                 option_typed(&r->plan.next, r->plan.overridden[i], text));
    }
    tell_waiting(ask, r->server->crew.settings, &r->plan.next);
}

static void log_rewrite(const struct reconfigure *r)
{
    char text[OPTION_TEXT_BYTES];
    char where[OPTION_WHERE_BYTES];

    for (unsigned i = 0; i < r->plan.edit_count; i++) {
        const enum option_id id = r->plan.edits[i];

        log_notice("options, wrote %s = %s (%s)", option_name(id),
                   option_typed(&r->plan.live, id, text),
                   option_where(&r->plan.files, id, where));
    }
    log_notice("options, written to the configuration files (%u changed)", r->plan.edit_count);
}

/* The rewrite has ended; r->why is its error. */
static void end_rewrite(struct reconfigure *r)
{
    struct main_ask *ask;

    if (r->why[0] != '\0') {
        log_error("options, not written: %s", r->why);
        answer_all(&r->under_way, text_compose_failure, r->why);
    } else {
        live_note_given(&r->server->crew, &r->plan.next);
        log_rewrite(r);
    }
    while ((ask = take_ask(&r->under_way)) != NULL) {
        tell_notes(r, ask);
        answer_ok(ask);
    }
    options_rewrite_fini(&r->plan);
    r->is_writing = false;
    begin_rewrite(r);
}

static void on_written(struct message *m, void *receiver)
{
    struct reconfigure *r = (struct reconfigure *)(void *)m;

    must_be_main();
    (void)receiver;
    if (!r->is_stopped) {
        end_rewrite(r);
    }
}

/* Start a rewrite if one is requested and none is running. */
static void begin_rewrite(struct reconfigure *r)
{
    struct crew *crew = &r->server->crew;
    struct option_messages said = {.is_logged = true};
    struct settings live;

    if (r->is_writing || list_is_empty(&r->waiting)) {
        return;
    }
    list_take_all(&r->under_way, &r->waiting);
    if (r->pool == NULL) {
        answer_all(&r->under_way, text_compose_refusal,
                   "there is no configuration file: the server was started without --config");
        return;
    }
    live_copy(crew, &live);
    if (!options_rewrite_plan(crew->settings, &live, &r->plan, &said)) {
        log_error("options, not written: the files have errors");
        answer_all(&r->under_way, text_compose_refusal, said.first);
        options_rewrite_fini(&r->plan);
        return;
    }
    r->why[0] = '\0';
    r->is_writing = true;
    if (r->plan.edit_count == 0) {
        end_rewrite(r);
    } else {
        must(pool_post(r->pool, &r->job)); /* it is the only job */
    }
}

/* ---- options that main changes ----------------------------------------------------------- */

static void change_option(struct server *s, struct main_ask *ask)
{
    char text[TEXT_REPLY_MAX];
    const size_t len = exec_config_change(&s->crew, ask->args, ask->noreply, text);

    ask->is_composed = buf_append(&ask->reply, text, len);
    answer(ask);
}

/* ---- asks -------------------------------------------------------------------------------- */

void reconfigure_on_ask(struct message *m, void *receiver)
{
    struct main_ask *ask = (struct main_ask *)(void *)m; /* its first member */
    struct reconfigure *r = reconfigure_of(receiver);

    if (ask->wish == MAIN_LOADS_CERTS) {
        renewal_ask(receiver, ask);
        return;
    }
    if (r->is_stopped) {
        mem_free(ask); /* the workers have ended, so the client no longer exists */
        return;
    }
    ask->is_composed = true;
    if (ask->wish == CONFIG_CHANGE) {
        change_option(receiver, ask);
    } else if (ask->wish == CONFIG_RELOAD) {
        reload(receiver, ask);
    } else {
        list_append(&r->waiting, &ask->link);
        begin_rewrite(r);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

int reconfigure_start(struct server *s)
{
    struct reconfigure *r;

    must_be_main();
    r = mem_zalloc(sizeof(*r));
    if (r == NULL) {
        log_error("options, cannot start (out of memory)");
        return EX_OSERR;
    }
    r->server = s;
    list_init(&r->reloads);
    list_init(&r->waiting);
    list_init(&r->under_way);
    r->job.message.fn = on_written;
    r->job.to = &s->crew.main_mailbox;
    r->job.run = write_files;
    s->reconfigure = r;
    if (s->crew.settings->config_path != NULL) {
        r->pool = pool_start("config", 1);
        if (r->pool == NULL) {
            log_error("options, cannot start a thread for files");
            return EX_OSERR;
        }
    }
    return 0;
}

void reconfigure_stop(struct server *s)
{
    static const char stopping[] = "the server is stopping";
    struct reconfigure *r = reconfigure_of(s);
    struct list_link *link;

    if (r == NULL || r->is_stopped) {
        return;
    }
    r->is_stopped = true;
    answer_all(&r->under_way, text_compose_failure, stopping);
    answer_all(&r->waiting, text_compose_failure, stopping);
    while ((link = list_take_first(&r->reloads)) != NULL) {
        struct reload_wait *wait = MF_OUTER(link, struct reload_wait, link);

        answer_error(wait->ask, text_compose_failure, stopping);
        wait->ask = NULL;
    }
    if (pool_stop(r->pool)) {
        if (r->is_writing) {
            options_rewrite_fini(&r->plan);
        }
    } else {
        /*
         * The thread may still use this memory, so it is not freed. The process exits anyway.
         */
        log_warn("options, abandoned a rewrite that did not finish");
        r->is_abandoned = true;
    }
    r->pool = NULL;
}

void reconfigure_destroy(struct server *s)
{
    must_be_main();
    if (s->reconfigure == NULL || !s->reconfigure->is_abandoned) {
        mem_free(s->reconfigure);
    }
    s->reconfigure = NULL;
}
