/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file: an existing file at the path, and the owner of its folder, never matter.
 */
#include "daemon/base/file.h"

#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "lib/base/mem.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static char path[128];
static char other[128];
static struct file_id id;

static void setup(void)
{
    folder_make();
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
}

/* Nothing is left beside the two files that tests use. */
static void teardown(void)
{
    (void)unlink(other);
    folder_remove_with("file");
}

TEST_FIXTURE(setup, teardown)

static bool replace(const char *text)
{
    return file_replace(path, span_str(text), 0644, &id);
}

static void write_other(const char *text)
{
    FILE *f = fopen(other, "we");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static const char *content_of(const char *name)
{
    static char text[64];

    return file_read_start(name, text, sizeof(text)) >= 0 ? text : NULL;
}

TEST(a_file_is_made_with_content_and_mode)
{
    struct stat st;
    mode_t mask = umask(0027);

    ck_assert(replace("1\n"));
    umask(mask);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0640);
    ck_assert(st.st_dev == id.dev && st.st_ino == id.ino);
    ck_assert_str_eq(content_of(path), "1\n");
    ck_assert(replace("2\n"));
    ck_assert_str_eq(content_of(path), "2\n");
}

TEST(a_link_is_replaced_and_not_followed)
{
    struct stat st;

    write_other("precious");
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_ptr_null(content_of(path));
    ck_assert(replace("1\n"));
    ck_assert_str_eq(content_of(other), "precious");
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));

    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(link(other, path), 0);
    ck_assert(replace("2\n"));
    ck_assert_str_eq(content_of(other), "precious");
}

TEST(a_fifo_is_replaced_and_not_waited_for)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_ptr_null(content_of(path));
    ck_assert(replace("1\n"));
    ck_assert_str_eq(content_of(path), "1\n");
}

TEST(a_device_is_not_replaced)
{
    struct stat st;

    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) != 0) {
        ck_assert_int_eq(errno, EPERM); /* only root makes devices */
        return;
    }
    ck_assert(!replace("1\n"));
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISCHR(st.st_mode));
}

TEST(nothing_is_left_of_a_failure)
{
    char longer[PATH_MAX + 10];

    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert(!replace("1\n")); /* a folder cannot be replaced */
    ck_assert_int_eq(rmdir(path), 0);

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    ck_assert(!file_replace(longer, span_str("1"), 0644, &id));
    ck_assert_int_eq(errno, ENAMETOOLONG);
    ck_assert(!file_replace("/nonexistent/file", span_str("1"), 0644, &id));
    ck_assert_int_eq(errno, ENOENT);
}

TEST(the_start_of_a_long_file_is_read)
{
    char text[4];

    write_other("123456");
    ck_assert_int_eq(file_read_start(other, text, sizeof(text)), 3);
    ck_assert_str_eq(text, "123");
    ck_assert_int_eq(file_read_start("/dev/null", text, sizeof(text)), -1);
    ck_assert_int_eq(file_read_start("/nonexistent", text, sizeof(text)), -1);
}

/* What went wrong, or the content. */
static const char *whole(const char *name, size_t max)
{
    static char text[64];
    struct file_text got;
    const char *why = file_read_all(name, max, &got);

    if (why == NULL) {
        ck_assert_uint_lt(got.len, sizeof(text));
        snprintf(text, sizeof(text), "%.*s", (int)got.len, got.bytes);
        why = text;
    }
    mem_free(got.bytes);
    return why;
}

TEST(a_whole_file_is_read_and_nothing_else)
{
    write_other("123456");
    ck_assert_str_eq(whole(other, 6), "123456");
    ck_assert_str_eq(whole(other, 5), "too large");
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_str_eq(whole(path, 6), "123456");
    ck_assert_int_eq(truncate(other, 0), 0);
    ck_assert_str_eq(whole(other, 6), "");
    ck_assert_int_eq(truncate(other, (off_t)1 << 40), 0);
    ck_assert_str_eq(whole(other, 1 << 20), "too large");
    ck_assert_int_eq(unlink(path), 0);

    ck_assert_str_eq(whole(path, 6), "No such file or directory");
    ck_assert_str_eq(whole(folder, 6), "not a regular file");
    ck_assert_str_eq(whole("/dev/zero", 6), "not a regular file");
    ck_assert(!file_is_special(path));
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_str_eq(whole(path, 6), "not a regular file");
    ck_assert(file_is_special(path) && !file_is_special(other));
}

TEST(only_the_file_that_was_made_is_removed)
{
    ck_assert(replace("1\n"));
    ck_assert(file_remove(path, &id));
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert(file_remove(path, &id));

    ck_assert(replace("1\n"));
    write_other("of another server");
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert(file_remove(path, &id));
    ck_assert_str_eq(content_of(path), "of another server");
}

/* A file of nobody in a folder of root. */
static int remove_as_nobody(const struct passwd *pw)
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) == 0 && file_remove(path, &id) ? 0
                                                                                           : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(a_file_that_cannot_be_removed_is_emptied)
{
    const struct passwd *pw = getpwnam("nobody");

    if (geteuid() != 0 || pw == NULL) {
        return; /* only root can give a file away */
    }
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert(file_replace(path, span_str("1\n"), 0644, &id));
    ck_assert_int_eq(chown(path, pw->pw_uid, pw->pw_gid), 0);
    ck_assert_int_eq(remove_as_nobody(pw), 0);
    ck_assert_str_eq(content_of(path), "");
    ck_assert(file_replace(path, span_str("1\n"), 0644, &id));
    ck_assert_int_ne(remove_as_nobody(pw), 0);
    ck_assert_str_eq(content_of(path), "1\n");
}
