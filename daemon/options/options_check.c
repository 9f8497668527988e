/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules between options. Statuses are memcached's where it has the rule.
 */
#include "daemon/options/options_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/machine.h"
#include "daemon/base/version.h"
#include "daemon/options/cpu_list.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_share.h"
#include "daemon/options/options_value.h"
#include "daemon/options/save_rules.h"
#include "lib/base/context.h"
#include "lib/snapshot/keychain.h"
#include "lib/snapshot/pack.h"

/* With more worker threads than this memcached warns. */
#define THREADS_WARN 64

/* Was it given as a flag? In the configuration file an option stands for itself. */
static bool is_flag(const struct settings *s, enum option_id id)
{
    const enum option_source source = setting_source(s, id);

    return source == OPTION_COMMAND_LINE || source == OPTION_MEMCACHED_CONF;
}

/* An option of this pair that was given. */
static enum option_id given_of(const struct settings *s, enum option_id id,
                               enum option_id other)
{
    return setting_source(s, id) != OPTION_DEFAULT || setting_source(s, other) == OPTION_DEFAULT
               ? id
               : other;
}

/* -M is the policy noeviction, unless a source that overrides that of -M names a policy. */
static void settle_policy(struct settings *s)
{
    const enum option_source of_m = setting_source(s, OPTION_no_evictions);
    const enum option_source of_policy = setting_source(s, OPTION_maxmemory_policy);
    char policy[OPTION_TEXT_BYTES];

    if (!s->no_evictions || setting_get(s, engine.maxmemory_policy) == CHOICE_NOEVICTION) {
        return;
    }
    if (of_policy > of_m) {
        s->no_evictions = false;
        return;
    }
    if (of_policy == of_m) {
        option_fault(s, OPTION_no_evictions, "overrides maxmemory_policy=%s",
                     option_typed(s, OPTION_maxmemory_policy, policy));
    }
    setting_set(s, engine.maxmemory_policy, CHOICE_NOEVICTION);
}

/*
 * Set what follows in memcached: -D turns on counting by prefix, temporary_ttl its LRU, -U a
 * TCP port of the same number, no_modern the crawler off, and -M is a policy.
 */
static void set_implied(struct settings *s)
{
    if (is_flag(s, OPTION_prefix_delimiter) &&
        setting_source(s, OPTION_detail_enabled) == OPTION_DEFAULT) {
        setting_set(s, detail_enabled, true);
    }
    if (setting_source(s, OPTION_temporary_ttl) != OPTION_DEFAULT) {
        setting_set(s, temp_lru, true);
    }
    if (s->udp_port != 0 && setting_source(s, OPTION_port) == OPTION_DEFAULT) {
        s->port = s->udp_port;
    }
    if (s->compat[COMPAT_no_modern] &&
        setting_source(s, OPTION_active_expire) == OPTION_DEFAULT) {
        setting_set(s, engine.active_expire, false);
    }
    settle_policy(s);
    if (setting_source(s, OPTION_protocol) == OPTION_DEFAULT) {
        s->protocol = s->auth_file != NULL ? PROTOCOL_ASCII
                      : s->sasl            ? PROTOCOL_BINARY
                                           : s->protocol;
    }
}

static int check_sasl(const struct settings *s)
{
    if (!s->sasl) {
        return 0;
    }
    if (s->auth_file != NULL) {
        option_fault(s, OPTION_sasl,
                     "cannot be used with -Y: SASL is of the binary protocol, and a file of "
                     "users of the ASCII protocol");
        return EX_USAGE;
    }
    if (s->protocol != PROTOCOL_BINARY &&
        setting_source(s, OPTION_protocol) != OPTION_DEFAULT) {
        option_fault(s, OPTION_protocol,
                     "you cannot allow the ASCII protocol while using SASL (-S): use binary");
        return EX_USAGE;
    }
    if (s->udp_port != 0) {
        option_fault(s, OPTION_udp_port,
                     "cannot enable UDP while using SASL (-S), which has no users there");
        return EX_USAGE;
    }
    if (!BUILT_WITH_SASL) {
        option_fault(s, OPTION_sasl, "this server is not built with SASL support");
        return EX_USAGE;
    }
    return 0;
}

/* With authentication by text there must be no other way in. */
static int check_auth(const struct settings *s)
{
    if (s->auth_file != NULL && s->protocol != PROTOCOL_ASCII) {
        option_fault(s, OPTION_protocol,
                     "you cannot allow the BINARY protocol while using a file of users (-Y): "
                     "use ascii");
        return EX_USAGE;
    }
    if (s->auth_file != NULL && s->udp_port != 0) {
        option_fault(
            s, OPTION_udp_port,
            "cannot use UDP with a file of users (-Y), who cannot log in there (-U 0)");
        return EX_USAGE;
    }
    return 0;
}

/*
 * The first option whose name begins with this, and that was given as a flag or is not what it
 * is anyway; OPTION_COUNT: none. A file may have every option at its default.
 */
static enum option_id first_given(const struct settings *s, const char *prefix)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (strncmp(option_rows[id].name, prefix, strlen(prefix)) == 0 &&
            (is_flag(s, id) || !option_has_default(s, id))) {
            return id;
        }
    }
    return OPTION_COUNT;
}

/* Whoever asks for encryption must not get a server without it. */
static int check_tls(const struct settings *s)
{
    enum option_id given = s->ssl_enabled ? OPTION_ssl_enabled : first_given(s, "ssl-");

    given = given != OPTION_COUNT ? given : first_given(s, "replica-tls");
    if (!BUILT_WITH_TLS && given != OPTION_COUNT) {
        option_fault(s, given, "this server is not built with TLS support");
        return EX_USAGE;
    }
    if (!s->ssl_enabled) {
        return 0;
    }
    if (s->port == 0) {
        option_fault(s, OPTION_ssl_enabled, "cannot be used without a TCP port (-p 0)");
        return EX_USAGE;
    }
    if (s->ssl_chain_cert == NULL) {
        option_fault(s, OPTION_ssl_enabled,
                     "cannot be used without a certificate (-o ssl_chain_cert=FILE)");
        return EX_USAGE;
    }
    return 0;
}

static int check_metrics(const struct settings *s)
{
    if (!BUILT_WITH_METRICS && s->metrics != NULL) {
        option_fault(s, OPTION_metrics, "this server is not built with metrics");
        return EX_USAGE;
    }
    return 0;
}

static int check_log(const struct settings *s)
{
    if (s->log_to != NULL && s->log_to[0] != '/' && strcmp(s->log_to, "stderr") != 0 &&
        strcmp(s->log_to, "journal") != 0) {
        option_fault(s, OPTION_log_to,
                     "\"%.200s\" is neither stderr nor journal nor an absolute path",
                     s->log_to);
        return EX_USAGE;
    }
    if (s->log_file != NULL && s->log_file[0] != '/') {
        option_fault(s, OPTION_log_file, "\"%.200s\" is not an absolute path", s->log_file);
        return EX_USAGE;
    }
    if (s->log_file != NULL && s->log_to != NULL) {
        option_fault(s, OPTION_log_file, "cannot be used with --log (%.200s)", s->log_to);
        return EX_USAGE;
    }
    return 0;
}

static int check_cpus(const struct settings *s)
{
    char why[OPTION_TEXT_BYTES];

    if (!cpu_list_is_usable(s, why, sizeof(why))) {
        option_fault(s, OPTION_worker_cpus, "%s", why);
        return EX_USAGE;
    }
    return 0;
}

/* Whoever asks to be confined must not get a server that is not. */
static int check_privileges(const struct settings *s)
{
    if (!BUILT_WITH_SECCOMP && s->drop_privileges) {
        option_fault(s, OPTION_drop_privileges, "this server is not built with seccomp");
        return EX_USAGE;
    }
    return 0;
}

/*
 * Not a path, not hidden, and not what a server with another name would take for its own log or
 * damaged file, and remove or overwrite.
 */
static bool is_file_name(const char *name)
{
    size_t n = strlen(name);

    return n != 0 && name[0] != '.' && strchr(name, '/') == NULL && !keychain_is_name(name) &&
           (n < 4 || strcmp(name + n - 4, ".bad") != 0);
}

static int check_snapshot(const struct settings *s)
{
    struct save_rules rules;

    if (!save_rules_parse(s->save_rules, &rules)) {
        option_fault(s, OPTION_save_rules,
                     "\"%.200s\" is not a list of rules seconds:changes, separated by commas, "
                     "at most %u",
                     s->save_rules, SAVE_RULES_MAX);
        return EX_USAGE;
    }
    if (rules.count > 0 && s->dir == NULL) {
        option_fault(s, OPTION_save_rules, "needs a folder to save to (--dir)");
        return EX_USAGE;
    }
    if (s->dbfilename != NULL && !is_file_name(s->dbfilename)) {
        option_fault(s, OPTION_dbfilename,
                     "\"%.200s\" is not the name of a file in the folder dir: without /, not "
                     "beginning with a dot, and not ending in .bad or .log.NUMBER",
                     s->dbfilename);
        return EX_USAGE;
    }
    if (s->load_async && s->load == LOAD_STRICT) {
        option_fault(s, OPTION_load_async,
                     "serves before it knows whether the file is whole: not with load=strict");
        return EX_USAGE;
    }
    if (!pack_is_there() && s->rdbcompression != 0) {
        option_fault(s, OPTION_rdbcompression, "this server is not built with zstd");
        return EX_USAGE;
    }
    if (setting_get(s, appendonly) != 0 && s->dir == NULL) {
        option_fault(s, OPTION_appendonly, "needs a folder for the log (--dir)");
        return EX_USAGE;
    }
    if (setting_get(s, appendonly) != 0 && s->load_async) {
        option_fault(s, OPTION_appendonly,
                     "not with load_async, as it cannot tell what a request drops before it is "
                     "loaded");
        return EX_USAGE;
    }
    return 0;
}

/* memcached's rules for its LRU: here they only refuse the same command lines. */
static int check_lru(const struct settings *s)
{
    if (setting_get(s, hot_lru_pct) + setting_get(s, warm_lru_pct) > 80) {
        option_fault(s, given_of(s, OPTION_hot_lru_pct, OPTION_warm_lru_pct),
                     "hot_lru_pct + warm_lru_pct cannot be more than 80%% combined");
        return EX_USAGE;
    }
    if (setting_get(s, temp_lru) && !s->lru_maintainer) {
        option_fault(s, OPTION_temporary_ttl, "requires lru_maintainer");
        return EX_USAGE;
    }
    return 0;
}

static int check_sizes(const struct settings *s)
{
    char item[OPTION_TEXT_BYTES];
    char memory[OPTION_TEXT_BYTES];

    if (!options_fit_items(s, setting_get(s, memory_limit_bytes))) {
        option_fault(s, given_of(s, OPTION_item_size_max, OPTION_memory_limit_bytes),
                     "the largest item (-I %s) is more than half of the memory (-m %s)",
                     option_typed(s, OPTION_item_size_max, item),
                     option_typed(s, OPTION_memory_limit_bytes, memory));
        return EX_USAGE;
    }
    if (s->napi_ids > setting_get(s, threads)) {
        option_fault(s, OPTION_napi_ids,
                     "%" PRIu32 " cannot be greater than number of threads (-t %" PRIu32 ")",
                     s->napi_ids, setting_get(s, threads));
        return EX_USAGE;
    }
    return 0;
}

static int settle_shares(struct settings *s)
{
    enum option_id ids[OPTION_SHARES_MAX];
    enum option_id id;
    char why[OPTION_TEXT_BYTES];

    if (options_with_share(s, ids) == 0) {
        return 0;
    }
    machine_look();
    if (!options_settle_shares(s, &id, why)) {
        option_fault(s, id, "%s", why);
        return EX_USAGE;
    }
    return 0;
}

int options_check(struct settings *s)
{
    must_be_main();
    set_implied(s);
    int status = settle_shares(s);
    if (status == 0) {
        status = check_sizes(s);
    }
    if (status == 0) {
        status = check_lru(s);
    }
    if (status == 0) {
        status = check_sasl(s);
    }
    if (status == 0) {
        status = check_auth(s);
    }
    if (status == 0) {
        status = check_tls(s);
    }
    if (status == 0) {
        status = check_metrics(s);
    }
    if (status == 0) {
        status = check_privileges(s);
    }
    if (status == 0) {
        status = check_snapshot(s);
    }
    if (status == 0) {
        status = check_log(s);
    }
    if (status == 0) {
        status = check_cpus(s);
    }
    if (status == 0 && setting_get(s, threads) > THREADS_WARN) {
        option_fault(s, OPTION_threads,
                     "%" PRIu32 " worker threads are more than is recommended (the number of "
                     "cores or less)",
                     setting_get(s, threads));
    }
    return status;
}
