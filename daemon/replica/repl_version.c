/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See replication.h.
 */
#include "daemon/replica/replication.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/check.h"
#include "lib/base/num.h"

struct repl_versions repl_versions_of(uint32_t own)
{
    must(own > 0);
    return (struct repl_versions){.least = own > 1 ? own - 1 : own, .most = own};
}

bool repl_versions_parse(struct span word, struct repl_versions *v)
{
    struct span most = word;
    const struct span least = span_cut(&most, '-');

    return num_u32(least, &v->least) == MF_OK &&
           num_u32(least.len < word.len ? most : word, &v->most) == MF_OK && v->least > 0 &&
           v->least <= v->most;
}

void repl_versions_format(const struct repl_versions *v, char out[REPL_VERSIONS_BYTES])
{
    snprintf(out, REPL_VERSIONS_BYTES, "%" PRIu32 "-%" PRIu32, v->least, v->most);
}

uint32_t repl_versions_common(const struct repl_versions *a, const struct repl_versions *b)
{
    const uint32_t least = a->least > b->least ? a->least : b->least;
    const uint32_t most = a->most < b->most ? a->most : b->most;

    return least <= most ? most : 0;
}
