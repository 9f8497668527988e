/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of users and rules, the SASL library and its threads, in the order in which they need
 * each other.
 */
#include "daemon/access/access.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/access/auth_sasl.h"
#include "daemon/base/log.h"
#include "daemon/base/pool.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

/*
 * Logins that are worked on at the same time: those that wait for other processes, as the SASL
 * library does, and those that make hashes, each of which takes a CPU and some MiB meanwhile.
 */
#define LIBRARY_THREADS 4u
#define HASH_THREADS    2u

static int read_proxies(struct access *a, const struct settings *settings)
{
    const char *error = networks_parse(settings->proxy_from, &a->proxies);

    if (error != NULL) {
        option_fault(settings, OPTION_proxy_from, "%s: %s", settings->proxy_from, error);
        return EX_USAGE;
    }
    return 0;
}

int access_init(struct access *a, const struct settings *settings)
{
    const char *pwdb = settings->sasl ? getenv("MEMCACHED_SASL_PWDB") : NULL;

    must_be_main();
    memset(a, 0, sizeof(*a));
    addresses_init(&a->addresses);
    if (!auth_peers_init(&a->peers)) {
        log_error("access, cannot start (out of memory)");
        return EX_OSERR;
    }
    int status = read_proxies(a, settings);
    if (status != 0) {
        return status;
    }
    status = settings->sasl ? auth_sasl_find_configuration() : 0;
    if (status == 0) {
        status = auth_init(&a->text, AUTH_FILE, settings->auth_file);
    }
    if (status == 0) {
        status = auth_init(&a->sasl_users, AUTH_PWDB, pwdb);
    }
    return status == 0 ? access_file_init(&a->rules, &rules_file_kind, OPTION_access_file,
                                          settings->access_file)
                       : status;
}

static void continue_key(struct auth *a, const struct siphash_key *key)
{
    if ((key->k0 | key->k1) != 0) {
        a->key = *key;
    }
}

void access_continue(struct access *a, const struct siphash_key *text,
                     const struct siphash_key *sasl)
{
    must_be_main();
    continue_key(&a->text, text);
    continue_key(&a->sasl_users, sasl);
}

int access_load(struct access *a, const struct settings *settings)
{
    must_be_main();
    int status = access_file_load(&a->text.file, settings);
    if (status == 0) {
        status = access_file_load(&a->sasl_users.file, settings);
    }
    if (status == 0) {
        status = access_file_load(&a->rules, settings);
    }
    if (status == 0 && settings->sasl) {
        status = auth_sasl_start(&a->sasl_users);
        a->is_sasl_started = status == 0;
    }
    return status;
}

int access_start_threads(struct access *a)
{
    bool has_files = auth_is_on(&a->text) || auth_is_on(&a->sasl_users);

    must_be_main();
    must(a->pool == NULL);
    if (!has_files && !a->is_sasl_started) {
        return 0;
    }
    /* Also where no password is a hash: that may be different when the file is read again. */
    a->pool = pool_start("p", has_files ? HASH_THREADS : LIBRARY_THREADS);
    if (a->pool == NULL) {
        log_error("access, cannot start threads for logins");
        return EX_OSERR;
    }
    return 0;
}

void access_stop_threads(struct access *a)
{
    must_be_main();
    if (!pool_stop(a->pool)) {
        /*
         * The thread may still use the users: they are not released. The process ends anyway.
         */
        log_warn("access, abandoned an authentication that did not finish");
        a->is_abandoned = true;
        a->is_sasl_started = false;
        memset(&a->sasl_users, 0, sizeof(a->sasl_users));
        memset(&a->text, 0, sizeof(a->text));
    }
    a->pool = NULL;
}

bool access_reload(struct access *a, bool *has_new)
{
    must_be_main();
    *has_new = access_file_reload(&a->text.file);
    *has_new |= access_file_reload(&a->sasl_users.file);
    *has_new |= access_file_reload(&a->rules);
    return auth_is_on(&a->text) || auth_is_on(&a->sasl_users) || access_file_is_on(&a->rules);
}

const char *access_complaint(const struct access *a)
{
    const struct access_file *of[] = {&a->text.file, &a->sasl_users.file, &a->rules};
    const char *first = "";

    must_be_main();
    for (size_t i = 0; first[0] == '\0' && i < sizeof(of) / sizeof(of[0]); i++) {
        first = access_file_complaint(of[i]);
    }
    return first;
}

void access_log_reload(struct access *a)
{
    must_be_main();
    access_file_log_reload(&a->text.file);
    access_file_log_reload(&a->sasl_users.file);
    access_file_log_reload(&a->rules);
}

void access_fini(struct access *a)
{
    must_be_main();
    must(a->pool == NULL);
    if (a->is_sasl_started) {
        auth_sasl_stop();
        a->is_sasl_started = false;
    }
    auth_fini(&a->sasl_users);
    auth_fini(&a->text);
    access_file_fini(&a->rules);
    addresses_fini(&a->addresses);
    auth_peers_fini(&a->peers);
}
