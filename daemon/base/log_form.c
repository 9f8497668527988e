/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h.
 */
#include "daemon/base/log_form.h"

#include "lib/base/context.h"

/* [const] after log_set_format() */
static const _Atomic uint32_t *chosen;

void log_set_format(const _Atomic uint32_t *format)
{
    must_be_main();
    chosen = format;
}

bool log_is_json(void)
{
    return !log_journal_is_on() && chosen != NULL &&
           atomic_load_explicit(chosen, memory_order_relaxed) == LOG_FORMAT_JSON;
}

size_t log_form_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
{
    if (log_journal_is_on()) {
        return log_journal_compose(out, level, left_out, about, fmt, args);
    }
    return log_is_json() ? log_json_compose(out, level, left_out, about, fmt, args)
                         : log_line(out, level, left_out, fmt, args);
}
