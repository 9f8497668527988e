/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a file from which the range of a shard is mapped, if item memory is to survive
 * the process: a file on a tmpfs, a memfd, or a file in persistent memory. The file is sparse.
 * Touching a page that the file system cannot provide would kill the process. So pages are
 * allocated first (region_back()); if that fails, the shard does without them.
 *
 * lib/engine/attach.h describes the rest of the file.
 */
#ifndef MAYFLY_LIB_MEMORY_REGION_H
#define MAYFLY_LIB_MEMORY_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region {
    int fd;         /* [borrowed] */
    uint32_t shift; /* log2 of the bytes of a segment */
    uint64_t at;    /* offset in the file: a multiple of REGION_ALIGN */
    uint64_t bytes; /* likewise */
    bool has_holes; /* pages that had been allocated are missing: see keep_back() */
};

#define REGION_ALIGN ((uint64_t)2 << 20)

/*
 * Map the first n bytes, like mem_reserve(); commit them by mem_commit() and release them by
 * mem_unmap(). NULL if the system refuses. Context: before start.
 */
void *region_map(const struct region *r, uint64_t n);

/*
 * Allocate the pages of a part; existing pages keep their content. False if the file system is
 * full. A system call that takes as long as clearing the pages. Context: any thread.
 */
bool region_back(const struct region *r, uint64_t offset, uint64_t n);

/*
 * Release the pages of a part; they read as zero when allocated again. A system call, so never
 * inside a shard. Context: any thread.
 */
void region_drop(const struct region *r, uint64_t offset, uint64_t n);

/*
 * Read or write n bytes at an offset of a file. False: an error, or the file is too short;
 * errno tells which (0: too short). Context: any thread.
 */
bool region_read(int fd, uint64_t at, void *p, size_t n);
bool region_write(int fd, uint64_t at, const void *p, size_t n);

#endif
