/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filter, landlock: each test runs in a child, as neither can be undone.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nss.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <uv.h>

#include "daemon/options/settings.h"
#include "daemon/service/privs.h"
#include "lib/base/context.h"
#include "lib/base/rcu.h"
#include "lib/engine/engine.h"
#include "lib/link/link.h"
#include "lib/ship/feed.h"
#include "tests/common/folder.h"
#include "tests/common/moves.h"
#include "tests/common/unit.h"
#include "tests/lib/link/into.h"

static struct settings settings;
static int log_pipe[2];

static void setup(void)
{
    settings_init(&settings);
    settings.drop_privileges = true;
    ck_assert_int_eq(pipe2(log_pipe, O_CLOEXEC), 0);
}

static void teardown(void)
{
    close(log_pipe[0]);
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

/* Run fn in a child; returns what waitpid() says, and what it wrote to standard error. */
static int in_child(void (*fn)(void), char said[512])
{
    int status;

    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &none);
        (void)dup2(log_pipe[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(log_pipe[1]);
    ssize_t n = read(log_pipe[0], said, 511);
    said[n > 0 ? n : 0] = '\0';
    while (waitpid(child, &status, 0) < 0) {
        ck_assert_int_eq(errno, EINTR);
    }
    return status;
}

static void child_must(bool is_true)
{
    if (!is_true) {
        _exit(99);
    }
}

static bool can_open(const char *path, int how)
{
    int fd = open(path, how | O_CLOEXEC, 0600);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static void install(void)
{
    child_must(filter_install(&settings) == 0);
}

/* ---- what is left ------------------------------------------------------------------------ */

static void serve(void)
{
    char byte = 'x';
    int fds[2];

    install();
    child_must(pipe2(fds, O_CLOEXEC) == 0);
    child_must(write(fds[1], &byte, 1) == 1 && read(fds[0], &byte, 1) == 1);
    child_must(close(fds[0]) == 0 && close(fds[1]) == 0);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    child_must(p != MAP_FAILED && munmap(p, 4096) == 0);
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    child_must(fd >= 0 && close(fd) == 0);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    child_must(fd >= 0 && close(fd) == 0);
    errno = 0; /* a thread that begins late lowers its priority */
    child_must(nice(1) != -1 || errno == 0);
}

static void on_fire(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

static void on_read(uv_poll_t *poll, int status, int events)
{
    child_must(status == 0 && events == UV_READABLE);
    uv_close((uv_handle_t *)poll, NULL);
}

/* A loop is made, and only then confined, as those of the server are. */
static void turn_loop(void)
{
    uv_loop_t loop;
    uv_timer_t timer;
    uv_poll_t poll;
    int fds[2];

    child_must(filter_prepare(&settings) == 0);
    child_must(syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == ENOSYS);
    child_must(uv_loop_init(&loop) == 0);
    install();
    child_must(pipe2(fds, O_CLOEXEC) == 0 && write(fds[1], "x", 1) == 1);
    child_must(uv_timer_init(&loop, &timer) == 0 && uv_timer_start(&timer, on_fire, 1, 0) == 0);
    child_must(uv_poll_init(&loop, &poll, fds[0]) == 0);
    child_must(uv_poll_start(&poll, UV_READABLE, on_read) == 0);
    child_must(uv_run(&loop, UV_RUN_DEFAULT) == 0 && uv_loop_close(&loop) == 0);
}

TEST(a_loop_goes_on_without_rings_of_io_uring)
{
    char said[512];
    int status = in_child(turn_loop, said);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s",
                  (unsigned)status, said);
}

TEST(a_server_can_go_on)
{
    char said[512];
    int status = in_child(serve, said);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s",
                  (unsigned)status, said);
}

/* ---- threads of the engine that sleep until they are asked ------------------------------- */

static bool on_wanted(void *arg)
{
    return true;
}

static void on_key(void *arg, struct span key)
{
}

static void on_item(void *arg, const struct ship_item *it)
{
}

static void on_flush(void *arg)
{
}

static void on_flush_later(void *arg, msec_t at)
{
}

static const struct ship_ops ship_ops = {.item = on_item,
                                         .rest = on_wanted,
                                         .begin = on_wanted,
                                         .complete = on_wanted,
                                         .drop = on_key,
                                         .flush = on_flush,
                                         .flush_later = on_flush_later};

static void feed_all(struct engine *e)
{
    const struct feed_config cfg = {.ops = &ship_ops};
    struct feed_info info;
    struct feed *feed;

    child_must(feed_start(&feed, e, &cfg) == MF_OK);
    do {
        (void)sched_yield();
        feed_info(feed, &info);
    } while (!info.is_complete);
    feed_stop(&feed);
}

static void move_all(struct engine *e)
{
    struct move_plan plan;
    const struct move_config cfg = {.plan = &plan};
    struct move_info info;
    struct move *m;

    move_plan_even(&plan, e, 1);
    child_must(move_start(&m, e, &cfg) == MF_OK);
    do {
        (void)sched_yield();
        move_info(m, &info);
    } while (info.state <= MOVE_RUNS);
    child_must(info.state == MOVE_DONE && info.slots_done == info.slots && info.slots != 0);
    child_must(move_end(&m) == MF_OK);
}

static void use_engine(void)
{
    struct engine_config config;
    struct engine e;

    context_set_thread(THREAD_MAIN, NULL, NULL);
    engine_config_init(&config);
    config.shards = 2;
    child_must(engine_start(&e, &config) == MF_OK);
    install();
    rcu_register();
    for (int i = 0; i < 2; i++) { /* twice: the threads are the same */
        feed_all(&e);
    }
    move_all(&e);
    rcu_unregister();
    engine_stop(&e);
}

TEST(the_engine_feeds_and_moves_without_making_a_thread)
{
    char said[512];
    int status = in_child(use_engine, said);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s",
                  (unsigned)status, said);
}

/* ---- a link to another server ------------------------------------------------------------ */

static int listener;
static char port[8];

static void listen_here(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    snprintf(port, sizeof(port), "%u", ntohs(a.sin_port));
}

/* Connect, and make the listener say a line, and an eventfd end a wait. */
static void talk_to(const char *host)
{
    char why[400];
    int cancel = eventfd(0, EFD_CLOEXEC);
    const struct link_target target = {
        .host = host, .port = port, .timeout_ms = 30000, .cancel = &cancel};
    const uint64_t one = 1;
    struct link *l = link_open(&target, why, sizeof(why));
    struct span line;
    char got[4];

    if (l == NULL) {
        fprintf(stderr, "%s\n", why);
        _exit(97);
    }
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    child_must(peer >= 0 && send(peer, "hello\r\nrest", 11, MSG_NOSIGNAL) == 11);
    child_must(link_send(l, span_of("ping", 4)) == LINK_OK);
    child_must(recv(peer, got, 4, MSG_WAITALL) == 4);
    child_must(link_line(l, &line) == LINK_OK && span_is(line, "hello"));
    child_must(link_into(l, got, 4) == LINK_OK);
    child_must(write(cancel, &one, sizeof(one)) == sizeof(one));
    child_must(link_line(l, &line) == LINK_INTERRUPTED);
    link_close(&l);
    close(peer);
    close(cancel);
}

static void talk_to_all(void)
{
    talk_to("127.0.0.1");
    talk_to("localhost"); /* of /etc/hosts */
}

/* Two addresses: the C library sorts them, and asks the kernel about its own meanwhile. */
static void look_up_both_families(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;

    child_must(getaddrinfo(NULL, port, &hints, &found) == 0);
    child_must(found != NULL && found->ai_next != NULL);
    freeaddrinfo(found);
}

static void link_under_filter(void)
{
#ifdef __GLIBC__
    /* As where nsswitch.conf names a plug-in: to load it would end the process. */
    child_must(__nss_configure_lookup("hosts", "compat files dns") == 0);
#endif
    link_prepare_confined();
    install();
    talk_to_all();
    look_up_both_families();
}

TEST(a_link_can_be_opened_under_the_filter)
{
    char said[512];

    listen_here();
    int status = in_child(link_under_filter, said);
    close(listener);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s",
                  (unsigned)status, said);
}

/* As the server: Landlock first, then the filter. */
static void link_confined(void)
{
    link_prepare_confined();
    landlock_note(&settings);
    landlock_confine(&settings);
    if (!can_open("/bin/sh", O_RDONLY)) { /* this kernel has Landlock */
        child_must(can_open("/etc/hosts", O_RDONLY) && !can_open("/etc/hosts", O_RDWR));
    }
    install();
    talk_to_all();
}

TEST(a_link_can_be_opened_where_files_are_confined)
{
    char said[512];

    listen_here();
    int status = in_child(link_confined, said);
    close(listener);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s",
                  (unsigned)status, said);
}

/* ---- what ends the process --------------------------------------------------------------- */

/* Not by fork(), which blocks signals around the call from glibc 2.41 on. */
static void make_process(void)
{
    install();
    (void)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void run_program(void)
{
    static char *const argv[] = {(char *)(uintptr_t) "true", NULL};

    install();
    (void)execv("/bin/true", argv);
}

static void listen_elsewhere(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

    install();
    (void)bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&a, sizeof(a));
}

static void make_code(void)
{
    install();
    (void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void turn_into_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    install();
    (void)mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static void kill_others(void)
{
    install();
    (void)syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static void raise_limit(void)
{
    const struct rlimit none = {0, 0};

    install();
    (void)setrlimit(RLIMIT_NOFILE, &none);
}

static void catch_the_signal(void)
{
    struct sigaction sa = {.sa_handler = SIG_IGN};

    install();
    (void)sigaction(SIGSYS, &sa, NULL);
}

static void trace(void)
{
    install();
    (void)syscall(SYS_ptrace, 0, 0, 0, 0);
}

TEST_LOOP(anything_else_ends_the_process, 9)
{
    static void (*const attempts[])(void) = {
        make_process, run_program, listen_elsewhere, make_code, turn_into_code,
        kill_others,  raise_limit, catch_the_signal, trace,
    };
    char said[512];
    int status = in_child(attempts[_i], said);

    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "status %x",
                  (unsigned)status);
    ck_assert_ptr_nonnull(strstr(said, "ended by -o drop_privileges (system call "));
}

static void fork_with_signals_blocked(void)
{
    sigset_t all;

    install();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)fork();
}

/* The handler cannot run, so there is no line: the kernel ends the process all the same. */
TEST(a_blocked_signal_does_not_save_the_process)
{
    char said[512];
    int status = in_child(fork_with_signals_blocked, said);

    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "status %x",
                  (unsigned)status);
}

/* ---- threads that were there ------------------------------------------------------------- */

static sem_t go;

static void *wait_and_trace(void *arg)
{
    sigset_t all;

    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (sem_wait(&go) != 0) {
    }
    (void)syscall(SYS_ptrace, 0, 0, 0, 0);
    return NULL;
}

static void trace_by_another_thread(void)
{
    pthread_t thread;

    child_must(sem_init(&go, 0, 0) == 0);
    child_must(pthread_create(&thread, NULL, wait_and_trace, NULL) == 0);
    install();
    sem_post(&go);
    pthread_join(thread, NULL);
}

TEST(threads_that_run_are_confined_too)
{
    char said[512];
    int status = in_child(trace_by_another_thread, said);

    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "status %x",
                  (unsigned)status);
    ck_assert_ptr_nonnull(strstr(said, "system call "));
}

/* ---- files ------------------------------------------------------------------------------- */

/* Each in a folder of its own: that is what is noted. */
static const char *const of_link[] = {"password/file", "authority/file", "certificate/file",
                                      "key/file"};
#define OF_LINK (sizeof(of_link) / sizeof(of_link[0]))

static void name_files_of_link(char paths[OF_LINK][128])
{
    struct live_text *const texts[OF_LINK] = {
        &settings.replica_password_file, &settings.replica_tls_ca_cert,
        &settings.replica_tls_cert, &settings.replica_tls_key};

    for (size_t i = 0; i < OF_LINK; i++) {
        snprintf(paths[i], 128, "%s/%s", folder, of_link[i]);
        live_text_set(texts[i], paths[i]);
    }
}

static void confine_files(void)
{
    char name[128];
    char paths[OF_LINK][128];

    name_files_of_link(paths);
    snprintf(name, sizeof(name), "%s/users", folder);
    settings.auth_file = name;
    snprintf(folder + strlen(folder), 8, "/run");
    char pidfile[128];
    snprintf(pidfile, sizeof(pidfile), "%s/pid", folder);
    settings.pidfile = pidfile;
    child_must(can_open("/bin/sh", O_RDONLY));
    landlock_note(&settings);
    landlock_confine(&settings);
    if (can_open("/bin/sh", O_RDONLY)) {
        _exit(98); /* this kernel has no Landlock */
    }
    child_must(can_open(name, O_RDONLY) && !can_open(name, O_WRONLY));
    for (size_t i = 0; i < OF_LINK; i++) {
        child_must(can_open(paths[i], O_RDONLY) && !can_open(paths[i], O_WRONLY));
    }
    child_must(access("/etc/ssl/certs/ca-certificates.crt", R_OK) != 0 ||
               can_open("/etc/ssl/certs/ca-certificates.crt", O_RDONLY));
    child_must(can_open(pidfile, O_WRONLY) && unlink(pidfile) == 0);
    child_must(!can_open(pidfile, O_WRONLY | O_CREAT));
    child_must(can_open("/proc/self/statm", O_RDONLY) && can_open("/dev/null", O_RDWR));
    child_must(!can_open("/etc/passwd", O_RDONLY));
}

TEST(files_that_are_not_needed_are_out_of_reach)
{
    char said[512];

    folder_make();
    folder_put("users", "");
    folder_put("run/pid", "");
    for (size_t i = 0; i < OF_LINK; i++) {
        folder_put(of_link[i], "");
    }
    int status = in_child(confine_files, said);
    folder_remove();
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 98),
                  "status %x: %s", (unsigned)status, said);
}
