/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See exec.h. A word is never longer than its quoted form, so a buffer as long as the
 * line has room for all words.
 */
#include "daemon/command/exec.h"

#include "daemon/options/conf_line.h"
#include "lib/base/check.h"

/*
 * Copy the text between quotes; s begins after the opening quote. Returns the position of the
 * closing quote; NULL: the text is malformed.
 */
static const char *copy_quoted(struct span s, char **out)
{
    while (s.len > 0 && s.ptr[0] != '"') {
        const size_t len = conf_char_take(s, *out);

        if (len == 0 || **out == '\0') {
            return NULL;
        }
        (*out)++;
        s = span_of(s.ptr + len, s.len - len);
    }
    return s.len > 0 ? s.ptr : NULL;
}

const char *config_words_split(struct config_words *w, struct span line)
{
    const char *p = line.ptr;
    const char *end = line.ptr + line.len;
    char *out = w->text;

    w->count = 0;
    if (line.len >= CONFIG_TEXT_MAX) {
        return "the line is too long";
    }
    while (true) {
        while (p < end && *p == ' ') {
            p++;
        }
        if (p == end) {
            return NULL;
        }
        if (w->count == CONFIG_WORDS_MAX) {
            return "too many words";
        }
        w->word[w->count++] = out;
        if (*p == '"') {
            p = copy_quoted(span_of(p + 1, (size_t)(end - p) - 1), &out);
            if (p == NULL || (p + 1 < end && p[1] != ' ')) {
                return "a quoted word ends with a quote, and has \\\", \\\\ and \\xHH";
            }
            p++;
        } else {
            for (; p < end && *p != ' '; p++) {
                if (*p == '\0') {
                    return "a NUL byte";
                }
                *out++ = *p;
            }
        }
        *out++ = '\0';
    }
}

void config_words_join(struct config_words *w, unsigned at)
{
    must(at + 1 < w->count);
    w->text[w->word[at + 1] - w->text - 1] = ' '; /* the NUL of the first */
    for (unsigned i = at + 1; i + 1 < w->count; i++) {
        w->word[i] = w->word[i + 1];
    }
    w->count--;
}
