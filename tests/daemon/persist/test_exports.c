/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports to a client that takes nothing for too long: it is closed, and the next is served.
 */
#include "daemon/persist/exports.h"

#include <sys/socket.h>

#include "tests/common/unit.h"
#include "tests/daemon/conn/solo.h"

#define VALUES 20u
#define LEN    500000u

static struct exports *x;

static void setup(void)
{
    solo_setup();
    x = &solo.crew.exports;
    ck_assert_int_eq(exports_start(x, &solo.settings, &solo.crew.engine), 0);
    char *value = wire_value(LEN, 1);
    int fd = wire_dial(0);
    for (unsigned i = 0; i < VALUES; i++) {
        char key[16];

        snprintf(key, sizeof(key), "k%u", i);
        wire_store(fd, key, value, LEN);
    }
    close(fd);
    free(value);
}

static void teardown(void)
{
    exports_stop(x);
    solo_teardown();
}

TEST_FIXTURE(setup, teardown)

static bool is_over(struct exports_info *info, uint64_t ended)
{
    exports_look(x, info);
    return !info->is_busy && info->done + info->failed == ended;
}

static void wait_for_end(uint64_t done, uint64_t failed)
{
    struct exports_info info;

    WAIT_UNTIL(is_over(&info, done + failed));
    ck_assert_uint_eq(info.done, done);
    ck_assert_uint_eq(info.failed, failed);
}

/* All that comes, up to the end of the stream, or to the last line. Returns how much. */
static size_t read_all(int fd, bool *has_end)
{
    static char bytes[1 << 16];
    const char end[] = "END 20\r\n";
    size_t sum = 0;
    ssize_t got;

    *has_end = false;
    while (!*has_end && (got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        sum += (size_t)got;
        *has_end = (size_t)got >= sizeof(end) - 1 &&
                   memcmp(bytes + got - (sizeof(end) - 1), end, sizeof(end) - 1) == 0;
    }
    return sum;
}

TEST(a_client_that_takes_nothing_is_closed)
{
    int fd = wire_dial(SMALL_SOCKET);
    int next = wire_dial(0);
    bool has_end;

    atomic_store(&x->stall_ms, 20);
    wire_say(fd, "save -\r\n");
    wait_for_end(0, 1);
    ck_assert_uint_lt(read_all(fd, &has_end), (size_t)VALUES * LEN / 2);
    ck_assert(!has_end);
    close(fd);
    atomic_store(&x->stall_ms, 100000);
    wire_say(next, "save -\r\n");
    ck_assert_uint_gt(read_all(next, &has_end), (size_t)VALUES * LEN);
    ck_assert(has_end);
    wait_for_end(1, 1);
    wire_say(next, "mn\r\n");
    wire_expect(next, "MN\r\n");
    close(next);
}

/* Each portion is taken in time, but all of them too slowly for others to wait for. */
TEST(a_client_that_takes_little_at_a_time_is_closed)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    static char bytes[64 << 10];
    struct exports_info info = {0};
    int fd = wire_dial(SMALL_SOCKET);

    atomic_store(&x->stall_ms, 400);
    atomic_store(&x->least_bytes, INT64_MAX); /* whatever it takes, it stalls */
    wire_say(fd, "save -\r\n");
    while (info.failed + info.done == 0 && recv(fd, bytes, sizeof(bytes), 0) > 0) {
        (void)nanosleep(&pause, NULL);
        exports_look(x, &info);
    }
    close(fd);
    wait_for_end(0, 1);
}

/* A portion reported as sent after the end belongs to no export. */
TEST(a_client_that_goes_meanwhile_ends_it)
{
    int fd = wire_dial(SMALL_SOCKET);
    char line[5];

    wire_say(fd, "save -\r\n");
    wire_get(fd, line, sizeof(line));
    ck_assert_int_eq(memcmp(line, "PART ", 5), 0);
    close(fd);
    wait_for_end(0, 1);
}

/* However long the client may stall. */
TEST(a_stop_does_not_wait_for_a_client)
{
    int fd = wire_dial(SMALL_SOCKET);
    char line[5];
    bool has_end;

    atomic_store(&x->stall_ms, INT64_MAX / 2);
    wire_say(fd, "save -\r\n");
    wire_get(fd, line, sizeof(line));
    ck_assert_int_eq(memcmp(line, "PART ", 5), 0);
    exports_stop(x);
    wait_for_end(0, 1);
    (void)shutdown(fd, SHUT_WR); /* if a reply has told of the stop, it stays open */
    (void)read_all(fd, &has_end);
    ck_assert(!has_end);
    close(fd);
}
