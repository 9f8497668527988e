/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * privs: each test runs in a child, because most of these calls cannot be undone.
 */
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "daemon/options/options.h"
#include "daemon/options/options_value.h"
#include "daemon/service/privs.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

/* A child exits with a status made from the line number, so that a failure shows where. */
#define child_must(x)                                                                          \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            _exit(__LINE__ % 190 + 66);                                                        \
        }                                                                                      \
    } while (0)

static struct settings settings;

static void set_text(enum option_id id, const char *value)
{
    char why[OPTION_TEXT_BYTES];

    ck_assert_msg(option_set(&settings, id, value, OPTION_COMMAND_LINE, why), "%s", why);
}

static void setup(void)
{
    folder_make();
    settings_init(&settings);
}

static void teardown(void)
{
    settings_fini(&settings);
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST_FIXTURE(setup, teardown)

/* Run fn in a child whose standard error is closed; returns its exit status. */
static int in_child(void (*fn)(void))
{
    int status;

    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        fn();
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0) {
        ck_assert_int_eq(errno, EINTR);
    }
    ck_assert_msg(WIFEXITED(status), "killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static bool is_null(int fd)
{
    struct stat st;
    struct stat null;

    return fstat(fd, &st) == 0 && stat("/dev/null", &null) == 0 && st.st_rdev == null.st_rdev;
}

static void close_and_open(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    child_must(privs_open_std_fds() == 0);
    child_must(is_null(0) && is_null(1) && is_null(2));
    child_must(open("/dev/null", O_RDONLY | O_CLOEXEC) > 2);
}

static void close_one_and_open(void)
{
    int fds[2];

    child_must(pipe(fds) == 0);
    dup2(fds[1], STDOUT_FILENO);
    close(STDERR_FILENO);
    child_must(privs_open_std_fds() == 0);
    child_must(is_null(2));
    child_must(!is_null(1));
}

TEST(closed_standard_descriptors_become_null)
{
    ck_assert_int_eq(in_child(close_and_open), 0);
    ck_assert_int_eq(in_child(close_one_and_open), 0);
}

static void expect_status_of_root(void)
{
    _exit(privs_check_user(&settings));
}

TEST(root_has_to_say_who_to_be)
{
    const bool is_root = geteuid() == 0;

    ck_assert_int_eq(in_child(expect_status_of_root), is_root ? EX_USAGE : 0);
    set_text(OPTION_user, "no-such-user-here");
    ck_assert_int_eq(in_child(expect_status_of_root), is_root ? EX_NOUSER : 0);
    set_text(OPTION_user, "nobody");
    ck_assert_int_eq(in_child(expect_status_of_root), 0);
}

/* The value in a line of /proc/self/status. */
static void read_status(const char *name, char *value, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    child_must(f != NULL);
    value[0] = '\0';
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            snprintf(value, size, "%s",
                     line + strlen(name) + 1 + strspn(line + strlen(name) + 1, "\t "));
        }
    }
    fclose(f);
}

static void drop_and_look(void)
{
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    const struct passwd *pw = getpwnam("nobody");
    const gid_t groups[] = {0, 1, 2};
    char value[256];
    uid_t ids[3];
    gid_t gids[3];

    child_must(pw != NULL);
    child_must(setgroups(3, groups) == 0);
    child_must(privs_drop(&settings) == 0);
    child_must(getresuid(&ids[0], &ids[1], &ids[2]) == 0);
    child_must(getresgid(&gids[0], &gids[1], &gids[2]) == 0);
    for (int i = 0; i < 3; i++) {
        child_must(ids[i] == pw->pw_uid && gids[i] == pw->pw_gid);
    }
    child_must(getgroups(0, NULL) == 0);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        read_status(sets[i], value, sizeof(value));
        child_must(strspn(value, "0") == 16);
    }
    read_status("NoNewPrivs", value, sizeof(value));
    child_must(value[0] == '1');
    child_must(setuid(0) != 0 && setgid(0) != 0);
}

static void drop_to_root(void)
{
    child_must(privs_drop(&settings) == 0);
    child_must(geteuid() == 0);
}

TEST(all_ids_groups_and_capabilities_go)
{
    if (geteuid() != 0) {
        return; /* only root has something to give up */
    }
    set_text(OPTION_user, "nobody");
    ck_assert_int_eq(in_child(drop_and_look), 0);
    set_text(OPTION_user, "root");
    ck_assert_int_eq(in_child(drop_to_root), 0);
}

static void drop_twice(void)
{
    child_must(privs_drop(&settings) == 0);
    child_must(privs_drop(&settings) == 0);
}

TEST(an_ordinary_user_may_drop_nothing)
{
    set_text(OPTION_user, "nobody");
    ck_assert_int_eq(in_child(drop_twice), 0);
}

static void raise_limits(void)
{
    struct rlimit limit = {16, 0};
    struct rlimit after;

    child_must(getrlimit(RLIMIT_NOFILE, &after) == 0);
    limit.rlim_max = after.rlim_max;
    child_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    child_must(privs_set_limits(&settings) == 0);
    child_must(getrlimit(RLIMIT_NOFILE, &after) == 0);
    child_must(after.rlim_cur > settings.conn_limit);
}

/* The hard limit leaves room for the clients only, or not even for them. */
static void raise_to_bound(void)
{
    struct rlimit limit = {16, 200};
    struct rlimit after;

    child_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (geteuid() == 0) {
        child_must(setresuid(65534, 65534, 65534) == 0);
    }
    settings.conn_limit = 200;
    child_must(privs_set_limits(&settings) == 0);
    child_must(getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == 200);
    settings.conn_limit = 201;
    child_must(privs_set_limits(&settings) == EX_OSERR);
}

TEST(descriptors_are_enough_for_the_connections)
{
    settings.conn_limit = 100;
    ck_assert_int_eq(in_child(raise_limits), 0);
    ck_assert_int_eq(in_child(raise_to_bound), 0);
}

static bool is_dumpable(void)
{
    return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
}

static void forbid_cores(void)
{
    struct rlimit limit;

    child_must(privs_set_limits(&settings) == 0);
    child_must(!is_dumpable());
    child_must(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as a change of ids may do */
    child_must(privs_drop(&settings) == 0);
    child_must(!is_dumpable());
}

static void allow_cores(void)
{
    struct rlimit limit;

    settings.coredumps = true;
    child_must(privs_set_limits(&settings) == 0);
    child_must(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur > 0);
    child_must(privs_drop(&settings) == 0);
    child_must(is_dumpable());
}

TEST(core_files_only_if_asked_for)
{
    struct rlimit limit;

    set_text(OPTION_user, "nobody");
    ck_assert_int_eq(in_child(forbid_cores), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_CORE, &limit), 0);
    if (limit.rlim_max > 0 || geteuid() == 0) {
        ck_assert_int_eq(in_child(allow_cores), 0);
    }
    set_text(OPTION_user, "root");
    ck_assert_int_eq(in_child(forbid_cores), 0);
}

static void write_to_closed_pipe(void)
{
    int fds[2];

    privs_ignore_signals(&settings);
    child_must(pipe(fds) == 0);
    close(fds[0]);
    child_must(write(fds[1], "x", 1) == -1 && errno == EPIPE);
}

TEST(sigpipe_is_ignored)
{
    ck_assert_int_eq(in_child(write_to_closed_pipe), 0);
}

static void lock_or_warn(void)
{
    settings.lock_memory = true;
    child_must(privs_lock_memory(&settings) == 0);
    /* Locked or not, address space can still be reserved. */
    child_must(malloc(64u << 20) != NULL);
}

TEST(locking_memory_never_ends_the_start)
{
    ck_assert_int_eq(in_child(lock_or_warn), 0);
}

/* The number in the pid file, 0 when there is none. */
static long pid_in_file(void)
{
    char line[32] = "0";
    FILE *f = fopen(settings.pidfile, "re");

    if (f != NULL) {
        line[fread(line, 1, sizeof(line) - 1, f)] = '\0';
        fclose(f);
    }
    return strtol(line, NULL, 10);
}

static void write_and_remove(void)
{
    privs_write_pidfile(&settings);
    child_must(pid_in_file() == (long)getpid());
    privs_remove_pidfile(&settings);
    child_must(access(settings.pidfile, F_OK) != 0);
    privs_remove_pidfile(&settings);
}

static void write_drop_remove(void)
{
    struct stat st;

    privs_write_pidfile(&settings);
    child_must(pid_in_file() == (long)getpid());
    child_must(privs_drop(&settings) == 0);
    child_must(stat(settings.pidfile, &st) == 0 && st.st_uid == 0);
    child_must(open(settings.pidfile, O_WRONLY | O_CLOEXEC) < 0);
    privs_remove_pidfile(&settings);
    child_must(pid_in_file() == (long)getpid());
}

TEST(the_pid_file_lives_as_long_as_the_server)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/pid", folder);
    set_text(OPTION_pidfile, path);
    ck_assert_int_eq(in_child(write_and_remove), 0);

    /* One that was left by a crash is replaced. */
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fputs("999999999\n", f);
    fclose(f);
    ck_assert_int_eq(in_child(write_and_remove), 0);

    /* In a folder of root it stays root's: the server must not choose what root kills. */
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(folder, 0755), 0);
        set_text(OPTION_user, "nobody");
        ck_assert_int_eq(in_child(write_drop_remove), 0);
        ck_assert_int_eq(unlink(path), 0);
    }
}

/* As the owner of the folder may do when the server starts as root. */
TEST(a_pid_file_follows_no_link_and_waits_for_no_fifo)
{
    char path[128];
    char precious[128];

    snprintf(path, sizeof(path), "%s/pid", folder);
    snprintf(precious, sizeof(precious), "%s/precious", folder);
    set_text(OPTION_pidfile, path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(in_child(write_and_remove), 0);
    ck_assert_int_eq(symlink(precious, path), 0);
    ck_assert_int_eq(in_child(write_and_remove), 0);
    ck_assert_int_ne(access(precious, F_OK), 0);
}

static void replace_and_remove(void)
{
    char other[PATH_MAX];

    privs_write_pidfile(&settings);
    snprintf(other, sizeof(other), "%s.other", settings.pidfile);
    FILE *f = fopen(other, "we");
    child_must(f != NULL && fputs("1\n", f) >= 0 && fclose(f) == 0);
    child_must(rename(other, settings.pidfile) == 0);
    privs_remove_pidfile(&settings);
    child_must(pid_in_file() == 1);
}

TEST(the_pid_file_of_another_server_stays)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/pid", folder);
    set_text(OPTION_pidfile, path);
    ck_assert_int_eq(in_child(replace_and_remove), 0);
    ck_assert_int_eq(unlink(path), 0);
}

static void write_nowhere(void)
{
    privs_write_pidfile(&settings);
    privs_remove_pidfile(&settings);
}

TEST(a_pid_file_that_cannot_be_written_is_only_a_message)
{
    char longer[PATH_MAX + 10];

    set_text(OPTION_pidfile, "/nonexistent/pid");
    ck_assert_int_eq(in_child(write_nowhere), 0);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    set_text(OPTION_pidfile, longer);
    ck_assert_int_eq(in_child(write_nowhere), 0);
}

/* The server of these tests fails at start, is killed, or serves until its pipe is closed. */
static int serve_fds[2];

static void fail_in_background(void)
{
    child_must(privs_daemonize(&settings) == 0);
    _exit(EX_OSERR);
}

static void exit_unready_in_background(void)
{
    child_must(privs_daemonize(&settings) == 0);
    _exit(0);
}

static void die_in_background(void)
{
    child_must(privs_daemonize(&settings) == 0);
    raise(SIGKILL);
}

static void serve_in_background(void)
{
    char report[2] = {'?', '?'};
    char cwd[PATH_MAX];

    close(serve_fds[0]);
    child_must(privs_daemonize(&settings) == 0);
    child_must(getsid(0) == getpid());
    privs_ready(&settings);
    report[0] = is_null(0) && is_null(1) && is_null(2) ? 'n' : '?';
    report[1] = getcwd(cwd, sizeof(cwd)) != NULL && strcmp(cwd, "/") == 0 ? '/' : '?';
    child_must(write(serve_fds[1], report, sizeof(report)) == sizeof(report));
}

TEST(the_parent_ends_as_the_server_starts)
{
    char report[3] = "";

    settings.daemonize = true;
    ck_assert_int_eq(in_child(fail_in_background), EX_OSERR);
    ck_assert_int_eq(in_child(exit_unready_in_background), EX_OSERR);
    ck_assert_int_eq(in_child(die_in_background), EX_OSERR);

    ck_assert_int_eq(pipe(serve_fds), 0);
    ck_assert_int_eq(in_child(serve_in_background), 0);
    close(serve_fds[1]);
    size_t n = 0;
    ssize_t got;
    while (n < 2 && (got = read(serve_fds[0], report + n, 2 - n)) > 0) {
        n += (size_t)got;
    }
    ck_assert_str_eq(report, "n/");
    /* The end of the pipe is the end of the server. */
    ck_assert_int_eq(read(serve_fds[0], report, 1), 0);
    close(serve_fds[0]);
}

static void stay_in_foreground(void)
{
    const pid_t before = getpid();

    child_must(privs_daemonize(&settings) == 0);
    child_must(getpid() == before);
    privs_ready(&settings);
}

TEST(without_d_there_is_no_background)
{
    ck_assert_int_eq(in_child(stay_in_foreground), 0);
}
