/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conf_file: what a file and its includes make of the settings, where each value came from, and
 * what is refused, with file and line.
 */
#include "daemon/options/conf_file.h"

#include <sys/stat.h>

#include "daemon/options/options.h"
#include "daemon/options/options_value.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static struct settings s;
static char errors[16384]; /* what was printed, without the folder */

static void setup(void)
{
    folder_make();
    settings_init(&s);
}

static void teardown(void)
{
    settings_fini(&s);
    folder_remove();
}

TEST_FIXTURE(setup, teardown)

static const char *in_dir(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *name, const void *bytes, size_t len)
{
    FILE *f = fopen(in_dir(name), "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static void make_folder(const char *name)
{
    ck_assert_int_eq(mkdir(in_dir(name), 0700), 0);
}

/* Take the folder's name out of the messages, so that tests can tell what they are. */
static void drop_dir(void)
{
    const size_t len = strlen(folder) + 1;

    for (char *at = strstr(errors, folder); at != NULL; at = strstr(at, folder)) {
        memmove(at, at + len, strlen(at + len) + 1);
    }
}

static int run(int (*read_it)(struct settings *, const char *), const char *name)
{
    FILE *sink = tmpfile();

    ck_assert_ptr_nonnull(sink);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(sink), STDERR_FILENO);
    int status = read_it(&s, in_dir(name));
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(sink);
    errors[fread(errors, 1, sizeof(errors) - 1, sink)] = '\0';
    fclose(sink);
    drop_dir();
    return status;
}

static int read_conf(struct settings *out, const char *path)
{
    return conf_read(out, path, NULL);
}

static void reads(const char *name)
{
    int status = run(read_conf, name);

    ck_assert_msg(status == 0, "%d: %s", status, errors);
    ck_assert_str_eq(errors, "");
}

static void refuses(const char *name, int status, const char *message)
{
    ck_assert_int_eq(run(read_conf, name), status);
    ck_assert_str_eq(errors, message);
}

static void is_from(enum option_id id, const char *where)
{
    char text[OPTION_WHERE_BYTES];
    const char *got = option_where(&s, id, text);

    got = strncmp(got, folder, strlen(folder)) == 0 ? got + strlen(folder) + 1 : got;
    ck_assert_msg(strcmp(got, where) == 0, "%s is from %s", option_rows[id].name, got);
}

TEST(values_are_set_with_their_place)
{
    write_text("a.conf", "# comment\r\n\r\nthreads = 7\r\nmax_item-size = 2m\r\n"
                         "maxconns-fast = off\r\nverbose = 2\r\nhz=500\r\nuser = x");
    reads("a.conf");
    ck_assert_uint_eq(s.threads, 7);
    ck_assert_uint_eq(s.item_size_max, 2u << 20);
    ck_assert(!s.maxconns_fast);
    ck_assert_uint_eq(setting_get(&s, verbosity), 2);
    ck_assert_uint_eq(setting_get(&s, hz), 500);
    ck_assert_str_eq(s.user, "x");
    is_from(OPTION_threads, "a.conf:3");
    is_from(OPTION_user, "a.conf:8");
    is_from(OPTION_port, "default");
}

TEST(the_last_value_counts_and_addresses_add_up)
{
    write_text("a.conf",
               "threads = 2\nlisten = a\nlru-crawler = no\nlisten = b,c\nthreads = 3\n");
    reads("a.conf");
    ck_assert_uint_eq(s.threads, 3);
    ck_assert_str_eq(s.listen, "a,b,c");
    ck_assert(!setting_get(&s, engine.active_expire));
    is_from(OPTION_threads, "a.conf:5");
}

TEST(an_empty_value_unsets)
{
    write_text("a.conf", "listen = a\nlisten =\nlisten = b\nuser = x\nuser = # nobody\n"
                         "hashpower = 20\nhashpower = \"\"\n");
    reads("a.conf");
    ck_assert_str_eq(s.listen, "b");
    ck_assert_ptr_null(s.user);
    ck_assert_uint_eq(s.hashpower, 0);
    is_from(OPTION_user, "default");
    is_from(OPTION_hashpower, "default");
    write_text("a.conf", "threads =\nprefix-delimiter =\nprotocol =\n");
    refuses("a.conf", 1,
            "mayflyd: a.conf:1: threads: \"\" is not a number (1 to 512, or auto)\n"
            "mayflyd: a.conf:2: prefix-delimiter: \"\" is not one character\n"
            "mayflyd: a.conf:3: protocol: \"\" is not one of auto ascii binary\n");
}

TEST(every_error_is_told)
{
    write_text("a.conf", "thraeds = 3\n"
                         "threads = 0\n"
                         "memory-limit = 1x\n"
                         "nothing like it = 1\n"
                         "port = 80  x\n"
                         "maxconns-fast = maybe\n"
                         "modern = yes\n"
                         "ext-path = /x\n"
                         "no-maxconns-fast = yes\n"
                         "config = /x\n"
                         "lru-segmented = yes\n"
                         "threads = 5\n");
    refuses(
        "a.conf", 1,
        "mayflyd: a.conf:1: thraeds: unknown option (did you mean \"threads\"?)\n"
        "mayflyd: a.conf:2: threads: 0 is out of range (1 to 512, or auto)\n"
        "mayflyd: a.conf:3: memory-limit: \"1x\" is not a number with suffix k, m, g or none "
        "(1 to 16777216 megabytes, or 1% to 100%)\n"
        "mayflyd: a.conf:4: a line has the form name = value\n"
        "mayflyd: a.conf:5: port: \"80  x\" is not a number (-1 to 65535)\n"
        "mayflyd: a.conf:6: maxconns-fast: \"maybe\" is neither yes nor no\n"
        "mayflyd: a.conf:7: modern: a flag of memcached without effect here (the modern "
        "defaults "
        "are always in effect)\n"
        "mayflyd: a.conf:8: ext-path: this server is not built with external storage support\n"
        "mayflyd: a.conf:9: no-maxconns-fast: unknown option (did you mean "
        "\"maxconns-fast\"?)\n"
        "mayflyd: a.conf:10: config: unknown option (see mayflyd --help)\n"
        "mayflyd: a.conf:11: lru-segmented: unknown option (see mayflyd --help)\n");
    ck_assert_uint_eq(s.threads, 5);
}

TEST(the_status_is_that_of_the_first_error)
{
    write_text("a.conf", "port = x\nthreads = x\n");
    ck_assert_int_eq(run(read_conf, "a.conf"), 64);
    write_text("a.conf", "threads = x\nport = x\n");
    ck_assert_int_eq(run(read_conf, "a.conf"), 1);
}

/* A file that is none of ours has as many errors as lines; they must not fill a log. */
TEST(errors_are_bounded)
{
    static char text[100000];
    size_t lines = 0;

    memset(text, '\n', sizeof(text));
    for (size_t i = 0; i < sizeof(text); i += 2) {
        text[i] = 'x';
    }
    write_bytes("a.conf", text, sizeof(text));
    ck_assert_int_eq(run(read_conf, "a.conf"), 1);
    for (const char *p = errors; *p != '\0'; p++) {
        lines += *p == '\n';
    }
    ck_assert_uint_eq(lines, 101);
    ck_assert_str_eq(errors + strlen(errors) - 26, "More errors are not shown\n");
}

TEST(only_small_regular_files_are_read)
{
    refuses("a.conf", 64,
            "mayflyd: --config: cannot read a.conf (No such file or directory)\n");
    make_folder("d");
    refuses("d", 64, "mayflyd: --config: cannot read d (not a regular file)\n");
    ck_assert_int_eq(mkfifo(in_dir("a.conf"), 0600), 0);
    refuses("a.conf", 64, "mayflyd: --config: cannot read a.conf (not a regular file)\n");
    ck_assert_int_eq(unlink(in_dir("a.conf")), 0);
    write_text("a.conf", "");
    ck_assert_int_eq(truncate(in_dir("a.conf"), 1 << 30), 0);
    refuses("a.conf", 64, "mayflyd: --config: cannot read a.conf (too large)\n");
    ck_assert_int_eq(truncate(in_dir("a.conf"), 1 << 20), 0);
    refuses("a.conf", 1, "mayflyd: a.conf:1: a NUL byte: this is not a text file\n");
    ck_assert_int_eq(truncate(in_dir("a.conf"), 0), 0);
    reads("a.conf");
}

TEST(an_include_stands_for_the_lines_of_its_files)
{
    make_folder("d");
    write_text("a.conf", "threads = 1\nhz = 1\ninclude = d\nhz = 2\n");
    write_text("d/10.conf", "threads = 10\nlisten = y\n");
    write_text("d/1.conf", "threads = 9\nlisten = x\nhz = 9\n");
    write_text("d/2.conf", "threads = 2\nlisten = z\n");
    write_text("d/x.conf~", "wrong\n");
    write_text("d/.h.conf", "wrong\n");
    write_text("d/y.txt", "port = 5\n");
    reads("a.conf");
    ck_assert_uint_eq(s.threads, 2);
    ck_assert_uint_eq(setting_get(&s, hz), 2);
    ck_assert_str_eq(s.listen, "x,y,z"); /* "1.conf" < "10.conf" < "2.conf" */
    ck_assert_int_eq(s.port, 11211);
    is_from(OPTION_threads, "d/2.conf:1");
    is_from(OPTION_hz, "a.conf:4");

    write_text("a.conf", "include = d/*.txt\ninclude = d/[2]*\n");
    reads("a.conf");
    ck_assert_int_eq(s.port, 5);
    write_text("a.conf", "include = d/1?.conf");
    reads("a.conf");
    ck_assert_uint_eq(s.threads, 10);
}

TEST(an_include_is_found_from_its_file)
{
    char text[128];

    make_folder("d");
    make_folder("d/sub");
    write_text("a.conf", "include = d/1.conf\n");
    write_text("d/1.conf", "include = sub/z.conf\ninclude = 2.conf\n");
    write_text("d/2.conf", "hz = 7\n");
    write_text("d/sub/z.conf", "threads = 6\ninclude = ../../b.conf\n");
    write_text("b.conf", "port = 6\n");
    reads("a.conf");
    ck_assert(s.threads == 6 && s.port == 6 && setting_get(&s, hz) == 7);

    snprintf(text, sizeof(text), "include = \"%s/d/sub\"\n", folder);
    write_text("a.conf", text);
    write_text("b.conf", "port = 8\n");
    reads("a.conf");
    ck_assert_int_eq(s.port, 8);
}

TEST(what_cannot_be_included_is_told)
{
    make_folder("d");
    write_text("a.conf", "include = d\n"
                         "include = d/*.conf\n"
                         "include = d/1.conf\n"
                         "include = e/*.conf\n"
                         "include = e\n"
                         "include =\n"
                         "include = b.conf\n"
                         "threads = x\n");
    write_text("b.conf", "\nthreads = y\n");
    refuses("a.conf", 64,
            "mayflyd: a.conf:3: include: cannot read d/1.conf (No such file or directory)\n"
            "mayflyd: a.conf:4: include: cannot read the folder e (No such file or directory)\n"
            "mayflyd: a.conf:5: include: cannot read e (No such file or directory)\n"
            "mayflyd: a.conf:6: include: a file or folder is missing\n"
            "mayflyd: b.conf:2: threads: \"y\" is not a number (1 to 512, or auto)\n"
            "mayflyd: a.conf:8: threads: \"x\" is not a number (1 to 512, or auto)\n");
}

TEST(includes_end)
{
    write_text("a.conf", "include = a.conf\n");
    refuses(
        "a.conf", 64,
        "mayflyd: a.conf:1: include: cannot read a.conf (files include each other too deep)\n");
    write_text("a.conf", "include = a.conf\ninclude = a.conf\n");
    ck_assert_int_eq(run(read_conf, "a.conf"), 64);
    write_text("a.conf", "include = a.conf\ninclude = a.conf\ninclude = a.conf\n");
    ck_assert_int_eq(run(read_conf, "a.conf"), 64);
}

TEST(flags_of_a_file_are_set_with_their_place)
{
    write_text("a.conf", "# comment\n-d\nlogfile /x\n-m 64\n-p 11212 -vv\n-l 127.0.0.1\n"
                         "-l ::1\n-t\n3\n-o hz=20,no_maxconns_fast,modern # x\n-u memcache");
    ck_assert_int_eq(run(conf_read_memcached, "a.conf"), 0);
    ck_assert_str_eq(errors, "");
    ck_assert(s.port == 11212 && s.threads == 3 && !s.maxconns_fast && !s.daemonize);
    ck_assert_uint_eq(setting_get(&s, verbosity), 2);
    ck_assert_str_eq(s.listen, "127.0.0.1,::1");
    ck_assert_str_eq(s.user, "memcache");
    ck_assert(s.compat[COMPAT_modern]);
    is_from(OPTION_port, "a.conf:5");
    is_from(OPTION_threads, "a.conf:8");
    is_from(OPTION_hz, "a.conf:10");

    /* The configuration file comes after it. */
    write_text("b.conf", "threads = 4\nlisten = ::2\nverbose = 1\n");
    reads("b.conf");
    ck_assert_uint_eq(s.threads, 4);
    ck_assert_str_eq(s.listen, "::2");
    ck_assert_uint_eq(setting_get(&s, verbosity), 1);
    is_from(OPTION_threads, "b.conf:1");
    is_from(OPTION_port, "a.conf:5");
}

TEST(every_error_in_a_file_of_flags_is_told)
{
    write_text("a.conf", "-m 0\nmaxmemory 5\n-q\n--thraeds=3\n-p $PORT\nstray\n-o foo\n-V\n"
                         "--config=/x\n-o proxy_config=x\n-t 2 -t");
    ck_assert_int_eq(run(conf_read_memcached, "a.conf"), 1);
    ck_assert_str_eq(
        errors,
        "mayflyd: a.conf:2: a flag begins with a dash\n"
        "mayflyd: a.conf:5: the shell would put something else for $ and `; that is not done "
        "here\n"
        "mayflyd: a.conf:1: -m: 0 is out of range (1 to 16777216 megabytes, or 1% to 100%)\n"
        "mayflyd: a.conf:3: -q: unknown option (see mayflyd --help)\n"
        "mayflyd: a.conf:4: --thraeds: unknown option (did you mean \"threads\"?)\n"
        "mayflyd: a.conf:6: stray: not an option (they begin with - or --)\n"
        "mayflyd: a.conf:7: -o foo: unknown option (see mayflyd --help)\n"
        "mayflyd: a.conf:8: -V: for the command line only\n"
        "mayflyd: a.conf:9: --config=/x: for the command line only\n"
        "mayflyd: a.conf:10: -o proxy_config: this server is not built with proxy support\n"
        "mayflyd: a.conf:11: -t: a value is missing (1 to 512, or auto)\n");
    ck_assert_uint_eq(s.threads, 2);
    ck_assert_int_eq(run(conf_read_memcached, "b.conf"), 64);
    ck_assert_str_eq(
        errors, "mayflyd: --memcached-conf: cannot read b.conf (No such file or directory)\n");
}
