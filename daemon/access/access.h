/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may enter: what stands behind -Y and -S, made and taken down as one.
 */
#ifndef MAYFLY_DAEMON_ACCESS_ACCESS_H
#define MAYFLY_DAEMON_ACCESS_ACCESS_H

#include <stdbool.h>

#include "daemon/access/auth.h"

struct pool;
struct settings;

struct access {
    struct auth text;       /* -Y */
    struct auth sasl_users; /* MEMCACHED_SASL_PWDB */

    /* [const] while workers run */
    bool is_sasl_started;
    struct pool *pool; /* owned; runs exchanges of SASL, NULL without */
};

/*
 * Find out where users stand. Returns 0, or the exit status after a message was written; in
 * both cases access_fini() releases. Context: before start, in the folder that relative names
 * mean.
 */
int access_init(struct access *a, const struct settings *settings);

/*
 * Read the users. They will be read again with the rights that are left when the server runs,
 * so they had better be readable with them: this comes after privileges were dropped. Returns
 * as above. Context: before start.
 */
int access_load(struct access *a, const struct settings *settings);

/*
 * Threads for what may take long. The stop is for the time when workers have no connections any
 * more but still take messages; it may be called again. Returns as above. Context: main.
 */
int access_start_threads(struct access *a);
void access_stop_threads(struct access *a);

/* Read the users again. False when there are none to read. Context: main. */
bool access_reload(struct access *a);

/* Context: main, all threads but those left behind have ended. */
void access_fini(struct access *a);

#endif
