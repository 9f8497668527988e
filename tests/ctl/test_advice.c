/* SPDX-License-Identifier: BSD-3-Clause */
/* advice, host: each look sees what it is for, and nothing where all is well. */
#include <math.h>

#include "ctl/advice.h"
#include "tests/common/folder.h"
#include "tests/common/unit.h"

static struct facts facts;

static void add(struct stats *s, const char *name, const char *value)
{
    char line[200];
    int len = snprintf(line, sizeof(line), "STAT %s %s", name, value);

    ck_assert(stats_take(s, span_of(line, (size_t)len)));
}

/* A server where all is well. */
static void make_well(void)
{
    static const char *const general[][2] = {
        {"time", "1000000"},
        {"cmd_set", "100000"},
        {"evictions", "100"},
        {"get_hits", "90000"},
        {"get_misses", "10000"},
        {"curr_connections", "10"},
        {"max_connections", "1024"},
        {"limit_maxbytes", "67108864"},
        {"reserved_fds", "20"},
        {"auth_cmds", "1000"},
        {"threads", "4"},
    };
    static const char *const settings[][2] = {
        {"inter", "127.0.0.1"},       {"domain_socket", "NULL"},    {"lru_crawler", "yes"},
        {"auth_enabled_sasl", "no"},  {"auth_enabled_ascii", "no"}, {"ssl_enabled", "no"},
        {"ssl_verify_mode", "0"},     {"tcp_backlog", "1024"},      {"admin_commands", "any"},
        {"item_size_max", "1048576"},
    };

    static const char *const replication[][2] = {
        {"role", "replica"},
        {"repl_state", "online"},
        {"repl_state_reason", "it has caught up with the primary"},
        {"repl_clock_skew_ms", "-3"},
        {"repl_lag_bytes", "1000"},
        {"repl_backlog_size", "8388608"},
        {"repl_evicted", "0"},
        {"repl_not_stored", "0"},
        {"online_replicas", "0"},
        {"replicas_lag_bytes", "0"},
        {"repl_too_few_replicas", "0"},
    };

    memset(&facts, 0, sizeof(facts));
    for (size_t i = 0; i < sizeof(general) / sizeof(general[0]); i++) {
        add(&facts.general, general[i][0], general[i][1]);
    }
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        add(&facts.settings, settings[i][0], settings[i][1]);
    }
    add(&facts.expire, "expire_hold_left_ms", "0");
    add(&facts.moves, "move_state", "moving");
    add(&facts.moves, "move_waits_for", "none");
    for (size_t i = 0; i < sizeof(replication) / sizeof(replication[0]); i++) {
        add(&facts.replication, replication[i][0], replication[i][1]);
    }
    facts.is_here = true;
    facts.unix_s = 1000000;
    facts.host = (struct host){.has_process = true,
                               .files_max = 65536,
                               .cgroup_bytes = (double)INFINITY,
                               .memory_bytes = 8e9,
                               .backlog_max = 4096,
                               .cpus = 8,
                               .cpus_allowed = 8,
                               .cpus_idle = 7,
                               .workers = 4,
                               .busiest = 0.5,
                               .idlest = 0.1,
                               .huge_pages = "madvise",
                               .clock = "tsc"};
}

static void forget(void)
{
    stats_fini(&facts.general);
    stats_fini(&facts.settings);
    stats_fini(&facts.expire);
    stats_fini(&facts.replication);
    stats_fini(&facts.moves);
}

TEST_FIXTURE(make_well, forget)

/* Replace a line. */
static void set(struct stats *s, const char *name, const char *value)
{
    struct stats old = *s;

    *s = (struct stats){0};
    for (size_t i = 0; i < old.count; i++) {
        if (!span_is(stats_name(&old, i), name)) {
            char line[400];
            struct span n = stats_name(&old, i);
            struct span v = stats_value(&old, i);

            snprintf(line, sizeof(line), "STAT %.*s %.*s", (int)n.len, n.ptr, (int)v.len,
                     v.ptr);
            ck_assert(stats_take(s, span_str(line)));
        }
    }
    add(s, name, value);
    stats_fini(&old);
}

/* Exactly these are advised. */
static void assert_advice(const char *names)
{
    char got[1000] = "";

    for (unsigned id = 0; id < ADVICE_COUNT; id++) {
        char fact[ADVICE_FACT_BYTES];

        if (advice_see((enum advice_id)id, &facts, fact) == ADVICE_GIVEN) {
            ck_assert(fact[0] != '\0');
            snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s",
                     got[0] != '\0' ? " " : "", advice_texts[id].name);
        }
    }
    ck_assert_str_eq(got, names);
}

TEST(where_all_is_well_there_is_no_advice)
{
    assert_advice("");
}

TEST(what_the_server_counts_is_judged)
{
    static const struct {
        const char *name, *value, *advice;
    } rows[] = {
        {"evictions", "20000", "evictions"},
        {"evictions", "900", ""},
        {"cmd_set", "200", ""}, /* a large share, but few */
        {"get_misses", "100000", "hit_ratio"},
        {"curr_connections", "900", "connections"},
        {"rejected_connections", "1", "connections"},
        {"listen_disabled_num", "1", "connections"},
        {"store_no_memory", "1", "no_memory"},
        {"store_too_large", "1", "too_large"},
        {"response_obj_oom", "1", "slow_clients"},
        {"auth_errors", "500", "logins"},
        {"mayfly_log_dropped", "1", "log_lost"},
        {"time", "1000060", "clock"},
        {"time", "999000", "clock"},
        {"time", "1000001", ""},
        {"max_connections", "100000", "files"},
        {"limit_maxbytes", "7900000000", "host_memory"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set(&facts.general, rows[i].name, rows[i].value);
        assert_advice(rows[i].advice);
        forget();
        make_well();
    }
}

TEST(expiry_is_judged)
{
    add(&facts.expire, "expire_debt_bytes", "10000000");
    assert_advice("expiry_debt");
    add(&facts.expire, "expire_lag_p99_ms", "5000");
    assert_advice("expiry_debt expiry_lag");
    add(&facts.expire, "lazyfree_pending_bytes", "10000000");
    assert_advice("expiry_debt expiry_lag reclaimer");
    forget();
    make_well();
    set(&facts.expire, "expire_hold_left_ms", "1000");
    assert_advice("expiry_off");
    set(&facts.expire, "expire_hold_left_ms", "0");
    set(&facts.settings, "lru_crawler", "no");
    assert_advice("expiry_off");
}

TEST(a_replica_is_judged)
{
    static const struct {
        const char *name, *value, *advice;
    } rows[] = {
        {"repl_state", "cut", "replica_link"},
        {"repl_state", "stale", "replica_link"},
        {"repl_state", "connecting", "replica_link"},
        {"repl_state", "syncing", ""}, /* it takes its time */
        {"repl_clock_skew_ms", "1001", "replica_clock"},
        {"repl_clock_skew_ms", "-1001", "replica_clock"},
        {"repl_clock_skew_ms", "999", ""},
        {"repl_evicted", "1", "replica_memory"},
        {"repl_not_stored", "1", "replica_memory"},
        {"repl_lag_bytes", "5000000", "replica_lag"},
        {"replicas_lag_bytes", "5000000", ""}, /* it has none */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set(&facts.replication, rows[i].name, rows[i].value);
        assert_advice(rows[i].advice);
        forget();
        make_well();
    }
    /* What replicas are needed for is their primary's. */
    add(&facts.settings, "min_replicas_to_write", "1");
    assert_advice("");
    set(&facts.replication, "repl_state", "syncing");
    set(&facts.replication, "repl_lag_bytes", "5000000");
    assert_advice(""); /* it has yet to be sent everything */
}

TEST(a_primary_is_judged)
{
    set(&facts.replication, "role", "primary");
    set(&facts.replication, "repl_state", "primary");
    assert_advice("");
    set(&facts.replication, "replicas_lag_bytes", "5000000");
    assert_advice("replica_lag");
    set(&facts.replication, "repl_backlog_size", "0");
    assert_advice("");
    set(&facts.replication, "repl_evicted", "5"); /* as a replica, before */
    assert_advice("");
    add(&facts.settings, "min_replicas_to_write", "1");
    assert_advice("few_replicas");
    set(&facts.replication, "online_replicas", "1");
    assert_advice("");
    set(&facts.replication, "repl_too_few_replicas", "1"); /* they are silent for too long */
    assert_advice("few_replicas");
}

TEST(a_server_that_tells_nothing_of_replication)
{
    char fact[ADVICE_FACT_BYTES];

    stats_fini(&facts.replication);
    stats_fini(&facts.moves);
    assert_advice("");
    ck_assert_int_eq(advice_see(ADVICE_replica_link, &facts, fact), ADVICE_UNKNOWN);
    ck_assert_int_eq(advice_see(ADVICE_few_replicas, &facts, fact), ADVICE_UNKNOWN);
}

TEST(doors_are_open_or_not)
{
    static const struct {
        const char *inter;
        bool is_open;
    } rows[] = {
        {"127.0.0.1", false},
        {"127.0.0.1:11211,[::1]:11211", false},
        {"localhost", false},
        {"::1", false},
        {"NULL", false},
        {"0.0.0.0", true},
        {"127.0.0.1,10.0.0.1", true},
        {"10.127.0.1", true},
        {"proto[ascii]:127.0.0.2", false},
        {"tag[x]:10.0.0.1", true},
        {"notlocalhost", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set(&facts.settings, "inter", rows[i].inter);
        assert_advice(rows[i].is_open ? "open_door admin" : "");
    }
    set(&facts.settings, "inter", "0.0.0.0");
    set(&facts.settings, "admin_commands", "control");
    assert_advice("open_door");
    set(&facts.settings, "auth_enabled_ascii", "/etc/mayfly/users");
    assert_advice("");
    set(&facts.settings, "auth_enabled_ascii", "no");
    set(&facts.settings, "ssl_enabled", "yes");
    assert_advice("open_door");
    set(&facts.settings, "ssl_verify_mode", "1"); /* asked for, but not required */
    assert_advice("open_door");
    set(&facts.settings, "ssl_verify_mode", "2");
    assert_advice("");
    set(&facts.settings, "ssl_enabled", "no");
    set(&facts.settings, "domain_socket", "/run/mayfly/socket");
    assert_advice("");
}

TEST(the_host_is_judged)
{
    snprintf(facts.host.huge_pages, sizeof(facts.host.huge_pages), "always");
    assert_advice("huge_pages");
    facts.host.overcommit = 2;
    facts.host.backlog_max = 128;
    assert_advice("huge_pages overcommit backlog");
    facts.host.cgroup_bytes = 64.0 * 1024 * 1024;
    facts.host.swapped_bytes = 1e8;
    facts.host.files_max = 1000;
    assert_advice("huge_pages overcommit backlog cgroup swap files");
    snprintf(facts.host.clock, sizeof(facts.host.clock), "hpet");
    assert_advice("huge_pages overcommit backlog cgroup swap files clock_source");
}

/* With -m 64: a twentieth and 32 MiB more. */
TEST(a_control_group_has_room_for_more_than_the_limit)
{
    facts.host.cgroup_bytes = 98.0 * 1024 * 1024;
    assert_advice("cgroup");
    facts.host.cgroup_bytes = 100.0 * 1024 * 1024;
    assert_advice("");
}

TEST(full_workers_need_more_of_them_where_cpus_are_idle)
{
    facts.host.workers_full = 3;
    facts.host.busiest = 1;
    assert_advice("threads_few");
    facts.host.cpus_idle = 0.5; /* others take the CPUs */
    assert_advice("");
    facts.host.cpus_idle = 3;
    facts.host.cpus_allowed = 4; /* one more would have no CPU */
    assert_advice("");
    facts.host.cpus_allowed = 8;
    facts.host.workers_full = 2; /* the others have room */
    assert_advice("");
}

TEST(workers_need_cpus)
{
    facts.host.cpus_allowed = 2.5;
    assert_advice("threads_many");
    facts.host.cpus_allowed = 4;
    assert_advice("");
    facts.host.cpus = facts.host.cpus_allowed = 2; /* a small host, and nobody has taken any */
    assert_advice("");
}

TEST(one_hot_worker_is_seen)
{
    facts.host.workers_full = 1;
    facts.host.busiest = 0.95;
    assert_advice("one_worker");
    facts.host.idlest = 0.6;
    assert_advice("");
}

TEST(a_move_without_room_is_seen)
{
    set(&facts.moves, "move_waits_for", "walk");
    assert_advice("");
    set(&facts.moves, "move_waits_for", "room");
    assert_advice("move_stuck");
}

TEST(another_host_is_not_judged)
{
    facts.is_here = false;
    facts.host = (struct host){.huge_pages = "always", .overcommit = 2, .clock = "hpet"};
    assert_advice("");
}

/* ---- host -------------------------------------------------------------------------------- */

TEST_FIXTURE(folder_make, folder_remove)

TEST(what_the_kernel_says_is_read)
{
    struct host h;

    folder_put("proc/7/status", "Name:\tmayflyd\nVmRSS:\t    2048 kB\nVmSwap:\t       4 kB\n");
    folder_put("proc/7/limits",
               "Limit  Soft Limit  Hard Limit  Units\n"
               "Max open files            1024                 4096     files\n");
    folder_put("proc/7/cgroup", "0::/system.slice/mayflyd.service\n");
    folder_put("sys/fs/cgroup/system.slice/mayflyd.service/memory.max", "max\n");
    folder_put("sys/fs/cgroup/system.slice/memory.max", "1000000\n");
    folder_put("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 5 kB\n");
    folder_put("proc/sys/vm/overcommit_memory", "1\n");
    folder_put("proc/sys/net/core/somaxconn", "4096\n");
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    folder_put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    host_read(&h, folder, 7);
    ck_assert(h.has_process);
    ck_assert(h.resident_bytes == 2048 * 1024 && h.swapped_bytes == 4096);
    ck_assert(h.files_max == 1024);
    ck_assert(h.cgroup_bytes == 1000000);
    ck_assert(h.memory_bytes == 1024000);
    ck_assert(h.overcommit == 1 && h.backlog_max == 4096);
    ck_assert_str_eq(h.huge_pages, "madvise");
    ck_assert_str_eq(h.clock, "tsc");
}

TEST(cpus_are_those_of_affinity_and_quota)
{
    struct host h;

    folder_put("proc/7/status",
               "Name:\tmayflyd\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,5,7-8\n");
    folder_put("proc/7/cgroup", "0::/a/b\n");
    folder_put("proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 7\n");
    host_read(&h, folder, 7);
    ck_assert(h.cpus == 2 && h.cpus_allowed == 6);
    folder_put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    folder_put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    host_read(&h, folder, 7);
    ck_assert(h.cpus_allowed == 1.5);
    folder_put("proc/7/status", "Cpus_allowed_list:\t3\n");
    host_read(&h, folder, 7);
    ck_assert(h.cpus_allowed == 1);
    folder_put("proc/7/status", "Cpus_allowed_list:\tnone\n");
    folder_put("sys/fs/cgroup/a/cpu.max", "100 0\n");
    host_read(&h, folder, 7);
    ck_assert(isnan(h.cpus_allowed));
}

TEST(what_workers_take_of_a_cpu_is_measured)
{
    static struct host_load before, after;
    struct host h = {.cpus = 2};

    ck_assert(!host_load_read(&before, folder, 7));
    folder_put("proc/stat", "cpu  100 0 0 1000 50 0\ncpu0 1\ncpu1 1\nintr 7\n");
    ck_assert(!host_load_read(&before, folder, 7));
    folder_put("proc/7/task/7/stat", "7 (mayflyd) S 1 2 3 4 5 6 7 8 9 10 11 12\n");
    folder_put("proc/7/task/8/stat", "8 (mayfly-w0) S 1 2 3 4 5 6 7 8 9 10 20 30 1\n");
    folder_put("proc/7/task/9/stat", "9 (mayfly-w11) S 1 2 3 4 5 6 7 8 9 10 0 0 1\n");
    folder_put("proc/7/task/10/stat", "10 (mayfly-wx) S 1 2 3 4 5 6 7 8 9 10 0 0 1\n");
    folder_put("proc/7/task/11/stat", "11 (mayfly-w1)");
    ck_assert(host_load_read(&before, folder, 7));
    ck_assert(before.cpus == 2 && before.all == 1150 && before.idle == 1050);
    ck_assert(before.worker[0] == 50 && before.worker[11] == 0 && isnan(before.worker[2]));
    host_judge_load(&h, &before, &before, 4); /* no time has passed */
    ck_assert_uint_eq(h.workers, 0);
    folder_put("proc/stat", "cpu  180 0 0 1100 70 0\ncpu0 1\ncpu1 1\nintr 7\n");
    folder_put("proc/7/task/8/stat", "8 (mayfly-w0) S 1 2 3 4 5 6 7 8 9 10 100 48 1\n");
    folder_put("proc/7/task/9/stat", "9 (mayfly-w11) S 1 2 3 4 5 6 7 8 9 10 1 9 1\n");
    ck_assert(host_load_read(&after, folder, 7));
    host_judge_load(&h, &before, &after, 12);
    ck_assert(h.workers_full == 1 && h.busiest == 0.98 && h.cpus_idle == 1.2);
    ck_assert_uint_eq(h.workers, 2);
    ck_assert(h.idlest == 0.1);
}

TEST(a_group_without_a_limit_has_none)
{
    struct host h;

    folder_put("proc/7/cgroup", "0::/\n");
    host_read(&h, folder, 7);
    ck_assert(isinf(h.cgroup_bytes));
}

TEST(what_cannot_be_read_is_not_known)
{
    struct host h;

    host_read(&h, folder, 7);
    ck_assert(!h.has_process && isnan(h.resident_bytes) && isnan(h.cgroup_bytes));
    ck_assert(isnan(h.memory_bytes) && h.huge_pages[0] == '\0' && h.clock[0] == '\0');
    folder_put("proc/meminfo", "");
    folder_put("proc/7/cgroup", "rubbish");
    folder_put("proc/7/limits", "Max open files   unlimited unlimited files\n");
    folder_put("sys/kernel/mm/transparent_hugepage/enabled", "none of these\n");
    host_read(&h, folder, 7);
    ck_assert(isnan(h.memory_bytes) && isnan(h.cgroup_bytes) && isnan(h.files_max));
    ck_assert_str_eq(h.huge_pages, "");
}
