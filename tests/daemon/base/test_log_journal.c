/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_journal: what a journal gets, which is a socket of the test.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/base/log.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static struct sockaddr_un address;
static int journal;
static int saved_stderr;
static FILE *file;

static void listen_as_journal(void)
{
    journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(journal, 0);
    ck_assert_int_eq(bind(journal, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static void setup(void)
{
    folder_make();
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
    listen_as_journal();
    file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    ck_assert(log_init(NULL, address.sun_path));
}

static void teardown(void)
{
    log_init(NULL, "stderr");
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    fclose(file);
    close(journal);
    folder_remove();
}

TEST_FIXTURE(setup, teardown)

/* The next message; it waits for it. */
static const char *heard(void)
{
    static char text[4096];
    ssize_t n = recv(journal, text, sizeof(text) - 1, 0);

    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    return text;
}

static void must_have(const char *text, const char *line)
{
    char whole[256];

    snprintf(whole, sizeof(whole), "\n%s\n", line);
    ck_assert_msg(strncmp(text, line, strlen(line)) == 0 || strstr(text, whole) != NULL,
                  "\"%s\" is not in \"%s\"", line, text);
}

static const char *said_to_stderr(void)
{
    static char text[4096];
    ssize_t n = pread(fileno(file), text, sizeof(text) - 1, 0);

    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

TEST(a_message_has_fields)
{
    const struct log_about about = {.peer = "192.0.2.1", .user = "somebody"};

    log_warn("thing, number %d went wrong", 7);
    const char *text = heard();
    must_have(text, "PRIORITY=4");
    must_have(text, "SYSLOG_IDENTIFIER=mayflyd");
    must_have(text, "MAYFLY_AREA=thing");
    must_have(text, "MESSAGE=thing, number 7 went wrong");
    ck_assert_ptr_nonnull(strstr(text, "\nMAYFLY_THREAD="));
    ck_assert_ptr_null(strstr(text, "MAYFLY_PEER"));
    ck_assert_int_eq(text[strlen(text) - 1], '\n');

    log_warn_about(&about, "auth, it guesses");
    text = heard();
    must_have(text, "MAYFLY_PEER=192.0.2.1");
    must_have(text, "MAYFLY_USER=somebody");
    must_have(text, "MESSAGE=auth, it guesses");
    log_error("no area");
    text = heard();
    must_have(text, "PRIORITY=3");
    ck_assert_ptr_null(strstr(text, "MAYFLY_AREA"));
    ck_assert_str_eq(said_to_stderr(), "");
}

/* Whatever is in it, a message is one message, and of a length that is taken. */
TEST(nobody_adds_fields)
{
    const struct log_about about = {.peer = "x\nPRIORITY=0", .user = NULL};
    char longer[3000];

    log_warn_about(&about, "%s", "a\nMESSAGE=b");
    const char *text = heard();
    must_have(text, "MAYFLY_PEER=x?PRIORITY=0");
    must_have(text, "MESSAGE=a?MESSAGE=b");
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    log_warn("%s", longer);
    text = heard();
    ck_assert_uint_le(strlen(text), 1024);
    ck_assert_ptr_nonnull(strstr(text, "xxx...\n"));
}

TEST(the_thread_writes_to_it_too)
{
    ck_assert(log_start());
    log_notice("thing, is said by a thread");
    must_have(heard(), "MESSAGE=thing, is said by a thread");
    log_stop();
}

/* A journal that is full is waited for by the log's thread, and by nobody else. */
TEST(a_journal_that_is_full_is_waited_for)
{
    const char *text;
    unsigned n = 0;

    ck_assert(log_start());
    for (unsigned i = 0; i < 60; i++) {
        log_notice("thing, number %u", i);
    }
    do {
        text = heard();
        n++;
    } while (strstr(text, "MESSAGE=thing, number 59\n") == NULL);
    ck_assert_uint_eq(n, 60);
    log_stop();
}

TEST(a_journal_that_is_gone_is_replaced_by_standard_error)
{
    close(journal);
    unlink(address.sun_path);
    log_warn("thing, is said aloud");
    ck_assert_str_eq(said_to_stderr(), "<4>thing, is said aloud\n");
    /* And it is used again when it is back. */
    listen_as_journal();
    log_warn("thing, is written down");
    must_have(heard(), "MESSAGE=thing, is written down");
    ck_assert_str_eq(said_to_stderr(), "<4>thing, is said aloud\n");
}

TEST(without_a_journal_nothing_is_lost)
{
    ck_assert(!log_init(NULL, "/nonexistent/socket"));
    log_warn("thing, is said aloud");
    ck_assert_ptr_nonnull(strstr(said_to_stderr(), "warn: thing, is said aloud\n"));
    ck_assert(log_init(NULL, NULL));
}
