/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows sheets on a terminal, with ncurses: see top.h. */
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/top.h"
#include "lib/base/mem.h"

static SCREEN *screen; /* owned while top runs */

bool top_screen_is_possible(void)
{
    const char *name = getenv("TERM");

    if (name == NULL || name[0] == '\0' || strcmp(name, "dumb") == 0 || !isatty(STDIN_FILENO)) {
        return false;
    }
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        return false; /* a terminal of unknown type */
    }
    const char *move = tigetstr("cup");
    if (move == NULL || move == (const char *)-1) {
        (void)endwin();
        delscreen(screen);
        screen = NULL;
        return false;
    }
    return true;
}

/* Colours if the terminal has them. The styles also differ without colours. */
static attr_t attributes[SHEET_BAD + 1];

static void choose_styles(void)
{
    attributes[SHEET_BOLD] = A_BOLD;
    attributes[SHEET_DIM] = A_DIM;
    attributes[SHEET_TITLE] = A_REVERSE;
    attributes[SHEET_BAD] = A_BOLD;
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        (void)init_pair(1, COLOR_GREEN, -1);
        (void)init_pair(2, COLOR_RED, -1);
        attributes[SHEET_GOOD] = COLOR_PAIR(1);
        attributes[SHEET_BAD] = COLOR_PAIR(2) | A_BOLD;
    }
}

/* Show a sheet. Adjacent cells of one style are written in one call. */
static void paint(const struct sheet *s)
{
    (void)erase();
    for (unsigned row = 0; row < s->rows; row++) {
        unsigned begin = 0;

        while (begin < s->columns) {
            unsigned end = begin;
            char text[sizeof(s->cell[0][0].text) * SHEET_COLUMNS_MAX + 1];
            size_t len = 0;

            while (end < s->columns && s->cell[row][end].style == s->cell[row][begin].style) {
                const char *ch = s->cell[row][end].text;

                ch = ch[0] != '\0' ? ch : " ";
                memcpy(text + len, ch, strlen(ch));
                len += strlen(ch);
                end++;
            }
            text[len] = '\0';
            (void)attrset(attributes[s->cell[row][begin].style]);
            (void)mvaddstr((int)row, (int)begin, text);
            begin = end;
        }
    }
    (void)attrset(A_NORMAL);
    (void)refresh();
}

static void draw(const struct top *t, struct sheet *s)
{
    sheet_clear(s, (unsigned)LINES, (unsigned)COLS);
    top_draw(t, s);
    paint(s);
}

static int translate(int key)
{
    switch (key) {
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    default:
        return key;
    }
}

/* Handle keys until the next round is due. False: the operator ended the program. */
static bool serve_keys(struct top *t, struct sheet *s, double due)
{
    for (;;) {
        double left = due - ctl_now_s();

        if (ctl_is_interrupted()) {
            return false;
        }
        if (!t->is_paused && left <= 0) {
            return true;
        }
        timeout(t->is_paused || left > 0.5 ? 500 : (int)(left * 1000) + 1);
        int key = getch();
        if (key == ERR) {
            continue;
        }
        if (key == ' ') {
            return true; /* the next round begins at once */
        }
        if (key != KEY_RESIZE && !top_key(t, translate(key), (unsigned)LINES)) {
            return false;
        }
        draw(t, s);
    }
}

/* Only the first round has to succeed, because a server that is gone may come back. */
static enum ctl_status show(struct top *t, struct sheet *s, uint64_t count)
{
    enum ctl_status status = top_round(t);

    for (uint64_t shown = 1; status == CTL_OK || t->rounds > 0; shown++) {
        double due =
            ctl_now_s() + (t->rounds == 1 && t->interval_s > 0.25 ? 0.25 : t->interval_s);

        draw(t, s);
        if (shown == count || !serve_keys(t, s, due)) {
            return CTL_OK;
        }
        status = top_round(t);
    }
    return status;
}

enum ctl_status top_screen(struct top *t, uint64_t count)
{
    struct sheet *s = mem_zalloc(sizeof(*s));

    if (s == NULL) {
        (void)endwin();
        return ctl_fail(t->c, CTL_SYSTEM, "no memory");
    }
    s->is_utf8 = t->is_utf8;
    ctl_catch_signals();
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0);
    choose_styles();
    enum ctl_status status = show(t, s, count);
    (void)endwin();
    delscreen(screen);
    screen = NULL;
    mem_free(s);
    return status;
}
