/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the snapshot files without loading them, for --check-config: see snapshots.h.
 */
#include "daemon/persist/snapshots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/options/options_apply.h"
#include "lib/base/context.h"
#include "lib/snapshot/claim.h"

#define FILE_DEFAULT "mayfly.snapshot"

bool snapshots_are_strict(const struct settings *set)
{
    return set->load == LOAD_STRICT ||
           (setting_get(set, appendonly) == APPEND_FULL && set->load != LOAD_SALVAGE);
}

int snapshots_find(const struct settings *settings, const char **name, char path[PATH_MAX])
{
    char within[PATH_MAX]; /* the folder by a name in it: the error says if it is none */

    must_be_main();
    *name = settings->dbfilename != NULL ? settings->dbfilename : FILE_DEFAULT;
    if (snprintf(path, PATH_MAX, "%s/%s", settings->dir, *name) >= PATH_MAX) {
        option_fault(settings, OPTION_dir,
                     "the path of the file is too long (dir, dbfilename)");
        return EX_USAGE;
    }
    if (snprintf(within, sizeof(within), "%s/.", settings->dir) >= PATH_MAX ||
        access(within, R_OK | W_OK | X_OK) != 0) {
        option_fault(settings, OPTION_dir, "cannot write to %s (%s)", settings->dir,
                     strerror(errno));
        return EX_CANTCREAT;
    }
    return 0;
}

int snapshots_claim(const struct settings *settings, const char *name, const char *path)
{
    int claim = claim_take(settings->dir, name);

    must_be_main();
    if (claim < 0) {
        option_fault(settings, OPTION_dir, "cannot use %s (%s)", path,
                     claim == -EBUSY ? "another server does" : strerror(-claim));
    }
    return claim;
}

bool snapshots_is_none(const struct load_file *f)
{
    return f->fault.kind == SNAP_FAULT_READ && f->fault.number == ENOENT;
}

int snapshots_check(const struct settings *settings)
{
    struct load_file file;
    char path[PATH_MAX];
    char text[SNAP_FAULT_TEXT_MAX];
    const char *name;

    must_be_main();
    if (settings->dir == NULL) {
        return 0;
    }
    int status = snapshots_find(settings, &name, path);
    if (status != 0 || settings->load == LOAD_NO) {
        return status;
    }
    if (load_open(&file, path)) {
        load_close(&file);
    } else if (!snapshots_is_none(&file) &&
               (snapshots_are_strict(settings) || file.fault.kind == SNAP_FAULT_READ)) {
        log_error("snapshot, %s: %s", path, snap_fault_text(&file.fault, text));
        status = EX_DATAERR;
    }
    return status;
}
