/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h.
 */
#include "daemon/service/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#include "daemon/access/access.h"
#include "daemon/base/log.h"
#include "daemon/base/log_form.h"
#include "daemon/net/sockets.h"
#include "daemon/net/tls.h"
#include "daemon/options/options.h"
#include "daemon/options/options_apply.h"
#include "daemon/persist/snapshots.h"
#include "daemon/service/privs.h"
#include "daemon/stats/metrics.h"
#include "lib/base/context.h"
#include "lib/engine/share.h"

int server_check_shards(const struct settings *settings)
{
    const uint64_t limit = setting_get(settings, memory_limit_bytes);
    const uint32_t least = share_shards_least(limit);
    const uint32_t most = share_shards_most_new(limit);
    const uint32_t shards = shards_at_start(settings);

    must_be_main();
    if (shards >= least && shards <= most) {
        return 0;
    }
    option_fault(settings, OPTION_shards,
                 "-m %" PRIu64 " needs %u to %u shards (or 0, which chooses)", limit >> 20,
                 (unsigned)least, (unsigned)most);
    return EX_USAGE;
}

/* Keep the status of the first failure. */
static void note(int *first, int status)
{
    *first = *first == 0 ? status : *first;
}

/* With the rights of the user that starts it. */
static int check_files_of_starter(const struct settings *settings)
{
    struct tls *tls;
    int status = tls_open(settings, &tls);

    tls_close(tls);
    return status;
}

/* Check resources while the asking program runs, and whether its items could be taken over. */
static int check_beside(const struct settings *settings)
{
    char name[MEMORY_FILE_NAME_BYTES];
    int status = listeners_check(settings);

    memory_file_name(settings, -1, name);
    if (!upgrade_has_items(name)) {
        log_error("upgrade, the items would be lost (memory_file has changed, or is not set)");
        note(&status, EX_DATAERR);
    }
    if (!upgrade_has_room(setting_get(settings, memory_limit_bytes),
                          shards_at_start(settings))) {
        log_error("upgrade, the items would be lost (memory-limit = %" PRIu64
                  " does not suit them)",
                  setting_get(settings, memory_limit_bytes) >> 20);
        note(&status, EX_DATAERR);
    }
    note(&status, privs_lock_memory(settings));
    return status;
}

int server_try_log(const struct settings *settings,
                   bool (*open)(const char *path, const char **why))
{
    const char *why;

    must_be_main();
    if (settings->log_file != NULL && !open(settings->log_file, &why)) {
        option_fault(settings, OPTION_log_file, "cannot open %s (%s)", settings->log_file, why);
        return EX_CANTCREAT;
    }
    return 0;
}

int server_check(struct settings *settings)
{
    struct passed_on passed;
    struct access access;
    int first = 0;

    context_set_thread(THREAD_MAIN, NULL, NULL);
    passed_on_init(&passed);
    settings->passed = &passed;
    if (!log_init(&settings->verbosity, settings->log_to)) {
        log_warn("log, uses standard error (no journal at %s)", settings->log_to);
    }
    log_set_format(&settings->log_format);
    upgrade_take_live(settings, false);
    options_log(settings);
    host_log(settings);
    const int opened = access_init(&access, settings);
    note(&first, opened);
    int user = privs_check_user(settings);
    note(&first, user);
    note(&first, check_files_of_starter(settings));
    note(&first, privs_set_limits(settings));
    if (passed_on_is_shown(&passed)) {
        note(&first, check_beside(settings));
    } else {
        note(&first, sockets_check(settings));
    }
    note(&first, exposure_check(settings));
    note(&first, metrics_check(settings));
    note(&first, server_check_shards(settings));
    if (!upgrade_knows_blocks()) {
        log_error("upgrade, the items of the running server have another format version");
        note(&first, EX_DATAERR);
    }
    if (user == 0) {
        user = privs_drop(settings);
        note(&first, user);
    }
    if (user == 0) {
        note(&first, server_try_log(settings, log_file_check));
    }
    if (opened == 0 && user == 0) {
        note(&first, access_load(&access, settings));
    }
    if (user == 0) {
        note(&first, memory_file_check(settings));
        note(&first, snapshots_check(settings));
    }
    access_fini(&access);
    if (first == 0 && upgrade_is_asked()) {
        return UPGRADE_AGREES;
    }
    if (first == 0) {
        printf("ok\n");
    }
    return first;
}
