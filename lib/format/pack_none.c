/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of pack.c where libzstd is missing: nothing is packed, and nothing can be unpacked.
 */
#include "lib/format/pack.h"

bool pack_is_there(void)
{
    return false;
}

struct pack *pack_create(void)
{
    return NULL;
}

void pack_destroy(struct pack **p)
{
    *p = NULL;
}

size_t pack_bytes(struct pack *p, struct span raw, char *out, size_t max)
{
    (void)p, (void)raw, (void)out, (void)max;
    return 0;
}

bool pack_undo(struct pack *p, struct span packed, char *out, size_t len)
{
    (void)p, (void)packed, (void)out, (void)len;
    return false;
}
