/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h. The state is the process's: there is one standard error.
 *
 * Waking. A thread that puts or drops a line exchanges is_rung, and posts the semaphore if that
 * was false. The writer clears is_rung, also by an exchange, before it reads the ring. The
 * later of two exchanges sees what the other side did before its own, so either the writer
 * finds the line, or it is woken for it.
 */
#include "daemon/base/log_form.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/cond.h"
#include "lib/base/context.h"
#include "lib/base/thread.h"

/* Time that a flush, and a stop, wait for a standard error that takes no bytes. */
#define PATIENCE_MS 1000

/* Retry interval, for the case that the system does not report that bytes would be taken. */
#define RETRY_MS 1000

/* Small, because -k locks whole stacks; a line of the log and printf fit easily. */
#define STACK_BYTES ((size_t)256 << 10)

enum state {
    STATE_DIRECT, /* there is no thread: callers write their lines themselves */
    STATE_QUEUED,
    STATE_STUCK, /* stopped, but the thread still waits in write(): nothing can be written */
};

/* [atomic] */
static _Atomic int state; /* enum state; changed by main */
static _Atomic bool is_rung;
static _Atomic bool is_stopping;
static _Atomic bool is_awaited; /* main waits for `drained` */
/* [const] while the thread runs */
static sem_t bell;
static sem_t drained;
static struct thread thread;
static struct log_ring ring;

/* ---- writing ----------------------------------------------------------------------------- */

/* Write to the file of the log, as far as it takes it. Returns the rest. */
static struct span write_file(struct span line)
{
    const int fd = log_file_fd();
    ssize_t n = 1;

    while (fd >= 0 && line.len > 0 && (n > 0 || errno == EINTR)) {
        n = write(fd, line.ptr, line.len);
        if (n > 0) {
            line = span_of(line.ptr + n, line.len - (size_t)n);
        }
    }
    return line;
}

static void write_stderr(struct span line)
{
    struct pollfd stderr_poll = {.fd = STDERR_FILENO, .events = POLLOUT};

    while (line.len > 0) {
        ssize_t n = write(STDERR_FILENO, line.ptr, line.len);

        if (n > 0) {
            line = span_of(line.ptr + n, line.len - (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            /* The process that started us, or one that shares the pipe, has set O_NONBLOCK. */
            (void)poll(&stderr_poll, 1, RETRY_MS);
        } else if (n == 0 || errno != EINTR) {
            return; /* this cannot be reported anywhere; the service goes on */
        }
    }
}

/* To the journal or the file if it takes it; else to standard error. */
static void write_whole(struct span line)
{
    char other[LOG_LINE_BYTES];

    if (!log_journal_is_on()) {
        write_stderr(write_file(line));
    } else if (!log_journal_send(line, true)) {
        write_stderr(span_of(other, log_journal_as_line(line, other)));
    }
}

/* Without a thread nobody waits for what takes nothing at the moment. */
static void write_once(struct span line)
{
    char other[LOG_LINE_BYTES];

    if (log_journal_is_on()) {
        if (log_journal_send(line, false)) {
            return;
        }
        line = span_of(other, log_journal_as_line(line, other));
    }
    line = write_file(line);
    if (line.len > 0) {
        (void)TEMP_FAILURE_RETRY(write(STDERR_FILENO, line.ptr, line.len));
    }
}

static MF_PRINTF(2, 3) size_t compose(char line[LOG_LINE_BYTES], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    size_t len = log_form_compose(line, LOG_LEVEL_WARN, 0, NULL, fmt, args);
    va_end(args);
    return len;
}

static void write_dropped(uint32_t count)
{
    char line[LOG_LINE_BYTES];

    if (count > 0) {
        size_t len =
            compose(line, "log, %u messages dropped (%s did not take them)", (unsigned)count,
                    log_journal_is_on()  ? "the journal"
                    : log_file_fd() >= 0 ? "the file of the log"
                                         : "standard error");

        write_whole(span_of(line, len));
    }
}

static void write_waiting(void)
{
    const struct log_slot *s;

    while ((s = log_ring_front(&ring)) != NULL) {
        write_dropped(s->dropped);
        write_whole(span_of(s->text, s->len));
        log_ring_drop(&ring);
    }
    write_dropped(log_ring_take_dropped(&ring));
}

/* ---- the thread -------------------------------------------------------------------------- */

static void ring_bell(void)
{
    if (!atomic_exchange_explicit(&is_rung, true, memory_order_acq_rel)) {
        (void)sem_post(&bell);
    }
}

static void writer_main(void *arg)
{
    bool is_last = false;

    (void)arg;
    while (!is_last) {
        while (sem_wait(&bell) != 0) {
            /* A debugger has interrupted it. */
        }
        (void)atomic_exchange_explicit(&is_rung, false, memory_order_acq_rel);
        is_last = atomic_load_explicit(&is_stopping, memory_order_relaxed);
        write_waiting();
        if (atomic_exchange_explicit(&is_awaited, false, memory_order_acq_rel) || is_last) {
            (void)sem_post(&drained);
        }
    }
}

static const struct thread_kind writer_kind = {
    .name = "mayfly-log",
    .run = writer_main,
    .role = THREAD_LOG,
    .stack_bytes = STACK_BYTES,
};

/* Wait until all lines put before the call are written; false when PATIENCE_MS have passed. */
static bool wait_until_drained(void)
{
    const struct timespec until = cond_after(PATIENCE_MS);
    int err;

    atomic_store_explicit(&is_awaited, true, memory_order_release);
    ring_bell();
    do {
        err = sem_clockwait(&drained, CLOCK_MONOTONIC, &until) == 0 ? 0 : errno;
    } while (err == EINTR);
    if (err != 0 && !atomic_exchange_explicit(&is_awaited, false, memory_order_acq_rel)) {
        /* The thread has taken the request just now, and posts in any case. */
        while (sem_wait(&drained) != 0) {
        }
        err = 0;
    }
    return err == 0;
}

/* ---- public ------------------------------------------------------------------------------ */

bool log_writer_is_on(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == STATE_QUEUED;
}

bool log_writer_put(struct span line)
{
    bool is_put = false;

    switch (atomic_load_explicit(&state, memory_order_acquire)) {
    case STATE_DIRECT:
        write_once(line);
        return true;
    case STATE_QUEUED:
        is_put = log_ring_put(&ring, line);
        ring_bell();
        break;
    default:
        break;
    }
    return is_put;
}

bool log_start(void)
{
    must_be_main();
    must(atomic_load(&state) == STATE_DIRECT);
    log_ring_init(&ring);
    atomic_store(&is_rung, false);
    atomic_store(&is_stopping, false);
    atomic_store(&is_awaited, false);
    if (sem_init(&bell, 0, 0) != 0 || sem_init(&drained, 0, 0) != 0) {
        return false;
    }
    bool is_started = thread_start(&thread, &writer_kind, NULL) == 0;
    if (is_started) {
        atomic_store_explicit(&state, STATE_QUEUED, memory_order_release);
    }
    return is_started;
}

void log_flush(void)
{
    must_be_main();
    if (log_writer_is_on()) {
        (void)wait_until_drained();
    }
}

void log_stop(void)
{
    must_be_main();
    if (!log_writer_is_on()) {
        return;
    }
    atomic_store_explicit(&is_stopping, true, memory_order_relaxed);
    if (!wait_until_drained()) {
        atomic_store_explicit(&state, STATE_STUCK, memory_order_release);
        thread_leave(&thread);
        return;
    }
    thread_join(&thread);
    atomic_store_explicit(&state, STATE_DIRECT, memory_order_release);
    /* An abandoned thread may have put a line since. */
    write_waiting();
    sem_destroy(&bell);
    sem_destroy(&drained);
}
