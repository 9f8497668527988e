/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See privs.h. All on the main thread, except for the handler.
 */
#include "daemon/service/privs.h"

#include <errno.h>
#include <linux/sockios.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/settings.h"
#include "lib/base/context.h"

enum when { ALWAYS, SASL, NO_SASL };

struct filter_rule {
    int call;
    enum when when;
    unsigned args; /* 0 or 1 */
    struct scmp_arg_cmp arg;
    uint32_t action;
};

/* Stands for the process id in a row, which is no constant. */
#define OWN_PID ((uint64_t)-1)

/* [const] */
static const struct filter_rule rules[] = {
#define CALL(when, name) {SCMP_SYS(name), when, 0, {0, SCMP_CMP_EQ, 0, 0}, SCMP_ACT_ALLOW},
#define CALL_IF(when, name, arg, op, a, b)                                                     \
    {SCMP_SYS(name), when, 1, {arg, op, a, b}, SCMP_ACT_ALLOW},
#define REFUSE_IF(when, name, arg, a, error)                                                   \
    {SCMP_SYS(name), when, 1, {arg, SCMP_CMP_EQ, a, 0}, SCMP_ACT_ERRNO(error)},
#include "daemon/service/filter.def"
};

/* ---- a call that is not allowed ---------------------------------------------------------- */

static size_t put_text(char *out, size_t at, size_t size, const char *text)
{
    while (*text != '\0' && at < size) {
        out[at++] = *text++;
    }
    return at;
}

static size_t put_number(char *out, size_t at, size_t size, unsigned number)
{
    char digits[16];
    size_t n = sizeof(digits);

    digits[--n] = '\0';
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return put_text(out, at, size, digits + n);
}

/*
 * A signal handler that may interrupt any code, so it only makes system calls. It is
 * uninstalled when it starts (SA_RESETHAND), so the signal that it sends ends the process. It
 * does not run while the thread has blocked all signals, as the C library does in
 * pthread_create(), and from glibc 2.41 on in fork(): the kernel then ends the process at once,
 * without this line.
 */
static void on_forbidden(int number, siginfo_t *info, void *context)
{
    char thread[16] = "?";
    char line[192];
    size_t n = 0;

    (void)context;
    (void)prctl(PR_GET_NAME, thread, 0, 0, 0);
    n = put_text(line, n, sizeof(line),
                 "error: privs, ended by -o drop_privileges (system call ");
    n = put_number(line, n, sizeof(line), (unsigned)info->si_syscall);
    n = put_text(line, n, sizeof(line), " of thread ");
    n = put_text(line, n, sizeof(line), thread);
    n = put_text(line, n, sizeof(line), ")\n");
    (void)!write(STDERR_FILENO, line, n);
    (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static bool take_signal(void)
{
    struct sigaction sa = {
        .sa_sigaction = on_forbidden,
        .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND | SA_NODEFER),
    };
    sigset_t set;

    sigemptyset(&sa.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    return sigaction(SIGSYS, &sa, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0;
}

/* ---- the filter -------------------------------------------------------------------------- */

static bool is_wanted(const struct settings *s, const struct filter_rule *rule)
{
    return rule->when == ALWAYS || (rule->when == SASL) == s->sasl;
}

/* Returns 0, or an errno with its sign turned, as the library does. */
static int add_rules(scmp_filter_ctx filter, const struct settings *s, unsigned *count)
{
    int err = 0;

    *count = 0;
    for (size_t i = 0; err == 0 && i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct scmp_arg_cmp arg = rules[i].arg;

        if (!is_wanted(s, &rules[i]) || rules[i].call < 0) {
            continue; /* a negative number: this machine does not have the call */
        }
        arg.datum_a = arg.datum_a == OWN_PID ? (uint64_t)getpid() : arg.datum_a;
        err =
            seccomp_rule_add_array(filter, rules[i].action, rules[i].call, rules[i].args, &arg);
        *count += err == 0;
    }
    return err;
}

static int refuse_start(const struct settings *settings, int err)
{
    option_fault(settings, OPTION_drop_privileges, "cannot restrict system calls (%s)",
                 strerror(-err));
    return EX_OSERR;
}

int filter_prepare(const struct settings *settings)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int err = filter == NULL ? -ENOMEM : 0;

    must_be_main();
    if (err == 0) {
        err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
    }
    if (err == 0) {
        err = seccomp_load(filter);
    }
    seccomp_release(filter);
    return err == 0 ? 0 : refuse_start(settings, err);
}

int filter_install(const struct settings *settings)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    unsigned count = 0;
    int err = filter == NULL ? -ENOMEM : 0;

    must_be_main();
    if (err == 0) {
        err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    }
    if (err == 0) {
        /* Compare in a tree: the calls of a request are few among many. */
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
        /* The kernel's log has the call even where the handler cannot run: on_forbidden(). */
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
        err = add_rules(filter, settings, &count);
    }
    if (err == 0 && !take_signal()) {
        err = -errno;
    }
    if (err == 0) {
        err = seccomp_load(filter);
    }
    seccomp_release(filter);
    if (err != 0) {
        return refuse_start(settings, err);
    }
    log_info("privs, %u system call rules are in force (seccomp)", count);
    return 0;
}
