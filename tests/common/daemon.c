/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts and stops a daemon for a test.
 */
#include "tests/common/daemon.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX 64
#define POLL_MS  5
#define START_MS 100000 /* sanitizer builds on a busy machine */
#define STOP_MS  100000

static void doze(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

bool test_program(const char *name, const char *env, char *out, size_t out_size)
{
    const char *given = getenv(env);
    const char *build = getenv("MAYFLY_BUILDDIR");

    if (given != NULL) {
        (void)snprintf(out, out_size, "%s", given);
    } else {
        (void)snprintf(out, out_size, "%s/%s", build != NULL ? build : ".", name);
    }
    return access(out, X_OK) == 0;
}

static _Noreturn void run_child(const struct test_daemon *d, const char *program,
                                enum test_daemon_kind kind, const char *const *extra)
{
    char log[96], port_file[96];
    const char *args[ARGS_MAX];
    int n = 0;

    args[n++] = program;
    args[n++] = "-U";
    args[n++] = "0";
    if (geteuid() == 0) {
        args[n++] = "-u";
        args[n++] = "root";
    }
    if (kind == TEST_DAEMON_TCP) {
        args[n++] = "-p";
        args[n++] = "-1";
        args[n++] = "-l";
        args[n++] = "127.0.0.1";
    } else {
        args[n++] = "-s";
        args[n++] = d->socket;
    }
    if (kind == TEST_DAEMON_CONTROL) {
        args[n++] = "--control";
        args[n++] = d->operator_socket;
    }
    /*
     * Options for the daemons of all tests. Not for the one with a clock: it opens its socket
     * of control when the server has started.
     */
    char *more = kind != TEST_DAEMON_CONTROL ? getenv("MAYFLY_TEST_ARGS") : NULL;
    for (char *word = more != NULL ? strtok(more, " ") : NULL; word != NULL && n < ARGS_MAX - 1;
         word = strtok(NULL, " ")) {
        args[n++] = word;
    }
    for (; extra != NULL && *extra != NULL && n < ARGS_MAX - 1; extra++) {
        args[n++] = *extra;
    }
    args[n] = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(log, sizeof(log), "%s/log", d->folder);
    (void)snprintf(port_file, sizeof(port_file), "%s/port", d->folder);
    if (freopen(log, "w", stderr) == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        _exit(126);
    }
    (void)setenv("MEMCACHED_PORT_FILENAME", port_file, 1);
    if (kind == TEST_DAEMON_CONTROL) {
        (void)setenv("MAYFLY_TEST_CONTROL", d->control, 1);
    }
    (void)execv(program, (char *const *)(uintptr_t)args);
    _exit(127);
}

/* Show the daemon's log, which often says why a test failed. */
static void show_log(const struct test_daemon *d)
{
    char path[96], line[512];

    (void)snprintf(path, sizeof(path), "%s/log", d->folder);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        (void)fprintf(stderr, "daemon: %s", line);
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

static void remove_folder(const struct test_daemon *d)
{
    DIR *dir = opendir(d->folder);
    struct dirent *entry;
    char path[512];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", d->folder, entry->d_name);
            (void)unlink(path);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(d->folder);
}

static int connect_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int connect_tcp(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* The port that the daemon wrote to its file: the number after "TCP INET: ". */
static uint16_t read_port(const struct test_daemon *d)
{
    char path[96];
    unsigned port = 0;

    (void)snprintf(path, sizeof(path), "%s/port", d->folder);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }
    if (fscanf(f, "TCP INET: %u", &port) != 1) {
        port = 0;
    }
    (void)fclose(f);
    return (uint16_t)port;
}

static int try_connect(struct test_daemon *d, enum test_daemon_kind kind)
{
    if (kind != TEST_DAEMON_TCP) {
        return connect_unix(d->socket);
    }
    if (d->port == 0) {
        d->port = read_port(d);
    }
    return d->port != 0 ? connect_tcp(d->port) : -1;
}

/* The daemon to stop when a test calls exit(). [main] */
static struct test_daemon *running;

static void stop_running(void)
{
    if (running != NULL) {
        (void)test_daemon_stop(running);
    }
}

bool test_daemon_start(struct test_daemon *d, const char *program, enum test_daemon_kind kind,
                       const char *const *extra)
{
    int status = 0;

    *d = (struct test_daemon){0};
    (void)snprintf(d->folder, sizeof(d->folder), "/tmp/mayfly-test.XXXXXX");
    if (mkdtemp(d->folder) == NULL) {
        perror("mkdtemp");
        return false;
    }
    (void)snprintf(d->socket, sizeof(d->socket), "%s/socket", d->folder);
    (void)snprintf(d->control, sizeof(d->control), "%s/control", d->folder);
    (void)snprintf(d->operator_socket, sizeof(d->operator_socket), "%s/operator", d->folder);
    static bool is_registered;
    if (!is_registered) {
        is_registered = atexit(stop_running) == 0;
    }
    running = d;
    d->pid = fork();
    if (d->pid == 0) {
        run_child(d, program, kind, extra);
    }
    for (int waited = 0; d->pid > 0 && waited < START_MS; waited += POLL_MS) {
        int fd = try_connect(d, kind);
        if (fd >= 0) {
            (void)close(fd);
            return true;
        }
        if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
            break;
        }
        doze(POLL_MS);
    }
    (void)fprintf(stderr, "%s does not serve (status %d)\n", program, status);
    show_log(d);
    (void)test_daemon_stop(d);
    return false;
}

int test_operator_connect(const struct test_daemon *d)
{
    return connect_unix(d->operator_socket);
}

int test_daemon_connect(const struct test_daemon *d)
{
    int fd = d->port != 0 ? connect_tcp(d->port) : connect_unix(d->socket);

    if (fd < 0) {
        perror("cannot connect");
        show_log(d);
    }
    return fd;
}

/* Has the daemon ended by itself? Its status stays for test_daemon_stop(). */
static bool has_ended(const struct test_daemon *d)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)d->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == d->pid;
}

int test_control_connect(const struct test_daemon *d)
{
    for (int waited = 0; waited < START_MS && !has_ended(d); waited += POLL_MS) {
        int fd = connect_unix(d->control);
        if (fd >= 0) {
            return fd;
        }
        doze(POLL_MS);
    }
    (void)fprintf(stderr, "no control socket at %s\n", d->control);
    return -1;
}

int test_daemon_stop(struct test_daemon *d)
{
    int status = 0;

    if (d->pid > 0 && kill(d->pid, SIGTERM) == 0) {
        int waited = 0;

        while (waitpid(d->pid, &status, WNOHANG) == 0) {
            if (waited >= STOP_MS) {
                (void)kill(d->pid, SIGKILL);
                (void)waitpid(d->pid, &status, 0);
                break;
            }
            doze(POLL_MS);
            waited += POLL_MS;
        }
    }
    int result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result != 0) {
        show_log(d);
    }
    remove_folder(d);
    d->pid = 0;
    running = NULL;
    return result;
}

bool test_send(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            return false;
        }
        p += k;
        n -= (size_t)k;
    }
    return true;
}
