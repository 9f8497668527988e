/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cyrus libsasl2. The state of the library is one for the process, and so is the state here.
 * The library is prepared before there are threads, under the name "memcached", by which it
 * finds memcached's configuration and users. After that several threads use it at once: each
 * exchange belongs to one thread at a time, and what its plug-ins share is under mutexes that
 * it gets from here.
 *
 * Two things differ from the defaults. Mechanisms that let anyone in are not offered: without a
 * mech_list the library would offer ANONYMOUS. And there are no security layers: after an
 * exchange comes the plain protocol.
 */
#include "daemon/access/auth_sasl.h"

#include <limits.h>
#include <pthread.h>
#include <sasl/sasl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/access/auth.h"
#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"

/* Longest name of a user, bytes; see on_name(). */
#define NAME_MAX_BYTES 512

#define SERVICE   "memcached"
#define CONF_NAME SERVICE ".conf"

struct exchange {
    sasl_conn_t *sasl;           /* owned */
    struct siphash_digest login; /* by our own users, if has_login */
    bool has_login;
    unsigned hashes; /* made for it */
};

/* Of the exchange whose call runs on this thread, as callbacks do not know which it is. */
static _Thread_local struct exchange *running;

/* [const] after the start */
static const struct auth *own_users; /* [borrowed] decides alone; NULL: the library does */
static char *named_folders;          /* owned; of SASL_CONF_PATH; NULL: not set */
static char host[HOST_NAME_MAX + 1];
static char mechanisms[1024];

/* ---- callbacks of the library ------------------------------------------------------------ */

static void *mutex_new(void)
{
    pthread_mutex_t *mutex = mem_alloc(sizeof(*mutex));

    if (mutex != NULL) {
        pthread_mutex_init(mutex, NULL);
    }
    return mutex;
}

static int mutex_lock(void *mutex)
{
    return pthread_mutex_lock(mutex) == 0 ? SASL_OK : SASL_FAIL;
}

static int mutex_unlock(void *mutex)
{
    return pthread_mutex_unlock(mutex) == 0 ? SASL_OK : SASL_FAIL;
}

static void mutex_free(void *mutex)
{
    pthread_mutex_destroy(mutex);
    mem_free(mutex);
}

/* Traces are not logged: they contain passwords. */
static int on_log(void *context, int level, const char *message)
{
    (void)context;
    if (message == NULL || level == SASL_LOG_NONE || level > SASL_LOG_DEBUG) {
        return SASL_OK;
    }
    if (level == SASL_LOG_ERR) {
        log_warn("sasl, the library reports an error (%s)", message);
    } else if (level <= SASL_LOG_WARN) {
        log_info("sasl, %s", message);
    } else {
        log_debug("sasl, %s", message);
    }
    return SASL_OK;
}

/*
 * A user's name before the library uses it: unchanged, unless it is too long. The library
 * (2.1.28) leaks each name that does not fit its own buffer, 1024 bytes with the realm, and its
 * plug-ins leak passwords when a name is refused here, so anyone could fill the memory by
 * attempts. A name that is too long is replaced by one that no user has, and fails like others.
 */
static int on_name(sasl_conn_t *sasl, void *context, const char *name, unsigned len,
                   unsigned flags, const char *realm, char *out, unsigned room,
                   unsigned *out_len)
{
    static const char nobody[] = "(name too long)";

    (void)sasl;
    (void)context;
    (void)flags;
    (void)realm;
    if (len > NAME_MAX_BYTES) {
        name = nobody;
        len = sizeof(nobody) - 1;
    }
    if (len >= room) {
        return SASL_BUFOVER;
    }
    memcpy(out, name, len);
    out[len] = '\0';
    *out_len = len;
    return SASL_OK;
}

/*
 * With a file of users the configuration does not count: passwords come by PLAIN, and when the
 * file does not have one, no other source is asked, because none has this name.
 */
static int on_option(void *context, const char *plugin, const char *option, const char **value,
                     unsigned *len)
{
    static const char *const ours[][2] = {
        {"mech_list", "plain"},
        {"pwcheck_method", "mayfly"},
        {"auxprop_plugin", "mayfly"},
    };

    (void)context;
    (void)plugin;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strcmp(option, ours[i][0]) == 0) {
            *value = ours[i][1];
            if (len != NULL) {
                *len = (unsigned)strlen(*value);
            }
            return SASL_OK;
        }
    }
    return SASL_FAIL;
}

/*
 * The library adds @ and this host to a name that the client sent without a realm, and
 * memcached looks that up. But an operator who writes a name into the file means the name
 * alone.
 */
static struct span name_alone(const char *user)
{
    struct span name = span_str(user);
    size_t host_len = strlen(host);

    if (name.len > host_len + 1 && user[name.len - host_len - 1] == '@' &&
        memcmp(user + name.len - host_len, host, host_len) == 0) {
        name.len -= host_len + 1;
    }
    return name;
}

/* May the file decide at once? *is_good: then it has, and *login is the client's. */
static bool is_decided(struct span whole, struct span name, struct span password,
                       struct siphash_digest *login, bool *is_good, bool *is_whole)
{
    rcu_begin();
    *is_good = auth_check(own_users, whole, password, login) ||
               auth_check(own_users, name, password, login);
    bool is_slow = auth_has_hashes(own_users);
    *is_whole = auth_is_hashed(own_users, whole);
    rcu_end();
    return *is_good || !is_slow;
}

/* Makes the hashes of one name, whether there is such a user or not. */
static bool is_own_user(const char *user, struct span password, struct exchange *x)
{
    struct span whole = span_str(user);
    struct span name = name_alone(user);
    bool is_whole;
    bool is_good;

    if (is_decided(whole, name, password, &x->login, &is_good, &is_whole)) {
        return is_good;
    }
    return auth_check_hashed(own_users, is_whole ? whole : name, password, &x->login,
                             &x->hashes);
}

static int on_password(sasl_conn_t *sasl, void *context, const char *user, const char *password,
                       unsigned len, struct propctx *properties)
{
    (void)sasl;
    (void)context;
    (void)properties;
    bool is_good = is_own_user(user, span_of(password, len), running);
    running->has_login = is_good;
    return is_good ? SASL_OK : SASL_BADAUTH;
}

typedef int (*any_callback)(void);

static const sasl_callback_t callbacks[] = {
    {SASL_CB_LOG, (any_callback)(void (*)(void))on_log, NULL},
    {SASL_CB_CANON_USER, (any_callback)(void (*)(void))on_name, NULL},
    {SASL_CB_LIST_END, NULL, NULL},
};

static const sasl_callback_t callbacks_own_users[] = {
    {SASL_CB_LOG, (any_callback)(void (*)(void))on_log, NULL},
    {SASL_CB_CANON_USER, (any_callback)(void (*)(void))on_name, NULL},
    {SASL_CB_GETOPT, (any_callback)(void (*)(void))on_option, NULL},
    {SASL_CB_SERVER_USERDB_CHECKPASS, (any_callback)(void (*)(void))on_password, NULL},
    {SASL_CB_LIST_END, NULL, NULL},
};

/* ---- preparing the library --------------------------------------------------------------- */

static bool has_configuration(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/" CONF_NAME, folder);
    return access(path, R_OK) == 0;
}

/* The folder of the configuration, as memcached looks for it; NULL when there is none. */
static const char *find_configuration(void)
{
    static const char *const folders[] = {
        "/etc/sasl",
        "/etc/sasl2",
        "/etc/sasl/" CONF_NAME,
        "/etc/sasl2/" CONF_NAME,
    };
    if (named_folders != NULL) {
        return named_folders;
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (has_configuration(folders[i])) {
            return folders[i];
        }
    }
    return NULL;
}

/* Append the absolute path of a folder to a list, and release the old one. NULL: no memory. */
static char *add_folder(char *list, const char *folder)
{
    char *absolute = path_absolute(folder);
    size_t list_len = list != NULL ? strlen(list) + 1 : 0;
    char *longer = absolute != NULL ? mem_alloc(list_len + strlen(absolute) + 1) : NULL;

    if (longer != NULL) {
        snprintf(longer, list_len + strlen(absolute) + 1, "%s%s%s", list != NULL ? list : "",
                 list != NULL ? ":" : "", absolute);
    }
    mem_free(absolute);
    mem_free(list);
    return longer;
}

int auth_sasl_find_configuration(void)
{
    const char *named = getenv("SASL_CONF_PATH");
    char path[PATH_MAX];
    char *rest = path;
    char *folder;

    must_be_main();
    if (named == NULL) {
        return 0;
    }
    if (snprintf(path, sizeof(path), "%s", named) >= (int)sizeof(path)) {
        log_error("sasl, cannot start (SASL_CONF_PATH is too long)");
        return EXIT_FAILURE;
    }
    while ((folder = strsep(&rest, ":")) != NULL) {
        named_folders = add_folder(named_folders, folder);
        if (named_folders == NULL) {
            log_error("sasl, cannot start (out of memory)");
            return EXIT_FAILURE;
        }
    }
    return 0;
}

static int set_configuration(void)
{
    const char *folder = find_configuration();
    char path[PATH_MAX];

    if (folder == NULL) {
        log_error("sasl, no configuration (SASL_CONF_PATH is not set, and there is no "
                  "/etc/sasl2/" CONF_NAME ")");
        return SASL_FAIL;
    }
    if (has_configuration(folder)) {
        log_info("sasl, reads " CONF_NAME " in %s", folder);
    } else if (strchr(folder, ':') == NULL) {
        log_warn("sasl, there is no " CONF_NAME " in %s: using the library's defaults", folder);
    }
    /* A copy, because the library wants a path that it may write to. */
    snprintf(path, sizeof(path), "%s", folder);
    return sasl_set_path(SASL_PATH_TYPE_CONFIG, path);
}

static bool exchange_open(struct exchange *x)
{
    static const sasl_security_properties_t properties = {
        .security_flags = SASL_SEC_NOANONYMOUS,
    };

    if (sasl_server_new(SERVICE, host, host, NULL, NULL, NULL, 0, &x->sasl) != SASL_OK) {
        return false;
    }
    if (sasl_setprop(x->sasl, SASL_SEC_PROPS, &properties) != SASL_OK) {
        sasl_dispose(&x->sasl);
        return false;
    }
    return true;
}

/* Note the mechanisms, which do not change while the library runs. */
static bool list_mechanisms(void)
{
    struct exchange x;
    const char *list;

    if (!exchange_open(&x)) {
        return false;
    }
    bool is_listed = sasl_listmech(x.sasl, NULL, "", " ", "", &list, NULL, NULL) == SASL_OK;
    snprintf(mechanisms, sizeof(mechanisms), "%s", is_listed ? list : "");
    sasl_dispose(&x.sasl);
    return is_listed;
}

int auth_sasl_start(const struct auth *users)
{
    must_be_main();
    own_users = auth_is_on(users) ? users : NULL;
    if (gethostname(host, sizeof(host)) != 0) {
        log_error("sasl, cannot find the name of this host");
        return EXIT_FAILURE;
    }
    sasl_set_mutex(mutex_new, mutex_lock, mutex_unlock, mutex_free);
    int result = own_users != NULL ? SASL_OK : set_configuration();
    mem_free(named_folders); /* the library has a copy */
    named_folders = NULL;
    if (result == SASL_OK) {
        result = sasl_server_init(own_users != NULL ? callbacks_own_users : callbacks, SERVICE);
    }
    if (result != SASL_OK) {
        log_error("sasl, cannot be initialized (%s)", sasl_errstring(result, NULL, NULL));
        return EXIT_FAILURE;
    }
    if (!list_mechanisms()) {
        log_error("sasl, cannot be initialized (no mechanism is offered)");
        auth_sasl_stop();
        return EXIT_FAILURE;
    }
    log_info("sasl, offers %s", mechanisms);
    return 0;
}

void auth_sasl_stop(void)
{
    must_be_main();
    sasl_done();
}

struct span auth_sasl_mechanisms(void)
{
    return span_str(mechanisms);
}

/* ---- exchanges --------------------------------------------------------------------------- */

static enum exchange_result result_of(int result, const char *out, unsigned out_len,
                                      struct span *challenge)
{
    *challenge = span_of(out, out != NULL ? out_len : 0);
    if (result == SASL_OK) {
        return EXCHANGE_DONE;
    }
    return result == SASL_CONTINUE && challenge->len <= AUTH_CHALLENGE_MAX ? EXCHANGE_GOES_ON
                                                                           : EXCHANGE_FAILED;
}

enum exchange_result exchange_begin(struct exchange **x, const char *mechanism,
                                    struct span data, struct span *challenge)
{
    struct exchange *made = mem_zalloc(sizeof(*made));
    const char *out = NULL;
    unsigned out_len = 0;

    must_be_pool();
    must_not_be_reading();
    *x = NULL;
    *challenge = span_of(NULL, 0);
    if (made == NULL || !exchange_open(made)) {
        mem_free(made);
        return EXCHANGE_FAILED;
    }
    *x = made;
    running = made;
    int result = sasl_server_start(made->sasl, mechanism, data.len > 0 ? data.ptr : NULL,
                                   (unsigned)data.len, &out, &out_len);
    return result_of(result, out, out_len, challenge);
}

enum exchange_result exchange_step(struct exchange *x, struct span data, struct span *challenge)
{
    const char *out = NULL;
    unsigned out_len = 0;

    must_be_pool();
    must_not_be_reading();
    running = x;
    int result = sasl_server_step(x->sasl, data.ptr, (unsigned)data.len, &out, &out_len);

    return result_of(result, out, out_len, challenge);
}

const struct siphash_digest *exchange_login(const struct exchange *x)
{
    return x->has_login ? &x->login : NULL;
}

unsigned exchange_hashes(const struct exchange *x)
{
    return x != NULL ? x->hashes : 0;
}

struct span exchange_user(const struct exchange *x)
{
    const void *name = NULL;

    if (x == NULL || (sasl_getprop(x->sasl, SASL_AUTHUSER, &name) != SASL_OK &&
                      sasl_getprop(x->sasl, SASL_USERNAME, &name) != SASL_OK)) {
        name = NULL;
    }
    return name != NULL ? span_str(name) : span_of(NULL, 0);
}

struct span exchange_name(const struct exchange *x)
{
    struct span user = exchange_user(x);

    return user.len > 0 ? name_alone(user.ptr) : user;
}

void exchange_destroy(struct exchange *x)
{
    if (x != NULL) {
        sasl_dispose(&x->sasl);
        mem_free(x);
    }
}
