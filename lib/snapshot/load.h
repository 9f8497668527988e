/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading a file into an engine that nobody uses yet: by several threads, block by block.
 * What is due by now is not loaded. A key that is there already stays as it is.
 */
#ifndef MAYFLY_LIB_SNAPSHOT_LOAD_H
#define MAYFLY_LIB_SNAPSHOT_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/snapshot/fault.h"
#include "lib/snapshot/format.h"

struct engine;

/* An open file, with its header. */
struct load_file {
    int fd; /* -1: not open */
    uint64_t bytes;
    struct snap_header header;
    struct snap_fault fault;
};

/*
 * Open a file and read its header: how many items it has tells how large indexes should be.
 * False: f->fault; it is SNAP_FAULT_READ with ENOENT if there is no such file. Context:
 * before start.
 */
bool load_open(struct load_file *f, const char *path);

/* snap_read_fn of an open file: arg is the struct load_file. Context: any thread. */
ssize_t load_read(void *arg, void *out, size_t n, uint64_t offset);

void load_close(struct load_file *f);

enum load_end {
    LOAD_DONE,
    LOAD_BAD,       /* load.fault; what was loaded before it is there */
    LOAD_STOPPED,   /* as is_to_stop has asked */
    LOAD_NO_MEMORY, /* no memory for the work itself */
};

struct load {
    /* set by the caller before load_run() */
    struct engine *engine;  /* [borrowed] */
    struct load_file *file; /* [borrowed] */
    unsigned threads;       /* the caller's is one of them */
    bool marks_stale;       /* all items are loaded as stale: whoever gets one may renew it */
    /* [atomic] for whoever watches */
    _Atomic uint64_t bytes;   /* of the file, done */
    _Atomic uint64_t items;   /* loaded */
    _Atomic uint64_t expired; /* not, because they are due */
    _Atomic uint64_t refused; /* not, because they are too large or there is no room */
    _Atomic bool is_to_stop;
    /* out */
    struct snap_fault fault;
    /* of load_run() */
    pthread_mutex_t upkeep; /* one thread at a time does what home workers do later */
};

/*
 * Load. A flush that the file says was to come comes, or has come. Context: a registered
 * thread, outside a section; no other thread writes to the engine.
 */
enum load_end load_run(struct load *l);

#endif
