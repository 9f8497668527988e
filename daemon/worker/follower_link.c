/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said over the link of a replica: see follower_parts.h.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/worker/crew.h"
#include "daemon/worker/follower_parts.h"
#include "daemon/worker/role.h"
#include "lib/base/check.h"
#include "lib/base/num.h"

/* No stream and no time gets there. */
#define OFFSET_MAX ((uint64_t)1 << 62)
#define TIME_MAX   ((int64_t)1 << 53)

struct engine *follower_engine(const struct follower *f)
{
    return &f->r->crew->engine;
}

void answer_split(struct span line, struct words *w)
{
    w->count = 0;
    while (line.len > 0 && w->count < WORDS_MAX) {
        const char *end = memchr(line.ptr, ' ', line.len);
        size_t n = end != NULL ? (size_t)(end - line.ptr) : line.len;

        w->word[w->count++] = span_of(line.ptr, n);
        n += end != NULL;
        line = span_of(line.ptr + n, line.len - n);
    }
}

bool answer_offset(struct span word, uint64_t *offset)
{
    return num_u64(word, offset) == MF_OK && *offset < OFFSET_MAX;
}

bool answer_epoch(struct span word, uint64_t *epoch)
{
    return answer_offset(word, epoch) && *epoch != 0;
}

bool answer_time(struct span word, int64_t *unix_ms)
{
    return num_i64(word, unix_ms) == MF_OK && *unix_ms > -TIME_MAX && *unix_ms < TIME_MAX;
}

void follower_note_history(struct follower *f, const struct replid *id, uint64_t epoch)
{
    f->seen = *id;
    pthread_mutex_lock(&f->r->mutex);
    f->r->seen_epoch = epoch;
    pthread_mutex_unlock(&f->r->mutex);
}

enum session follower_end(struct follower *f, enum session how, const char *what,
                          struct span more)
{
    snprintf(f->why, sizeof(f->why), "%s%s%.*s", what, more.len > 0 ? ": " : "",
             more.len < 100 ? (int)more.len : 100, more.ptr);
    return how;
}

enum session follower_end_cut(struct follower *f, enum session how)
{
    return follower_end(f, replication_is_changed(f->r) ? SESSION_ENDED : how,
                        "the link was cut", span_str(link_why(f->link)));
}

bool follower_send(struct follower *f, const char *line, int n)
{
    must(n > 0);
    return link_send(f->link, span_of(line, (size_t)n)) == LINK_OK;
}
