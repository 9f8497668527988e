/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of a running server: names, what may be changed, and that every value that is shown
 * can be set again.
 */
#include "daemon/options/options_live.h"

#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "tests/common/unit.h"

static struct settings s;
static char why[OPTION_TEXT_BYTES];

static void setup(void)
{
    settings_init(&s);
    why[0] = '\0';
}

static void teardown(void)
{
    settings_fini(&s);
}

TEST_FIXTURE(setup, teardown)

static enum option_id find(const char *name)
{
    return option_find(name, strlen(name));
}

TEST(options_are_found_by_name)
{
    ck_assert_int_eq(find("hz"), OPTION_hz);
    ck_assert_int_eq(find("expire-effort"), OPTION_expire_effort);
    ck_assert_int_eq(find("expire_effort"), OPTION_expire_effort);
    ck_assert_int_eq(find("lru_crawler"), OPTION_active_expire);
    ck_assert_int_eq(find("memory-limit"), OPTION_memory_limit_bytes);
    ck_assert_int_eq(find("h"), OPTION_COUNT);
    ck_assert_int_eq(find("hzz"), OPTION_COUNT);
    ck_assert_int_eq(find(""), OPTION_COUNT); /* some rows have no name */
    ck_assert_int_eq(find("modern"), OPTION_COUNT);
    ck_assert_str_eq(option_nearest("expire_efort", 12), "expire-effort");
    ck_assert_str_eq(option_nearest("usar", 4), "user"); /* a wrong letter is one edit */
    ck_assert_ptr_null(option_nearest("wibble", 6));
}

TEST(only_live_options_with_an_effect_may_change)
{
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        bool is_live = option_is_live(id, why);

        ck_assert_int_eq(is_live, row->life == OPT_LIVE && (row->traits & OPT_IGNORED) == 0);
        if (!is_live) {
            ck_assert_str_eq(why, (row->traits & OPT_IGNORED) != 0
                                      ? "has no effect in this server"
                                      : "needs a restart");
            /* Whatever kind of value it has. */
            ck_assert(!option_change(&s, id, "/tmp", why));
            ck_assert(!option_change(&s, id, "", why));
        }
    }
    ck_assert(!option_change(&s, OPTION_backlog, "2", why));
    ck_assert_uint_eq(s.backlog, 1024);
    ck_assert_int_eq(setting_source(&s, OPTION_backlog), OPTION_DEFAULT);
}

TEST(a_change_counts_as_made_at_run_time)
{
    ck_assert(option_set(&s, OPTION_expire_effort, "3", OPTION_COMMAND_LINE, why));
    ck_assert(option_change(&s, OPTION_expire_effort, "9", why));
    ck_assert_uint_eq(setting_get(&s, expire_effort), 9);
    ck_assert_int_eq(setting_source(&s, OPTION_expire_effort), OPTION_RUN_TIME);
    ck_assert(!option_change(&s, OPTION_expire_effort, "0", why));
    ck_assert_str_eq(why, "0 is out of range (1 to 10)");
    ck_assert_uint_eq(setting_get(&s, expire_effort), 9);
}

TEST(what_is_typed_can_be_set_again)
{
    char text[OPTION_TEXT_BYTES];
    char typed[OPTION_TEXT_BYTES];
    char again[OPTION_TEXT_BYTES];

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];

        if (row->name[0] == '\0' || row->kind == OPT_STR || row->kind == OPT_LIST ||
            (row->kind == OPT_U32 && row->def < row->min)) {
            continue; /* not set, or not to be set */
        }
        snprintf(typed, sizeof(typed), "%s", option_typed(&s, id, text));
        ck_assert_msg(option_set(&s, id, typed, OPTION_COMMAND_LINE, why), "%s %s: %s",
                      row->name, typed, why);
        snprintf(again, sizeof(again), "%s", option_typed(&s, id, text));
        ck_assert_str_eq(typed, again);
    }
    ck_assert(option_change(&s, OPTION_memory_limit_bytes, "100", why));
    ck_assert_str_eq(option_typed(&s, OPTION_memory_limit_bytes, text), "100");
    ck_assert(option_change(&s, OPTION_lazyfree_threshold_bytes, "1536", why));
    ck_assert_str_eq(option_typed(&s, OPTION_lazyfree_threshold_bytes, text), "1536");
    ck_assert(option_set(&s, OPTION_no_cas, NULL, OPTION_COMMAND_LINE, why));
    ck_assert_str_eq(option_typed(&s, OPTION_no_cas, text), "yes");
    ck_assert(option_set(&s, OPTION_user, "me", OPTION_COMMAND_LINE, why));
    ck_assert_str_eq(option_typed(&s, OPTION_user, text), "me");
    ck_assert_str_eq(option_typed(&s, OPTION_pidfile, text), "");
    ck_assert(option_set(&s, OPTION_ssl_min_version, "3", OPTION_COMMAND_LINE, why));
    ck_assert_str_eq(option_typed(&s, OPTION_ssl_min_version, text), "3");
}

TEST(live_texts_are_changed_and_copied)
{
    char text[OPTION_TEXT_BYTES];
    struct settings other;

    ck_assert_uint_eq(setting_copy_text(&s, replicaof, text, sizeof(text)), 0);
    ck_assert(option_set(&s, OPTION_replicaof, "a 1", OPTION_FILE, why));
    ck_assert(option_change(&s, OPTION_replicaof, "b:2", why));
    ck_assert_uint_eq(setting_copy_text(&s, replicaof, text, sizeof(text)), 3);
    ck_assert_str_eq(text, "b:2");
    ck_assert_str_eq(option_show(&s, OPTION_replicaof, text), "b:2");
    ck_assert_int_eq(setting_source(&s, OPTION_replicaof), OPTION_RUN_TIME);
    memset(&other, 0, sizeof(other));
    options_copy_live(&other, &s);
    ck_assert(option_change(&s, OPTION_replicaof, "c 3", why));
    ck_assert_str_eq(option_typed(&other, OPTION_replicaof, text), "b:2");
    ck_assert_int_eq(setting_source(&other, OPTION_replicaof), OPTION_RUN_TIME);
}

TEST(live_texts_are_unset)
{
    static const char *const none[] = {"", "no", "no one", "No One"};
    char text[OPTION_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        ck_assert(option_change(&s, OPTION_replicaof, "h 1", why));
        ck_assert(option_change(&s, OPTION_replicaof, none[i], why));
        ck_assert_str_eq(option_typed(&s, OPTION_replicaof, text), "");
        ck_assert_str_eq(option_show(&s, OPTION_replicaof, text), "NULL");
    }
    /* It is a word of this option only. */
    ck_assert(option_change(&s, OPTION_replica_user, "no", why));
    ck_assert_str_eq(option_typed(&s, OPTION_replica_user, text), "no");
    ck_assert(option_unset(&s, OPTION_replica_user, OPTION_RUN_TIME));
    ck_assert_str_eq(option_typed(&s, OPTION_replica_user, text), "");
}

TEST(bad_texts_change_nothing)
{
    char text[OPTION_TEXT_BYTES];
    char longest[OPTION_TEXT_BYTES + 1];

    ck_assert(option_change(&s, OPTION_replicaof, "h 1", why));
    ck_assert(!option_change(&s, OPTION_replicaof, "h 65536", why));
    ck_assert_str_eq(why,
                     "\"h 65536\" is not an address: the port is not a number from 1 to 65535");
    ck_assert_str_eq(option_typed(&s, OPTION_replicaof, text), "h 1");
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    ck_assert(!option_change(&s, OPTION_replica_user, longest, why));
    ck_assert_str_eq(why, "the value is too long (at most 511 bytes)");
    ck_assert(option_change(&s, OPTION_replica_user, longest + 1, why));
    ck_assert_str_eq(option_typed(&s, OPTION_replica_user, text), longest + 1);
}

static unsigned seen;
static char first[OPTION_TEXT_BYTES];

static void on_option(void *arg, const char *name, const char *value)
{
    ck_assert_ptr_eq(arg, &seen);
    ck_assert_ptr_null(strchr(name, '-'));
    if (seen++ == 0) {
        snprintf(first, sizeof(first), "%s %s", name, value);
    }
}

static unsigned matching(const char *pattern)
{
    seen = 0;
    options_each_matching(&s, &pattern, 1, on_option, &seen);
    return seen;
}

TEST(patterns_are_those_of_a_shell)
{
    ck_assert_uint_eq(matching("hz"), 1);
    ck_assert_str_eq(first, "hz 10");
    ck_assert_uint_eq(matching("lazyfree_*"), 7);
    ck_assert_str_eq(first, "lazyfree_expire yes");
    ck_assert_uint_eq(matching("lazyfree-*"), 7);
    ck_assert_uint_eq(matching("lazyfree?[df]*"), 2);
    ck_assert_uint_eq(matching("hot_lru_pct"), 0); /* it has no effect */
    ck_assert_uint_eq(matching(""), 0);
    ck_assert_uint_gt(matching("*"), 50);
    ck_assert_str_eq(first, "memory_limit 64");
}
