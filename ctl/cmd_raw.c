/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that are passed on: `raw`, `bgsave`, `shutdown`. */
#include <string.h>

#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "lib/base/num.h"

/* ---- raw --------------------------------------------------------------------------------- */

/* What is more than a line and an answer; and the command of mayflyctl that does it. */
static const struct {
    const char *word;
    const char *instead;
} unfit[] = {
    {"set", "set"}, {"add", "set"}, {"replace", "set"}, {"append", "set"}, {"prepend", "set"},
    {"cas", "set"}, {"ms", "set"},  {"watch", "watch"}, {"save", "save"},  {"restore", "load"},
};

/* What is asked for first on a terminal, as by the commands of mayflyctl that do it. */
static const struct {
    const char *word;
    const char *what;
} final[] = {
    {"flush_all", "Drop all items"},
    {"flush_prefix", "Drop all items whose keys have this prefix"},
    {"shutdown", "Stop the server"},
    {"replicaof", "Change the role"},
    {"promote", "Make a primary"},
    {"failover", "Hand the role of primary to a replica"},
};

/* The bytes of a value that follows "VALUE key flags bytes" or "VA bytes"; false: none does. */
static bool value_follows(struct span line, uint64_t *bytes)
{
    struct span word = span_word(&line);
    unsigned skip = span_is(word, "VALUE") ? 2 : 0;

    if (!span_is(word, "VALUE") && !span_is(word, "VA")) {
        return false;
    }
    while (skip-- > 0) {
        (void)span_word(&line);
    }
    return num_u64(span_word(&line), bytes) == MF_OK && *bytes < ASK_VALUE_MAX;
}

/* Show the answer, which ends where that to "mn" begins. */
static enum ctl_status show_all(struct ctl *c, struct json *j)
{
    char refusal[CTL_WHY_BYTES] = "";
    struct span line = {0};
    uint64_t bytes;

    for (;;) {
        enum ctl_status status = ask_answer(c, &line);

        if (status == CTL_OK && span_is(line, "MN")) {
            break;
        }
        if (status == CTL_REFUSED) {
            memcpy(refusal, c->why, sizeof(refusal));
            continue;
        }
        if (status != CTL_OK) {
            return status;
        }
        ctl_put_answer(c, j, line);
        if (value_follows(line, &bytes)) {
            status = ask_value(c, (size_t)bytes + 2, &line);
            if (status != CTL_OK) {
                return status;
            }
            ctl_put_answer(c, j, span_of(line.ptr, line.len - 2));
        }
    }
    return refusal[0] != '\0' ? ctl_fail(c, CTL_REFUSED, "%s", refusal) : CTL_OK;
}

int cmd_raw(struct ctl *c, const struct ctl_words *args)
{
    struct ctl_words rest = {0};
    struct json j = ctl_json(c);

    for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++) {
        if (span_is(args->word[1], unfit[i].word)) {
            return ctl_fail(c, CTL_USAGE, "raw sends one line, and %s is more: use %s",
                            unfit[i].word, unfit[i].instead);
        }
    }
    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
        if (span_is(args->word[1], final[i].word) && !confirm(c, final[i].what)) {
            return CTL_NO;
        }
    }
    for (unsigned i = 1; i < args->count; i++) {
        rest.word[rest.count++] = args->word[i];
    }
    enum ctl_status status = ask_words(c, &rest, false);
    if (status == CTL_OK) {
        status = ask_line(c, "mn");
    }
    if (status != CTL_OK) {
        return status;
    }
    json_begin(&j, NULL, '[');
    status = show_all(c, &j);
    json_end(&j, '[');
    return status;
}

/* ---- bgsave, shutdown -------------------------------------------------------------------- */

int cmd_bgsave(struct ctl *c, const struct ctl_words *args)
{
    enum ctl_status status = ask_done(c, ask_line(c, "bgsave"));

    (void)args;
    if (status == CTL_OK) {
        ctl_done(c, "saving", "OK, the server saves its snapshot (stats persistence)");
    }
    return status;
}

int cmd_shutdown(struct ctl *c, const struct ctl_words *args)
{
    if (!confirm(c, "Stop the server")) {
        return CTL_NO;
    }
    enum ctl_status status = ask_words(c, args, false);
    if (status == CTL_OK) {
        status = ask_end(c);
    }
    if (status == CTL_OK) {
        ctl_done(c, "stopping", "OK, the server stops");
    }
    return status;
}
