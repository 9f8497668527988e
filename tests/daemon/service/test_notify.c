/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify: what the service manager receives, and that its absence does not matter.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/service/notify.h"
#include "tests/common/unit.h"

static int manager = -1;

/* An abstract socket leaves no file. */
static void setup(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int len = snprintf(name, sizeof(name), "mayfly-test-notify-%ld", (long)getpid());

    memcpy(address.sun_path + 1, name, (size_t)len);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager, 0);
    ck_assert_int_eq(
        bind(manager, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)),
        0);
    char variable[80];
    snprintf(variable, sizeof(variable), "@%s", name);
    setenv("NOTIFY_SOCKET", variable, 1);
}

static void teardown(void)
{
    unsetenv("NOTIFY_SOCKET");
    close(manager);
}

TEST_FIXTURE(setup, teardown)

/* The next message, "" when there is none. */
static const char *received(void)
{
    static char text[1024];
    ssize_t n = recv(manager, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(ready_names_the_process)
{
    char wanted[64];

    notify_ready("serving");
    snprintf(wanted, sizeof(wanted), "READY=1\nMAINPID=%ld\nSTATUS=serving", (long)getpid());
    ck_assert_str_eq(received(), wanted);
}

TEST(stopping_arrives)
{
    notify_stopping();
    ck_assert_int_eq(strncmp(received(), "STOPPING=1", 10), 0);
}

TEST(a_reload_is_dated)
{
    long long usec = 0;

    notify_reloading();
    ck_assert_int_eq(sscanf(received(), "RELOADING=1\nMONOTONIC_USEC=%lld\n", &usec), 1);
    ck_assert_int_gt(usec, 0);
}

TEST(life_and_status_arrive)
{
    notify_alive();
    ck_assert_str_eq(received(), "WATCHDOG=1");
    notify_status("busy");
    ck_assert_str_eq(received(), "STATUS=busy");
}

TEST(a_watchdog_may_be_another_process_s)
{
    static const struct {
        const char *usec;
        const char *pid; /* "": this process's */
        uint64_t want;
    } rows[] = {
        {NULL, NULL, 0},
        {"3000000", NULL, 3000000},
        {"3000000", "", 3000000},
        {"3000000", "1", 0},
        {"x", "", 0},
        {"", "", 0},
        {"3000000", "one", 0},
        {"-1", "", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char pid[16];

        snprintf(pid, sizeof(pid), "%ld", (long)getpid());
        unsetenv("WATCHDOG_USEC");
        unsetenv("WATCHDOG_PID");
        if (rows[i].usec != NULL) {
            setenv("WATCHDOG_USEC", rows[i].usec, 1);
        }
        if (rows[i].pid != NULL) {
            setenv("WATCHDOG_PID", rows[i].pid[0] != '\0' ? rows[i].pid : pid, 1);
        }
        ck_assert_uint_eq(notify_watchdog_us(), rows[i].want);
    }
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

TEST(a_long_status_is_cut)
{
    char text[2000];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    notify_ready(text);
    ck_assert_uint_gt(strlen(received()), 400);
}

TEST(without_a_manager_nothing_happens)
{
    unsetenv("NOTIFY_SOCKET");
    notify_ready("serving");
    notify_stopping();
    ck_assert_str_eq(received(), "");
    setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
    notify_ready("serving");
    setenv("NOTIFY_SOCKET", "nonsense", 1);
    notify_ready("x");
    char path[300] = "/";
    memset(path + 1, 'a', sizeof(path) - 2);
    path[sizeof(path) - 1] = '\0';
    setenv("NOTIFY_SOCKET", path, 1);
    notify_ready("x");
    setenv("NOTIFY_SOCKET", "", 1);
    notify_stopping();
    ck_assert_str_eq(received(), "");
}
