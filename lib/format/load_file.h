/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A snapshot or log file opened for loading.
 */
#ifndef MAYFLY_LIB_FORMAT_LOAD_FILE_H
#define MAYFLY_LIB_FORMAT_LOAD_FILE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/format/fault.h"
#include "lib/format/format.h"

/* An open file, with its header. */
struct load_file {
    int fd; /* -1: not open */
    uint64_t bytes;
    _Atomic uint64_t asked; /* bytes for which readahead was requested */
    struct snap_header header;
    struct snap_fault fault;
};

/*
 * Open a file and read its header, whose number of items determines the size of indexes. False:
 * f->fault; it is SNAP_FAULT_READ with ENOENT if there is no such file. Context: before start.
 */
bool load_open(struct load_file *f, const char *path);

/* The same of any file of this format, also of a log; flags: of open(). Context: any thread. */
bool load_open_any(struct load_file *f, const char *path, int flags);

/* snap_read_fn of an open file: arg is the struct load_file. Context: any thread. */
ssize_t load_read(void *arg, void *out, size_t n, uint64_t offset);

void load_close(struct load_file *f);

#endif
