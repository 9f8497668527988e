/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See server.h.
 */
#include "daemon/service/server.h"

#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/machine.h"
#include "daemon/options/options.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"

/* A change is noticed after this time at most. */
#define LOOK_MS 5000u

/* The same where a test has given the machine's files. */
#define LOOK_TEST_MS 50u

/* ---- at the start ------------------------------------------------------------------------ */

/* Log the number of an option that was set to a share, and its computation. */
static void log_share(const struct settings *s, enum option_id id)
{
    char text[OPTION_TEXT_BYTES];
    char reason[OPTION_TEXT_BYTES];
    const bool is_memory = id == OPTION_memory_limit_bytes;

    log_notice("host, %s = %s is %" PRIu64 "%s (%s)", option_name(id),
               option_typed(s, id, text),
               is_memory ? setting_get(s, memory_limit_bytes) >> 20 : setting_get(s, threads),
               is_memory ? " megabytes" : "", option_share_reason(s, id, reason));
}

void host_log(const struct settings *settings)
{
    const char *root = machine_root();
    const uint64_t max = machine_group_memory(root);
    const uint64_t need =
        setting_get(settings, memory_limit_bytes) + options_beside_bytes(settings);
    enum option_id ids[OPTION_SHARES_MAX];
    const unsigned count = options_with_share(settings, ids);

    must_be_main();
    machine_look();
    for (unsigned i = 0; i < count; i++) {
        log_share(settings, ids[i]);
    }
    if (max < need) {
        log_warn("host, the memory limit of the control group is %" PRIu64
                 " megabytes, but -m and overhead need up to %" PRIu64
                 ": the process may be OOM-killed when the cache is full",
                 max >> 20, need >> 20);
    }
    if (machine_has_thp_always(root)) {
        log_info("host, the kernel uses huge pages for all memory "
                 "(transparent_hugepage/enabled is always): memory outside -m may grow");
    }
}

/* ---- while it serves --------------------------------------------------------------------- */

/* Say why nothing was changed, unless that was said for the same memory and CPUs before. */
static void log_refusal(struct host_refusal *last, const struct live_refusal *refusal)
{
    const struct host_refusal now = {true, machine_cpus(), machine_memory()};

    if (!last->is_there || last->memory != now.memory || last->cpus != now.cpus) {
        *last = now;
        log_write(LOG_LEVEL_WARN,
                  "host, memory or CPUs have changed, but %s stays as it is: %s",
                  option_name(refusal->id), refusal->why);
    }
}

static void follow(struct server *s, enum option_id id)
{
    struct host_refusal *last = &s->host_watch.refusals[id == OPTION_threads];
    struct live_refusal refusal;
    bool is_new;

    if (!live_follow(&s->crew, id, &is_new, &refusal)) {
        log_refusal(last, &refusal);
        return;
    }
    last->is_there = false;
    if (is_new) {
        log_share(s->crew.settings, id);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    enum option_id ids[OPTION_SHARES_MAX];
    const unsigned count = options_with_share(s->crew.settings, ids);

    must_be_main();
    if (count == 0 || s->stopping != CREW_STOP_NONE) {
        return;
    }
    machine_look();
    for (unsigned i = 0; i < count; i++) {
        follow(s, ids[i]);
    }
}

void host_begin(struct server *s)
{
    const uint64_t look_ms = machine_root()[0] != '\0' ? LOOK_TEST_MS : LOOK_MS;

    must_be_main();
    loop_timer_begin(&s->host_watch.timer, &s->loop, s, on_timer, look_ms, look_ms);
}
