/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of rules (--access). It is not reloaded when it seems to be truncated, because it
 * might allow more than the complete one.
 */
#ifndef MAYFLY_DAEMON_ACCESS_RULES_FILE_H
#define MAYFLY_DAEMON_ACCESS_RULES_FILE_H

#include "daemon/access/access_file.h"
#include "daemon/access/rules.h"

extern const struct access_file_kind rules_file_kind;

/* The rules in force; NULL: there are none. Context: read side; main. */
static inline const struct rules *rules_file_get(const struct access_file *f)
{
    return access_file_get(f);
}

#endif
