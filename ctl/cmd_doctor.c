/* SPDX-License-Identifier: BSD-3-Clause */
/* `doctor`: a page of advice, each with the fact that it is based on. */

#include "ctl/commands.h"

#include "ctl/advice.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/link/link.h"

/* Seconds during which the CPU time of workers is measured. */
#define MEASURE_S 0.5

/* Measure the CPU time of workers, if the server runs on this host. */
static void measure(struct host *h, int pid, unsigned workers)
{
    static struct host_load before, after;

    if (host_load_read(&before, HOST_ROOT, pid) && ctl_sleep(MEASURE_S) &&
        host_load_read(&after, HOST_ROOT, pid)) {
        host_judge_load(h, &before, &after, workers);
    }
}

static enum ctl_status gather(struct ctl *c, struct facts *f)
{
    enum ctl_status status = ask_stats(c, "", &f->general);

    f->unix_s = (double)ctl_unix_ms() / 1e3;
    if (status == CTL_OK) {
        status = ask_stats(c, "settings", &f->settings);
    }
    status = ask_stats_if_any(c, status, "expire", &f->expire);
    status = ask_stats_if_any(c, status, "replication", &f->replication);
    status = ask_stats_if_any(c, status, "moves", &f->moves);
    if (status == CTL_OK) {
        int pid = host_pid(c, &f->general);

        f->is_here = link_is_local(c->link);
        host_read(&f->host, HOST_ROOT, pid);
        measure(&f->host, pid, (unsigned)stats_get(&f->general, "threads"));
    }
    return status;
}

static void put_json(struct json *j, const struct advice_text *text, enum advice_state state,
                     const char *fact)
{
    static const char *const names[] = {
        [ADVICE_WELL] = "well", [ADVICE_GIVEN] = "advice", [ADVICE_UNKNOWN] = "unknown"};

    json_begin(j, NULL, '{');
    json_text(j, "id", span_str(text->name));
    json_text(j, "state", span_str(names[state]));
    json_text(j, "fact", span_str(fact));
    if (state == ADVICE_GIVEN) {
        json_text(j, "title", span_str(text->title));
        json_text(j, "todo", span_str(text->remedy));
    }
    json_end(j, '{');
}

static void put_words(struct ctl *c, const struct advice_text *text, const char *fact)
{
    fprintf(c->out, "* %s\n    fact:  ", text->title);
    (void)show_text(c->out, span_str(fact), c->is_utf8);
    fprintf(c->out, "\n    to do: %s\n", text->remedy);
}

static enum ctl_status judge(struct ctl *c, const struct facts *f)
{
    unsigned count[3] = {0, 0, 0};
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '[');
    for (unsigned id = 0; id < ADVICE_COUNT; id++) {
        char fact[ADVICE_FACT_BYTES];
        enum advice_state state = advice_see((enum advice_id)id, f, fact);

        count[state]++;
        if (c->options.json) {
            put_json(&j, &advice_texts[id], state, fact);
        } else if (state == ADVICE_GIVEN) {
            put_words(c, &advice_texts[id], fact);
        }
    }
    json_end(&j, '[');
    ctl_say(c, "%s%u of %u checks passed", count[ADVICE_GIVEN] > 0 ? "\n" : "",
            count[ADVICE_WELL], count[ADVICE_WELL] + count[ADVICE_GIVEN]);
    if (count[ADVICE_UNKNOWN] > 0) {
        ctl_say(c, "; %u could not be made from here", count[ADVICE_UNKNOWN]);
    }
    ctl_say(c, ".\n");
    return count[ADVICE_GIVEN] > 0 ? CTL_NO : CTL_OK;
}

int cmd_doctor(struct ctl *c, const struct ctl_words *args)
{
    struct facts f = {0};
    struct stats *const all[] = {&f.general, &f.settings, &f.expire, &f.replication, &f.moves};
    enum ctl_status status = gather(c, &f);

    (void)args;
    if (status == CTL_OK) {
        status = judge(c, &f);
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        stats_fini(all[i]);
    }
    return status;
}
