/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard: a table of rules that main puts in the place of another one while requests are looked
 * at, which it may do at any moment.
 */
#include <stdatomic.h>

#include "daemon/access/rules.h"
#include "daemon/command/client.h"
#include "daemon/command/guard.h"
#include "daemon/net/origin.h"
#include "daemon/options/settings.h"
#include "daemon/worker/crew.h"
#include "lib/base/mem.h"
#include "lib/base/rcu.h"
#include "tests/common/unit.h"

/* The rule of c is the last of three, and the only one. */
static const char before[] = "user a read\nuser b read\nuser c read,write prefix=old:\n";
static const char after[] = "user c read,write prefix=new:\n";

static const struct conn_origin origin = {.transport = CONN_TCP, .rights = RIGHTS_ORDINARY};
static char path[] = "rules";
static struct settings settings;
static struct crew crew;
static struct worker worker;
static struct client client;
static struct turn turn;
static struct rules *tables[2];

static void must_not_complain(void *arg, unsigned line, const char *why)
{
    ck_abort_msg("line %u: %s", line, why);
}

static struct rules *make(const char *text)
{
    struct rules *rules = rules_create(span_str(text), must_not_complain, NULL);

    ck_assert_ptr_nonnull(rules);
    return rules;
}

static void put(struct rules *rules)
{
    atomic_store(&crew.access.rules.content, rules);
}

static void setup(void)
{
    rcu_register();
    memset(&crew, 0, sizeof(crew));
    memset(&worker, 0, sizeof(worker));
    memset(&client, 0, sizeof(client));
    memset(&turn, 0, sizeof(turn));
    crew.access.rules.path = path;
    settings_init(&settings);
    worker.crew = &crew;
    worker.settings = &settings;
    client.origin = &origin;
    turn.w = &worker;
    turn.client = &client;
    rcu_begin();
}

static void teardown(void)
{
    rcu_end();
    rcu_unregister();
    for (unsigned i = 0; i < 2; i++) {
        rules_destroy(tables[i]);
        tables[i] = NULL;
    }
    mem_free(client.user);
    client.user = NULL;
    settings_fini(&settings);
}

TEST_FIXTURE(setup, teardown)

static struct request get_of(const char *key)
{
    return (struct request){.cls = CLASS_GET, .command = CMD_GET, .key = span_str(key)};
}

/* A client logs in while the rules are those of before. */
static void log_in_before(void)
{
    tables[0] = make(before);
    tables[1] = make(after);
    put(tables[0]);
    guard_begin(&client, &worker);
    ck_assert(guard_login(&client, &worker, span_str("c")));
    guard_settle(&turn);
}

TEST(a_client_is_judged_by_one_table)
{
    struct request old_key = get_of("old:1");
    struct request new_key = get_of("new:1");

    log_in_before();
    ck_assert(client.is_guarded);
    ck_assert_int_eq(guard_ask(&turn, &old_key, true), REPLY_NONE);
    ck_assert_int_eq(guard_ask(&turn, &new_key, true), REPLY_NO_KEY);
    put(tables[1]);
    ck_assert_int_eq(guard_ask(&turn, &old_key, true), REPLY_NO_KEY);
    ck_assert_int_eq(guard_ask(&turn, &new_key, true), REPLY_NONE);
}

/* Whose prefix is it? The table may be another one than when its batch was checked. */
TEST(an_owner_of_a_prefix_is_judged_by_one_table)
{
    struct request old_prefix = {
        .cls = CLASS_ADMIN, .command = CMD_FLUSH_PREFIX, .args = span_str("old:1")};
    struct request new_prefix = old_prefix;
    bool is_operators;

    new_prefix.args = span_str("new:1");
    log_in_before();
    ck_assert_int_eq(guard_operator(&turn, &old_prefix, &is_operators), REPLY_NONE);
    ck_assert_int_eq(guard_operator(&turn, &new_prefix, &is_operators), REPLY_NO_ADMIN);
    put(tables[1]);
    ck_assert_int_eq(guard_operator(&turn, &old_prefix, &is_operators), REPLY_NO_ADMIN);
    ck_assert_int_eq(guard_operator(&turn, &new_prefix, &is_operators), REPLY_NONE);
}

/* While items are out of date: the key of these is no item's. */
TEST(words_of_the_binary_protocol_are_not_hidden)
{
    struct request stat = {
        .cls = CLASS_BINARY_ADMIN, .command = CMD_STATS, .key = span_str("settings")};
    struct request auth = {.cls = CLASS_BINARY, .command = CMD_NONE, .key = span_str("PLAIN")};
    struct request get = {.cls = CLASS_BINARY, .command = CMD_GET, .key = span_str("key")};

    guard_begin(&client, &worker);
    worker.gate = GATE_READ_ONLY | GATE_MISSES;
    guard_request(&turn, &stat);
    guard_request(&turn, &auth);
    guard_request(&turn, &get);
    ck_assert(span_is(stat.key, "settings"));
    ck_assert(span_is(auth.key, "PLAIN"));
    ck_assert_uint_eq(get.key.len, 0);
}

TEST(a_datagram_is_judged_by_one_table)
{
    struct request r = get_of("new:1");

    ck_assert_int_eq(guard_ask_datagram(&turn, &r, true), REPLY_NONE);
    tables[0] = make("certificate x read\nlistener udp read\ndefault read prefix=old:\n");
    tables[1] = make("default read prefix=new:\n");
    put(tables[0]);
    ck_assert_int_eq(guard_ask_datagram(&turn, &r, true), REPLY_NONE);
    r.cls = CLASS_STORE;
    r.command = CMD_SET;
    ck_assert_int_eq(guard_ask_datagram(&turn, &r, true), REPLY_NO_WRITE);
    put(tables[1]);
    r = get_of("old:1");
    ck_assert_int_eq(guard_ask_datagram(&turn, &r, true), REPLY_NO_KEY);
}
