/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description of what is wrong with a file: the first fault found, its offset, and a message.
 */
#ifndef MAYFLY_LIB_FORMAT_FAULT_H
#define MAYFLY_LIB_FORMAT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum snap_fault_kind {
    SNAP_FINE,
    SNAP_FAULT_READ,    /* the system's error, `number` */
    SNAP_FAULT_EMPTY,   /* the file is empty */
    SNAP_FAULT_FOREIGN, /* the magic is missing */
    SNAP_FAULT_RDB,     /* a dump of Redis */
    SNAP_FAULT_SHORT,   /* the file ends within the header */
    SNAP_FAULT_HEADER,  /* the header's sum differs */
    SNAP_FAULT_VERSION, /* unsupported version, `number` */
    /* of a block */
    SNAP_FAULT_CUT,    /* the file ends within it, or where it should begin */
    SNAP_FAULT_MAGIC,  /* no block begins here */
    SNAP_FAULT_FIELDS, /* its header contradicts itself */
    SNAP_FAULT_KIND,   /* unknown kind `number` of a block that is not optional */
    SNAP_FAULT_SUM,
    SNAP_FAULT_PACKED,  /* packed as this program cannot unpack */
    SNAP_FAULT_UNPACK,  /* does not unpack to the size in its header */
    SNAP_FAULT_CONTENT, /* its content does not match its header */
    SNAP_FAULT_VALUE,   /* a value whose parts do not follow each other */
    SNAP_FAULT_TOTALS,  /* END contradicts what came before it */
    SNAP_FAULT_AFTER,   /* something follows the END */
};

struct snap_fault {
    enum snap_fault_kind kind;
    uint64_t block;  /* number of the block, if it is a fault of a block */
    uint64_t offset; /* offset of that block in the file */
    uint64_t number;
};

/* Does it concern a block? Then block and offset identify it. */
static inline bool snap_fault_is_of_block(const struct snap_fault *f)
{
    return f->kind >= SNAP_FAULT_CUT;
}

#define SNAP_FAULT_TEXT_MAX 160

/*
 * Write the message, without the file's name and a newline: "block 17 at 4456448: checksum
 * differs". Returns out. Context: any thread.
 */
const char *snap_fault_text(const struct snap_fault *f, char out[SNAP_FAULT_TEXT_MAX]);

#endif
