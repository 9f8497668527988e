/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules between options. Statuses are memcached's where it has the rule.
 */
#include "daemon/options/options_apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/machine.h"
#include "daemon/base/version.h"
#include "daemon/options/cpu_list.h"
#include "daemon/options/options.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "daemon/options/save_rules.h"
#include "lib/base/context.h"
#include "lib/format/pack.h"
#include "lib/log/keychain.h"

/* With more worker threads than this memcached warns. */
#define THREADS_WARN 64

/* Was it given as a flag? In the configuration file an option is not called a flag. */
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
 * Set what follows in memcached: -D turns on counting by prefix, temporary_ttl its LRU,
 * no_lru_maintainer the flat LRU, -U a TCP port of the same number, no_modern the crawler off,
 * and -M is a policy.
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
    setting_set(s, lru_segmented, s->lru_maintainer);
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

/* A rule between options. Not holding: says that it is broken, by this option. */
#define option_rule(s, holds, id, ...) ((holds) || (option_fault(s, id, __VA_ARGS__), false))

static bool check_sasl(const struct settings *s)
{
    return !s->sasl ||
           (option_rule(
                s, s->auth_file == NULL, OPTION_sasl,
                "cannot be used with -Y: SASL is of the binary protocol, and a file of users "
                "of the ASCII protocol") &&
            option_rule(
                s,
                s->protocol == PROTOCOL_BINARY ||
                    setting_source(s, OPTION_protocol) == OPTION_DEFAULT,
                OPTION_protocol,
                "you cannot allow the ASCII protocol while using SASL (-S): use binary") &&
            option_rule(s, s->udp_port == 0, OPTION_udp_port,
                        "cannot enable UDP while using SASL (-S), which has no users there") &&
            option_rule(s, BUILT_WITH_SASL, OPTION_sasl,
                        "this server is not built with SASL support"));
}

/* With authentication by text there must be no other way in. */
static bool check_auth(const struct settings *s)
{
    return s->auth_file == NULL ||
           (option_rule(
                s, s->protocol == PROTOCOL_ASCII, OPTION_protocol,
                "you cannot allow the BINARY protocol while using a file of users (-Y): use "
                "ascii") &&
            option_rule(
                s, s->udp_port == 0, OPTION_udp_port,
                "cannot use UDP with a file of users (-Y), who cannot log in there (-U 0)"));
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

/* A server that should encrypt must not start without it. */
static bool check_tls(const struct settings *s)
{
    enum option_id given = s->ssl_enabled ? OPTION_ssl_enabled : first_given(s, "ssl-");

    given = given != OPTION_COUNT ? given : first_given(s, "replica-tls");
    return option_rule(s, BUILT_WITH_TLS || given == OPTION_COUNT, given,
                       "this server is not built with TLS support") &&
           (!s->ssl_enabled ||
            (option_rule(s, s->port != 0, OPTION_ssl_enabled,
                         "cannot be used without a TCP port (-p 0)") &&
             option_rule(s, s->ssl_chain_cert != NULL, OPTION_ssl_enabled,
                         "cannot be used without a certificate (-o ssl_chain_cert=FILE)")));
}

/* Metrics and confinement: a server that is to have them must not start without. */
static bool check_built(const struct settings *s)
{
    return option_rule(s, BUILT_WITH_METRICS || s->metrics == NULL, OPTION_metrics,
                       "this server is not built with metrics") &&
           option_rule(s, BUILT_WITH_SECCOMP || !s->drop_privileges, OPTION_drop_privileges,
                       "this server is not built with seccomp");
}

static bool check_log(const struct settings *s)
{
    return option_rule(
               s,
               s->log_to == NULL || s->log_to[0] == '/' || strcmp(s->log_to, "stderr") == 0 ||
                   strcmp(s->log_to, "journal") == 0,
               OPTION_log_to, "\"%.200s\" is neither stderr nor journal nor an absolute path",
               s->log_to) &&
           option_rule(s, s->log_file == NULL || s->log_file[0] == '/', OPTION_log_file,
                       "\"%.200s\" is not an absolute path", s->log_file) &&
           option_rule(s, s->log_file == NULL || s->log_to == NULL, OPTION_log_file,
                       "cannot be used with --log (%.200s)", s->log_to);
}

static bool check_cpus(const struct settings *s)
{
    char why[OPTION_TEXT_BYTES] = "";

    const bool is_usable = cpu_list_is_usable(s, why, sizeof(why));

    return option_rule(s, is_usable, OPTION_worker_cpus, "%s", why);
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

static bool check_snapshot(const struct settings *s)
{
    const bool has_log = setting_get(s, appendonly) != 0;
    struct save_rules rules;

    return option_rule(
               s, save_rules_parse(s->save_rules, &rules), OPTION_save_rules,
               "\"%.200s\" is not a list of rules seconds:changes, separated by commas, at "
               "most %u",
               s->save_rules, SAVE_RULES_MAX) &&
           option_rule(s, rules.count == 0 || s->dir != NULL, OPTION_save_rules,
                       "needs a folder to save to (--dir)") &&
           option_rule(s, s->dbfilename == NULL || is_file_name(s->dbfilename),
                       OPTION_dbfilename,
                       "\"%.200s\" is not the name of a file in the folder dir: without /, not "
                       "beginning with a dot, and not ending in .bad or .log.NUMBER",
                       s->dbfilename) &&
           option_rule(
               s, !s->load_async || s->load != LOAD_STRICT, OPTION_load_async,
               "serves before it knows whether the file is whole: not with load=strict") &&
           option_rule(s, pack_is_there() || s->rdbcompression == 0, OPTION_rdbcompression,
                       "this server is not built with zstd") &&
           option_rule(s, !has_log || s->dir != NULL, OPTION_appendonly,
                       "needs a folder for the log (--dir)") &&
           option_rule(
               s,
               !has_log || !s->load_async ||
                   setting_source(s, OPTION_appendonly) == OPTION_RUN_TIME, /* handed over */
               OPTION_appendonly,
               "not with load_async, as it cannot tell what a request drops before it is "
               "loaded");
}

/* memcached's rules for its LRU: here they only refuse the same command lines. */
static bool check_lru(const struct settings *s)
{
    return option_rule(s, setting_get(s, hot_lru_pct) + setting_get(s, warm_lru_pct) <= 80,
                       given_of(s, OPTION_hot_lru_pct, OPTION_warm_lru_pct),
                       "hot_lru_pct + warm_lru_pct cannot be more than 80%% combined") &&
           option_rule(s, !setting_get(s, temp_lru) || s->lru_maintainer, OPTION_temporary_ttl,
                       "requires lru_maintainer");
}

static bool check_sizes(const struct settings *s)
{
    char item[OPTION_TEXT_BYTES];
    char memory[OPTION_TEXT_BYTES];

    return option_rule(s, options_fit_items(s, setting_get(s, memory_limit_bytes)),
                       given_of(s, OPTION_item_size_max, OPTION_memory_limit_bytes),
                       "the largest item (-I %s) is more than half of the memory (-m %s)",
                       option_typed(s, OPTION_item_size_max, item),
                       option_typed(s, OPTION_memory_limit_bytes, memory)) &&
           option_rule(s, s->napi_ids <= setting_get(s, threads), OPTION_napi_ids,
                       "%" PRIu32 " cannot be greater than number of threads (-t %" PRIu32 ")",
                       s->napi_ids, setting_get(s, threads));
}

static bool settle_shares(struct settings *s)
{
    enum option_id ids[OPTION_SHARES_MAX];
    char why[OPTION_TEXT_BYTES] = "";

    if (options_with_share(s, ids) == 0) {
        return true;
    }
    enum option_id id = ids[0];
    machine_look();
    const bool is_settled = options_settle_shares(s, &id, why);
    return option_rule(s, is_settled, id, "%s", why);
}

int options_check(struct settings *s)
{
    must_be_main();
    set_implied(s);
    if (!settle_shares(s) || !check_sizes(s) || !check_lru(s) || !check_sasl(s) ||
        !check_auth(s) || !check_tls(s) || !check_built(s) || !check_snapshot(s) ||
        !check_log(s) || !check_cpus(s)) {
        return EX_USAGE;
    }
    (void)option_rule(s, setting_get(s, threads) <= THREADS_WARN, OPTION_threads,
                      "%" PRIu32
                      " worker threads are more than is recommended (the number of cores or "
                      "less)",
                      setting_get(s, threads));
    return 0;
}
