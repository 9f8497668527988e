/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a failed check does: it prints one line on standard error and aborts. The line is
 * written by one write() from a buffer on the stack, because neither heap nor stdio can be
 * trusted then.
 */
#include "lib/base/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local const char *thread_note; /* [borrowed] see check_note() */

void check_note(const char *text)
{
    thread_note = text;
}

_Noreturn void check_failed(const char *expr, const char *file, int line)
{
    char name[16] = "?"; /* the kernel's longest thread name, NUL included */
    char text[512];

    if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0) {
        name[0] = '?';
        name[1] = '\0';
    }
    int n = snprintf(text, sizeof(text), "check failed: %s, %s:%d, thread %s%s%s\n", expr, file,
                     line, name, thread_note != NULL ? ", " : "",
                     thread_note != NULL ? thread_note : "");
    if (n >= (int)sizeof(text)) {
        n = (int)sizeof(text) - 1;
        text[n - 1] = '\n';
    }
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) {
        /* The line is lost; the core dump has everything. */
        abort();
    }
    abort();
}
