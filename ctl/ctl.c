/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/ctl.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "ctl/show.h"
#include "lib/base/clock.h"

static volatile sig_atomic_t is_interrupted;

enum ctl_status ctl_fail(struct ctl *c, enum ctl_status status, const char *fmt, ...)
{
    MF_FORMAT(c->why, sizeof(c->why), fmt);
    return status;
}

void ctl_report(struct ctl *c)
{
    if (c->why[0] != '\0') {
        fputs("mayflyctl: ", stderr);
        (void)show_text(stderr, span_str(c->why), c->is_utf8);
        fputc('\n', stderr);
        c->why[0] = '\0';
    }
}

struct json ctl_json(const struct ctl *c)
{
    struct json j;

    json_init(&j, c->options.json ? c->out : NULL);
    return j;
}

void ctl_say(const struct ctl *c, const char *fmt, ...)
{
    va_list args;

    if (!c->options.json) {
        va_start(args, fmt);
        vfprintf(c->out, fmt, args);
        va_end(args);
    }
}

void ctl_put_line(struct ctl *c, struct span line)
{
    (void)show_text(c->out, line, c->is_utf8);
    fputc('\n', c->out);
}

void ctl_put_answer(struct ctl *c, struct json *j, struct span line)
{
    json_text(j, NULL, line);
    if (!c->options.json) {
        ctl_put_line(c, line);
    }
}

void ctl_done(struct ctl *c, const char *name, const char *text)
{
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '{');
    json_bool(&j, name, true);
    json_end(&j, '{');
    ctl_say(c, "%s\n", text);
}

bool confirm(struct ctl *c, const char *what)
{
    const struct options *o = &c->options;
    char answer[16];

    if (o->yes || !isatty(STDIN_FILENO)) {
        return true;
    }
    fprintf(stderr, "%s of ", what);
    (void)show_text(stderr, span_str(o->host != NULL ? o->host : o->control), c->is_utf8);
    if (o->host != NULL) {
        fprintf(stderr, " port %s", o->port);
    }
    fputs("? [y/N] ", stderr);
    if (fgets(answer, sizeof(answer), stdin) == NULL) {
        fputc('\n', stderr);
        clearerr(stdin);
        answer[0] = '\0';
    }
    answer[strcspn(answer, "\n")] = '\0';
    if (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0) {
        return true;
    }
    (void)ctl_fail(c, CTL_NO, "nothing was done");
    return false;
}

static void on_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

bool ctl_is_interrupted(void)
{
    return is_interrupted != 0;
}

void ctl_catch_signals(void)
{
    struct sigaction action = {.sa_handler =
                                   on_signal}; /* no SA_RESTART: a signal ends a system call */

    is_interrupted = 0;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

void ctl_forget_signals(void)
{
    is_interrupted = 0;
}

int64_t ctl_unix_ms(void)
{
    return clock_real_ns() / 1000000;
}

double ctl_now_s(void)
{
    return (double)clock_mono_ns() / 1e9;
}

bool ctl_sleep(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (!ctl_is_interrupted() && nanosleep(&left, &left) != 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return !ctl_is_interrupted();
}
