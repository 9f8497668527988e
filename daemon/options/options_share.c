/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options.h.
 */
#include "daemon/options/options.h"

#include <inttypes.h>

#include "daemon/base/machine.h"
#include "daemon/options/cpu_list.h"
#include "daemon/options/options_value.h"

/*
 * Resident beside -m and what connections keep (-o read_buf_mem_limit): the program, its
 * libraries, the stacks of threads, and the structs of connections. Measured, see HACKING.md.
 */
#define PROCESS_BYTES ((uint64_t)24 << 20)

/* What connections keep where the option is 0. */
#define KEPT_BYTES ((uint64_t)24 << 20)

uint64_t options_beside_bytes(const struct settings *s)
{
    const uint64_t kept = setting_get(s, read_buf_mem_limit_bytes);

    return (kept > 0 ? kept : KEPT_BYTES) + PROCESS_BYTES;
}

bool options_fit_items(const struct settings *s, uint64_t memory_bytes)
{
    return s->item_size_max <= memory_bytes / 2;
}

static bool settle_memory(struct settings *s, char *why)
{
    const struct option_row *row = &option_rows[OPTION_memory_limit_bytes];
    const uint32_t percent = setting_share(s, OPTION_memory_limit_bytes);
    const uint64_t memory = machine_memory();
    const uint64_t beside = options_beside_bytes(s);
    const uint64_t all = memory / 100 * percent + memory % 100 * percent / 100;
    const uint64_t megabytes = all > beside ? (all - beside) >> 20 : 0;

    if (memory == 0) {
        snprintf(why, OPTION_TEXT_BYTES,
                 "%" PRIu32 "%% of an unknown memory (/proc/meminfo cannot be read)", percent);
        return false;
    }
    if (megabytes < (uint64_t)row->min || !options_fit_items(s, megabytes << 20)) {
        snprintf(why, OPTION_TEXT_BYTES,
                 "%" PRIu32 "%% of %" PRIu64 " megabytes, less %" PRIu64
                 " for connections and the process, is less than twice the size of the largest "
                 "item (-I)",
                 percent, memory >> 20, beside >> 20);
        return false;
    }
    option_store(s, row, (double)megabytes < row->max ? (double)megabytes : row->max);
    return true;
}

static void settle_threads(struct settings *s)
{
    const struct option_row *row = &option_rows[OPTION_threads];
    char why[OPTION_TEXT_BYTES];
    struct cpu_list list;
    int64_t count = machine_cpus();

    if (cpu_list_read(s, &list, why, sizeof(why)) && list.count > 0 && list.count < count) {
        count = list.count;
    }
    option_store(s, row,
                 count > 0 && count < row->max ? count
                 : count > 0                   ? row->max
                                               : row->min);
}

bool options_settle_shares(struct settings *s, enum option_id *id, char *why)
{
    if (setting_share(s, OPTION_threads) != 0) {
        settle_threads(s);
    }
    *id = OPTION_memory_limit_bytes;
    return setting_share(s, OPTION_memory_limit_bytes) == 0 || settle_memory(s, why);
}

const char *option_share_reason(const struct settings *s, enum option_id id, char *text)
{
    if (id == OPTION_threads) {
        snprintf(text, OPTION_TEXT_BYTES, "CPUs that the process may use");
        return text;
    }
    snprintf(text, OPTION_TEXT_BYTES,
             "%" PRIu32 "%% of the %" PRIu64 " megabytes of %s, less %" PRIu64
             " for connections and the process",
             setting_share(s, id), machine_memory() >> 20,
             machine_memory_is_of_group() ? "the control group" : "the machine",
             options_beside_bytes(s) >> 20);
    return text;
}

unsigned options_with_share(const struct settings *s, enum option_id ids[OPTION_SHARES_MAX])
{
    unsigned count = 0;

    if (setting_share(s, OPTION_memory_limit_bytes) != 0) {
        ids[count++] = OPTION_memory_limit_bytes;
    }
    if (setting_share(s, OPTION_threads) != 0) {
        ids[count++] = OPTION_threads;
    }
    return count;
}
