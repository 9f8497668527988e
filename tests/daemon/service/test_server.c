/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: what an engine before it has left half done is finished. All else of it is shown by
 * the scripts of tests/it/.
 */
#include "daemon/service/server.h"

#include "daemon/options/options.h"
#include "lib/engine/attach.h"
#include "lib/reshard/reshard.h"
#include "tests/common/folder.h"
#include "tests/lib/fixture.h"

#define KEYS 300u

static char file[96], path[96];

/* Items in a file, half of whose slots are on their way from one shard to the other. */
static void leave_half_done(void)
{
    static struct attach a;
    struct engine_config cfg;
    struct fixture f;

    fixture_config(&cfg);
    cfg.shards = 2;
    cfg.limit_bytes = 64 * MIB;
    cfg.attach = &a;
    ck_assert_msg(attach_open(&a, file), "%s", a.why);
    fixture_start_threaded(&f, &cfg);
    for (unsigned i = 0; i < KEYS; i++) {
        fixture_set(&f, fixture_key("k", i), 100);
    }
    fixture_begin_move(&f);
    fixture_stop(&f);
    attach_close(&a);
}

static void parse(struct settings *out)
{
    static char memory[] = "--memory-file", socket[] = "-s", user[] = "-u", root[] = "root",
                program[] = "mayflyd", threads[] = "-t", two[] = "2", quiet[] = "-m",
                megabytes[] = "64";
    char *argv[] = {program, memory,  file, socket, path,      user,
                    root,    threads, two,  quiet,  megabytes, NULL};
    int status;

    ck_assert_int_eq(options_parse(11, argv, out, &status), OPTIONS_RUN);
}

TEST(a_move_that_was_left_is_finished)
{
    static struct server s;
    struct settings settings;
    struct reshard_info info;
    sigset_t before, pending;

    (void)sigprocmask(SIG_BLOCK, NULL, &before);
    folder_make();
    snprintf(file, sizeof(file), "%s/memory", folder);
    snprintf(path, sizeof(path), "%s/socket", folder);
    leave_half_done();

    parse(&settings);
    ck_assert_int_eq(server_start(&s, &settings), 0);
    ck_assert_int_eq(s.crew.attach.state, ATTACH_WARM);
    ck_assert_uint_eq(s.crew.attach.items, KEYS);
    do {
        (void)usleep(1000);
        engine_reshard_info(&s.crew.engine, &info);
    } while (info.state != RESHARD_IDLE);
    /* Those on their way arrive, and then as many go back, so that each shard has half. */
    ck_assert_uint_eq(info.slots_done, ROUTE_SLOTS);
    server_stop(&s);
    settings_fini(&settings);

    parse(&settings);
    ck_assert_int_eq(server_start(&s, &settings), 0);
    ck_assert_uint_eq(s.crew.attach.items, KEYS);
    do {
        (void)usleep(1000);
        engine_reshard_info(&s.crew.engine, &info);
    } while (info.state != RESHARD_IDLE);
    ck_assert_uint_eq(info.slots_done, 0);
    notice_post(&s.crew.cancelled,
                &s.crew.main_mailbox); /* it is read after the engine's end */
    server_stop(&s);
    (void)raise(SIGHUP); /* as one that comes while the process ends: it is not killed by it */
    (void)sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGHUP), 1);
    (void)signal(SIGHUP, SIG_IGN); /* which discards it */
    (void)signal(SIGHUP, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    settings_fini(&settings);
    folder_remove();
}

/* It releases what it has acquired, and nothing else. */
TEST(a_failed_start_leaves_descriptor_0_open)
{
    static struct server s;
    struct settings settings;
    sigset_t before;

    (void)sigprocmask(SIG_BLOCK, NULL, &before);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(dup2(null, STDIN_FILENO), STDIN_FILENO);
    snprintf(file, sizeof(file), "/nonexistent/memory");
    snprintf(path, sizeof(path), "/nonexistent/socket");
    parse(&settings);
    ck_assert_int_ne(server_start(&s, &settings), 0);
    ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    settings_fini(&settings);
    close(null);
}
