/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packing by libzstd; only this file names it.
 */
#include "lib/format/pack.h"

#include <zstd.h>

#include "lib/base/mem.h"

#define LEVEL 1

struct pack {
    ZSTD_CCtx *in; /* made when first used */
    ZSTD_DCtx *out;
};

bool pack_is_there(void)
{
    return true;
}

struct pack *pack_create(void)
{
    return mem_zalloc(sizeof(struct pack));
}

void pack_destroy(struct pack **p)
{
    if (*p == NULL) {
        return;
    }
    ZSTD_freeCCtx((*p)->in);
    ZSTD_freeDCtx((*p)->out);
    mem_free(*p);
    *p = NULL;
}

size_t pack_bytes(struct pack *p, struct span raw, char *out, size_t max)
{
    if (p->in == NULL) {
        p->in = ZSTD_createCCtx();
    }
    if (p->in == NULL) {
        return 0;
    }
    size_t n = ZSTD_compressCCtx(p->in, out, max, raw.ptr, raw.len, LEVEL);
    return ZSTD_isError(n) ? 0 : n;
}

bool pack_undo(struct pack *p, struct span packed, char *out, size_t len)
{
    if (p->out == NULL) {
        p->out = ZSTD_createDCtx();
    }
    return p->out != NULL &&
           ZSTD_decompressDCtx(p->out, out, len, packed.ptr, packed.len) == len;
}
