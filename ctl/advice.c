/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/advice.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "ctl/show.h"

/* Ratios of fewer events than this are not judged. */
#define FEW 1000

/* The input of a check, and the buffer for the text of its finding. */
struct look {
    const struct facts *f;
    char *fact;
};

/* Describe the finding, and return the state: is advice given? */
#define advise_if(l, is_bad, ...)                                                              \
    (snprintf((l)->fact, ADVICE_FACT_BYTES, __VA_ARGS__), (is_bad) ? ADVICE_GIVEN : ADVICE_WELL)

static double general(const struct look *l, const char *name)
{
    return stats_get(&l->f->general, name);
}

static double expiry(const struct look *l, const char *name)
{
    return stats_get(&l->f->expire, name);
}

static const char *bytes(char text[UNIT_TEXT_BYTES], double v)
{
    unit_short(text, UNIT_BYTES, v);
    return text;
}

/* ---- what the server counts -------------------------------------------------------------- */

static enum advice_state see_evictions(const struct look *l)
{
    double stores = general(l, "cmd_set");
    double evictions = general(l, "evictions");
    double share = stores > 0 ? evictions / stores : 0;

    return advise_if(l, evictions >= FEW && share > 0.1,
                     "%.0f evictions for %.0f stores (%.1f %%)", evictions, stores,
                     100 * share);
}

static enum advice_state see_hit_ratio(const struct look *l)
{
    double hits = general(l, "get_hits");
    double gets = hits + general(l, "get_misses");

    if (gets < FEW) {
        return advise_if(l, false, "%.0f keys requested so far", gets);
    }
    return advise_if(l, hits / gets < 0.5, "%.1f %% of %.0f requested keys were found",
                     100 * hits / gets, gets);
}

static enum advice_state see_connections(const struct look *l)
{
    double now = general(l, "curr_connections");
    double most = general(l, "max_connections");
    double refused = general(l, "rejected_connections");
    double pauses = general(l, "listen_disabled_num");

    return advise_if(
        l, (most > 0 && now > 0.8 * most) || refused > 0 || pauses > 0,
        "%.0f of %.0f are open; %.0f were refused, accepting was paused %.0f times", now, most,
        refused, pauses);
}

static enum advice_state see_no_memory(const struct look *l)
{
    double n = general(l, "store_no_memory");

    return advise_if(l, n > 0, "%.0f stores were answered with \"out of memory\"", n);
}

static enum advice_state see_too_large(const struct look *l)
{
    char text[UNIT_TEXT_BYTES];
    double n = general(l, "store_too_large");

    return advise_if(l, n > 0, "%.0f stores were larger than %s", n,
                     bytes(text, stats_get(&l->f->settings, "item_size_max")));
}

static enum advice_state see_expiry_debt(const struct look *l)
{
    double debt = expiry(l, "expire_debt_bytes");
    double limit = general(l, "limit_maxbytes");
    char text[UNIT_TEXT_BYTES];
    char oldest[UNIT_TEXT_BYTES];

    duration_text(oldest, expiry(l, "expire_debt_oldest_ms") / 1e3);
    return advise_if(l, limit > 0 && debt > 0.05 * limit,
                     "%s in %.0f items, the oldest is %s past its deadline", bytes(text, debt),
                     expiry(l, "expire_debt_keys"), oldest);
}

static enum advice_state see_expiry_lag(const struct look *l)
{
    double lag = expiry(l, "expire_lag_p99_ms");
    char text[UNIT_TEXT_BYTES];

    duration_text(text, lag / 1e3);
    return advise_if(
        l, lag > 1000,
        "99 %% were collected within %s in the last minute; %.0f cycles reached their time "
        "limit",
        text, expiry(l, "expire_time_cap_reached"));
}

static enum advice_state see_expiry_off(const struct look *l)
{
    double left = expiry(l, "expire_hold_left_ms");
    char text[UNIT_TEXT_BYTES];

    if (left > 0) {
        duration_text(text, left / 1e3);
        return advise_if(l, true, "expire_hold keeps them for %s more", text);
    }
    if (stats_is(&l->f->settings, "lru_crawler", "no")) {
        return advise_if(l, true, "the background search is off");
    }
    return advise_if(l, false, "the background search is on");
}

static enum advice_state see_reclaimer(const struct look *l)
{
    double pending = expiry(l, "lazyfree_pending_bytes");
    double limit = general(l, "limit_maxbytes");
    char text[UNIT_TEXT_BYTES];

    return advise_if(l, limit > 0 && pending > 0.1 * limit,
                     "%s wait for release; the longest grace period took %.0f ms",
                     bytes(text, pending), expiry(l, "lazyfree_wait_max_us") / 1e3);
}

static enum advice_state see_slow_clients(const struct look *l)
{
    double oom = general(l, "response_obj_oom");
    double refused = general(l, "read_buf_oom");

    return advise_if(l, oom > 0 || refused > 0,
                     "%.0f replies dropped, %.0f read buffers refused", oom, refused);
}

static enum advice_state see_log_lost(const struct look *l)
{
    double lost = general(l, "mayfly_log_dropped");

    return advise_if(l, lost > 0, "%.0f messages", lost);
}

/* ---- who may do what --------------------------------------------------------------------- */

/* Is an address of -l, perhaps with a port and prefixes in front, a loopback address? */
static bool is_loopback(struct span address)
{
    static const char *const names[] = {"127.", "[::1]", "::1", "localhost"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);
        const char *at = memmem(address.ptr, address.len, names[i], n);

        /* "tag[x]:proto[y]:127.0.0.1:11211": any prefix ends in a colon. */
        if (at != NULL && (at == address.ptr || at[-1] == ':')) {
            return true;
        }
    }
    return false;
}

/* Does the server listen where others can reach it? */
static bool is_reachable(const struct look *l)
{
    struct span list;

    if (!stats_is(&l->f->settings, "domain_socket", "NULL") &&
        !stats_is(&l->f->settings, "listen_both", "yes")) {
        return false;
    }
    if (!stats_find(&l->f->settings, "inter", &list) || span_is(list, "NULL")) {
        return false; /* without -l mayflyd listens on loopback addresses */
    }
    while (list.len > 0) {
        if (!is_loopback(span_cut(&list, ','))) {
            return true;
        }
    }
    return false;
}

static bool has_users(const struct look *l)
{
    return stats_is(&l->f->settings, "auth_enabled_sasl", "yes") ||
           (stats_find(&l->f->settings, "auth_enabled_ascii", &(struct span){0}) &&
            !stats_is(&l->f->settings, "auth_enabled_ascii", "no")) ||
           (stats_is(&l->f->settings, "ssl_enabled", "yes") &&
            !stats_is(&l->f->settings, "ssl_verify_mode", "0") &&
            !stats_is(&l->f->settings, "ssl_verify_mode", "1"));
}

static enum advice_state see_open_door(const struct look *l)
{
    struct span list = span_str("");

    (void)stats_find(&l->f->settings, "inter", &list);
    if (!is_reachable(l)) {
        return advise_if(l, false, "only this host can reach it");
    }
    if (has_users(l)) {
        return advise_if(l, false, "clients must authenticate");
    }
    return advise_if(l, true, "it listens on %.*s without authentication",
                     list.len > 100 ? 100 : (int)list.len, list.ptr);
}

static enum advice_state see_admin(const struct look *l)
{
    struct span value;

    if (!stats_find(&l->f->settings, "admin_commands", &value)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, is_reachable(l) && !has_users(l) && !span_is(value, "control"),
                     "admin_commands=%.*s", value.len > 40 ? 40 : (int)value.len, value.ptr);
}

static enum advice_state see_logins(const struct look *l)
{
    double failed = general(l, "auth_errors");
    double all = general(l, "auth_cmds");

    return advise_if(l, failed >= 100 && failed > 0.05 * all, "%.0f of %.0f failed", failed,
                     all);
}

/* ---- the host ---------------------------------------------------------------------------- */

static enum advice_state see_huge_pages(const struct look *l)
{
    const char *choice = l->f->host.huge_pages;

    if (!l->f->is_here || choice[0] == '\0') {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, strcmp(choice, "always") == 0, "transparent huge pages: %s", choice);
}

static enum advice_state see_overcommit(const struct look *l)
{
    if (!l->f->is_here || isnan(l->f->host.overcommit)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, l->f->host.overcommit == 2, "vm.overcommit_memory is %.0f",
                     l->f->host.overcommit);
}

static enum advice_state see_backlog(const struct look *l)
{
    double asked;

    if (!l->f->is_here || isnan(l->f->host.backlog_max) ||
        !stats_number(&l->f->settings, "tcp_backlog", &asked)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, asked > l->f->host.backlog_max,
                     "-b is %.0f, the kernel allows %.0f (net.core.somaxconn)", asked,
                     l->f->host.backlog_max);
}

static enum advice_state see_cgroup(const struct look *l)
{
    double limit = general(l, "limit_maxbytes");
    double most = l->f->host.cgroup_bytes;
    double needed = limit * 1.05 + 32.0 * (1 << 20);
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES], c[UNIT_TEXT_BYTES];

    if (!l->f->is_here || isnan(most)) {
        return ADVICE_UNKNOWN;
    }
    if (isinf(most)) {
        return advise_if(l, false, "its control group has no memory limit");
    }
    return advise_if(l, most < needed, "memory.max is %s; with -m %s the process may need %s",
                     bytes(a, most), bytes(b, limit), bytes(c, needed));
}

static enum advice_state see_host_memory(const struct look *l)
{
    double limit = general(l, "limit_maxbytes");
    double all = l->f->host.memory_bytes;
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    if (!l->f->is_here || !(all > 0)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, limit > 0.9 * all, "-m is %s of %s", bytes(a, limit), bytes(b, all));
}

static enum advice_state see_swap(const struct look *l)
{
    char a[UNIT_TEXT_BYTES];

    if (!l->f->host.has_process || isnan(l->f->host.swapped_bytes)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, l->f->host.swapped_bytes > 1 << 20, "%s of its memory is in swap",
                     bytes(a, l->f->host.swapped_bytes));
}

static enum advice_state see_files(const struct look *l)
{
    double needed = general(l, "max_connections") + general(l, "reserved_fds");

    if (!l->f->host.has_process || isnan(l->f->host.files_max)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, l->f->host.files_max < needed, "the limit is %.0f, it needs %.0f",
                     l->f->host.files_max, needed);
}

static enum advice_state see_clock_source(const struct look *l)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "xen"};
    const char *clock = l->f->host.clock;
    bool is_slow = false;

    if (!l->f->is_here || clock[0] == '\0') {
        return ADVICE_UNKNOWN;
    }
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        is_slow |= strcmp(clock, slow[i]) == 0;
    }
    return advise_if(l, is_slow, "the clock source of the kernel is %s", clock);
}

static enum advice_state see_clock(const struct look *l)
{
    double server;
    char text[UNIT_TEXT_BYTES];

    if (!stats_number(&l->f->general, "time", &server)) {
        return ADVICE_UNKNOWN;
    }
    double ahead = server - l->f->unix_s;
    duration_text(text, fabs(ahead));
    if (fabs(ahead) < 2) {
        return advise_if(l, false, "they agree");
    }
    return advise_if(l, fabs(ahead) > 5, "the server is %s %s", text,
                     ahead > 0 ? "ahead" : "behind");
}

/* ---- workers and shards ------------------------------------------------------------------ */

static enum advice_state see_threads_few(const struct look *l)
{
    const struct host *h = &l->f->host;
    /* CPUs that the process may use and that have no worker. */
    const double others = h->cpus_allowed - h->workers;

    if (h->workers == 0 || isnan(h->cpus_idle) || isnan(h->cpus_allowed)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, 2 * h->workers_full > h->workers && h->cpus_idle >= 1 && others >= 1,
                     "%u of %u workers used over 90 %% of a CPU; %.1f of %.0f CPUs were idle",
                     h->workers_full, h->workers, h->cpus_idle, h->cpus);
}

static enum advice_state see_threads_many(const struct look *l)
{
    const struct host *h = &l->f->host;
    const double threads = general(l, "threads");

    if (!h->has_process || isnan(h->cpus_allowed) || isnan(h->cpus) || threads == 0) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, threads > h->cpus_allowed && h->cpus_allowed < h->cpus,
                     "%.0f workers; the process may use %.3g of %.0f CPUs", threads,
                     h->cpus_allowed, h->cpus);
}

static enum advice_state see_one_worker(const struct look *l)
{
    const struct host *h = &l->f->host;

    if (h->workers == 0) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, h->workers_full == 1 && h->busiest - h->idlest > 0.5,
                     "the busiest of %u workers used %.0f %% of a CPU, the idlest %.0f %%",
                     h->workers, 100 * h->busiest, 100 * h->idlest);
}

static enum advice_state see_move_stuck(const struct look *l)
{
    struct span state = span_str("?");

    if (!stats_find(&l->f->moves, "move_state", &state)) {
        return ADVICE_UNKNOWN;
    }
    return advise_if(l, stats_is(&l->f->moves, "move_waits_for", "room"),
                     "%.0f of %.0f slots have moved; state %.*s; no room %.0f times",
                     stats_get(&l->f->moves, "move_slots_done"),
                     stats_get(&l->f->moves, "move_slots_all"),
                     (int)(state.len < 40 ? state.len : 40), state.ptr,
                     stats_get(&l->f->moves, "move_waits"));
}

/* ---- replication ------------------------------------------------------------------------- */

static double replication(const struct look *l, const char *name)
{
    return stats_get(&l->f->replication, name);
}

/* Is the server a replica? False: it is a primary, or does not report its role. */
static bool is_replica(const struct look *l)
{
    return stats_is(&l->f->replication, "role", "replica");
}

static enum advice_state see_replica_link(const struct look *l)
{
    struct span state = span_str("?");
    struct span why = span_str("none");

    if (!is_replica(l)) {
        return advise_if(l, false, "it is a primary");
    }
    (void)stats_find(&l->f->replication, "repl_state", &state);
    (void)stats_find(&l->f->replication, "repl_state_reason", &why);
    return advise_if(
        l, span_is(state, "connecting") || span_is(state, "cut") || span_is(state, "stale"),
        "its state is %.*s: %.*s", (int)(state.len < 40 ? state.len : 40), state.ptr,
        (int)(why.len < 200 ? why.len : 200), why.ptr);
}

static enum advice_state see_replica_clock(const struct look *l)
{
    double ahead = replication(l, "repl_clock_skew_ms");
    char text[UNIT_TEXT_BYTES];

    unit_short(text, UNIT_MS, fabs(ahead));
    return advise_if(l, is_replica(l) && fabs(ahead) > 1000,
                     "the clock of the primary is %s %s", text, ahead < 0 ? "behind" : "ahead");
}

static enum advice_state see_replica_memory(const struct look *l)
{
    double n = replication(l, "repl_evicted") + replication(l, "repl_not_stored");

    return advise_if(l, is_replica(l) && n > 0, "%.0f items", n);
}

static enum advice_state see_replica_lag(const struct look *l)
{
    const char *name = is_replica(l) ? "repl_lag_bytes" : "replicas_lag_bytes";
    double lag = replication(l, name);
    double backlog = replication(l, "repl_backlog_size");
    char lag_text[UNIT_TEXT_BYTES], backlog_text[UNIT_TEXT_BYTES];

    return advise_if(
        l,
        backlog > 0 && lag > 0.5 * backlog &&
            (!is_replica(l) || stats_is(&l->f->replication, "repl_state", "online")),
        "it lags by %s of changes; the backlog holds %s", bytes(lag_text, lag),
        bytes(backlog_text, backlog));
}

static enum advice_state see_few_replicas(const struct look *l)
{
    double online = replication(l, "online_replicas");
    double wanted = stats_get(&l->f->settings, "min_replicas_to_write");

    return advise_if(
        l,
        !is_replica(l) &&
            (online < wanted || stats_is(&l->f->replication, "repl_too_few_replicas", "1")),
        "%.0f online, min_replicas_to_write is %.0f", online, wanted);
}

/* ---- the table --------------------------------------------------------------------------- */

#define NOTHING     SIZE_MAX
#define SETTINGS    offsetof(struct facts, settings)
#define EXPIRE      offsetof(struct facts, expire)
#define REPLICATION offsetof(struct facts, replication)

const struct advice_text advice_texts[ADVICE_COUNT] = {
#define ADVICE(id, needs, title, remedy) [ADVICE_##id] = {#id, title, remedy},
#include "ctl/advice.def"
#undef ADVICE
};

static const struct {
    size_t needs; /* offset of the required statistics in struct facts */
    enum advice_state (*see)(const struct look *l);
} checks[ADVICE_COUNT] = {
#define ADVICE(id, needs, title, remedy) [ADVICE_##id] = {needs, see_##id},
#include "ctl/advice.def"
#undef ADVICE
};

enum advice_state advice_see(enum advice_id id, const struct facts *f,
                             char fact[ADVICE_FACT_BYTES])
{
    struct look l = {f, fact};
    const size_t needs = checks[id].needs;

    fact[0] = '\0';
    return needs != NOTHING &&
                   ((const struct stats *)(const void *)((const char *)f + needs))->count == 0
               ? ADVICE_UNKNOWN
               : checks[id].see(&l);
}
