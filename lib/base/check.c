/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports a failed check: prints one line on standard error and aborts. The line is written by
 * one write() from a buffer on the stack, because neither heap nor stdio can be trusted then.
 * If standard error is a pipe that is full, the line is dropped and the process still aborts.
 */
#include "lib/base/check.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Seconds that the write may take. */
#define OVERDUE_S 1

static _Thread_local const char *thread_note; /* [borrowed] see check_note() */

void check_note(const char *text)
{
    thread_note = text;
}

static _Noreturn void on_overdue(int number)
{
    (void)number;
    abort();
}

/*
 * Write unless that would wait. Something else may fill the pipe between the question and the
 * write; then an alarm ends the process.
 */
static void write_last_words(const char *text, size_t len)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct sigaction overdue = {.sa_handler = on_overdue};
    sigset_t alarm_only;

    if (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) {
        return;
    }
    sigemptyset(&overdue.sa_mask);
    sigaction(SIGALRM, &overdue, NULL);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(OVERDUE_S);
    if (write(STDERR_FILENO, text, len) < 0) {
        return; /* the line is lost */
    }
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
    if (n > 0) {
        write_last_words(text, (size_t)n);
    }
    abort();
}
