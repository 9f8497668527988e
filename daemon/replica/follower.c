/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session with the primary: see role.h.
 */
#include "daemon/replica/role.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/options/replica_address.h"
#include "daemon/options/settings.h"
#include "daemon/replica/follower_parts.h"
#include "daemon/replica/replication.h"
#include "daemon/worker/crew.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/engine/engine.h"
#include "lib/link/link.h"
#include "lib/replica/applier.h"

/* Pauses between sessions: after a link that was cut, and after a sync that failed. */
#define CUT_PAUSE_MIN_MS  50
#define CUT_PAUSE_MAX_MS  1000
#define SYNC_PAUSE_MIN_MS 1000
#define SYNC_PAUSE_MAX_MS 60000

/* Time after the limit in which the primary may still report that it did not hand over. */
#define HANDOVER_MORE_MS 500

/* Interval of checks whether a handover is wanted, or was not made in time. */
#define LOOK_MS 250

/* The least time that a link may be silent. */
#define TIMEOUT_MIN_MS 3000

/* The least time to connect, even if the data here is about to be too old. */
#define CONNECT_MIN_MS 1000

/* ---- options ----------------------------------------------------------------------------- */

static struct settings *settings_of(const struct follower *f)
{
    return f->r->crew->settings;
}

static void read_target(const struct follower *f, struct target *t)
{
    const struct settings *s = settings_of(f);

    memset(t, 0, sizeof(*t));
    setting_copy_text(s, replicaof, t->text, sizeof(t->text));
    setting_copy_text(s, replica_announce, t->announce, sizeof(t->announce));
    setting_copy_text(s, replica_user, t->user, sizeof(t->user));
    setting_copy_text(s, replica_password_file, t->password_file, sizeof(t->password_file));
    setting_copy_text(s, replica_tls_ca_cert, t->ca, sizeof(t->ca));
    setting_copy_text(s, replica_tls_cert, t->cert, sizeof(t->cert));
    setting_copy_text(s, replica_tls_key, t->key, sizeof(t->key));
    setting_copy_text(s, replica_tls_name, t->tls_name, sizeof(t->tls_name));
    t->uses_tls = setting_get(s, replica_tls);
}

bool follower_is_other(struct follower *f)
{
    struct target t;

    read_target(f, &t);
    pthread_mutex_lock(&f->mutex);
    bool is = memcmp(&t, &f->shown, sizeof(t)) != 0;
    pthread_mutex_unlock(&f->mutex);
    return is;
}

bool replication_is_wanted(const struct settings *s)
{
    char text[LIVE_TEXT_BYTES];

    (void)setting_copy_text(s, replicaof, text, sizeof(text));
    return !replica_address_is_none(text);
}

bool follower_has_target(const struct follower *f)
{
    return !replica_address_is_none(f->target.text);
}

bool follower_retarget(struct follower *f, bool is_forced)
{
    struct target t;

    read_target(f, &t);
    f->is_forced |= is_forced || strcmp(t.text, f->target.text) != 0;
    f->target = t;
    f->next_try_ms = 0;
    f->pause_ms = 0;
    pthread_mutex_lock(&f->mutex);
    f->shown = t;
    pthread_mutex_unlock(&f->mutex);
    return follower_has_target(f);
}

void follower_resume_waits(struct follower *f)
{
    uint64_t count;

    while (read(f->cancel, &count, sizeof(count)) > 0) {
    }
}

void follower_interrupt(struct follower *f)
{
    const uint64_t one = 1;

    (void)TEMP_FAILURE_RETRY(write(f->cancel, &one, sizeof(one)));
}

void follower_resume(struct follower *f, const struct replid *id)
{
    f->is_forced = false;
    f->seen = *id;
}

const struct applier *follower_applier(const struct follower *f)
{
    return f->applier;
}

void follower_get_name(struct follower *f, struct backlog_name *name)
{
    if (f->applier != NULL) {
        applier_get_name(f->applier, name);
    } else {
        backlog_get_name(f->r->backlog, name);
    }
}

/* ---- life -------------------------------------------------------------------------------- */

struct follower *follower_create(struct replication *r)
{
    struct follower *f = mem_zalloc(sizeof(*f));

    if (f == NULL) {
        return NULL;
    }
    f->r = r;
    f->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&f->mutex, NULL);
    if (f->cancel < 0) {
        follower_destroy(&f);
    }
    return f;
}

void follower_destroy(struct follower **fp)
{
    struct follower *f = *fp;

    if (f == NULL) {
        return;
    }
    applier_destroy(&f->applier);
    mem_free(f->portion);
    if (f->cancel >= 0) {
        close(f->cancel);
    }
    pthread_mutex_destroy(&f->mutex);
    mem_free(f);
    *fp = NULL;
}

/* Milliseconds until the data here is too old to be served; 0: it is; -1: never. */
static msec_t left_ms(const struct follower *f)
{
    msec_t most = (msec_t)setting_get(settings_of(f), replica_max_stale) * 1000;
    msec_t left = f->heard_ms + most - clock_mono_ms();

    return most == 0 ? -1 : left > 0 ? left : 0;
}

/* The same while the data is served; -1 also if it is not served. */
static msec_t fresh_ms(const struct follower *f)
{
    enum repl_state state = replication_state(f->r);

    return state == REPL_ONLINE || state == REPL_CUT ? left_ms(f) : -1;
}

/* Nothing was heard for too long. */
static void note_stale(struct follower *f)
{
    if (fresh_ms(f) == 0) {
        replication_enter(f->r, REPL_STALE,
                          "nothing received from the primary for replica_max_stale");
        shipper_drop_all(f->r->shipper); /* its replicas become stale as well */
        replication_tell(f->r);
    }
}

static bool is_stopped(void *arg)
{
    struct follower *f = arg;

    note_stale(f);
    return replication_is_changed(f->r);
}

/* An applier_config.renamed: the primary has become another history's. */
static void on_renamed(void *arg, const struct backlog_name *name)
{
    struct follower *f = arg;

    f->is_renamed = true;
    follower_note_history(f, &name->id, name->epoch);
}

/* An applier_config.flushed: before the flush is acknowledged no file has the old items. */
static void on_flushed(void *arg)
{
    const struct follower *f = arg;

    snapshots_note_followed_flush(&f->r->crew->snapshots);
}

/* Allocate the memory for following a primary. False: no memory. */
static bool prepare(struct follower *f)
{
    struct replication *r = f->r;
    const struct applier_config cfg = {.engine = follower_engine(f),
                                       .backlog = r->backlog,
                                       .is_stopped = is_stopped,
                                       .renamed = on_renamed,
                                       .flushed = on_flushed,
                                       .arg = f};

    if (f->applier != NULL) {
        return true;
    }
    if (!replication_reserve(r)) {
        return false;
    }
    f->portion = mem_alloc(REPL_PORTION_MAX);
    pthread_mutex_lock(&f->mutex); /* follower_look() counts what it does not store */
    f->applier = f->portion != NULL ? applier_create(&cfg) : NULL;
    pthread_mutex_unlock(&f->mutex);
    if (f->applier == NULL) {
        mem_free(f->portion);
        f->portion = NULL;
        return false;
    }
    budget_add(&follower_engine(f)->budget, REPL_PORTION_MAX);
    f->scale = (struct scale){.is_set = false};
    return true;
}

uint64_t follower_leave(struct follower *f)
{
    uint64_t cas_max = 0;

    if (f->applier != NULL) {
        cas_max = applier_cas_max(f->applier);
        applier_leave(f->applier);
        pthread_mutex_lock(&f->mutex); /* as in prepare() */
        f->not_stored += follower_count_not_stored(f);
        applier_destroy(&f->applier);
        pthread_mutex_unlock(&f->mutex);
        mem_free(f->portion);
        f->portion = NULL;
        budget_add(&follower_engine(f)->budget, -(int64_t)REPL_PORTION_MAX);
    }
    f->serve_from = 0;
    f->heard_ms = 0;
    return cas_max;
}

/* ---- connecting -------------------------------------------------------------------------- */

/* Limit of each wait. An idle primary sends something each second. */
static msec_t timeout_ms(const struct follower *f)
{
    msec_t timeout = (msec_t)setting_get(settings_of(f), repl_timeout) * 1000;

    return timeout > TIMEOUT_MIN_MS ? timeout : TIMEOUT_MIN_MS;
}

/* The same up to the greeting. After that, checks for stale data have to run as well. */
static msec_t connect_timeout_ms(const struct follower *f)
{
    msec_t timeout = timeout_ms(f);
    msec_t fresh = fresh_ms(f);

    if (fresh < 0 || fresh > timeout) {
        return timeout;
    }
    return fresh > CONNECT_MIN_MS ? fresh : CONNECT_MIN_MS;
}

/* ---- the greeting ------------------------------------------------------------------------ */

/* NULL, or why the path of the primary is bad: too long, or it contains this process. */
static const char *is_bad_path(const struct follower *f, struct span path)
{
    char run[REPLID_CHARS + 1];

    replid_format(&f->r->run, run);
    if (path.len >= REPL_PATH_REST) {
        return "the chain of replicas is too long";
    }
    if (path.len >= REPLID_CHARS && memmem(path.ptr, path.len, run, REPLID_CHARS) != NULL) {
        return "it follows this server, directly or not";
    }
    return NULL;
}

/* The reason not to follow a server with this greeting; NULL: none. */
static const char *doubt(const struct follower *f, const struct greeting *g)
{
    const uint64_t seen = f->is_forced ? 0 : f->r->seen_epoch;
    const struct repl_versions ours = repl_versions_of(REPL_VERSION);
    const char *why = is_bad_path(f, g->path);

    if (g->version < ours.least || g->version > ours.most) {
        return "no common version of the replication protocol "
               "(upgrade the older one first)";
    }
    if (why != NULL || seen == 0 || setting_get(settings_of(f), replica_follow_cold)) {
        return why;
    }
    if (g->epoch < seen) {
        return "its epoch is lower: it may have lost its items "
               "(replicaof, given again, or replica_follow_cold)";
    }
    if (g->epoch == seen && !g->continues && !replid_equal(&g->id, &f->seen) &&
        repl_is_consistent(replication_state(f->r))) {
        return "it has another history of the same epoch "
               "(replicaof, given again, or replica_follow_cold)";
    }
    return NULL;
}

/* Store the new path of the primary. Replicas that got another one ask again. */
static void note_path(struct follower *f, struct span path)
{
    char text[REPL_PATH_REST] = "";

    snprintf(text, sizeof(text), "%.*s", (int)path.len, path.ptr);
    pthread_mutex_lock(&f->mutex);
    bool is_other = strcmp(text, f->path) != 0;
    memcpy(f->path, text, sizeof(text));
    pthread_mutex_unlock(&f->mutex);
    if (is_other) {
        shipper_drop_all(f->r->shipper);
        replication_tell(f->r);
    }
}

/* Port at which this server serves. The primary follows it there after a handover. */
static unsigned port_to_tell(const struct follower *f)
{
    const struct crew *crew = f->r->crew;
    const uint32_t plain = atomic_load(&crew->port);
    const uint32_t tls = atomic_load(&crew->tls_port);
    const bool wants_tls = f->target.uses_tls ? tls != 0 : plain == 0;

    return wants_tls ? tls : plain;
}

static enum session greet(struct follower *f, struct greeting *g)
{
    const struct repl_versions ours = repl_versions_of(REPL_VERSION);
    struct replication *r = f->r;
    struct backlog_name name;
    char id[REPLID_CHARS + 1] = "-";
    char run[REPLID_CHARS + 1];
    char versions[REPL_VERSIONS_BYTES];
    char where[REPLICA_ADDRESS_BYTES];
    char line[256 + REPLICA_ADDRESS_BYTES];
    struct span said;

    backlog_get_name(r->backlog, &name); /* it has the parts of a value that is under way */
    if (!replid_is_none(&name.id) && name.epoch != 0 && !f->needs_all) {
        replid_format(&name.id, id);
    }
    replid_format(&r->run, run);
    repl_versions_format(&ours, versions);
    replica_address_join(f->target.announce, where);
    if (where[0] == '\0') {
        snprintf(where, sizeof(where), "%u", port_to_tell(f));
    }
    if (!follower_send(f, line,
                       snprintf(line, sizeof(line),
                                "psync %s %" PRIu64 " %s %" PRIu64 " %s %s\r\n", versions,
                                f->is_forced || setting_get(settings_of(f), replica_follow_cold)
                                    ? 0
                                    : r->seen_epoch,
                                id, name.offset, run, where)) ||
        link_line(f->link, &said) != LINK_OK) {
        return f->target.user[0] == '\0' && !f->is_renamed ? follower_end_unanswered(f)
                                                           : follower_end_cut(f, SESSION_CUT);
    }
    if (!answer_greeting(said, g) ||
        (g->continues && (id[0] == '-' || g->offset != name.offset))) {
        return follower_end(f, SESSION_CUT, "it refuses to be followed", said);
    }
    const char *why = doubt(f, g);
    if (why != NULL) {
        return follower_end(f, SESSION_REFUSED, why, span_str(""));
    }
    link_set_timeout(f->link, timeout_ms(f));
    f->is_forced = false;
    f->is_renamed = false;
    follower_note_history(f, &g->id, g->epoch);
    note_path(f, g->path);
    pthread_mutex_lock(&f->mutex);
    f->end = g->end;
    pthread_mutex_unlock(&f->mutex);
    if (!g->continues) {
        f->scale.is_set = false; /* another history has another scale */
    }
    follower_note_time(f, g->now_ms);
    return SESSION_GOES_ON;
}

/* ---- the stream -------------------------------------------------------------------------- */

/* PART: bytes, time, end, level's offset and time, wall clock. */
struct follower_part {
    uint32_t bytes;
    int64_t now_ms;
    uint64_t end, due_offset;
    int64_t due_ms, wall_ms;
};

static bool read_part(struct span line, struct follower_part *p)
{
    struct follower_words w;

    return answer_unseal(line, &w) && w.count == 7 && span_is(w.word[0], "PART") &&
           num_u32(w.word[1], &p->bytes) == MF_OK && p->bytes <= REPL_PORTION_MAX &&
           answer_time(w.word[2], &p->now_ms) && answer_offset(w.word[3], &p->end) &&
           answer_offset(w.word[4], &p->due_offset) &&
           num_i64(w.word[5], &p->due_ms) == MF_OK && answer_time(w.word[6], &p->wall_ms);
}

static void serve_if_level(struct follower *f)
{
    if (replication_state(f->r) != REPL_ONLINE && applier_offset(f->applier) >= f->serve_from &&
        left_ms(f) != 0) {
        f->pause_ms = 0;
        atomic_store(&f->r->is_whole, true);
        replication_enter(f->r, REPL_ONLINE, "it has caught up with the primary");
    }
}

/* Check whether an operator wants the primary to hand over, or a handover takes too long. */
static void look_at_handover(struct follower *f)
{
    const msec_t now = clock_mono_ms();

    if (f->handover_until_ms == 0) {
        f->handover_ms = replication_wants_handover(f->r);
        f->handover_until_ms = f->handover_ms > 0 ? now + f->handover_ms + HANDOVER_MORE_MS : 0;
    } else if (now > f->handover_until_ms) {
        f->handover_until_ms = 0;
        f->handover_ms = 0;
        replication_note_refused(f->r, "the primary did not hand over in time");
    }
}

static bool ask(struct follower *f)
{
    const int64_t limit_ms = f->handover_ms;
    char line[96];

    if (limit_ms > 0) {
        f->handover_ms = 0;
        return follower_send(f, line,
                             snprintf(line, sizeof(line),
                                      "replconf failover %" PRIu64 " %" PRId64 "\r\n",
                                      applier_offset(f->applier), limit_ms));
    }
    return follower_send(f, line,
                         snprintf(line, sizeof(line), "replconf ack %" PRIu64 "\r\n",
                                  applier_offset(f->applier)));
}

/* The next line, which comes when something has happened at the primary. */
static enum link_result await_line(struct follower *f, struct span *line)
{
    const msec_t until = clock_mono_ms() + timeout_ms(f);
    enum link_result result;
    msec_t left;

    do {
        look_at_handover(f);
        note_stale(f);
        left = until - clock_mono_ms();
        left = left < 0 ? 0 : left;
        link_set_timeout(f->link, left < LOOK_MS ? left : LOOK_MS);
        result = link_line(f->link, line);
    } while (result == LINK_SILENT && left > LOOK_MS);
    link_set_timeout(f->link, timeout_ms(f));
    return result;
}

/*
 * Receive the bytes of a part. Every LOOK_MS it checks whether the data here is too old. The
 * link is closed if no byte comes for timeout_ms().
 */
static enum link_result take_bytes(struct follower *f, size_t n)
{
    msec_t until = clock_mono_ms() + timeout_ms(f);
    enum link_result result = LINK_OK;
    char *at = f->portion;

    while (n > 0 && result == LINK_OK) {
        msec_t left = until - clock_mono_ms();
        size_t got;

        note_stale(f);
        left = left < 0 ? 0 : left;
        link_set_timeout(f->link, left < LOOK_MS ? left : LOOK_MS);
        result = link_some(f->link, at, n, &got);
        if (result == LINK_OK) {
            at += got;
            n -= got;
            until = clock_mono_ms() + timeout_ms(f);
        } else if (result == LINK_SILENT && left > LOOK_MS) {
            result = LINK_OK;
        }
    }
    link_set_timeout(f->link, timeout_ms(f));
    return result;
}

/* A block was damaged in transit, or, if it is damaged again, at the primary: full sync. */
static void note_bad(struct follower *f)
{
    const uint64_t offset = applier_offset(f->applier);

    f->needs_all = f->bad_offset == offset;
    f->bad_offset = offset;
}

/* The next part of the stream was asked for: take it, and ask for the one after it. */
static enum session take_part(struct follower *f)
{
    struct follower_part p;
    struct span line;

    if (await_line(f, &line) != LINK_OK) {
        return follower_end_cut(f, SESSION_CUT);
    }
    if (span_is(line, "HANDOVER")) {
        f->handover_until_ms = 0;
        if (!follower_is_other(f)) { /* what an operator has changed meanwhile takes
                                        precedence */
            replication_take_over(f->r);
        }
        return SESSION_ENDED;
    }
    if (!read_part(line, &p)) {
        return follower_end(f, SESSION_CUT, "the primary says", line);
    }
    follower_note_time(f, p.now_ms);
    follower_note_wall(f, p.wall_ms);
    pthread_mutex_lock(&f->mutex);
    f->end = p.end;
    f->shown_heard_ms = f->heard_ms;
    pthread_mutex_unlock(&f->mutex);
    if (take_bytes(f, p.bytes) != LINK_OK) {
        return follower_end_cut(f, SESSION_CUT);
    }
    /* There is more: let it come while this is applied. */
    bool is_asked = p.bytes == REPL_PORTION_MAX;
    if (is_asked && !ask(f)) {
        return follower_end_cut(f, SESSION_CUT);
    }
    enum applier_result result = applier_take(f->applier, f->portion, p.bytes);
    if (result == APPLIER_BAD) {
        note_bad(f);
    }
    if (result != APPLIER_OK) {
        return follower_end(f, result == APPLIER_STOPPED ? SESSION_ENDED : SESSION_CUT,
                            applier_result_text(result), span_str(""));
    }
    follower_note_level(f, p.due_offset, p.due_ms);
    follower_note_told(f);
    serve_if_level(f);
    replication_tell(f->r); /* its own replicas */
    look_at_handover(f);
    if (is_asked) {
        return SESSION_GOES_ON;
    }
    if (f->is_renamed) {
        return SESSION_RENAMED;
    }
    return ask(f) ? SESSION_GOES_ON : follower_end_cut(f, SESSION_CUT);
}

static enum session stream(struct follower *f)
{
    enum session how = SESSION_GOES_ON;

    follower_note_told(f);
    serve_if_level(f);
    if (!ask(f)) {
        return follower_end_cut(f, SESSION_CUT);
    }
    while (how == SESSION_GOES_ON && !replication_is_changed(f->r)) {
        how = take_part(f);
    }
    return how == SESSION_GOES_ON ? SESSION_ENDED : how;
}

/* ---- sessions ---------------------------------------------------------------------------- */

/*
 * Request a full sync, and receive it. The data here stays until the first line comes, as the
 * primary may be unable to send now. heard_ms: when the data was last as new as the primary's.
 */
static enum session take_everything(struct follower *f, msec_t heard_ms)
{
    char sync[16];
    struct span line;

    f->heard_ms = heard_ms; /* the greeting tells nothing about the data here */
    if (!follower_send(f, sync, snprintf(sync, sizeof(sync), "%s\r\n", "sync")) ||
        await_line(f, &line) != LINK_OK) {
        return follower_end_cut(f, SESSION_SYNC_FAILED);
    }
    return follower_take_everything(f, line);
}

/* From the greeting on. */
static enum session follow(struct follower *f)
{
    const msec_t heard_ms = f->heard_ms;
    const int64_t to_unix_ms = atomic_load(&f->r->to_unix_ms);
    struct greeting g = {.continues = false};
    enum session how = greet(f, &g);

    if (how != SESSION_GOES_ON) {
        return how;
    }
    if (g.continues) {
        f->serve_from = g.end > f->serve_from ? g.end : f->serve_from;
        pthread_mutex_lock(&f->r->mutex);
        f->r->counts.partial++;
        pthread_mutex_unlock(&f->r->mutex);
    } else {
        how = take_everything(f, heard_ms);
        if (how != SESSION_GOES_ON) {
            f->scale.is_set = false; /* it is that of what was not sent */
            atomic_store(&f->r->to_unix_ms, to_unix_ms);
        }
    }
    return how == SESSION_GOES_ON ? stream(f) : how;
}

static enum session converse(struct follower *f)
{
    enum session how = follower_log_in(f);

    if (how != SESSION_GOES_ON) {
        return how;
    }
    do {
        how = follow(f);
    } while (how == SESSION_RENAMED);
    return how;
}

/* Set the state that follows the end of a link; its reason is the latest failure. */
static void note_cut(struct follower *f, bool has_failed)
{
    const enum repl_state state = replication_state(f->r);

    switch (state) {
    case REPL_ONLINE:
        replication_enter(f->r, REPL_CUT, f->why);
        break;
    case REPL_SYNCING:
    case REPL_CATCHING_UP:
        replication_enter(f->r, REPL_CONNECTING, f->why);
        break;
    case REPL_CONNECTING:
    case REPL_CUT:
    case REPL_STALE:
        if (has_failed) {
            role_set_state(f->r, state, f->why);
        }
        break;
    default:
        break;
    }
}

/*
 * The pause before the next session. After a cut link each pause is an eighth longer than the
 * one before. So the time without a link exceeds the outage by at most about an eighth.
 */
static int64_t pause_after(const struct follower *f, enum session how)
{
    bool is_sync = how == SESSION_SYNC_FAILED || how == SESSION_REFUSED;
    int64_t least = is_sync ? SYNC_PAUSE_MIN_MS : CUT_PAUSE_MIN_MS;
    int64_t most = is_sync ? SYNC_PAUSE_MAX_MS : CUT_PAUSE_MAX_MS;
    int64_t pause = is_sync ? f->pause_ms * 2 : f->pause_ms + f->pause_ms / 8;

    return how == SESSION_ENDED ? 0 : pause < least ? least : pause > most ? most : pause;
}

static void run_session(struct follower *f)
{
    enum session how = SESSION_CUT;

    if (replication_is_changed(f->r)) {
        return;
    }
    f->why[0] = '\0';
    if (!prepare(f)) {
        how = follower_end(f, SESSION_REFUSED, "no memory", span_str(""));
    } else if (follower_connect(f, connect_timeout_ms(f))) {
        how = converse(f);
        link_close(&f->link);
        applier_cut(f->applier);
    }
    if (replication_is_wanted(settings_of(f))) { /* else the primary has handed over */
        f->handover_ms = 0;
        f->handover_until_ms = 0;
        replication_note_refused(f->r, f->why[0] != '\0' ? f->why : "the link was cut");
    }
    f->pause_ms = pause_after(f, how);
    f->next_try_ms = clock_mono_ms() + f->pause_ms;
    if (how == SESSION_ENDED) {
        snprintf(f->why, sizeof(f->why), "the link was closed");
    } else {
        pthread_mutex_lock(&f->r->mutex);
        f->r->counts.failed++;
        pthread_mutex_unlock(&f->r->mutex);
        if (f->pause_ms <= CUT_PAUSE_MIN_MS || f->pause_ms >= CUT_PAUSE_MAX_MS) {
            /* Log the first failure, and those after the longest pause: others are too many. */
            log_warn("replication, %s: %s (retry in %" PRId64 " ms)", f->target.text, f->why,
                     f->pause_ms);
        }
    }
    note_cut(f, how != SESSION_ENDED);
}

int64_t follower_run(struct follower *f)
{
    must_not_be_reading();
    if (clock_mono_ms() >= f->next_try_ms) {
        run_session(f);
    }
    note_stale(f);
    int64_t fresh = fresh_ms(f);
    int64_t wait = f->next_try_ms - clock_mono_ms();
    wait = wait < 0 ? 0 : wait;
    return fresh > 0 && fresh < wait ? fresh : wait;
}

/* ---- observers --------------------------------------------------------------------------- */

void follower_path(struct follower *f, char path[REPL_PATH_REST])
{
    pthread_mutex_lock(&f->mutex);
    memcpy(path, f->path, sizeof(f->path));
    pthread_mutex_unlock(&f->mutex);
}

void follower_look(struct follower *f, struct repl_info *info)
{
    pthread_mutex_lock(&f->mutex);
    snprintf(info->target, sizeof(info->target), "%.*s", (int)sizeof(info->target) - 1,
             f->shown.text);
    info->lag_bytes = f->end > info->name.offset ? f->end - info->name.offset : 0;
    info->silent_ms = f->shown_heard_ms != 0 ? clock_mono_ms() - f->shown_heard_ms : -1;
    info->level_ms = f->level_ms != 0 ? clock_mono_ms() - f->level_ms : -1;
    info->skew_ms = info->silent_ms >= 0 ? f->skew_ms : 0;
    info->not_stored = f->not_stored + follower_count_not_stored(f);
    pthread_mutex_unlock(&f->mutex);
}
