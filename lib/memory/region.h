/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a file that the range of a shard is mapped from, if item memory is to outlive the
 * process: a file in memory (tmpfs, memfd) or in persistent memory. The file is sparse. A page
 * that the file system cannot provide would end the process when it is touched. So pages are
 * allocated first (region_back()), and on failure the shard does without them.
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
    uint64_t at;    /* where it begins in the file: a multiple of REGION_ALIGN */
    uint64_t bytes; /* likewise */
    bool has_holes; /* pages that had been allocated are missing: see keep_back() */
};

#define REGION_ALIGN ((uint64_t)2 << 20)

/*
 * Map the first n bytes; as mem_reserve(), to be committed by mem_commit() and released by
 * mem_unmap(). NULL when the system refuses. Context: before start.
 */
void *region_map(const struct region *r, uint64_t n);

/*
 * Allocate the pages of a part; what is there already stays. False when the file system has no
 * room. A system call, as long as it takes to clear the pages. Context: any thread.
 */
bool region_back(const struct region *r, uint64_t offset, uint64_t n);

/*
 * Release the pages of a part; they read as zero when allocated again. A system call, so never
 * inside a shard. Context: any thread.
 */
void region_drop(const struct region *r, uint64_t offset, uint64_t n);

/*
 * Read and write all of n bytes at a place in a file. False: error, or the file is too short;
 * errno says which (0: too short). Context: any thread.
 */
bool region_read(int fd, uint64_t at, void *p, size_t n);
bool region_write(int fd, uint64_t at, const void *p, size_t n);

#endif
