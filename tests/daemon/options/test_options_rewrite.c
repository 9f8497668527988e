/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options_rewrite: whatever the files contain and whatever has been changed since, the files
 * that are planned give a start the values that the server has, and all other lines are as they
 * were.
 */
#include "daemon/options/options.h"

#include <sys/stat.h>

#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "lib/base/mem.h"
#include "tests/common/folder.h"
#include "tests/common/rng.h"
#include "tests/common/unit.h"

#define ROUNDS 300

static const char *const names[] = {"a.conf", "b.conf", "d/1.conf", "d/2.conf", "d/.x.conf"};
#define FILES 5u

static char paths[FILES][96];
static char config_flag[128];
static struct option_messages said;

/* A server: its command line, and what came of it. */
static char *argv[8];
static int argc;
static struct settings given;
static struct settings live;
static struct options_rewrite plan;

static void setup(void)
{
    char sub[96];

    folder_make();
    snprintf(sub, sizeof(sub), "%s/d", folder);
    ck_assert_int_eq(mkdir(sub, 0700), 0);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, names[i]);
    }
    snprintf(config_flag, sizeof(config_flag), "--config=%s", paths[0]);
}

static void teardown(void)
{
    char sub[96];

    for (unsigned i = 0; i < FILES; i++) {
        (void)unlink(paths[i]);
    }
    snprintf(sub, sizeof(sub), "%s/d", folder);
    ck_assert_int_eq(rmdir(sub), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST_FIXTURE(setup, teardown)

/* Where messages go that were not said before. */
static struct option_messages *hear(void)
{
    memset(&said, 0, sizeof(said));
    return &said;
}

static void write_file(const char *path, struct span text)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert(text.len == 0 || fwrite(text.ptr, 1, text.len, f) == text.len);
    fclose(f);
}

static void write_conf(unsigned file, const char *text)
{
    write_file(paths[file], span_str(text));
}

static void has_text(unsigned file, const char *wanted)
{
    struct file_text text;

    ck_assert_ptr_null(file_read_all(paths[file], CONF_FILE_MAX, &text));
    ck_assert_msg(span_is(span_of(text.bytes, text.len), wanted), "%.*s", (int)text.len,
                  text.bytes);
    mem_free(text.bytes);
}

/* Start with up to two more flags. False: it does not start. */
static bool start(const char *flag, const char *value)
{
    int status;

    argc = 0;
    argv[argc++] = (char *)"mayflyd";
    argv[argc++] = config_flag;
    argv[argc++] = (char *)"-odir=/"; /* appendonly may be drawn, which needs it */
    if (flag != NULL) {
        argv[argc++] = (char *)flag;
    }
    if (value != NULL) {
        argv[argc++] = (char *)value;
    }
    argv[argc] = NULL;
    const bool is_started = options_parse(argc, argv, &given, &status) == OPTIONS_RUN;
    memset(&live, 0, sizeof(live));
    options_copy_live(&live, &given);
    return is_started;
}

static void change(const char *name, const char *value)
{
    char why[OPTION_TEXT_BYTES];

    ck_assert_msg(option_change(&live, option_find(name, strlen(name)), value, why), "%s: %s",
                  name, why);
}

static void plans(void)
{
    ck_assert_msg(options_rewrite_plan(&given, &live, &plan, hear()), "%s", said.first);
}

static void write_plan(void)
{
    for (size_t i = 0; i < plan.texts.count; i++) {
        const struct conf_text *text = &plan.texts.items[i];

        if (text->is_edited) {
            write_file(text->path, buf_span(&text->now));
        }
    }
}

/* Plan, write, and end the server. */
static void rewrites(void)
{
    plans();
    write_plan();
    options_rewrite_fini(&plan);
}

static void is_next(const char *name, const char *value)
{
    const enum option_id id = option_find(name, strlen(name));
    char text[OPTION_TEXT_BYTES];

    ck_assert_str_eq(option_typed(&plan.next, id, text), value);
}

TEST(the_last_line_is_edited_wherever_it_stands)
{
    write_conf(0,
               "# mine\nhz = 1 # one\nhz = 2\nttl-jitter=3\ninclude = d\nidle_timeout = 4\n");
    write_conf(2, "ttl_jitter = 5\n");
    write_conf(3, "lru_crawler = no\nidle-timeout = 6\n");
    ck_assert(start(NULL, NULL));
    change("hz", "20");
    change("ttl_jitter", "30");
    change("idle_timeout", "40");
    change("active_expire", "yes");
    change("verbose", "2");
    rewrites();
    settings_fini(&given);
    has_text(0, "# mine\nhz = 1 # one\nhz = 20\nttl-jitter=3\ninclude = d\nidle_timeout = 40\n"
                "\n" CONF_EDIT_MARK "\nverbose = 2\n");
    has_text(2, "ttl_jitter = 30\n");
    has_text(3, "lru_crawler = yes\nidle-timeout = 6\n");
}

TEST(a_value_that_is_there_writes_nothing)
{
    write_conf(0, "hz=20\n");
    ck_assert(start("-o", "ttl_jitter=5,idle_timeout=7"));
    plans();
    ck_assert_uint_eq(plan.edit_count, 0);
    options_rewrite_fini(&plan);
    change("hz", "20"); /* as it is */
    plans();
    ck_assert_uint_eq(plan.edit_count, 0);
    options_rewrite_fini(&plan);
    settings_fini(&given);
}

TEST(a_flag_that_was_overridden_is_written_and_told)
{
    write_conf(0, "ttl_jitter = 1\nidle_timeout = 9\n");
    ck_assert(start("-o", "ttl_jitter=5,idle_timeout=7,hz=33"));
    change("ttl_jitter", "6");
    change("hz", "10"); /* what the files give already */
    plans();
    ck_assert_uint_eq(plan.edit_count, 1);
    ck_assert_uint_eq(plan.overridden_count, 2);
    is_next("ttl_jitter", "5");
    is_next("hz", "33");
    write_plan();
    options_rewrite_fini(&plan);
    settings_fini(&given);
    has_text(0, "ttl_jitter = 6\nidle_timeout = 9\n");
}

/* -D turns counting on, unless a line says something else. */
TEST(what_follows_from_a_flag_is_overridden_by_a_line)
{
    write_conf(0, "hz = 10\n");
    ck_assert(start("-D", ":"));
    change("detail_enabled", "no");
    plans();
    ck_assert_uint_eq(plan.overridden_count, 0);
    is_next("detail_enabled", "no");
    options_rewrite_fini(&plan);
    settings_fini(&given);

    ck_assert(start("-M", NULL));
    plans();
    ck_assert_uint_eq(plan.edit_count, 0);
    options_rewrite_fini(&plan);
    change("maxmemory_policy", "allkeys-lru");
    plans();
    ck_assert_uint_eq(plan.overridden_count, 1);
    is_next("maxmemory_policy", "noeviction");
    options_rewrite_fini(&plan);
    settings_fini(&given);
}

TEST(lines_that_wait_for_a_restart_stay)
{
    write_conf(0, "listen-backlog = 2\nhz = 10\n");
    ck_assert(start(NULL, NULL));
    write_conf(0, "listen-backlog = 3\nuser = \"a # b\"\nhz = 11\n");
    change("hz", "12");
    plans();
    is_next("listen-backlog", "3");
    is_next("user", "a # b");
    is_next("hz", "12");
    write_plan();
    options_rewrite_fini(&plan);
    settings_fini(&given);
    has_text(0, "listen-backlog = 3\nuser = \"a # b\"\nhz = 12\n");
}

TEST(files_with_errors_are_not_written)
{
    write_conf(0, "hz = 10\n");
    ck_assert(start(NULL, NULL));
    change("hz", "12");
    write_conf(0, "hz = 10\nttl_jitter = x\n");
    ck_assert(!options_rewrite_plan(&given, &live, &plan, hear()));
    ck_assert_ptr_nonnull(strstr(said.first, "a.conf:2: ttl_jitter: "));
    options_rewrite_fini(&plan);
    /* Nor what a start would refuse: half of the limit is less than an item. */
    write_conf(0, "max-item-size = 4m\n");
    change("memory_limit", "4");
    ck_assert(!options_rewrite_plan(&given, &live, &plan, hear()));
    ck_assert_ptr_nonnull(strstr(said.first, "the largest item (-I"));
    options_rewrite_fini(&plan);
    ck_assert_int_eq(unlink(paths[0]), 0);
    ck_assert(!options_rewrite_plan(&given, &live, &plan, hear()));
    ck_assert_ptr_nonnull(strstr(said.first, "No such file"));
    options_rewrite_fini(&plan);
    settings_fini(&given);
}

TEST(a_file_that_would_be_too_large_is_not_written)
{
    static char text[CONF_FILE_MAX];

    memset(text, '#', sizeof(text));
    write_file(paths[0], span_of(text, sizeof(text)));
    ck_assert(start(NULL, NULL));
    change("hz", "12");
    ck_assert(!options_rewrite_plan(&given, &live, &plan, hear()));
    ck_assert_ptr_nonnull(strstr(said.first, "too large"));
    options_rewrite_fini(&plan);
    settings_fini(&given);
}

TEST(a_file_by_two_names_is_edited_once)
{
    write_conf(0, "include = d\ninclude = b.conf\n");
    write_conf(2, "hz = 1\nttl-jitter = 2\n");
    ck_assert_int_eq(symlink("d/1.conf", paths[1]), 0);
    ck_assert(start(NULL, NULL));
    change("hz", "7");
    change("ttl_jitter", "8");
    rewrites();
    settings_fini(&given);
    has_text(2, "hz = 7\nttl-jitter = 8\n");
}

TEST(texts_are_written_and_unset)
{
    write_conf(0, "replicaof = a 1 # mine\nreplica-user = u\n");
    ck_assert(start(NULL, NULL));
    change("replicaof", "b:2");
    change("replica_user", "");
    change("replica_password_file", "/a #b");
    plans();
    is_next("replicaof", "b:2");
    is_next("replica_user", "");
    is_next("replica_password_file", "/a #b");
    write_plan();
    options_rewrite_fini(&plan);
    has_text(0, "replicaof = b:2 # mine\nreplica-user = \n\n" CONF_EDIT_MARK
                "\nreplica-password-file = \"/a #b\"\n");
    settings_fini(&given);
    ck_assert(start(NULL, NULL));
    change("replicaof", "no one");
    rewrites();
    has_text(0, "replicaof =  # mine\nreplica-user = \n\n" CONF_EDIT_MARK
                "\nreplica-password-file = \"/a #b\"\n");
    settings_fini(&given);
}

TEST(a_flag_of_memcached_conf_is_no_line)
{
    char flag[128];

    snprintf(flag, sizeof(flag), "--memcached-conf=%s", paths[1]);
    write_conf(0, "hz = 7\n");
    write_conf(1, "--replicaof=\n");
    ck_assert(start(flag, NULL));
    change("replicaof", "b:2");
    rewrites();
    has_text(0, "hz = 7\n\n" CONF_EDIT_MARK "\nreplicaof = b:2\n");
    has_text(1, "--replicaof=\n");
    settings_fini(&given);
}

/* ---- any files --------------------------------------------------------------------------- */

/* A value that the option takes, in some form. False: none was found. */
static bool draw_value(struct rng *r, enum option_id id, char *out)
{
    static const char *const switches[] = {"yes", "no", "on", "off", "1", "0", "TRUE", "false"};
    static const char *const texts[] = {"h 1", "no one", "[::1]:1", "", "x"};
    const struct option_row *row = &option_rows[id];
    char why[OPTION_TEXT_BYTES];
    char word[OPTION_TEXT_BYTES];
    struct settings s;

    if (row->kind == OPT_BOOL) {
        snprintf(out, OPTION_TEXT_BYTES, "%s", switches[rng_below(r, 8)]);
    } else if (row->kind == OPT_ENUM) {
        const char *found =
            option_word(row, (unsigned)rng_below(r, 3), OPTION_WORD_TYPED, word);

        snprintf(out, OPTION_TEXT_BYTES, "%s", found != NULL ? found : "x");
    } else if (option_is_text(row)) {
        snprintf(out, OPTION_TEXT_BYTES, "%s", texts[rng_below(r, 5)]);
    } else {
        /* The limit on memory has to hold an item. */
        const int64_t least = id == OPTION_memory_limit_bytes ? 4 : (int64_t)row->min;
        const uint64_t span = (uint64_t)((int64_t)row->max - least);

        snprintf(out, OPTION_TEXT_BYTES, "%lld",
                 (long long)(least + (int64_t)rng_below(r, (span < 1000 ? span : 1000) + 1)));
    }
    settings_init(&s);
    bool is_good = option_set(&s, id, out, OPTION_FILE, why);
    settings_fini(&s);
    return is_good;
}

static enum option_id draw_live(struct rng *r)
{
    char why[OPTION_TEXT_BYTES];

    for (;;) {
        const enum option_id id = (enum option_id)rng_below(r, OPTION_COUNT);

        if (option_rows[id].name[0] != '\0' && option_is_live(id, why)) {
            return id;
        }
    }
}

static void append(struct buf *b, const char *text)
{
    ck_assert(buf_append(b, text, strlen(text)));
}

static const char *pick(struct rng *r, const char *const *texts, unsigned count)
{
    return texts[rng_below(r, count)];
}

static void draw_setting(struct rng *r, struct buf *b, const char *end)
{
    static const char *const before[] = {"", "", " ", "\t "};
    static const char *const equals[] = {"=", " = ", " =", "= ", "\t=  "};
    static const char *const after[] = {"", "", " ", " # why", "\t# a = 1"};
    const enum option_id id = draw_live(r);
    const bool is_quoted = rng_below(r, 5) == 0;
    char value[OPTION_TEXT_BYTES];
    char name[OPTION_TEXT_BYTES];

    if (!draw_value(r, id, value)) {
        return;
    }
    append(b, pick(r, before, 4));
    append(b, rng_below(r, 2) == 0 ? option_name(id) : option_shown_name(id, name));
    append(b, pick(r, equals, 5));
    append(b, is_quoted ? "\"" : "");
    append(b, value);
    append(b, is_quoted ? "\"" : "");
    append(b, pick(r, after, 5));
    append(b, end);
}

/* A file; the first of them includes others. */
static void draw_file(struct rng *r, unsigned file)
{
    static const char *const others[] = {"",
                                         "  ",
                                         "# hz = 3",
                                         "threads = 3",
                                         "hot-lru-pct = 30",
                                         CONF_EDIT_MARK,
                                         "user = x",
                                         "listen = ::1",
                                         "user ="};
    const char *end = rng_below(r, 4) == 0 ? "\r\n" : "\n";
    struct buf b = {0};

    for (uint64_t n = rng_below(r, 12); n > 0; n--) {
        if (rng_below(r, 3) > 0) {
            draw_setting(r, &b, end);
        } else {
            append(&b, pick(r, others, 9));
            append(&b, end);
        }
        if (file == 0 && rng_below(r, 6) == 0) {
            append(&b, rng_below(r, 2) == 0 ? "include = d" : "include = b.conf");
            append(&b, end);
        }
    }
    if (rng_below(r, 4) == 0 && buf_len(&b) > 0) {
        b.end -= strlen(end);
    }
    write_file(paths[file], buf_span(&b));
    buf_fini(&b);
}

/* What a start would have: the limits of options between each other do not hold here. */
static bool read_anew(struct settings *out)
{
    int status;

    return options_parse(argc, argv, out, &status) == OPTIONS_RUN;
}

/* Every line is as it was, or has another value, or was added below the mark. */
static void check_text(const struct conf_text *text)
{
    struct span old = span_of(text->old.bytes, text->old.len);
    struct span new = conf_text_now(text);
    struct conf_line a = {0};
    struct conf_line b = {0};
    bool is_below = false;

    while (conf_line_next(&new, &b)) {
        struct span rest = old;
        struct conf_line next = a;
        const bool is_line = conf_line_next(&rest, &next);
        const bool is_kept = is_line && (span_eq(next.whole, b.whole) ||
                                         (next.name.len > 0 && span_eq(next.name, b.name)));

        if (is_kept) {
            old = rest;
            a = next;
        } else {
            /* The last line may have got its end. */
            const bool is_end = is_line && rest.len == 0 && b.whole.len > next.whole.len &&
                                memcmp(b.whole.ptr, next.whole.ptr, next.whole.len) == 0;
            if (is_end) {
                old = rest;
                a = next;
            }
            ck_assert(is_end || is_below || b.name.len == 0);
        }
        is_below |= b.whole.len >= strlen(CONF_EDIT_MARK) &&
                    memcmp(b.whole.ptr, CONF_EDIT_MARK, strlen(CONF_EDIT_MARK)) == 0;
    }
    ck_assert(old.len == 0);
}

static bool is_overridden(enum option_id id)
{
    for (unsigned i = 0; i < plan.overridden_count; i++) {
        if (plan.overridden[i] == id) {
            return true;
        }
    }
    return false;
}

/* What may be overridden at all: what was given as a flag, and the policy of -M. */
static bool may_be_overridden(const struct settings *s, enum option_id id)
{
    return setting_source(s, id) == OPTION_COMMAND_LINE ||
           (id == OPTION_maxmemory_policy && s->no_evictions);
}

static void check_next_start(const struct settings *before)
{
    enum option_id ids[OPTION_COUNT];
    struct settings after;

    ck_assert(read_anew(&after));
    unsigned count = options_differing(&live, &after, true, ids);
    ck_assert(count == plan.overridden_count);
    for (unsigned i = 0; i < count; i++) {
        ck_assert(is_overridden(ids[i]) && may_be_overridden(&after, ids[i]));
    }
    ck_assert(options_differing(before, &after, false, ids) == 0);
    settings_fini(&after);
}

static void check_round(struct rng *r)
{
    static const char *const flags[] = {NULL, "-M", "-D:", "-ohz=7,no_lazyfree_delete", "-v"};
    const char *flag = pick(r, flags, 5);
    const unsigned changes = (unsigned)rng_below(r, 8);
    struct settings before;

    for (unsigned i = 0; i < FILES; i++) {
        draw_file(r, i);
    }
    ck_assert(start(flag, NULL));
    for (unsigned i = 0; i < changes; i++) {
        const enum option_id id = draw_live(r);
        char value[OPTION_TEXT_BYTES];

        if (draw_value(r, id, value)) {
            change(option_name(id), value);
        }
    }
    if (rng_below(r, 4) == 0) {
        draw_file(r, 1 + (unsigned)rng_below(r, FILES - 1)); /* not read again yet */
    }
    ck_assert(read_anew(&before));
    plans();
    for (size_t i = 0; i < plan.texts.count; i++) {
        check_text(&plan.texts.items[i]);
    }
    write_plan();
    check_next_start(&before);
    const unsigned overridden = plan.overridden_count;
    options_rewrite_fini(&plan);
    plans();
    ck_assert(plan.overridden_count == overridden);
    for (unsigned i = 0; i < plan.edit_count; i++) {
        ck_assert(plan.edits[i] == OPTION_maxmemory_policy); /* -M: without effect each time */
    }
    options_rewrite_fini(&plan);
    settings_fini(&before);
    settings_fini(&given);
}

TEST(any_files_and_changes_give_the_next_start_the_same_values)
{
    struct rng r;

    rng_init(&r, rng_seed());
    for (int i = 0; i < ROUNDS; i++) {
        check_round(&r);
    }
}
