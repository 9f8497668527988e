/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and stop, on the main thread. The start is a series of steps (enum step); s->step says
 * how far it came, and take_down() undoes exactly those, the last first. It serves a failed
 * start and a regular stop alike.
 *
 * Signals are blocked while threads are made, so that only the main thread ever takes one.
 */
#include "daemon/service/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/version.h"
#include "daemon/conn/conn.h"
#include "daemon/net/tls.h"
#include "daemon/options/options.h"
#include "daemon/options/options_value.h"
#include "daemon/service/notify.h"
#include "daemon/service/privs.h"
#include "daemon/stats/metrics.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"
#include "lib/link/link.h"
#include "lib/reshard/reshard.h"

/* The steps that are done, in the order of the start. */
enum step {
    STEP_NONE,
    STEP_LOOP,    /* main's loop and mailbox; from here on a signal to stop is a regular stop */
    STEP_PIDFILE, /* sockets bound, file written; then privileges were dropped */
    STEP_ENGINE,
    STEP_WORKERS,
};

static const int signals_taken[SERVER_SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGUSR2};

static struct server *server_of(void *p)
{
    struct server *s = p;

    must(s != NULL && s->crew.settings != NULL);
    return s;
}

/* ---- being told to stop ------------------------------------------------------------------ */

/* Main's loop continues until the workers have drained, so that another signal is noticed. */
static void begin_drain(struct server *s)
{
    s->is_draining = true;
    crew_drain(&s->crew);
    replication_drain(&s->replication);
}

static void on_drained_message(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    must_be_main();
    (void)m;
    if (s->is_draining) {
        s->is_draining = false;
        uv_stop(&s->loop);
    }
}

/* A graceful stop ends when the last client has disconnected; operators may stay connected. */
static void stop_if_empty(struct server *s)
{
    atomic_store(&s->crew.wants_room, true);
    /* Replicas stay for as long as they can. */
    if (crew_clients(&s->crew) <= replication_clients(&s->replication)) {
        begin_drain(s);
    }
}

static void begin_stop(struct server *s, enum crew_stop how);

static void on_handed_over(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    must_be_main();
    (void)m;
    begin_stop(s, s->stop_next);
}

static void begin_stop(struct server *s, enum crew_stop how)
{
    must_be_main();
    if (how <= s->stopping || replicate_hands_over(s, how, on_handed_over)) {
        return;
    }
    s->stopping = how;
    if (upgrade_is_wanted(s)) {
        notify_reloading();
        upgrade_note(s);
    } else {
        notify_stopping();
    }
    listeners_close(s);
    if (how == CREW_STOP_SOON) {
        begin_drain(s);
        return;
    }
    log_notice("server, is stopping gracefully (%u connections left)",
               (unsigned)crew_clients(&s->crew));
    stop_if_empty(s);
}

void server_stop_for_upgrade(struct server *s)
{
    must_be_main();
    s->is_for_upgrade = s->stopping == CREW_STOP_NONE;
    begin_stop(s, CREW_STOP_SOON);
}

static void on_stop_message(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    (void)m;
    notice_taken(&s->crew.stop);
    upgrade_give_up(s);
    begin_stop(s, (enum crew_stop)atomic_load(&s->crew.stop_wanted));
}

static void on_upgrade_message(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    (void)m;
    upgrade_begin(s, s->crew.upgrade_program);
    notice_taken(&s->crew.upgrade);
}

static void on_room_message(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    must_be_main();
    (void)m;
    notice_taken(&s->crew.room);
    if (s->stopping == CREW_STOP_GRACEFUL) {
        stop_if_empty(s);
    } else if (s->stopping == CREW_STOP_NONE) {
        listeners_resume(s);
    }
}

static void on_cancelled_message(struct message *m, void *receiver)
{
    struct server *s = server_of(receiver);

    (void)m;
    notice_taken(&s->crew.cancelled);
    if (s->step >= STEP_ENGINE) {
        live_note_cancel(&s->crew);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *s = server_of(handle->data);

    switch (number) {
    case SIGHUP:
        reconfigure_reload(s);
        break;
    case SIGUSR2:
        upgrade_begin(s, "");
        break;
    case SIGUSR1:
        /* With -e, memcached is stopped by this signal when it is to be restarted at once. */
        upgrade_give_up(s);
        begin_stop(s,
                   s->crew.settings->memory_file != NULL ? CREW_STOP_SOON : CREW_STOP_GRACEFUL);
        break;
    default:
        upgrade_give_up(s);
        if (s->stopping == CREW_STOP_SOON) {
            log_notice("server, is stopping at once (%s)", strsignal(number));
            crew_hurry(&s->crew);
        } else {
            log_notice("server, is stopping (%s)", strsignal(number));
            begin_stop(s, CREW_STOP_SOON);
        }
        break;
    }
}

/* ---- main's loop ------------------------------------------------------------------------- */

/* Close the mailbox and the existing signal handles, and let the loop release them. */
static void close_loop(struct server *s)
{
    sigset_t taken;

    must_be_main();
    /* A late request to stop must not stop this last run of the loop. */
    s->stopping = CREW_STOP_SOON;
    s->is_draining = false;
    loop_timer_end(&s->vigil.timer);
    loop_timer_end(&s->balancer.timer);
    loop_timer_end(&s->host_watch.timer);
    mailbox_close(&s->crew.main_mailbox);
    sigemptyset(&taken);
    for (unsigned i = 0; i < SERVER_SIGNALS; i++) {
        sigaddset(&taken, signals_taken[i]);
    }
    /* Without a handle a signal would end the process before its last messages are written. */
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    while (s->signal_count > 0) {
        uv_close((uv_handle_t *)&s->signals[--s->signal_count], NULL);
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    int err = uv_loop_close(&s->loop);
    must(err == 0);
}

/*
 * -c and threads need descriptors. If there were too few for -c from the start, which was
 * logged, a thread may take one of them. On any thread that changes options.
 */
static bool prepare_option(struct crew *crew, const struct settings *wanted, enum option_id id,
                           char *why)
{
    const struct settings *now = crew->settings;
    const uint32_t conns = setting_get(now, conn_limit);
    const uint32_t threads = setting_get(now, threads);
    uint64_t limit;

    if ((id == OPTION_conn_limit &&
         !privs_fit(now, setting_get(wanted, conn_limit), threads, &limit)) ||
        (id == OPTION_threads && !privs_fit(now, conns, setting_get(wanted, threads), &limit) &&
         privs_fit(now, conns, threads, &limit))) {
        snprintf(why, OPTION_TEXT_BYTES,
                 "the limit on open files is %" PRIu64 " for this process", limit);
        return false;
    }
    return true;
}

static int open_loop(struct server *s)
{
    int err = uv_loop_init(&s->loop);

    if (err != 0) {
        return err;
    }
    err = mailbox_init(&s->crew.main_mailbox, &s->loop, s);
    if (err != 0) {
        uv_loop_close(&s->loop);
        return err;
    }
    notice_init(&s->crew.stop, on_stop_message);
    notice_init(&s->crew.upgrade, on_upgrade_message);
    notice_init(&s->crew.room, on_room_message);
    notice_init(&s->crew.cancelled, on_cancelled_message);
    s->crew.on_ask = reconfigure_on_ask;
    s->crew.prepare_option = prepare_option;
    s->crew.on_options = replicate_on_options;
    s->crew.drained_message.fn = on_drained_message;
    while (s->signal_count < SERVER_SIGNALS) {
        uv_signal_t *handle = &s->signals[s->signal_count];

        err = uv_signal_init(&s->loop, handle);
        if (err != 0) {
            break;
        }
        handle->data = s;
        s->signal_count++;
        err = uv_signal_start(handle, on_signal, signals_taken[s->signal_count - 1]);
        if (err != 0) {
            break;
        }
    }
    if (err != 0) {
        close_loop(s);
    } else if (passed_on_is(&s->passed_on)) {
        sigset_t none;

        /* The program before has held them: see hold_signals(). */
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
    }
    return err;
}

/* ---- the engine and the workers ---------------------------------------------------------- */

static int start_engine(struct server *s)
{
    const struct settings *set = s->crew.settings;
    struct engine_config cfg;
    int status;
    const uint64_t saved =
        snapshots_open(&s->crew.snapshots, s->crew.settings, &s->crew.gate, &status);

    engine_config_init(&cfg);
    cfg.limit_bytes = setting_get(set, memory_limit_bytes);
    cfg.shards = shards_at_start(set);
    cfg.item_size_max = set->item_size_max;
    cfg.items_hint = set->hashpower > 0 ? UINT64_C(1) << set->hashpower : 0;
    if (cfg.items_hint < saved) {
        cfg.items_hint = saved;
    }
    cfg.is_in_cores = set->coredumps;
    cfg.seed = hash_random_seed();
    cfg.observer = watch_on_engine_event;
    cfg.options = &set->engine;
    cfg.has_past = set->dir != NULL || set->memory_file != NULL;
    cfg.hold_boot_ns = upgrade_hold_ns(&s->passed_on);
    cfg.is_passive = replication_is_wanted(set);
    if (set->memory_file != NULL) {
        cfg.attach = &s->crew.attach;
    }
    if (status == 0) {
        status = server_check_shards(set);
    }
    if (status != 0) {
        return status;
    }
    enum mf_err err = engine_start(&s->crew.engine, &cfg);
    if (err != MF_OK) {
        /* It is not always the memory file that fails: a thread may be refused, too. */
        log_error("server, cannot start the engine (%s)",
                  err == MF_ESYS && s->crew.attach.why[0] != '\0' ? s->crew.attach.why
                                                                  : mf_strerror(err));
        return EX_OSERR;
    }
    memory_file_tell(s);
    if (cfg.attach != NULL && cfg.attach->state == ATTACH_WARM) {
        snapshots_pass_over(&s->crew.snapshots, cfg.attach->companion);
    }
    if (engine_items_hint(&s->crew.engine) < cfg.items_hint) {
        log_notice("server, sizes the index for %" PRIu64
                   " items, the most that -m allows (hashpower)",
                   engine_items_hint(&s->crew.engine));
    }
    if (engine_range(&s->crew.engine) < cfg.limit_bytes) {
        log_warn("server, holds at most %" PRIu64
                 " megabytes: the address space is limited (ulimit -v)",
                 engine_range(&s->crew.engine) >> 20);
    }
    return 0;
}

/* A stop signal is handled only in main's loop, so long operations check for it here. */
static bool is_stop_pending(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* The first signal to stop ends the loading; a second one aborts the last save. */
static bool tell_progress(const char *line)
{
    notify_takes_time(line);
    return is_stop_pending();
}

static bool saves_at_stop(const struct server *s)
{
    switch ((enum crew_save)atomic_load(&s->crew.save_wanted)) {
    case CREW_SAVE_YES:
        return true;
    case CREW_SAVE_NO:
        return false;
    case CREW_SAVE_AS_SET:
        return setting_get(s->crew.settings, save_on_stop);
    }
    unreachable();
}

static int start_threads(struct server *s)
{
    int status;

    thread_block_signals(&s->signal_mask);
    if (!log_start()) {
        log_error("server, cannot start the thread of the log");
        status = EX_OSERR;
    } else {
        status = start_engine(s);
    }
    if (status == 0) {
        s->step = STEP_ENGINE;
        status = snapshots_start(&s->crew.snapshots, &s->crew.engine, tell_progress);
    }
    if (status == 0) {
        status = exports_start(&s->crew.exports, s->crew.settings, &s->crew.engine);
    }
    if (status == 0) {
        status = replicate_start(s);
    }
    if (status == 0) {
        status = access_start_threads(&s->crew.access);
    }
    if (status == 0) {
        status = renewal_start(s);
    }
    if (status == 0) {
        status = reconfigure_start(s);
    }
    if (status == 0) {
        status = crew_start(&s->crew);
        if (status == 0) {
            s->step = STEP_WORKERS;
            shards_begin(&s->crew);
        }
    }
    if (status == 0) {
        status = replication_begin(&s->replication);
    }
    if (status == 0) {
        status = metrics_start(s->metrics, &s->crew);
    }
    thread_restore_signals(&s->signal_mask);
    return status;
}

/* ---- start and stop ---------------------------------------------------------------------- */

static void stop_snapshots(struct server *s, bool is_whole)
{
    thread_block_signals(&s->signal_mask);
    /* The program that takes over has the items, and its clients wait for it. */
    s->crew.attach.companion = snapshots_stop(
        &s->crew.snapshots,
        is_whole && s->is_started && !upgrade_is_wanted(s) && saves_at_stop(s), tell_progress);
    thread_restore_signals(&s->signal_mask);
}

/* Undo the steps of the start that were done, the last first. */
static void take_down(struct server *s)
{
    must_be_main();
    listeners_close(s);
    metrics_close(&s->metrics);
    reconfigure_stop(s); /* the answers go out before the workers stop */
    renewal_stop(s);
    snapshots_abandon(&s->crew.snapshots);
    exports_stop(&s->crew.exports);
    replication_end(&s->replication);
    if (s->step >= STEP_ENGINE) {
        reshard_stop(&s->crew.engine); /* the next process continues the move */
    }
    if (s->step >= STEP_WORKERS) {
        crew_stop(&s->crew);
        upgrade_tell(s);
        upgrade_note_live(s);
    }
    bool is_whole = replicate_stop(s);
    welcome_close(s);
    /* No request can change the items any longer. */
    stop_snapshots(s, is_whole);
    access_stop_threads(
        &s->crew.access); /* if there were no workers, crew_stop() has not done it */
    if (s->step >= STEP_ENGINE) {
        /* If no client was served, the next start should load the snapshot again. */
        s->crew.attach.leaves_nothing =
            !is_whole || (!s->is_started && s->crew.attach.state != ATTACH_WARM);
        engine_stop(&s->crew.engine);
        s->step = STEP_PIDFILE;
    }
    memory_file_close(s);
    if (s->step >= STEP_PIDFILE && upgrade_is_wanted(s)) {
        privs_pass_pidfile(s->crew.settings);
    } else if (s->step >= STEP_PIDFILE) {
        privs_remove_pidfile(s->crew.settings);
    }
    if (s->step >= STEP_LOOP) {
        upgrade_end(s);
        close_loop(s); /* the last watchers are released */
        watch_fini(&s->crew.watch);
        slowlog_fini(&s->crew.slowlog);
    }
    reconfigure_destroy(s);
    renewal_destroy(s);
    listeners_destroy(s);
    access_fini(&s->crew.access);
    if (!s->is_tls_abandoned) {
        tls_close(s->crew.tls);
        s->crew.tls = NULL;
    }
    s->step = STEP_NONE;
}

/*
 * Prepare the process itself, before it opens descriptors or makes threads. Returns an exit
 * status.
 */
static int prepare_process(struct server *s)
{
    struct settings *settings = s->crew.settings;

    privs_ignore_signals(settings);
    if (!log_init(&settings->verbosity, settings->log_to)) {
        log_warn("log, uses standard error (no journal at %s)", settings->log_to);
    }
    log_set_format(&settings->log_format);
    live_init(&s->crew);
    upgrade_take_live(settings, true);
    options_log(settings);
    int status = privs_check_user(settings);
    if (status == 0) {
        /*
         * With the rights and in the folder of the user that starts the server, who sees the
         * error message.
         */
        status = tls_open(settings, &s->crew.tls);
    }
    if (status == 0) {
        landlock_note(settings);
        /* After an upgrade, the process is in the background if the previous program was. */
        status = passed_on_is(&s->passed_on) ? 0 : privs_daemonize(settings);
    }
    if (status == 0) {
        status = privs_set_limits(settings);
    }
    if (status == 0 && settings->drop_privileges) {
        link_prepare_confined();
        status = filter_prepare(settings);
    }
    return status;
}

/* Open the sockets, give up privileges, then read the users. Returns an exit status. */
static int open_and_drop(struct server *s)
{
    int status = listeners_open(s);

    if (status == 0) {
        status = metrics_open(s->crew.settings, &s->metrics);
    }
    if (status != 0) {
        return status;
    }
    status = privs_lock_memory(s->crew.settings);
    if (status != 0) {
        return status;
    }
    privs_write_pidfile(s->crew.settings);
    s->step = STEP_PIDFILE;
    status = privs_drop(s->crew.settings);
    if (status == 0) {
        /* As the user of the server, which opens it again later. */
        status = server_try_log(s->crew.settings, log_open_file);
        host_log(s->crew.settings);
    }
    if (status == 0) {
        status = access_load(&s->crew.access, s->crew.settings);
    }
    if (status == 0) {
        status = memory_file_open(s);
    }
    passed_on_close_rest(&s->passed_on);
    if (status == 0) {
        listeners_check_rules(s);
        landlock_confine(s->crew.settings);
    }
    return status;
}

/* Log one line with the main settings, so that a log identifies its server. */
static void tell_start(struct server *s)
{
    const struct settings *set = s->crew.settings;
    char policy[OPTION_TEXT_BYTES];
    char sockets[512] = "";

    listeners_describe(s, sockets, sizeof(sockets));
    log_notice("server, is ready: " MAYFLY_NAME " " MAYFLY_VERSION
               ", pid %ld, %u threads, %" PRIu64
               " megabytes, %s%s%s, TLS %s, authentication %s, "
               "control %s, metrics %s, seccomp %s, disk persistence %s",
               (long)getpid(), (unsigned)roster_active(&s->crew.roster),
               setting_get(set, memory_limit_bytes) >> 20,
               option_typed(set, OPTION_maxmemory_policy, policy),
               sockets[0] != '\0' ? ", listens on" : ", listens nowhere", sockets,
               s->crew.tls == NULL         ? "off"
               : set->ssl_verify_mode >= 2 ? "on with client certificates"
                                           : "on",
               set->sasl                ? "by SASL"
               : set->auth_file != NULL ? "by file"
                                        : "off",
               set->control_path != NULL ? set->control_path : "off",
               s->metrics != NULL ? "on" : "off", set->drop_privileges ? "on" : "off",
               set->dir != NULL ? s->crew.snapshots.path : "off");
}

static void tell_ready(const struct server *s)
{
    const struct attach *a = &s->crew.attach;
    char status[128];

    if (s->crew.settings->memory_file == NULL) {
        notify_ready("serving");
    } else if (a->state == ATTACH_WARM) {
        snprintf(status, sizeof(status), "serving, with %" PRIu64 " items that were there",
                 a->items);
        notify_ready(status);
    } else {
        notify_ready("serving, began empty");
    }
}

static int begin_serving(struct server *s)
{
    int err = listeners_accept(s);

    if (err != 0) {
        log_error("server, cannot accept (%s)", uv_strerror(err));
        return EX_OSERR;
    }
    welcome_all(s);
    vigil_begin(s);
    balancer_begin(s);
    host_begin(s);
    if (s->crew.settings->drop_privileges) {
        int status = filter_install(s->crew.settings);

        if (status != 0) {
            return status;
        }
    }
    privs_ready(s->crew.settings);
    s->is_started = true;
    tell_ready(s);
    tell_start(s);
    return 0;
}

int server_start(struct server *s, struct settings *settings)
{
    context_set_thread(THREAD_MAIN, NULL, NULL);
    memset(s, 0, sizeof(*s));
    s->crew.attach.fd = -1;
    s->crew.snapshots.file.fd = -1;
    s->crew.settings = settings;
    passed_on_init(&s->passed_on);
    settings->passed = &s->passed_on;
    s->crew.duties = &conn_duties;
    s->crew.stats = &s->stats;
    s->crew.replication = &s->replication;
    s->stats.sources = (struct stats_sources){
        .each_listener = listeners_each,
        .count_listeners = listeners_count,
        .each_datagram = udp_each,
        .each_conn = conn_each,
        .leave_conns = conn_each_end,
    };
    atomic_store(&s->stats.tracks_sizes, settings->track_sizes);
    passed_conns_init(&s->crew.passed);
    upgrade_init(s);
    int status = access_init(&s->crew.access, settings);
    if (status == 0) {
        status = prepare_process(s);
    }
    if (status != 0) {
        goto fail;
    }
    welcome_open(s);
    int err = open_loop(s);
    if (err != 0) {
        log_error("server, cannot start (%s)", uv_strerror(err));
        status = EX_OSERR;
        goto fail;
    }
    watch_init(&s->crew.watch, &s->crew);
    slowlog_init(&s->crew.slowlog);
    s->step = STEP_LOOP;
    status = open_and_drop(s);
    if (status != 0) {
        goto fail;
    }
    status = start_threads(s);
    if (status != 0) {
        goto fail;
    }
    status = begin_serving(s);
    if (status != 0) {
        goto fail;
    }
    return 0;

fail:
    take_down(s);
    passed_conns_fini(&s->crew.passed);
    log_stop();
    return status;
}

void server_serve(struct server *s)
{
    must_be_main();
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

void server_stop(struct server *s)
{
    must_be_main();
    take_down(s);
    if (!upgrade_is_wanted(s)) {
        passed_on_end_conns(&s->crew.passed);
        passed_conns_fini(&s->crew.passed);
    }
    log_info("server, stopped");
    log_stop();
}

/*
 * Block signals for the program that takes over: a blocked signal stays pending. Earlier
 * signals are processed by one more turn of the loop, so that none is lost.
 */
static void hold_signals(struct server *s)
{
    thread_block_signals(&s->signal_mask);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    if (!upgrade_is_wanted(s)) {
        thread_restore_signals(&s->signal_mask);
    }
}

int server_run(struct settings *settings)
{
    struct server *s = mem_alloc_aligned(sizeof(*s), 64);

    if (s == NULL) {
        log_error("server, cannot start (out of memory)");
        return EX_OSERR;
    }
    int status = server_start(s, settings);
    if (status == 0) {
        server_serve(s);
        if (upgrade_is_wanted(s)) {
            hold_signals(s);
        }
        server_stop(s);
        if (upgrade_is_wanted(s)) {
            status = upgrade_become(s);
        }
        if (s->is_tls_abandoned || s->crew.access.is_abandoned) {
            _exit(status); /* a thread still uses memory that would be released here */
        }
    }
    mem_free(s);
    return status;
}
