/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options_passed: what was changed while a server ran goes along, what files and command line
 * say by now counts, and no text does harm.
 */
#include "daemon/options/options.h"

#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "tests/common/unit.h"

static struct settings given; /* what the server that hands over was started with */
static struct settings live;  /* what it has at its end */
static struct settings next;  /* of the program that goes on */
static struct buf lines;
static char told[4096]; /* a line for each result */

static void setup(void)
{
    settings_init(&given);
    settings_init(&live);
    settings_init(&next);
    told[0] = '\0';
}

static void teardown(void)
{
    settings_fini(&given);
    settings_fini(&live);
    settings_fini(&next);
    buf_fini(&lines);
}

TEST_FIXTURE(setup, teardown)

static void set(struct settings *s, enum option_id id, const char *value,
                enum option_source source)
{
    char why[OPTION_TEXT_BYTES];

    ck_assert(option_set(s, id, value, source, why));
}

static void tell(void *arg, enum passed_option result, const char *name, const char *value,
                 const char *why)
{
    static const char *const words[] = {"taken", "overridden", "refused"};
    const size_t len = strlen(told);

    snprintf(told + len, sizeof(told) - len, "%s %s %s%s%s\n", words[result], name, value,
             why[0] != '\0' ? ": " : "", why);
}

static void take(const char *text)
{
    options_passed_take(&next, span_str(text), tell, NULL);
}

static void hand_over(void)
{
    ck_assert(options_passed_write(&lines, &given, &live));
    options_passed_take(&next, buf_span(&lines), tell, NULL);
}

TEST(what_was_set_while_it_ran_goes_along)
{
    set(&live, OPTION_hz, "50", OPTION_RUN_TIME);
    set(&live, OPTION_memory_limit_bytes, "128", OPTION_RUN_TIME);
    set(&live, OPTION_maxmemory_policy, "allkeys-lru", OPTION_RUN_TIME);
    set(&live, OPTION_active_expire, "no", OPTION_RUN_TIME);
    hand_over();
    ck_assert_uint_eq(setting_get(&next, hz), 50);
    ck_assert_uint_eq(setting_get(&next, memory_limit_bytes), 128u << 20);
    ck_assert_uint_eq(setting_get(&next, engine.maxmemory_policy), CHOICE_ALLKEYS_LRU);
    ck_assert(!setting_get(&next, engine.active_expire));
    ck_assert_int_eq(setting_source(&next, OPTION_hz), OPTION_RUN_TIME);
    ck_assert_ptr_nonnull(strstr(told, "taken hz 50\n"));
    ck_assert_ptr_nonnull(strstr(told, "taken memory-limit 128\n"));
}

TEST(texts_go_along_as_they_are)
{
    char text[OPTION_TEXT_BYTES];

    set(&given, OPTION_replica_user, "a b", OPTION_FILE);
    set(&next, OPTION_replica_user, "a b", OPTION_FILE);
    set(&live, OPTION_replica_user, "", OPTION_RUN_TIME);
    set(&live, OPTION_replicaof, "::1 11211", OPTION_RUN_TIME);
    set(&live, OPTION_replica_password_file, "/a \"b\\\n c", OPTION_RUN_TIME);
    hand_over();
    ck_assert_str_eq(option_typed(&next, OPTION_replica_user, text), "");
    ck_assert_str_eq(option_typed(&next, OPTION_replicaof, text), "::1 11211");
    ck_assert_str_eq(option_typed(&next, OPTION_replica_password_file, text), "/a \"b\\\n c");
    ck_assert_ptr_nonnull(strstr(told, "taken replicaof ::1 11211\n"));
}

TEST(the_longest_text_goes_along)
{
    char longest[OPTION_TEXT_BYTES];
    char text[OPTION_TEXT_BYTES];

    memset(longest, ' ', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    longest[0] = '"';
    set(&live, OPTION_replica_user, longest, OPTION_RUN_TIME);
    hand_over();
    ck_assert_str_eq(option_typed(&next, OPTION_replica_user, text), longest);
}

TEST(every_live_option_goes_along)
{
    unsigned changed = 0;
    enum option_id ids[OPTION_COUNT];
    char why[OPTION_TEXT_BYTES];

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        static const char *const values[] = {"yes", "no",   "2",      "70",
                                             "200", "4096", "always", "h 1"};

        if (id == OPTION_appendonly || id == OPTION_worker_cpus) {
            continue; /* these need a folder, and CPUs that this machine has */
        }
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            if (option_is_live(id, why) && option_change(&live, id, values[i], why) &&
                options_differing(&given, &live, true, ids) > changed) {
                changed++;
                break;
            }
        }
    }
    ck_assert_uint_ge(changed, 40);
    hand_over();
    ck_assert_uint_eq(options_differing(&live, &next, true, ids), 0);
}

TEST(what_stayed_is_not_mentioned)
{
    set(&given, OPTION_hz, "20", OPTION_FILE);
    set(&live, OPTION_hz, "20", OPTION_FILE);
    ck_assert(options_passed_write(&lines, &given, &live));
    ck_assert_uint_eq(buf_len(&lines), 0);
    take("");
    ck_assert_str_eq(told, "");
}

TEST(what_files_say_by_now_counts)
{
    set(&given, OPTION_hz, "20", OPTION_FILE);
    set(&live, OPTION_hz, "50", OPTION_RUN_TIME);
    set(&next, OPTION_hz, "30", OPTION_FILE);
    set(&live, OPTION_conn_limit, "500", OPTION_RUN_TIME);
    set(&next, OPTION_conn_limit, "500", OPTION_FILE); /* written down since */
    hand_over();
    ck_assert_uint_eq(setting_get(&next, hz), 30);
    ck_assert_int_eq(setting_source(&next, OPTION_hz), OPTION_FILE);
    ck_assert_int_eq(setting_source(&next, OPTION_conn_limit), OPTION_FILE);
    ck_assert_str_eq(told, "overridden hz 50\n");
}

TEST(a_flag_that_implies_another_does_not_win)
{
    set(&given, OPTION_no_evictions, NULL, OPTION_COMMAND_LINE);
    setting_set(&given, engine.maxmemory_policy, CHOICE_NOEVICTION);
    set(&next, OPTION_no_evictions, NULL, OPTION_COMMAND_LINE);
    setting_set(&next, engine.maxmemory_policy, CHOICE_NOEVICTION);
    set(&live, OPTION_maxmemory_policy, "allkeys-lfu", OPTION_RUN_TIME);
    hand_over();
    ck_assert_uint_eq(setting_get(&next, engine.maxmemory_policy), CHOICE_ALLKEYS_LFU);
}

TEST(what_does_not_go_together_is_left_out)
{
    take("hz 10 50\nappendonly no full\n"); /* needs dir */
    ck_assert_uint_eq(setting_get(&next, hz), 10);
    ck_assert_uint_eq(setting_get(&next, appendonly), 0);
    ck_assert_ptr_nonnull(strstr(told, "refused hz 50: "));
    ck_assert_ptr_nonnull(strstr(told, "refused appendonly full: "));
    ck_assert_ptr_nonnull(strstr(told, "needs a folder for the log"));
}

/* A running server takes it, although none starts so. */
TEST(a_log_beside_load_async_is_kept)
{
    set(&next, OPTION_dir, "/", OPTION_FILE);
    set(&next, OPTION_load_async, "yes", OPTION_FILE);
    take("hz 10 50\nappendonly no full\n");
    ck_assert_str_eq(told, "taken hz 50\ntaken appendonly full\n");
    ck_assert_uint_eq(setting_get(&next, hz), 50);
    ck_assert_uint_eq(setting_get(&next, appendonly), 2);
}

TEST(no_text_does_harm)
{
    char huge[3 * OPTION_TEXT_BYTES + 2];

    take("hz");
    take("hz 10 60");
    ck_assert_uint_eq(setting_get(&next, hz), 10); /* no line has its end */
    ck_assert_str_eq(told, "");
    take("\n\n \n  \nhz\nhz 10\nhz  50\nwibble 1 2\ndir x y\nthreads 4 8\nmemory-limit 64 x\n"
         "memory-limit 64 99999999999999999999\nhz 10 -1\nhz 10 50 60\n");
    ck_assert_uint_eq(setting_get(&next, hz), 50);
    ck_assert_uint_eq(setting_get(&next, memory_limit_bytes), 64u << 20);
    ck_assert_ptr_nonnull(strstr(told, "refused wibble 2: this option no longer exists\n"));
    ck_assert_ptr_nonnull(strstr(told, "refused dir y: needs a restart\n"));
    take("replicaof  \"a 1\nreplicaof  \"\nreplicaof  \"\\\nreplicaof  \"\\x00 1\"\n"
         "\" \" \" \" \"\"\n");
    memset(huge, 'x', sizeof(huge) - 2);
    huge[sizeof(huge) - 2] = '\n';
    huge[sizeof(huge) - 1] = '\0';
    take(huge);
    ck_assert_uint_eq(setting_get(&next, hz), 50);
}
