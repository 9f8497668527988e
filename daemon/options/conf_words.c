/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conf_line.h.
 */
#include "daemon/options/conf_line.h"

#include <limits.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/mem.h"

/* Text of the file that is not split into words yet, without comments; the present line. */
struct words_cut {
    char *at;
    char *end;
};

bool conf_words_init(struct conf_words *w, size_t text_len)
{
    static char program[] = "mayflyd";
    const size_t words = text_len / 2 + 3; /* a word has a separator; the program; the NULL */

    memset(w, 0, sizeof(*w));
    must(words < INT_MAX);
    w->argv = mem_zalloc(words * sizeof(*w->argv));
    w->lines = mem_zalloc(words * sizeof(*w->lines));
    w->chars = mem_zalloc(text_len + 2);
    if (w->argv == NULL || w->lines == NULL || w->chars == NULL) {
        return false;
    }
    w->argv[w->argc++] = program;
    return true;
}

void conf_words_fini(struct conf_words *w)
{
    mem_free(w->argv);
    mem_free(w->lines);
    mem_free(w->chars);
    memset(w, 0, sizeof(*w));
}

/* White space of Perl's \s. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Copy the line without comments, and without white space at its ends. */
static struct words_cut cut_line(char *out, struct span line)
{
    struct words_cut c = {out, out};
    bool is_comment = false;

    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '#') {
            is_comment = i == 0 || line.ptr[i - 1] != '\\';
        }
        if (!is_comment) {
            *c.end++ = line.ptr[i];
        }
    }
    while (c.end > c.at && is_space(c.end[-1])) {
        c.end--;
    }
    while (c.at < c.end && is_space(*c.at)) {
        c.at++;
    }
    return c;
}

/*
 * What a shell would do with this character outside quotes, or in double ones; NULL: nothing.
 */
static const char *refuse_active(char c, bool is_quoted, bool is_first)
{
    if (c == '$' || c == '`') {
        return "the shell would put something else for $ and `; that is not done here";
    }
    if (is_quoted) {
        return NULL;
    }
    if (strchr(";&|<>()", c) != NULL) {
        return "the shell would act on ; & | < > ( ); put them in quotes";
    }
    if (strchr("*?", c) != NULL || (is_first && c == '~')) {
        return "the shell would put names of files for * ? ~; put them in quotes";
    }
    return NULL;
}

/* Take a quoted part, up to the closing quote. Returns where the word continues. */
static const char *take_quoted(struct words_cut *c, char **out)
{
    const char quote = *c->at++;

    while (c->at < c->end && *c->at != quote) {
        if (quote == '"' && *c->at == '\\' && c->at + 1 < c->end &&
            strchr("$`\"\\", c->at[1]) != NULL) {
            c->at++;
        } else if (quote == '"') {
            const char *why = refuse_active(*c->at, true, false);
            if (why != NULL) {
                return why;
            }
        }
        *(*out)++ = *c->at++;
    }
    if (c->at == c->end) {
        return "the quote is not closed";
    }
    c->at++;
    return NULL;
}

/* Take a word. It gets shorter, never longer, so it is written over what it was made of. */
static const char *take_word(struct words_cut *c, char **out)
{
    const char *begin = c->at;
    const char *why = NULL;

    while (why == NULL && c->at < c->end && *c->at != ' ' && *c->at != '\t') {
        if (*c->at == '\'' || *c->at == '"') {
            why = take_quoted(c, out);
        } else if (*c->at == '\\' && c->at + 1 == c->end) {
            why = "nothing stands after the backslash";
        } else if (*c->at == '\\') {
            *(*out)++ = c->at[1];
            c->at += 2;
        } else {
            why = refuse_active(*c->at, false, c->at == begin);
            *(*out)++ = *c->at++;
        }
    }
    return why;
}

static const char *take_words(struct conf_words *w, struct words_cut c, unsigned number)
{
    char *out = w->chars + w->used;
    const char *why = NULL;

    while (why == NULL && c.at < c.end) {
        w->lines[w->argc] = number;
        w->argv[w->argc++] = out;
        why = take_word(&c, &out);
        while (c.at < c.end && (*c.at == ' ' || *c.at == '\t')) {
            c.at++;
        }
        *out++ = '\0'; /* in the place of the separator, or of the end of the line */
    }
    w->used = (size_t)(out - w->chars);
    return why;
}

/* Is the line one that Debian's scripts leave out? *why: it is one that they do not know. */
static bool is_left_out(struct words_cut c, const char **why)
{
    const size_t len = (size_t)(c.end - c.at);
    size_t word = 0;

    if (len == 0) {
        return true;
    }
    if (c.at[0] == '-') {
        return len > 1 && (c.at[1] == 'd' || c.at[1] == 'h');
    }
    while (word < len && !is_space(c.at[word])) {
        word++;
    }
    if (word == len) {
        return false; /* perhaps the argument of a flag in the line before */
    }
    *why = span_is(span_of(c.at, word), "logfile") ? NULL : "a flag begins with a dash";
    return true;
}

const char *conf_words_add(struct conf_words *w, struct span line, unsigned number)
{
    const int argc = w->argc;
    const size_t used = w->used;
    const struct words_cut c = cut_line(w->chars + used, line);
    const char *why = NULL;

    if (line.len > 0 && memchr(line.ptr, '\0', line.len) != NULL) {
        return "a NUL byte: this is not a text file";
    }
    if (is_left_out(c, &why)) {
        return why;
    }
    why = take_words(w, c, number);
    if (why != NULL) {
        w->argc = argc;
        w->used = used;
    }
    w->argv[w->argc] = NULL; /* there may be a word of a line that was wrong */
    return why;
}
