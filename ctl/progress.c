/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of long operations: see show.h. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/show.h"

/* Time between two updates of the line. */
#define TELL_S 0.2

/* Go to the beginning of the line, and clear it. */
#define CLEAR "\r\033[K"

void progress_begin(struct progress *p, const char *what)
{
    *p = (struct progress){
        .what = what, .is_shown = isatty(STDERR_FILENO) != 0, .began_s = ctl_now_s()};
}

void progress_add(struct progress *p, uint64_t bytes, uint64_t items)
{
    char size[UNIT_TEXT_BYTES];
    char rate[UNIT_TEXT_BYTES];
    double now_s = p->is_shown ? ctl_now_s() : 0;

    p->bytes += bytes;
    p->items += items;
    if (!p->is_shown || now_s < p->told_s + TELL_S) {
        return;
    }
    p->told_s = now_s;
    unit_short(size, UNIT_BYTES, (double)p->bytes);
    unit_short(rate, UNIT_BYTES,
               now_s > p->began_s ? (double)p->bytes / (now_s - p->began_s) : 0);
    fprintf(stderr, CLEAR "%s %s, %s/s", p->what, size, rate);
    if (p->items != 0) {
        fprintf(stderr, ", %" PRIu64 " items", p->items);
    }
    fflush(stderr);
}

void progress_tell(struct progress *p, const char *text)
{
    if (p->is_shown) {
        p->told_s = ctl_now_s();
        fprintf(stderr, CLEAR "%s", text);
        fflush(stderr);
    }
}

void progress_end(struct progress *p)
{
    if (p->is_shown && p->told_s != 0) {
        fputs(CLEAR, stderr);
    }
}
