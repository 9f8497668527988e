/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See wrap.h.
 */
#include "daemon/base/wrap.h"

#include <string.h>

void wrap_word(struct wrap *w, const char *word, size_t len)
{
    const char *prefix = w->prefix != NULL ? w->prefix : "";
    const size_t begin = w->indent > strlen(prefix) ? w->indent : strlen(prefix);

    if (w->column > begin && w->column + 1 + len > w->width) {
        fputc('\n', w->out);
        w->column = 0;
    }
    if (w->column < begin || w->column == 0) {
        fprintf(w->out, "%*s", (int)(begin - w->column), prefix);
        w->column = begin;
    } else if (w->column > begin) {
        fputc(' ', w->out);
        w->column++;
    }
    fwrite(word, 1, len, w->out);
    w->column += len;
}

void wrap_text(struct wrap *w, const char *text)
{
    while (*text != '\0') {
        const size_t len = strcspn(text, " ");

        wrap_word(w, text, len);
        text += len;
        text += strspn(text, " ");
    }
}
