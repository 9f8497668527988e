/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/docs PART prints that part; without an argument it copies standard input and replaces
 * each @PART@.
 */
#include "tools/docs.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/wrap.h"

#define ROFF_WIDTH 78

static const char *sentence(char text[DOCS_BYTES], const char *fmt, va_list args)
{
    const int len = vsnprintf(text, DOCS_BYTES - 1, fmt, args);

    must(len > 0 && len < DOCS_BYTES - 1);
    text[0] = (char)toupper((unsigned char)text[0]);
    return text[len - 1] == '.' ? text : strcat(text, ".");
}

const char *docs_sentence(char text[DOCS_BYTES], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    sentence(text, fmt, args);
    va_end(args);
    return text;
}

/* Escape a word. A point or quote is special only at the start of a line. */
static void escape(char out[DOCS_BYTES], const char *word, size_t len)
{
    bool is_begin = true;

    out += word[0] == '.' || word[0] == '\'' ? sprintf(out, "\\&") : 0;
    for (size_t i = 0; i < len; i++) {
        is_begin = is_begin && word[i] == '-';
        out += word[i] == '\\' ? sprintf(out, "\\e")
                               : sprintf(out, "%s%c", is_begin ? "\\" : "", word[i]);
    }
}

void docs_roff(const char *fmt, ...)
{
    struct wrap w = {.out = stdout, .width = ROFF_WIDTH};
    char text[DOCS_BYTES];
    char word[DOCS_BYTES];
    va_list args;

    va_start(args, fmt);
    sentence(text, fmt, args);
    va_end(args);
    for (const char *at = text; *at != '\0';) {
        const size_t len = strcspn(at, " ");

        escape(word, at, len);
        wrap_word(&w, word, strlen(word));
        at += len;
        at += strspn(at, " ");
        if (at[0] == '\0' || (text < at - 1 && at[-2] == '.')) { /* a sentence ends its line */
            putchar('\n');
            w.column = 0;
        }
    }
}

static bool print_part(const struct docs_part *parts, const char *name, size_t len)
{
    for (; parts->name != NULL; parts++) {
        if (strlen(parts->name) == len && memcmp(parts->name, name, len) == 0) {
            parts->print();
            return true;
        }
    }
    return false;
}

static bool print_named(const char *name, size_t len)
{
    return print_part(docs_daemon_parts, name, len) || print_part(docs_ctl_parts, name, len);
}

int main(int argc, char **argv)
{
    static char line[DOCS_BYTES];

    if (argc > 1) {
        return print_named(argv[1], strlen(argv[1])) ? 0 : 1;
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        const char *at = line;

        for (const char *mark; (mark = strchr(at, '@')) != NULL;) {
            const size_t len = strcspn(mark + 1, "@");

            fwrite(at, 1, (size_t)(mark - at), stdout);
            at = mark + 1;
            if (print_named(at, len)) {
                at += len + 1;
            } else {
                putchar('@');
            }
        }
        fputs(at, stdout);
    }
    return ferror(stdin) || fflush(stdout) != 0;
}
