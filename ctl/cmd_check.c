/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `check`, also by the name mayfly-check: say what is in snapshots, and whether they are whole.
 * Needs no server.
 */
#include "ctl/commands.h"

#include "ctl/ctl.h"
#include "ctl/examine.h"
#include "lib/format/load_file.h"

/* Attempts to read a file that a server replaces meanwhile. */
#define TRIES 5

/* Has a server replaced the file meanwhile? Then it has removed the logs of the old one. */
static bool is_replaced(const char *name, const struct snap_header *h)
{
    struct load_file file;
    bool is_other = true;

    if (load_open_any(&file, name, O_RDONLY)) {
        is_other = file.header.sum != h->sum;
        load_close(&file);
    }
    return is_other;
}

/* Examine the file and its logs. False: no memory. */
static bool examine_once(struct examined *x, const char *name, int64_t now)
{
    struct load_file file;

    if (!load_open_any(&file, name, O_RDONLY)) {
        *x = (struct examined){.fault = file.fault, .flush_at = INT64_MAX};
        return true;
    }
    bool is_done = examine(x, load_read, &file, now);
    load_close(&file);
    if (is_done && x->has_header && !examine_is_log(x)) {
        is_done = examine_logs(&x->logs, name, &x->header);
    }
    return is_done;
}

static bool examine_file(struct examined *x, const char *name, int64_t now)
{
    bool is_done;
    int tries = 0;

    do {
        is_done = examine_once(x, name, now);
    } while (is_done && x->logs.end != KEYCHAIN_DONE && is_replaced(name, &x->header) &&
             ++tries < TRIES);
    return is_done;
}

int cmd_check(struct ctl *c, const struct ctl_words *args)
{
    const int64_t now = ctl_unix_ms();
    int status = VERDICT_WHOLE;
    struct json j = ctl_json(c);

    json_begin(&j, NULL, '[');
    for (unsigned i = 1; i < args->count; i++) {
        const char *name = args->word[i].ptr;
        struct examined x;

        if (!examine_file(&x, name, now)) {
            return ctl_fail(c, CTL_SYSTEM, "no memory");
        }
        const int verdict = (int)examine_verdict(&x);
        if (!c->options.quiet || verdict != VERDICT_WHOLE) {
            if (c->options.json) {
                report_json(&j, name, &x, now);
            } else {
                report_text(c->out, name, &x, now, c->is_utf8);
            }
        }
        status = verdict > status ? verdict : status;
    }
    json_end(&j, '[');
    return status;
}
