/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options: the tables are sound, values are read strictly, statuses are memcached's, and what
 * is generated from the tables (stats settings, the manual's list, the license) is complete and
 * fresh.
 */
#include "daemon/base/version.h"
#include "daemon/options/options.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "tests/common/unit.h"

#define ARGS_MAX 40

/* The result of one run of options_parse(). */
struct run {
    struct settings settings;
    enum options_result result;
    int status;
    char errors[1024]; /* what it printed on standard error */
};

/* Parse a command line; its words are separated by single spaces. */
static void run_begin(struct run *r, const char *line)
{
    static char program[] = "mayflyd";
    char words[512];
    char *argv[ARGS_MAX + 1] = {program};
    int argc = 1;
    char *rest = words;
    FILE *sink = tmpfile();

    ck_assert_ptr_nonnull(sink);
    ck_assert_uint_lt(strlen(line), sizeof(words));
    strcpy(words, line);
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        ck_assert_int_lt(argc, ARGS_MAX);
        if (line[0] != '\0') {
            argv[argc++] = word;
        }
    }
    argv[argc] = NULL;

    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(sink), STDERR_FILENO);
    r->status = -1;
    r->result = options_parse(argc, argv, &r->settings, &r->status);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);

    rewind(sink);
    r->errors[fread(r->errors, 1, sizeof(r->errors) - 1, sink)] = '\0';
    fclose(sink);
}

static void run_end(struct run *r)
{
    settings_fini(&r->settings);
}

/* The value of one line of `stats settings`; "" when there is none. */
struct wanted {
    const char *name;
    char value[OPTION_TEXT_BYTES];
    unsigned count;
};

static void take_line(void *arg, const char *name, const char *value)
{
    struct wanted *w = arg;

    if (strcmp(name, w->name) == 0) {
        snprintf(w->value, sizeof(w->value), "%s", value);
        w->count++;
    }
}

static const char *shown(const struct settings *s, const char *name)
{
    static struct wanted w;

    w = (struct wanted){.name = name};
    settings_each_line(s, take_line, &w);
    ck_assert_msg(w.count == 1, "%s is shown %u times", name, w.count);
    return w.value;
}

TEST(rows_are_sound)
{
    bool letters[128] = {false};

    letters['h'] = letters['i'] = letters['V'] = letters['o'] = true;
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        ck_assert_ptr_nonnull(row->name);
        ck_assert_msg(strlen(row->help) > 0 && strchr(row->help, '\n') == NULL, "%s",
                      row->name);
        ck_assert_msg(row->help[strlen(row->help) - 1] != '.', "%s: full stop", row->name);
        ck_assert_int_ge(row->letter, 0);
        if (row->letter != 0) {
            ck_assert_msg(!letters[row->letter], "-%c twice", row->letter);
            letters[row->letter] = true;
        }
        for (unsigned other = 0; other < id && row->name[0] != '\0'; other++) {
            ck_assert_msg(
                !option_name_is(option_rows[other].name, row->name, strlen(row->name)),
                "%s twice", row->name);
        }
        if (row->kind == OPT_BOOL) {
            char text[OPTION_TEXT_BYTES];
            ck_assert_ptr_nonnull(option_word(row, 1, OPTION_WORD_SHOWN, text));
            ck_assert_ptr_null(option_word(row, 2, OPTION_WORD_SHOWN, text));
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        if (row->letter != 0) {
            ck_assert_msg(!letters[row->letter], "-%c twice", row->letter);
            letters[row->letter] = true;
        }
        for (unsigned id = 0; id < OPTION_COUNT; id++) {
            ck_assert_msg(!option_name_is(option_rows[id].name, row->name, strlen(row->name)),
                          "%s in both tables", row->name);
        }
    }
}

TEST(defaults_are_within_their_range_or_mean_unset)
{
    struct settings s;

    settings_init(&s);
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        switch (row->kind) {
        case OPT_STR:
        case OPT_LIST:
        case OPT_CHAR:
            break;
        case OPT_DEC2:
        case OPT_DEC3:
            ck_assert_msg(row->def > row->min && row->def < row->max, "%s", row->name);
            break;
        default:
            ck_assert_msg(row->def <= row->max && (row->def >= row->min || row->def == 0), "%s",
                          row->name);
            break;
        }
    }
    ck_assert_int_eq(s.port, 11211);
    ck_assert_uint_eq(s.threads, 4);
    ck_assert_uint_eq(setting_get(&s, memory_limit_bytes), 64u << 20);
    ck_assert_uint_eq(s.item_size_max, 1u << 20);
    ck_assert_uint_eq(s.unix_mask, 0700);
    ck_assert_int_eq(s.prefix_delimiter, ':');
    ck_assert(s.maxconns_fast && setting_get(&s, engine.active_expire) && !s.no_cas);
    ck_assert(setting_get(&s, hot_max_factor) > 0.19 && setting_get(&s, hot_max_factor) < 0.21);
    ck_assert_ptr_null(s.listen);
    settings_fini(&s);
}

/* The keys that Debian's memcached prints, in its order. */
static const char *const memcached_keys[] = {"maxbytes",
                                             "maxconns",
                                             "tcpport",
                                             "udpport",
                                             "inter",
                                             "verbosity",
                                             "oldest",
                                             "evictions",
                                             "domain_socket",
                                             "umask",
                                             "shutdown_command",
                                             "growth_factor",
                                             "chunk_size",
                                             "num_threads",
                                             "num_threads_per_udp",
                                             "stat_key_prefix",
                                             "detail_enabled",
                                             "reqs_per_event",
                                             "cas_enabled",
                                             "tcp_backlog",
                                             "binding_protocol",
                                             "auth_enabled_sasl",
                                             "auth_enabled_ascii",
                                             "item_size_max",
                                             "maxconns_fast",
                                             "hashpower_init",
                                             "slab_reassign",
                                             "slab_automove",
                                             "slab_automove_ratio",
                                             "slab_automove_window",
                                             "slab_chunk_max",
                                             "lru_crawler",
                                             "lru_crawler_sleep",
                                             "lru_crawler_tocrawl",
                                             "tail_repair_time",
                                             "flush_enabled",
                                             "dump_enabled",
                                             "hash_algorithm",
                                             "lru_maintainer_thread",
                                             "lru_segmented",
                                             "hot_lru_pct",
                                             "warm_lru_pct",
                                             "hot_max_factor",
                                             "warm_max_factor",
                                             "temp_lru",
                                             "temporary_ttl",
                                             "idle_timeout",
                                             "watcher_logbuf_size",
                                             "worker_logbuf_size",
                                             "read_buf_mem_limit",
                                             "track_sizes",
                                             "inline_ascii_response",
                                             "ext_item_size",
                                             "ext_item_age",
                                             "ext_low_ttl",
                                             "ext_recache_rate",
                                             "ext_wbuf_size",
                                             "ext_compact_under",
                                             "ext_drop_under",
                                             "ext_max_sleep",
                                             "ext_max_frag",
                                             "slab_automove_freeratio",
                                             "ext_drop_unread",
                                             "ssl_enabled",
                                             "ssl_chain_cert",
                                             "ssl_key",
                                             "ssl_verify_mode",
                                             "ssl_keyformat",
                                             "ssl_ciphers",
                                             "ssl_ca_cert",
                                             "ssl_wbuf_size",
                                             "ssl_session_cache",
                                             "ssl_kernel_tls",
                                             "ssl_min_version",
                                             "num_napi_ids",
                                             "memory_file"};

struct order {
    size_t next;
    bool is_value_missing;
};

static void follow_order(void *arg, const char *name, const char *value)
{
    struct order *o = arg;

    if (o->next < sizeof(memcached_keys) / sizeof(memcached_keys[0])) {
        ck_assert_str_eq(name, memcached_keys[o->next]);
    }
    ck_assert_msg(strpbrk(name, " :") == NULL, "%s would confuse a reader of statistics", name);
    o->is_value_missing |= value[0] == '\0';
    o->next++;
}

TEST(settings_lines_follow_memcached)
{
    struct settings s;
    struct order order = {0, false};

    settings_init(&s);
    settings_each_line(&s, follow_order, &order);
    ck_assert_uint_gt(order.next, sizeof(memcached_keys) / sizeof(memcached_keys[0]));
    ck_assert(!order.is_value_missing);
    settings_fini(&s);
}

TEST(settings_lines_show_what_was_given)
{
    static const struct {
        const char *line;
        const char *name;
        const char *value;
    } rows[] = {
        {"", "maxbytes", "67108864"},
        {"-m 100", "maxbytes", "104857600"},
        {"", "evictions", "on"},
        {"-M", "evictions", "off"},
        {"", "cas_enabled", "yes"},
        {"-C", "cas_enabled", "no"},
        {"-F", "flush_enabled", "no"},
        {"--disable-dumping", "dump_enabled", "no"},
        {"", "inter", "NULL"},
        {"-l 127.0.0.1 -l ::1,localhost:5", "inter", "127.0.0.1,::1,localhost:5"},
        {"", "domain_socket", "NULL"},
        {"-s /a -s /b/c", "domain_socket", "/b/c"},
        {"-a 0770", "umask", "770"},
        {"-a 7", "umask", "7"},
        {"-vv", "verbosity", "2"},
        {"-v -v -v -v", "verbosity", "3"},
        {"--verbose --verbose=2", "verbosity", "2"},
        {"", "binding_protocol", "auto-negotiate"},
        {"-B ascii", "binding_protocol", "ascii"},
        {"", "auth_enabled_ascii", "no"},
        {"-Y users", "auth_enabled_ascii", "users"},
        {"-Y users", "binding_protocol", "ascii"},
        {"-Y users -B ascii", "binding_protocol", "ascii"},
        {"", "auth_enabled_sasl", "no"},
        {"-f 1.3", "growth_factor", "1.30"},
        {"-t 3", "num_threads", "3"},
        {"-t 3", "num_threads_per_udp", "3"},
        {"-D /", "stat_key_prefix", "/"},
        {"-D /", "detail_enabled", "yes"},
        {"-D / -o no_detail_enabled", "detail_enabled", "no"},
        {"-I 4k", "item_size_max", "4096"},
        {"-I 2M", "item_size_max", "2097152"},
        {"-I 1g -m 2048", "item_size_max", "1073741824"},
        {"-o no_maxconns_fast", "maxconns_fast", "no"},
        {"-o no_maxconns_fast,maxconns_fast=1", "maxconns_fast", "yes"},
        {"-o slab_automove=2,no_slab_automove", "slab_automove", "0"},
        {"-o no_slab_automove,slab_automove", "slab_automove", "1"},
        {"-o slab_automove_ratio=1", "slab_automove_ratio", "1.00"},
        {"-o no_lru_crawler", "lru_crawler", "no"},
        {"-o no_lru_crawler,lru_crawler", "lru_crawler", "yes"},
        {"--no-active-expire", "lru_crawler", "no"},
        {"-o active-expire=off", "lru_crawler", "no"},
        {"-o temporary_ttl=9", "temp_lru", "yes"},
        {"-o slab_automove_freeratio=0.125", "slab_automove_freeratio", "0.125"},
        {"-o slab_chunk_max=16", "slab_chunk_max", "16384"},
        {"-o read_buf_mem_limit=2", "read_buf_mem_limit", "2097152"},
        {"-o hash_algorithm=xxh3", "hash_algorithm", "xxh3"},
        {"-m 4g", "maxbytes", "4294967296"},
        {"-m\t100", "maxbytes", "104857600"},
        {"-m 65536k", "maxbytes", "67108864"},
        {"-o ssl_wbuf_size=1m", "ssl_wbuf_size", "1048576"},
        {"-M", "evictions", "off"},
        {"-M", "maxmemory_policy", "noeviction"},
        {"-o maxmemory_policy=noeviction", "evictions", "off"},
        {"-o maxmemory_policy=volatile-ttl", "evictions", "on"},
        {"--save=1:1 --save=", "maxbytes", "67108864"},
        {"-o save=1:1,save=", "maxbytes", "67108864"},
        {"-o lazyfree-threshold=128k", "lazyfree_threshold", "131072"},
        {"-o conn_limit=7,threads=2", "maxconns", "7"},
        {"-p -1", "tcpport", "-1"},
        {"-p 5 --port=6", "tcpport", "6"},
        {"-U 5", "tcpport", "5"},
        {"-U -1", "tcpport", "-1"},
        {"-U 0", "tcpport", "11211"},
        {"-p 6 -U 5", "tcpport", "6"},
        {"-o relaxed_privileges", "lru_crawler", "yes"},
        {"-o no_modern", "lru_crawler", "no"},
        {"-o no_modern,lru_crawler", "lru_crawler", "yes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run r;
        run_begin(&r, rows[i].line);
        ck_assert_msg(r.result == OPTIONS_RUN, "\"%s\": %s", rows[i].line, r.errors);
        ck_assert_msg(strcmp(shown(&r.settings, rows[i].name), rows[i].value) == 0,
                      "\"%s\": %s is %s, not %s", rows[i].line, rows[i].name,
                      shown(&r.settings, rows[i].name), rows[i].value);
        run_end(&r);
    }
}

/* Refused, with memcached's status if it refuses them too; the message names what is wrong. */
static const struct {
    const char *line;
    int status;
    const char *message;
} refusals[] = {
    {"-m -5", 64, "-5 is out of range"},
    {"-m 12abc", 64, "\"12abc\" is not a number"},
    {"--maxmemory 100", 64, "--maxmemory: \"100b\" is not a whole number of megabytes"},
    {"--maxmemory", 1, "--maxmemory: a value is missing"},
    {"-m 1000k", 64, "-m: \"1000k\" is not a whole number of megabytes"},
    {"-m 99999999g", 64, "-m: 99999999g is out of range (1 to 16777216 megabytes, or"},
    {"-m 4x", 64, "-m: \"4x\" is not a number with suffix k, m, g or none (1 to"},
    {"-m k", 64, "\"k\" is not a number"},
    {"--save=1:1", 64, "--save: needs a folder to save to (--dir)"},
    {"-o save=x,dir=/tmp", 64, "-o save: \"x\" is not a list of rules"},
    {"-m 1", 64, "-m: the largest item (-I 1m) is more than half of the memory (-m 1)"},
    {"-m 18446744073709551617", 64, "too large"},
    {"-p abc", 64, "\"abc\" is not a number"},
    {"-p 65536", 64, "65536 is out of range (-1 to 65535)"},
    {"--port=", 64, "\"\" is not a number"},
    {"-U 99999", 64, "99999 is out of range"},
    {"-c 0", 1, "0 is out of range"},
    {"-t 0", 1, "0 is out of range (1 to 512, or auto)"},
    {"-t x", 1, "\"x\" is not a number"},
    {"-R 0", 1, "0 is out of range"},
    {"-n 0", 1, "0 is out of range"},
    {"-f 1", 1, "1 is out of range (more than 1"},
    {"-f 1.2.3", 1, "not a number"},
    {"-f nan", 1, "not a number"},
    {"-f", 1, "-f: a value is missing (more than 1, at most 1000)"},
    {"-I 1023", 64, "1023 is out of range"},
    {"-I 33m", 64, "-I: the largest item (-I 33m) is more than half of the memory (-m 64)"},
    {"-I 1025m -m 4096", 64, "out of range"},
    {"-I 1x", 64, "suffix"},
    {"-I 99999999999g", 64, "too large"},
    {"-a 888", 64, "octal"},
    {"-a 1000", 64, "1000 is out of range (0 to 777)"},
    {"-D ab", 64, "one character"},
    {"-B foo", 64, "\"foo\" is not one of auto ascii binary"},
    {"-N 0", 1, "out of range"},
    {"-N 5", 64, "-N: 5 cannot be greater than number of threads (-t 4)"},
    {"-S -B auto", 64, "cannot allow the ASCII protocol while using SASL"},
    {"-B ascii -S", 64, "cannot allow the ASCII protocol while using SASL"},
    {"-S -U 11211", 64, "-U: cannot enable UDP while using SASL"},
    {"-Y", 1, "-Y: a value is missing (file)"},
    {"--auth-file", 1, "--auth-file: a value is missing (file)"},
    {"-B", 1, "-B: a value is missing, one of auto ascii binary"},
    {"--config", 1, "--config: a value is missing"},
    {"-o", 1, "-o: a value is missing"},
    {"-vo", 1, "-o: a value is missing"},
    {"--extended", 1, "--extended: a value is missing"},
    {"-Y users -B auto", 64, "cannot allow the BINARY protocol"},
    {"-B binary -Y users", 64, "cannot allow the BINARY protocol"},
    {"-Y users -U 11211", 64, "-U: cannot use UDP with a file of users"},
    {"-o ext_path=/x:1G", 64, "not built with external storage"},
    {"-o proxy_config=x", 64, "not built with proxy"},
    {"-o foo", 1, "mayflyd: -o foo: unknown option (see mayflyd --help)\n"},
    {"-o lru_crawler,,hz=1", 1, "-o: the name of an option is missing"},
    {"-o idle_timeot=5", 1, "(did you mean \"idle-timeout\"?)"},
    {"-o no_port", 1, "-o no_port: unknown option"},
    {"-o idle_timeout", 1, "-o idle_timeout: a value is missing (0 to 2147483647)"},
    {"-o idle_timeout=abc", 1, "\"abc\" is not a number"},
    {"-o maxconns_fast=maybe", 1, "neither yes nor no"},
    {"-o hashpower=11", 1, "11 is out of range (12 to 32)"},
    {"-o hashpower=33", 1, "33 is out of range (12 to 32)"},
    {"-o slab_automove=9", 1, "9 is out of range (0 to 2)"},
    {"-o slab_automove_window=2", 1, "2 is out of range"},
    {"-o slab_automove_window=1801", 1, "1801 is out of range"},
    {"-o slab_automove_ratio=1.01", 1, "1.01 is out of range (more than 0, at most 1)"},
    {"-o slab_sizes", 1, "-o slab_sizes: a value is missing"},
    {"-o sock_cookie_id", 1, "-o sock_cookie_id: a value is missing"},
    {"-o tail_repair_time=5", 1, "5 is out of range"},
    {"-o hash_algorithm=md5", 1, "not one of"},
    {"-o lru_crawler_sleep=1000001", 1, "out of range"},
    {"-o hot_lru_pct=80", 1, "out of range"},
    {"-o hot_lru_pct=50,warm_lru_pct=40", 64, "cannot be more than 80% combined"},
    {"-o hot_max_factor=0", 1, "out of range"},
    {"-o temporary_ttl=5,no_lru_maintainer", 64, "requires lru_maintainer"},
    {"-o appendonly=keys", 64, "needs a folder"},
    {"-o dir=/tmp,appendonly=keys,load_async", 64, "not with load_async"},
    {"-o dir=/tmp,appendonly=full,load_async", 64, "not with load_async"},
    {"-o dir=/tmp,load_async,load=strict", 64, "not with load=strict"},
    {"-o dir=/tmp,dbfilename=.x", 64, "dbfilename"},
    {"-o dir=/tmp,dbfilename=a/b", 64, "dbfilename"},
    {"-o dir=/tmp,save=60", 64, "save"},
    {"-o dir=/tmp,save=0:1", 64, "save"},
    {"--log sub/mayfly.log", 64, "neither stderr nor journal nor an absolute path"},
    {"-o expire_effort=11", 1, "out of range (1 to 10)"},
    {"-s ", 64, "empty"},
    {"stray", 1, "mayflyd: stray: not an option"},
    {"-v stray -p 1", 1, "mayflyd: stray: not an option"},
    {"-- -p", 1, "-p: not an option"},
    {"-q", 1, "mayflyd: -q: unknown option (see mayflyd --help)\n"},
    {"-vq", 1, "-q: unknown option"},
    {"--hz=7 -qv", 1, "mayflyd: -q: unknown option"},
    {"--slab", 1, "--slab: the beginning of several options"},
    {"--no-maxconns-fast=x", 1, "--no-maxconns-fast: takes no value"},
    {"--bogus=5", 1, "mayflyd: --bogus: unknown option (see mayflyd --help)\n"},
    {"--thraeds=3", 1, "mayflyd: --thraeds: unknown option (did you mean \"threads\"?)\n"},
};

TEST(bad_command_lines_are_refused)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct run r;
        run_begin(&r, refusals[i].line);
        ck_assert_msg(r.result == OPTIONS_EXIT, "\"%s\" was accepted", refusals[i].line);
        ck_assert_msg(r.status == refusals[i].status, "\"%s\": status %d, not %d",
                      refusals[i].line, r.status, refusals[i].status);
        ck_assert_msg(strstr(r.errors, refusals[i].message) != NULL, "\"%s\": %s",
                      refusals[i].line, r.errors);
        run_end(&r);
    }
}

/* Part of the message in each build; NULL: accepted. */
static const struct {
    const char *line;
    int status;
    const char *message;
} tls_refusals[] = {
    {"-Z", 64, "-Z: cannot be used without a certificate"},
    {"-Z -o ssl_key=k", 64, "-Z: cannot be used without a certificate"},
    {"-Z -p 0 -s /s -o ssl_chain_cert=c", 64, "-Z: cannot be used without a TCP port"},
    {"-Z -o ssl_chain_cert", 1, "-o ssl_chain_cert: a value is missing (file)"},
    {"-Z -o ssl_key", 1, "-o ssl_key: a value is missing (file)"},
    {"-o ssl_verify_mode=4", 1, "4 is out of range (0 to 3)"},
    {"-o ssl_verify_mode=x", 1, "not a number"},
    {"-o ssl_verify_mode", 1, "a value is missing"},
    {"-o ssl_keyformat=PEM", 64, "not a number"},
    {"-o ssl_keyformat=3", 64, "3 is out of range (1 to 2)"},
    {"-o ssl_wbuf_size=x", 1, "not a number"},
    {"-o ssl_wbuf_size", 1, "a value is missing"},
    {"-o ssl_min_version=4", 1, "not one of 0 1 2 3"},
    {"-o ssl_min_version=tlsv1.3", 1, "not one of 0 1 2 3"},
    {"-Z -o ssl_chain_cert=c", 0, NULL},
    {"-Z -s /s -o ssl_chain_cert=c,ssl_key=k,ssl_verify_mode=3,ssl_keyformat=2", 0, NULL},
    {"-o ssl_chain_cert=c,ssl_session_cache,ssl_kernel_tls,ssl_wbuf_size=0", 0, NULL},
    {"-o ssl_ca_cert=a,ssl_ciphers=HIGH:!aNULL,ssl_min_version=3", 0, NULL},
    {"-o replica_tls=maybe", 64, "neither yes nor no"},
    {"-o replica_tls=no,replica_tls_ca_cert=a,replica_tls_cert=c,replica_tls_key=k", 0, NULL},
};

TEST(tls_is_configured_or_not_built)
{
    for (size_t i = 0; i < sizeof(tls_refusals) / sizeof(tls_refusals[0]); i++) {
        const char *line = tls_refusals[i].line;
        const char *message = tls_refusals[i].message;
        int status = tls_refusals[i].status;
        struct run r;

        if (message == NULL && !BUILT_WITH_TLS) {
            message = "not built with TLS";
            status = 64;
        }
        run_begin(&r, line);
        ck_assert_msg((r.result == OPTIONS_RUN) == (message == NULL), "\"%s\"", line);
        if (message != NULL && (BUILT_WITH_TLS || status == 1)) {
            ck_assert_msg(r.status == status, "\"%s\": status %d", line, r.status);
            ck_assert_msg(strstr(r.errors, message) != NULL, "\"%s\": %s", line, r.errors);
        }
        run_end(&r);
    }
}

TEST(names_of_redis_are_accepted)
{
    static const struct {
        const char *line;
        const char *name; /* of a line of stats settings */
        const char *value;
    } rows[] = {
        {"--maxmemory 104857600", "maxbytes", "104857600"},
        {"--maxmemory=100mb", "maxbytes", "104857600"},
        {"-o maxmemory=1gb", "maxbytes", "1073741824"},
        {"--maxmemory-eviction-tenacity 50", "eviction_tenacity", "50"},
        {"--active-expire-effort 7", "expire_effort", "7"},
        {"-o active_expire_effort=7", "expire_effort", "7"},
        {"--lazyfree-lazy-expire no", "lazyfree_expire", "no"},
        {"--lazyfree-lazy-eviction no", "lazyfree_evict", "no"},
        {"--lazyfree-lazy-server-del no", "lazyfree_overwrite", "no"},
        {"--lazyfree-lazy-user-del no", "lazyfree_delete", "no"},
        {"--lazyfree-lazy-user-flush no", "lazyfree_flush", "no"},
        {"--maxclients 99", "maxconns", "99"},
        {"--timeout 5", "idle_timeout", "5"},
        {"--tcp-backlog 5", "tcp_backlog", "5"},
        {"--unixsocketperm 770", "umask", "770"},
        {"--daemonize no", "maxconns", "1024"},
        {"--slowlog-max-len 5", "slowlog_max", "5"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run r;

        run_begin(&r, rows[i].line);
        ck_assert_msg(r.result == OPTIONS_RUN, "\"%s\": %s", rows[i].line, r.errors);
        ck_assert_str_eq(shown(&r.settings, rows[i].name), rows[i].value);
        run_end(&r);
    }
}

/* Each says what there is in its place, in all forms. */
TEST(other_options_of_redis_say_what_to_use)
{
    static const char *const forms[][2] = {
        {"--", " x"}, {"--", ""}, {"-o ", "=x"}, {"-o ", ""}};
    unsigned count = 0;

    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        struct run r;
        char line[100];
        char message[300];

        snprintf(message, sizeof(message), "%s: an option of Redis: %s\n", row->name,
                 row->text);
        for (size_t k = 0; row->verdict == COMPAT_INSTEAD && k < 4; k++, count++) {
            snprintf(line, sizeof(line), "%s%s%s", forms[k][0], row->name, forms[k][1]);
            run_begin(&r, line);
            ck_assert_msg(r.status == 1 && strstr(r.errors, message) != NULL, "\"%s\": %s",
                          line, r.errors);
            run_end(&r);
        }
    }
    ck_assert_uint_gt(count, 40);
}

/* They are taken, and what is used in their place is said. */
TEST(a_value_that_is_moved_is_told)
{
    static const struct {
        const char *line;
        const char *hz;
        const char *message;
    } rows[] = {
        {"-o hz=0", "1", "mayflyd: -o hz: 0 is out of range (1 to 500): 1 is used instead\n"},
        {"--hz=-1", "1", "mayflyd: --hz: -1 is out of range (1 to 500): 1 is used instead\n"},
        {"--hz 501", "500",
         "mayflyd: --hz: 501 is out of range (1 to 500): 500 is used instead\n"},
        {"--hz 500", "500", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run r;

        run_begin(&r, rows[i].line);
        ck_assert_int_eq(r.result, OPTIONS_RUN);
        ck_assert_str_eq(shown(&r.settings, "hz"), rows[i].hz);
        ck_assert_str_eq(r.errors, rows[i].message);
        run_end(&r);
    }
}

/* Of -M and a policy in one source -M counts, and a message says so. */
TEST(a_policy_beside_M_is_not_lost_in_silence)
{
    struct run r;

    run_begin(&r, "-M -o maxmemory_policy=allkeys-lru");
    ck_assert_int_eq(r.result, OPTIONS_RUN);
    ck_assert_str_eq(shown(&r.settings, "maxmemory_policy"), "noeviction");
    ck_assert_str_eq(r.errors, "mayflyd: -M: overrides maxmemory_policy=allkeys-lru\n");
    run_end(&r);
    run_begin(&r, "-M -o maxmemory_policy=noeviction");
    ck_assert_str_eq(r.errors, "");
    run_end(&r);
}

TEST(evictions_are_shown_as_the_policy_is_now)
{
    struct settings s;

    settings_init(&s);
    ck_assert_str_eq(shown(&s, "evictions"), "on");
    setting_set(&s, engine.maxmemory_policy, CHOICE_NOEVICTION);
    ck_assert_str_eq(shown(&s, "evictions"), "off");
    settings_fini(&s);
}

TEST(memcached_command_lines_are_accepted)
{
    static const char *const lines[] = {
        "",
        "-m 64 -p 11211 -u memcache -l 127.0.0.1 -P /run/memcached/memcached.pid",
        "-d -r -k -L -A -C -F -X -W -M -vv -b 10 -R 5 -n 64 -f 1.1 -N 2 -U 0 -t 2",
        "--port=0 --udp-port=0 --unix-socket=/x --unix-mask=777 --enable-shutdown --daemon",
        "--conn-limit=5 --lock-memory --slab-growth-factor=2 --slab-min-size=50 --napi_ids=1",
        "--listen=[::1]:5 --max-reqs-per-event=1 --listen-backlog=0 --protocol=auto",
        "--thre=2",
        "-o modern -o no_modern,no_hashexpand,hashpower=20",
        "-o slab_reassign,no_slab_reassign,slab_automove,slab_sizes=100-200,no_chunked_items",
        "-o slab_automove_ratio=0.5,slab_automove_window=3,slab_automove_freeratio=0",
        "-o lru_crawler,lru_crawler_sleep=0,lru_crawler_tocrawl=5,tail_repair_time=10",
        "-o lru_maintainer,hot_lru_pct=10,warm_lru_pct=70,hot_max_factor=0.5,warm_max_factor=3",
        "-o temporary_ttl=0,idle_timeout=30,watcher_logbuf_size=1,worker_logbuf_size=1",
        "-o track_sizes,read_buf_mem_limit=0,resp_obj_mem_limit=5,inline_ascii_resp",
        "-o no_inline_ascii_resp,no_drop_privileges,sock_cookie_id=3,no_lru_maintainer",
        "-o hash_algorithm=jenkins,hash_algorithm=murmur3,",
        /* the greatest that the rules allow */
        "-I 32m -m 64",
        "-t 2 -N 2",
        "-t 64",
        "-o hot_lru_pct=50,warm_lru_pct=30",
        "-o dir=/tmp,load_async,dbfilename=a.b,save=60:1 --log /tmp/mayfly.log",
        "-o dir=/tmp,appendonly=keys",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct run r;
        run_begin(&r, lines[i]);
        ck_assert_msg(r.result == OPTIONS_RUN, "\"%s\": %s", lines[i], r.errors);
        ck_assert_str_eq(r.errors, "");
        run_end(&r);
    }
}

TEST(a_higher_source_wins_whatever_the_order)
{
    struct settings s;
    char why[OPTION_TEXT_BYTES];

    settings_init(&s);
    ck_assert(option_set(&s, OPTION_threads, "7", OPTION_COMMAND_LINE, why));
    ck_assert(option_set(&s, OPTION_threads, "9", OPTION_FILE, why));
    ck_assert_uint_eq(s.threads, 7);

    ck_assert(option_set(&s, OPTION_listen, "a", OPTION_FILE, why));
    ck_assert(option_set(&s, OPTION_listen, "b", OPTION_FILE, why));
    ck_assert_str_eq(s.listen, "a,b");
    ck_assert(option_set(&s, OPTION_listen, "c", OPTION_COMMAND_LINE, why));
    ck_assert_str_eq(s.listen, "c");

    ck_assert(option_set_off(&s, OPTION_maxconns_fast, OPTION_COMMAND_LINE));
    ck_assert(option_set(&s, OPTION_maxconns_fast, "yes", OPTION_FILE, why));
    ck_assert(!s.maxconns_fast);
    ck_assert(!option_set_off(&s, OPTION_threads, OPTION_COMMAND_LINE));
    settings_fini(&s);
}

TEST(a_refused_value_changes_nothing)
{
    struct settings s;
    char why[OPTION_TEXT_BYTES];

    settings_init(&s);
    ck_assert(!option_set(&s, OPTION_threads, "0", OPTION_COMMAND_LINE, why));
    ck_assert_uint_eq(s.threads, 4);
    ck_assert_uint_eq(setting_source(&s, OPTION_threads), OPTION_DEFAULT);
    settings_fini(&s);
}

TEST(live_values_are_shown_as_they_change)
{
    struct settings s;

    settings_init(&s);
    setting_set(&s, memory_limit_bytes, UINT64_C(10) << 40);
    setting_set(&s, hot_max_factor, 0.5);
    setting_set(&s, detail_enabled, true);
    ck_assert_str_eq(shown(&s, "maxbytes"), "10995116277760");
    ck_assert_str_eq(shown(&s, "hot_max_factor"), "0.50");
    ck_assert_str_eq(shown(&s, "detail_enabled"), "yes");
    settings_fini(&s);
}

TEST(long_texts_are_shown_whole)
{
    struct settings s;
    char path[2 * OPTION_TEXT_BYTES];
    char why[OPTION_TEXT_BYTES];

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    settings_init(&s);
    ck_assert(option_set(&s, OPTION_unix_path, path, OPTION_COMMAND_LINE, why));
    char text[OPTION_TEXT_BYTES];
    ck_assert_str_eq(option_show(&s, OPTION_unix_path, text), path);
    ck_assert(!option_set(&s, OPTION_threads, path, OPTION_COMMAND_LINE, why));
    ck_assert_uint_lt(strlen(why), OPTION_TEXT_BYTES);
    settings_fini(&s);
}

/* Fill text with what a function prints. */
static void print_to(char *text, size_t size, void (*print)(FILE *out))
{
    FILE *f = tmpfile();

    ck_assert_ptr_nonnull(f);
    print(f);
    rewind(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

TEST(the_license_is_printed_whole)
{
    static char text[65536];

    print_to(text, sizeof(text), options_print_license);
    ck_assert_ptr_nonnull(strstr(text, "\n\nCopyright (c)"));
    ck_assert_str_eq(text + strlen(text) - 8, "DAMAGE.\n");
}

/* Every option with a long form is listed, except the ignored ones. */
TEST(the_help_has_every_option)
{
    static char text[65536];

    print_to(text, sizeof(text), options_print_help);
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        char name[OPTION_TEXT_BYTES];

        snprintf(name, sizeof(name), "%s%s", option_has_no_form(row) ? "--[no-]" : "--",
                 row->name);
        ck_assert_msg((row->traits & OPT_IGNORED) || strstr(text, name) != NULL,
                      "%s is not in the help", row->name);
    }
}
