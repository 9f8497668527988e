/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules between options. Texts and statuses are memcached's where it has the rule.
 */
#include "daemon/options/options_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/version.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/options_rows.h"
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
    if (s->no_evictions) {
        setting_set(s, engine.maxmemory_policy, CHOICE_NOEVICTION);
    }
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
        option_say("ERROR: -S and -Y cannot be used together: SASL is of the binary protocol, "
                   "and a file of users of the ASCII protocol.\n");
        return EX_USAGE;
    }
    if (s->protocol != PROTOCOL_BINARY &&
        setting_source(s, OPTION_protocol) != OPTION_DEFAULT) {
        option_say("ERROR: You cannot allow the ASCII protocol while using SASL.\n");
        return EX_USAGE;
    }
    if (s->udp_port != 0) {
        option_say("ERROR: Cannot enable UDP while using binary SASL authentication.\n");
        return EX_USAGE;
    }
    if (!BUILT_WITH_SASL) {
        option_say("This server is not built with SASL support.\n");
        return EX_USAGE;
    }
    return 0;
}

/* With authentication by text there must be no other way in. */
static int check_auth(const struct settings *s)
{
    if (s->auth_file != NULL && s->protocol != PROTOCOL_ASCII) {
        option_say("ERROR: You cannot allow the BINARY protocol while using ascii "
                   "authentication tokens.\n");
        return EX_USAGE;
    }
    if (s->auth_file != NULL && s->udp_port != 0) {
        option_say("Cannot use UDP with ascii authentication enabled (-U 0 to disable)\n");
        return EX_USAGE;
    }
    return 0;
}

/*
 * The first option whose name begins with this, and that was given as a flag or is not what it
 * is anyway; NULL: none. A file may have every option at its default.
 */
static const char *first_given(const struct settings *s, const char *prefix)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (strncmp(option_rows[id].name, prefix, strlen(prefix)) == 0 &&
            (is_flag(s, id) || !option_has_default(s, id))) {
            return option_rows[id].name;
        }
    }
    return NULL;
}

/* Whoever asks for encryption must not get a server without it. */
static int check_tls(const struct settings *s)
{
    const char *given = s->ssl_enabled ? "-Z" : first_given(s, "ssl-");

    if (!BUILT_WITH_TLS && given != NULL) {
        option_say("This server is not built with TLS support (%s)\n", given);
        return EX_USAGE;
    }
    if (!s->ssl_enabled) {
        return 0;
    }
    if (s->port == 0) {
        option_say("ERROR: You cannot enable SSL without a TCP port.\n");
        return EX_USAGE;
    }
    if (s->ssl_chain_cert == NULL) {
        option_say("ERROR: You cannot enable SSL without a certificate (-o "
                   "ssl_chain_cert=<file>).\n");
        return EX_USAGE;
    }
    return 0;
}

static int check_metrics(const struct settings *s)
{
    if (!BUILT_WITH_METRICS && s->metrics != NULL) {
        option_say("This server is not built with metrics (--metrics)\n");
        return EX_USAGE;
    }
    return 0;
}

static int check_log(const struct settings *s)
{
    if (s->log_to != NULL && s->log_to[0] != '/' && strcmp(s->log_to, "stderr") != 0 &&
        strcmp(s->log_to, "journal") != 0) {
        option_say("--log %s: neither stderr nor journal nor an absolute path\n", s->log_to);
        return EX_USAGE;
    }
    return 0;
}

/* Whoever asks to be confined must not get a server that is not. */
static int check_privileges(const struct settings *s)
{
    if (!BUILT_WITH_SECCOMP && s->drop_privileges) {
        option_say("This server is not built with seccomp (drop_privileges)\n");
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
        option_say("save: rules are seconds:changes, separated by commas, at most %u\n",
                   SAVE_RULES_MAX);
        return EX_USAGE;
    }
    if (s->dbfilename != NULL && !is_file_name(s->dbfilename)) {
        option_say("dbfilename: a name in the folder dir, without /, not beginning with a dot, "
                   "and not ending in .bad or .log.NUMBER\n");
        return EX_USAGE;
    }
    if (s->load_async && s->load == LOAD_STRICT) {
        option_say("load_async serves before it knows whether the file is whole: not with "
                   "load=strict\n");
        return EX_USAGE;
    }
    if (!pack_is_there() && s->rdbcompression != 0) {
        option_say("This server is not built with zstd (rdbcompression)\n");
        return EX_USAGE;
    }
    if (setting_get(s, appendonly) != 0 && s->dir == NULL) {
        option_say("appendonly: needs a folder (dir)\n");
        return EX_USAGE;
    }
    if (setting_get(s, appendonly) != 0 && s->load_async) {
        option_say("appendonly: not with load_async, as it cannot tell what a request drops "
                   "before it is loaded\n");
        return EX_USAGE;
    }
    return 0;
}

/* memcached's rules for its LRU: here they only refuse the same command lines. */
static int check_lru(const struct settings *s)
{
    if (setting_get(s, hot_lru_pct) + setting_get(s, warm_lru_pct) > 80) {
        option_say("hot_lru_pct + warm_lru_pct cannot be more than 80%% combined\n");
        return EX_USAGE;
    }
    if (setting_get(s, temp_lru) && !s->lru_maintainer) {
        option_say("temporary_ttl requires lru_maintainer to be enabled\n");
        return EX_USAGE;
    }
    return 0;
}

int options_check(struct settings *s)
{
    must_be_main();
    set_implied(s);
    if (s->item_size_max > setting_get(s, memory_limit_bytes) / 2) {
        option_say("Cannot set item size limit higher than 1/2 of memory max.\n");
        return EX_USAGE;
    }
    if (s->napi_ids > s->threads) {
        option_say("Number of napi_ids(%" PRIu32
                   ") cannot be greater than number of threads(%" PRIu32 ")\n",
                   s->napi_ids, s->threads);
        return EX_USAGE;
    }
    int status = check_lru(s);
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
    if (status == 0 && s->threads > THREADS_WARN) {
        option_say("WARNING: Setting a high number of worker threads is not recommended.\n"
                   " Set this value to the number of cores in your machine or less.\n");
    }
    return status;
}
