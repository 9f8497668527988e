/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_edit: the whole new content or the old file, and nothing beside it.
 */
#include "daemon/base/file.h"

#include <dirent.h>
#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/common/folder.h"
#include "tests/common/unit.h"

static char path[128];
static char why[256];

static void write_file(const char *text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void setup(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/file", folder);
    write_file("old\n");
    why[0] = '\0';
}

/* No other file is left. */
static void teardown(void)
{
    folder_remove_with("file");
}

TEST_FIXTURE(setup, teardown)

static struct file_edit edit_of(const char *old, const char *text)
{
    return (struct file_edit){path, span_str(old), span_str(text), NULL};
}

static bool prepare(struct file_edit *e)
{
    return file_edit_prepare(e, why, sizeof(why));
}

static bool edit(const char *old, const char *text)
{
    struct file_edit e = edit_of(old, text);

    return prepare(&e) && file_edit_commit(&e, why, sizeof(why));
}

static void has(const char *wanted)
{
    char text[64] = "";
    FILE *f = fopen(path, "re");

    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    ck_assert_str_eq(text, wanted);
}

TEST(a_file_gets_its_new_content_and_keeps_its_mode)
{
    struct stat st;

    ck_assert_int_eq(chmod(path, 0647), 0);
    ck_assert_msg(edit("old\n", "new\n"), "%s", why);
    has("new\n");
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0647);
    ck_assert(edit("new\n", ""));
    has("");
}

TEST(it_changes_at_the_commit)
{
    struct file_edit e = edit_of("old\n", "new\n");

    ck_assert(prepare(&e));
    has("old\n");
    file_edit_discard(&e);
    file_edit_discard(&e);
    has("old\n");
}

TEST(a_file_that_has_changed_stays)
{
    static const char *const others[] = {"", "old", "old\nx", "new\n"};

    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        write_file(others[i]);
        ck_assert(!edit("old\n", "new\n"));
        ck_assert_ptr_nonnull(strstr(why, "it has changed meanwhile"));
        ck_assert_ptr_nonnull(strstr(why, path));
        has(others[i]);
    }
}

TEST(what_is_no_file_stays)
{
    char other[140];

    snprintf(other, sizeof(other), "%s.x", path);
    ck_assert_int_eq(rename(path, other), 0);
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert(!edit("old\n", "new\n"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!edit("old\n", "new\n"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(!edit("old\n", "new\n"));
    ck_assert_ptr_nonnull(strstr(why, "No such file"));
    ck_assert_int_eq(rename(other, path), 0);
    has("old\n");
}

/* A write fails in the middle, as on a disk that is full. */
TEST(a_write_that_fails_leaves_the_old_file)
{
    static char text[100000];
    struct rlimit before;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

    memset(text, 'x', sizeof(text) - 1);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit few = before;
    few.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
    const bool is_done = edit("old\n", text);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    ck_assert(!is_done);
    ck_assert_ptr_nonnull(strstr(why, "File too large"));
    has("old\n");
}

/* Run in a process of another user; its exit status. */
static int as_nobody(int (*fn)(void))
{
    const struct passwd *pw = getpwnam("nobody");
    const pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(pw != NULL && setgid(pw->pw_gid) == 0 && setuid(pw->pw_uid) == 0 ? fn() : 77);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_refused(const char *reason)
{
    if (edit("old\n", "new\n")) {
        return 1;
    }
    return strstr(why, reason) != NULL ? 0 : 2;
}

static int may_not_write(void)
{
    return is_refused("may not write");
}

static int finds_no_room_beside(void)
{
    return is_refused("cannot make a file beside");
}

static int cannot_keep_the_owner(void)
{
    return is_refused("cannot keep the owner");
}

static int edits(void)
{
    return edit("old\n", "new\n") ? 0 : 1;
}

TEST(rights_are_those_of_the_process)
{
    const struct passwd *pw = getpwnam("nobody");
    struct stat st;

    if (geteuid() != 0 || pw == NULL) {
        return; /* nobody else can be become */
    }
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(as_nobody(may_not_write), 0);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(as_nobody(cannot_keep_the_owner), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(as_nobody(finds_no_room_beside), 0);
    has("old\n");

    ck_assert_int_eq(chown(path, pw->pw_uid, pw->pw_gid), 0);
    ck_assert_int_eq(chmod(path, 0444), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(as_nobody(may_not_write), 0); /* although it could be replaced */
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(as_nobody(edits), 0);
    has("new\n");

    /* Root keeps the owner. */
    ck_assert(edit("new\n", "newer\n"));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_uid, pw->pw_uid);
    ck_assert_uint_eq(st.st_gid, pw->pw_gid);
    ck_assert_uint_eq(st.st_mode & 07777, 0640);
}
