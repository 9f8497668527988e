/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Upgrades to another program: see server.h.
 */
#include "daemon/service/server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/net/sockets.h"
#include "daemon/options/options.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "daemon/stats/metrics.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "lib/engine/share.h"

/* attach_abi() of the process that asks. */
#define ABI_VARIABLE "MAYFLY_UPGRADE_ABI"
/* Its memory_file_name(), and the numbers of engine_size(). */
#define MEMORY_VARIABLE "MAYFLY_UPGRADE_MEMORY"
#define SIZE_VARIABLE   "MAYFLY_UPGRADE_SIZE"

/* Options changed while it ran, as live_pass() writes them, and upgrade_hold_ns(). */
#define LIVE_VARIABLE "MAYFLY_PASSED_LIVE"
#define HOLD_VARIABLE "MAYFLY_PASSED_HOLD"

/* Why the upgrade failed, so that the old program continues. */
#define FAILED_VARIABLE "MAYFLY_UPGRADE_FAILED"

/* Maximum sockets passed to the checked program, in addition to the service manager's. */
#define SHOWN_MAX 256u

/* A program that has not answered within this time has failed; another may then be asked. */
#define ANSWER_MS 60000u

/*
 * Before the stop, uploads in progress get at most the first time to end, while all clients
 * are served. The second time is the interval of the checks.
 */
#define LULL_MS      1200u
#define LULL_LOOK_MS 20u

/* Suffix that the kernel appends to the name of a program whose file was replaced. */
#define GONE     " (deleted)"
#define GONE_LEN ((ssize_t)sizeof(GONE) - 1)

void upgrade_init(struct server *s)
{
    const struct settings *set = s->crew.settings;
    struct upgrade *u = &s->upgrade;
    const char *why = getenv(FAILED_VARIABLE);
    ssize_t n = readlink("/proc/self/exe", u->path, sizeof(u->path) - 1);

    must_be_main();
    u->path[n > 0 ? n : 0] = '\0';
    if (n > GONE_LEN && strcmp(u->path + n - GONE_LEN, GONE) == 0) {
        u->path[n - GONE_LEN] = '\0';
    }
    handover_init(&s->crew.handover, passed_on_is(set->passed) ? HANDOVER_DONE : HANDOVER_NONE);
    if (why != NULL) {
        handover_tell(&s->crew.handover, HANDOVER_REFUSED, why);
        unsetenv(FAILED_VARIABLE);
    }
}

bool upgrade_is_asked(void)
{
    must_be_main();
    return getenv(ABI_VARIABLE) != NULL;
}

bool upgrade_knows_blocks(void)
{
    const char *asked = getenv(ABI_VARIABLE);
    uint64_t abi;

    must_be_main();
    return asked == NULL || (num_u64(span_str(asked), &abi) == MF_OK && abi == attach_abi());
}

bool upgrade_has_items(const char *memory)
{
    const char *asked = getenv(MEMORY_VARIABLE);

    must_be_main();
    return asked == NULL || strcmp(asked, memory) == 0;
}

bool upgrade_has_room(uint64_t limit_bytes, uint32_t shards)
{
    const char *asked = getenv(SIZE_VARIABLE);
    struct share_size old = {0};

    must_be_main();
    return asked == NULL || (sscanf(asked, "%" SCNu32 ":%" SCNu32 ":%" SCNu64, &old.shards,
                                    &old.shift, &old.range_bytes) == 3 &&
                             old.shards != 0 && share_suits(&old, limit_bytes, shards));
}

/* Only an operator causes this, so each one is logged. */
static MF_PRINTF(2, 3) void refuse_upgrade(struct server *s, const char *fmt, ...)
{
    char why[PATH_MAX + 256];

    MF_FORMAT(why, sizeof(why), fmt);
    log_write(LOG_LEVEL_ERROR, "upgrade, refused: %s", why);
    handover_tell(&s->crew.handover, HANDOVER_REFUSED, why);
}

/* ---- live options ------------------------------------------------------------------------ */

/* Pass options changed at run time, and a hold of expiry, to the next program: environment. */
static void show_live(struct server *s)
{
    const struct engine *e = &s->crew.engine;
    const msec_t hold_ms = engine_hold_left(e, clock_now(&e->clock));
    char number[24];
    struct buf lines = {0};

    if (live_pass(&s->crew, &lines) && buf_append(&lines, "", 1)) {
        setenv(LIVE_VARIABLE, buf_begin(&lines), 1);
    } else {
        log_error("upgrade, cannot hand over the values of config set (no memory)");
    }
    buf_fini(&lines);
    if (hold_ms > 0) {
        snprintf(number, sizeof(number), "%" PRId64, clock_boot_ns() + hold_ms * 1000000);
        setenv(HOLD_VARIABLE, number, 1);
    }
}

/* For reporting the options that were handed over. */
struct live_told {
    const struct settings *settings;
    struct buf kept; /* options that keep their values */
};

static void tell_live(void *arg, enum passed_option result, const char *name, const char *value,
                      const char *why)
{
    struct live_told *told = arg;
    const enum option_id id = option_find(name, strlen(name));
    char where[OPTION_WHERE_BYTES];
    char text[OPTION_TEXT_BYTES];

    switch (result) {
    case PASSED_TAKEN:
        (void)buf_printf(&told->kept, "%s%s = %s", buf_len(&told->kept) != 0 ? ", " : "", name,
                         value);
        break;
    case PASSED_OVERRIDDEN:
        log_notice("upgrade, %s = %s (%s) replaces %s from config set", name,
                   option_typed(told->settings, id, text),
                   option_where(told->settings, id, where), value);
        break;
    case PASSED_REFUSED:
        log_warn("upgrade, %s = %s from config set is not kept: %s", name, value, why);
        break;
    }
}

static void tell_nobody(void *arg, enum passed_option result, const char *name,
                        const char *value, const char *why)
{
    (void)arg;
    (void)result;
    (void)name;
    (void)value;
    (void)why;
}

void upgrade_take_live(struct settings *s, bool tells)
{
    const char *lines = getenv(LIVE_VARIABLE);
    struct live_told told = {.settings = s};

    must_be_main();
    if (lines == NULL || (!passed_on_is(s->passed) && !upgrade_is_asked())) {
        return;
    }
    options_passed_take(s, span_str(lines), tells ? tell_live : tell_nobody, &told);
    if (buf_len(&told.kept) != 0) {
        log_notice("upgrade, keeps the values of config set: %.*s", (int)buf_len(&told.kept),
                   buf_begin(&told.kept));
    }
    buf_fini(&told.kept);
    unsetenv(LIVE_VARIABLE);
}

int64_t upgrade_hold_ns(const struct passed_on *passed)
{
    const char *until = getenv(HOLD_VARIABLE);
    uint64_t ns = 0;

    must_be_main();
    if (until == NULL || !passed_on_is(passed) || num_u64(span_str(until), &ns) != MF_OK ||
        ns > INT64_MAX) {
        ns = 0;
    }
    unsetenv(HOLD_VARIABLE);
    return (int64_t)ns;
}

/* ---- asking ------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle)
{
    struct server *s = handle->data;

    s->upgrade.is_asked = false;
}

/* Without its descriptor the next program would have nothing. */
static bool note_memory(const struct server *s)
{
    return strcmp(s->crew.settings->memory_file, "fdstore") != 0 ||
           passed_on_note_memory(s->crew.settings->passed, s->crew.attach.fd);
}

/* ---- beginning --------------------------------------------------------------------------- */

static void take_over(struct server *s)
{
    log_notice("upgrade, %s takes over", s->upgrade.next);
    server_stop_for_upgrade(s);
}

static bool has_uploads(const struct server *s)
{
    return atomic_load(&s->crew.upload_bytes) > 0;
}

static void on_lull(uv_timer_t *timer)
{
    struct server *s = timer->data;

    must_be_main();
    if (server_was_told_to_stop(s)) {
        loop_timer_end(timer);
    } else if (!has_uploads(s) || uv_now(&s->loop) >= s->upgrade.lull_until) {
        loop_timer_end(timer);
        take_over(s);
    }
}

/* A client in the middle of a large value would delay all others once the server stops. */
static void begin_upgrade(struct server *s)
{
    struct upgrade *u = &s->upgrade;

    handover_tell(&s->crew.handover, HANDOVER_UNDER_WAY, NULL);
    if (!has_uploads(s)) {
        take_over(s);
        return;
    }
    log_notice("upgrade, waits for values that are being received");
    u->lull_until = uv_now(&s->loop) + LULL_MS;
    loop_timer_begin(&u->lull, &s->loop, s, on_lull, LULL_LOOK_MS, LULL_LOOK_MS);
}

static void on_answer(uv_process_t *p, int64_t status, int number)
{
    struct server *s = p->data;
    const char *next = s->upgrade.next;

    must_be_main();
    uv_close((uv_handle_t *)&s->upgrade.patience, NULL);
    uv_close((uv_handle_t *)p, on_closed);
    if (number != 0) {
        refuse_upgrade(s, "%s ended by signal %d", next, number);
    } else if (status == 0) {
        refuse_upgrade(s, "%s is another program", next);
    } else if (status != UPGRADE_AGREES) {
        refuse_upgrade(s, "%s would not start (status %" PRId64 ")", next, status);
    } else if (!server_was_told_to_stop(s) && !note_memory(s)) {
        refuse_upgrade(s, "cannot pass on the memory (%s)", strerror(errno));
    } else if (!server_was_told_to_stop(s)) {
        begin_upgrade(s);
    }
}

static void on_no_answer(uv_timer_t *timer)
{
    struct upgrade *u = timer->data;

    must_be_main();
    log_error("upgrade, %s does not answer", u->next);
    uv_process_kill(&u->question, SIGKILL);
}

/*
 * Why this program cannot be run; NULL: it can. A program that other users may write is
 * refused, because they could replace it before it runs.
 */
static const char *obstacle_to(const char *program)
{
    struct stat st;

    if (program[0] != '/') {
        return "the name of a program begins with /";
    }
    if (stat(program, &st) != 0) {
        return strerror(errno);
    }
    if (!S_ISREG(st.st_mode) || access(program, X_OK) != 0) {
        return "it is no program";
    }
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return "it belongs to another user, or others may write it";
    }
    return NULL;
}

/* Why it cannot be; NULL: it can. */
static const char *obstacle(struct server *s)
{
    const struct settings *set = s->crew.settings;
    struct snapshots_info info;

    if (set->memory_file == NULL) {
        return "without memory_file nothing would be left";
    }
    if (set->drop_privileges) {
        return "the filter of drop_privileges would stay over it; a restart keeps the items";
    }
    if (s->upgrade.path[0] == '\0') {
        return "the name of the program is not known";
    }
    snapshots_look(&s->crew.snapshots, &info);
    if (info.is_loading) {
        return "a snapshot is being loaded, and what is left of it would not be";
    }
    return NULL;
}

/* Open descriptors of the asked program: the index in the list is the number there. */
struct shown {
    uv_stdio_container_t fd[SOCKETS_INHERIT_FIRST + 2 * SHOWN_MAX];
    unsigned count;
    char numbers[SHOWN_MAX * 8]; /* numbers of the sockets, each followed by a comma */
    size_t len;
};

static void show(struct shown *l, int fd)
{
    /* One that is not open would let the start of the program fail. */
    l->fd[l->count++] = fcntl(fd, F_GETFD) >= 0
                            ? (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = fd}
                            : (uv_stdio_container_t){.flags = UV_IGNORE};
}

static void show_socket(void *arg, int fd)
{
    struct shown *l = arg;

    if (l->count < sizeof(l->fd) / sizeof(l->fd[0]) && l->len + 8 < sizeof(l->numbers)) {
        l->len += (size_t)snprintf(l->numbers + l->len, 8, "%u,", l->count);
        show(l, fd);
    }
}

static void show_all(const struct server *s, struct shown *l)
{
    memset(l, 0, sizeof(*l));
    l->fd[l->count++].flags = UV_IGNORE;
    show(l, STDERR_FILENO); /* its output goes to the log */
    show(l, STDERR_FILENO);
    for (uint32_t i = 0; i < sockets_inherited_count(s->crew.settings->passed) && i < SHOWN_MAX;
         i++) {
        show(l, SOCKETS_INHERIT_FIRST + (int)i);
    }
    listeners_each_socket(s, show_socket, l);
    metrics_each_socket(s->metrics, show_socket, l);
}

/* Run it with these arguments. Returns an error of libuv. */
static int ask(struct server *s, char **args)
{
    struct upgrade *u = &s->upgrade;
    struct shown shown;
    uv_process_options_t how = {.exit_cb = on_answer, .file = u->next, .args = args};
    const struct share_size size = engine_size(&s->crew.engine);
    char memory[MEMORY_FILE_NAME_BYTES];
    char abi[24];
    char numbers[48];

    snprintf(abi, sizeof(abi), "%" PRIu64, attach_abi());
    setenv(ABI_VARIABLE, abi, 1);
    memory_file_name(s->crew.settings, s->crew.attach.fd, memory);
    setenv(MEMORY_VARIABLE, memory, 1);
    snprintf(numbers, sizeof(numbers), "%" PRIu32 ":%" PRIu32 ":%" PRIu64, size.shards,
             size.shift, size.range_bytes);
    setenv(SIZE_VARIABLE, numbers, 1);
    show_live(s);
    show_all(s, &shown);
    passed_on_show(shown.numbers);
    how.stdio = shown.fd;
    how.stdio_count = (int)shown.count;
    u->question.data = s;
    int err = uv_spawn(&s->loop, &u->question, &how);
    unsetenv(ABI_VARIABLE);
    unsetenv(MEMORY_VARIABLE);
    unsetenv(SIZE_VARIABLE);
    unsetenv(LIVE_VARIABLE);
    unsetenv(HOLD_VARIABLE);
    passed_on_show(NULL);
    return err;
}

void upgrade_begin(struct server *s, const char *program)
{
    const struct settings *set = s->crew.settings;
    struct upgrade *u = &s->upgrade;
    const char *why = obstacle(s);
    char **args;

    must_be_main();
    /* Check this first: a refusal would look like that of the upgrade in progress. */
    if (u->is_asked || loop_timer_is_on(&u->lull) || server_was_told_to_stop(s)) {
        log_notice("upgrade, already running, or the server is stopping");
        return;
    }
    if (why == NULL && program[0] != '\0') {
        why = obstacle_to(program);
    }
    if (why != NULL) {
        refuse_upgrade(s, "%s%s%s", program, program[0] != '\0' ? ": " : "", why);
        return;
    }
    args = mem_zalloc(((size_t)set->argc + 2) * sizeof(*args));
    if (args == NULL) {
        refuse_upgrade(s, "out of memory");
        return;
    }
    u->is_asked = true;
    handover_tell(&s->crew.handover, HANDOVER_ASKED, NULL);
    snprintf(u->next, sizeof(u->next), "%s", program[0] != '\0' ? program : u->path);
    memcpy(args, set->argv, (size_t)set->argc * sizeof(*args));
    args[set->argc] = (char *)(uintptr_t) "--check-config";
    int err = ask(s, args);
    mem_free(args);
    if (err != 0) {
        uv_close((uv_handle_t *)&u->question, on_closed);
        refuse_upgrade(s, "cannot run %s (%s)", u->next, uv_strerror(err));
        return;
    }
    uv_timer_init(&s->loop, &u->patience);
    u->patience.data = u;
    uv_timer_start(&u->patience, on_no_answer, ANSWER_MS, 0);
}

void upgrade_end(struct server *s)
{
    struct upgrade *u = &s->upgrade;

    must_be_main();
    if (u->is_asked && uv_is_active((uv_handle_t *)&u->question)) {
        uv_process_kill(&u->question, SIGKILL);
    }
    loop_timer_end(&u->lull);
}

/* ---- taking over ------------------------------------------------------------------------- */

bool upgrade_is_wanted(const struct server *s)
{
    return s->is_for_upgrade;
}

void upgrade_note(struct server *s)
{
    must_be_main();
    if (!s->is_for_upgrade) {
        return;
    }
    listeners_pass_on(s);
    s->upgrade.keys.text = s->crew.access.text.key;
    s->upgrade.keys.sasl = s->crew.access.sasl_users.key;
    s->upgrade.conns_before = atomic_load(&s->crew.conns_open);
    s->crew.numbers_kept = sockets_inherited_count(s->crew.settings->passed);
    atomic_store(&s->crew.passes_conns, true);
}

void upgrade_note_live(struct server *s)
{
    must_be_main();
    if (s->is_for_upgrade) {
        show_live(s);
    }
}

void upgrade_give_up(struct server *s)
{
    must_be_main();
    s->is_for_upgrade = false;
    atomic_store(&s->crew.passes_conns, false);
    passed_on_give_up(s->crew.settings->passed);
}

void upgrade_tell(const struct server *s)
{
    const uint32_t passed = passed_conns_count(&s->crew.passed);

    must_be_main();
    if (s->is_for_upgrade) {
        log_notice("upgrade, %u connections passed on, %u closed", (unsigned)passed,
                   (unsigned)(s->upgrade.conns_before > passed
                                  ? s->upgrade.conns_before - passed
                                  : 0));
    }
}

int upgrade_become(struct server *s)
{
    struct upgrade *u = &s->upgrade;
    struct passed_on *passed = s->crew.settings->passed;
    char why[PATH_MAX + 128];

    must_be_main();
    if (!passed_on_note_conns(passed, &s->crew.passed, &u->keys)) {
        passed_on_end_conns(&s->crew.passed);
    }
    explicit_bzero(&u->keys, sizeof(u->keys));
    passed_conns_fini(&s->crew.passed);
    int error = passed_on_become(passed, u->next, s->crew.settings->argv);
    snprintf(why, sizeof(why), "cannot run %s (%s), continues with the old program", u->next,
             strerror(error));
    log_error("upgrade, %s", why);
    setenv(FAILED_VARIABLE, why, 1);
    error = passed_on_become(passed, "/proc/self/exe", s->crew.settings->argv);
    log_error("upgrade, cannot run /proc/self/exe (%s)", strerror(error));
    passed_on_give_up(passed);
    return EX_OSERR;
}
