/* SPDX-License-Identifier: BSD-3-Clause */
/* Replication: `replicas`, `replicaof`, `promote`, `failover`, `wait`. */
#include "ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "ctl/ask.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/num.h"

/* ---- replicas ---------------------------------------------------------------------------- */

/* The fields of a replica that are shown, and their titles. */
static const struct {
    const char *field, *title;
    enum unit unit;
    unsigned width; /* at least */
} columns[] = {
    {"address", "ADDRESS", UNIT_NONE, 21}, {"peer", "CONNECTED FROM", UNIT_NONE, 21},
    {"state", "STATE", UNIT_NONE, 7},      {"offset", "OFFSET", UNIT_NONE, 12},
    {"lag_bytes", "LAG", UNIT_BYTES, 9},   {"ack_ms", "ACKNOWLEDGED", UNIT_MS, 0},
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Take the next "name=value" of fields that commas separate. False: there is none. */
static bool next_field(struct span *rest, struct span *name, struct span *value)
{
    return span_split(span_cut(rest, ','), '=', name, value);
}

/* The value of a field. Empty: there is no field of that name. */
static struct span find_field(struct span line, const char *wanted)
{
    struct span name, value;

    while (next_field(&line, &name, &value)) {
        if (span_is(name, wanted)) {
            return value;
        }
    }
    return span_of("", 0);
}

/* Is the i-th line about a replica? Its name is "replica0", for instance. */
static bool is_replica(const struct stats *s, size_t i)
{
    static const char begin[] = "replica";
    struct span name = stats_name(s, i);
    uint32_t number;
    size_t n = sizeof(begin) - 1;

    return name.len > n && memcmp(name.ptr, begin, n) == 0 &&
           num_u32(span_of(name.ptr + n, name.len - n), &number) == MF_OK;
}

static void put_table(const struct ctl *c, const struct stats *s)
{
    fputc('\n', c->out);
    for (size_t f = 0; f < COLUMNS; f++) {
        fprintf(c->out, f + 1 < COLUMNS ? "%-*s  " : "%-*s\n", (int)columns[f].width,
                columns[f].title);
    }
    for (size_t i = 0; i < s->count; i++) {
        for (size_t f = 0; f < COLUMNS && is_replica(s, i); f++) {
            struct span value = find_field(stats_value(s, i), columns[f].field);
            size_t taken = show_value(c->out, columns[f].unit, value, c->is_utf8);

            if (f + 1 < COLUMNS) {
                show_pad(c->out, columns[f].width, taken);
                fputs("  ", c->out);
            } else {
                fputc('\n', c->out);
            }
        }
    }
}

/* The figures of the server itself, as a primary and as a replica. */
static const struct {
    const char *name, *title;
    enum unit unit;
    bool is_of_replicas;
} own[] = {
    {"role", "role", UNIT_NONE, false},
    {"repl_state", "state", UNIT_NONE, true},
    {"repl_state_reason", "reason", UNIT_NONE, true},
    {"repl_primary", "follows", UNIT_NONE, true},
    {"replid", "history", UNIT_NONE, false},
    {"repl_epoch", "epoch", UNIT_NONE, false},
    {"repl_offset", "offset", UNIT_NONE, false},
    {"repl_lag_bytes", "lag", UNIT_BYTES, true},
    {"repl_lag_ms", "lag, time", UNIT_MS, true},
    {"repl_clock_skew_ms", "clock skew", UNIT_MS, true},
    {"online_replicas", "replicas online", UNIT_NONE, false},
};

static void put_own(const struct ctl *c, const struct stats *s, bool is_primary)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        struct span value = {0};

        if ((own[i].is_of_replicas && is_primary) || !stats_find(s, own[i].name, &value)) {
            continue;
        }
        fprintf(c->out, "%-15s  ", own[i].title);
        if (span_is(value, "-1")) {
            value = span_str("unknown");
        }
        (void)show_value(c->out, own[i].unit, value, c->is_utf8);
        fputc('\n', c->out);
    }
}

static void put_json(const struct ctl *c, const struct stats *s)
{
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '{');
    for (size_t i = 0; i < s->count; i++) {
        if (!is_replica(s, i)) {
            json_pair(&j, stats_name(s, i), stats_value(s, i));
        }
    }
    json_begin(&j, "replicas", '[');
    for (size_t i = 0; i < s->count; i++) {
        struct span rest = stats_value(s, i);
        struct span name, value;

        if (!is_replica(s, i)) {
            continue;
        }
        json_begin(&j, NULL, '{');
        while (next_field(&rest, &name, &value)) {
            json_name(&j, name);
            json_scalar(&j, NULL, span_is(value, "-") ? (struct span){0} : value);
        }
        json_end(&j, '{');
    }
    json_end(&j, '[');
    json_end(&j, '{');
}

int cmd_replicas(struct ctl *c, const struct ctl_words *args)
{
    struct stats s = {0};
    struct span role = {0};
    struct span state = {0};

    (void)args;
    enum ctl_status status = ask_stats(c, "replication", &s);
    if (status == CTL_OK &&
        (!stats_find(&s, "role", &role) || !stats_find(&s, "repl_state", &state))) {
        status = ctl_fail(c, CTL_REFUSED, "the server does not report its role");
    }
    if (status == CTL_OK && c->options.json) {
        put_json(c, &s);
    } else if (status == CTL_OK) {
        put_own(c, &s, span_is(role, "primary"));
        if (stats_get(&s, "connected_replicas") > 0) {
            put_table(c, &s);
        }
    }
    if (status == CTL_OK && !span_is(role, "primary") && !span_is(state, "online")) {
        status = CTL_NO;
    }
    stats_fini(&s);
    return status;
}

/* ---- replicaof, promote, failover -------------------------------------------------------- */

/* After confirmation, send the command and wait for OK without a time limit. */
static enum ctl_status change_role(struct ctl *c, const struct ctl_words *args,
                                   const char *what, const char *done)
{
    struct span line = {0};

    if (!confirm(c, what)) {
        return CTL_NO;
    }
    enum ctl_status status = ask_event(c, ask_words(c, args, false), &line);
    if (status == CTL_OK && !span_is(line, "OK")) {
        return ask_garbled(c, line);
    }
    if (status == CTL_OK) {
        ctl_done(c, "changed", done);
    }
    return status;
}

int cmd_replicaof(struct ctl *c, const struct ctl_words *args)
{
    if (span_is(args->word[1], "no")) {
        return change_role(c, args, "Make a primary", "OK, the server is a primary");
    }
    return change_role(c, args, "Follow another server and lose the items",
                       "OK, the server is a replica (mayflyctl replicas)");
}

int cmd_promote(struct ctl *c, const struct ctl_words *args)
{
    return change_role(c, args, "Make a primary",
                       "OK, the server is the primary, and the old primary follows it");
}

int cmd_failover(struct ctl *c, const struct ctl_words *args)
{
    return change_role(c, args, "Hand the role of primary to a replica",
                       "OK, a replica is now the primary, and this server follows it");
}

/* ---- wait -------------------------------------------------------------------------------- */

int cmd_wait(struct ctl *c, const struct ctl_words *args)
{
    struct json j = ctl_json(c);
    struct span line = {0};
    uint64_t wanted;
    uint64_t count;

    if (num_u64(args->word[1], &wanted) != MF_OK) {
        return ctl_fail(c, CTL_USAGE, "%.100s is not a number of replicas", args->word[1].ptr);
    }
    enum ctl_status status = ask_event(c, ask_words(c, args, false), &line);
    if (status != CTL_OK) {
        return status;
    }
    if (!span_is(span_word(&line), "WAIT") || num_u64(span_word(&line), &count) != MF_OK) {
        return ask_garbled(c, line);
    }
    json_begin(&j, NULL, '{');
    json_u64(&j, "replicas", count);
    json_u64(&j, "wanted", wanted);
    json_end(&j, '{');
    ctl_say(c, "%llu %s all changes\n", (unsigned long long)count,
            count == 1 ? "replica has" : "replicas have");
    return count >= wanted ? CTL_OK : CTL_NO;
}
