/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `top`: a live view of a server. top.c has the rounds and the keys, top_draw.c what is drawn,
 * and top_screen.c the terminal (top_screen_none.c in a build without ncurses). If the terminal
 * cannot be drawn on, each round prints a line.
 */
#ifndef MAYFLY_CTL_TOP_H
#define MAYFLY_CTL_TOP_H

#include <stdbool.h>

#include "ctl/sample.h"
#include "ctl/sheet.h"

#define TOP_PAST 240 /* rounds that sparklines show */

enum top_past { PAST_OPS, PAST_HITS, PAST_EXPIRED, PAST_EVICTED, PAST_COUNT };

struct top {
    struct ctl *c;
    struct stats_sample sample[2]; /* the last one, and the one before */
    unsigned last;                 /* which of them */
    uint64_t rounds;
    double past[PAST_COUNT][TOP_PAST]; /* the oldest first */
    unsigned past_count;
    double interval_s;
    const char *server; /* [borrowed] where it is */
    enum figure_id sort;
    bool sorts_by_figure; /* else by number */
    bool is_reversed;
    bool shows_help;
    bool is_paused;
    bool is_utf8;                /* of what is drawn */
    unsigned first;              /* shard that is shown first */
    char trouble[CTL_WHY_BYTES]; /* why the last round failed; empty: it did not */
};

/* Take a sample. After a failure, t->trouble has the reason, and the status is not CTL_OK. */
enum ctl_status top_round(struct top *t);

/* Draw the view on a sheet whose size was set by sheet_clear(). */
void top_draw(const struct top *t, struct sheet *s);

/* A figure as it is shown; a dash if it is not known. */
void top_number(char text[UNIT_TEXT_BYTES], enum unit unit, double v);

/* The number of shards that fit on a screen of `rows` rows. */
unsigned top_room(unsigned rows);

/* Handle a key, a letter or TOP_KEY_*; false: it ends the program. */
enum { TOP_KEY_UP = 0x101, TOP_KEY_DOWN, TOP_KEY_PAGE_UP, TOP_KEY_PAGE_DOWN };
bool top_key(struct top *t, int key, unsigned rows);

/* Can the terminal be drawn on? */
bool top_screen_is_possible(void);

/* Show rounds until the operator ends it, or `count` of them if that is not 0. */
enum ctl_status top_screen(struct top *t, uint64_t count);

#endif
