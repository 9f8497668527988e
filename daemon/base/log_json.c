/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See log_form.h.
 */
#include "daemon/base/log_form.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "lib/base/utf8.h"

/* What ends a message, and one that was cut. */
static const char end_of_whole[] = "\"}\n";
static const char end_of_cut[] = "...\"}\n";

/* Fields before the message take half of the room at most. */
#define FIELDS_MAX (LOG_LINE_BYTES / 2)

/* Append a text up to `room`. False: it did not fit; as much as fitted was appended. */
static bool put_escaped(char *out, size_t room, size_t *at, struct span text)
{
    char one[UTF8_JSON_MAX];
    size_t taken;

    while (text.len > 0) {
        const size_t len = utf8_to_json(text, one, &taken);

        if (*at + len > room) {
            return false;
        }
        memcpy(out + *at, one, len);
        *at += len;
        text = span_of(text.ptr + taken, text.len - taken);
    }
    return true;
}

/* Append a field, or nothing if there is no room for it. */
static void put_field(char *out, size_t *at, const char *name, struct span value)
{
    const size_t name_len = strlen(name);
    size_t end = *at;

    if (value.len == 0 || end + name_len + 5 > FIELDS_MAX) {
        return;
    }
    end += (size_t)snprintf(out + end, FIELDS_MAX - end, "\"%s\":\"", name);
    if (!put_escaped(out, FIELDS_MAX - 2, &end, value)) {
        return;
    }
    memcpy(out + end, "\",", 2);
    *at = end + 2;
}

static void put_text(char *out, size_t *at, const char *name, const char *value)
{
    if (value != NULL) {
        put_field(out, at, name, span_str(value));
    }
}

size_t log_json_compose(char out[LOG_LINE_BYTES], enum log_level level, uint32_t left_out,
                        const struct log_about *about, const char *fmt, va_list args)
{
    char text[LOG_LINE_BYTES];
    char time[LOG_TIME_BYTES];
    char thread[16] = "";
    size_t n = 1;
    bool is_whole;
    const struct span area = log_line_area(fmt, args);
    const int len = vsnprintf(text, sizeof(text), fmt, args);

    if (len < 0) {
        return 0;
    }
    (void)prctl(PR_GET_NAME, thread, 0, 0, 0);
    out[0] = '{';
    put_text(out, &n, "time", log_line_time(time));
    put_text(out, &n, "level", log_line_word(level));
    put_field(out, &n, "area", area);
    put_text(out, &n, "thread", thread);
    if (about != NULL) {
        put_text(out, &n, "peer", about->peer);
        put_text(out, &n, "user", about->user);
    }
    if (left_out > 0) {
        n += (size_t)snprintf(out + n, LOG_LINE_BYTES - n, "\"left_out\":%" PRIu32 ",",
                              left_out);
    }
    n += (size_t)snprintf(out + n, LOG_LINE_BYTES - n, "\"message\":\"");
    is_whole =
        put_escaped(out, LOG_LINE_BYTES - (sizeof(end_of_cut) - 1), &n, span_str(text)) &&
        (size_t)len < sizeof(text);
    memcpy(out + n, is_whole ? end_of_whole : end_of_cut,
           is_whole ? sizeof(end_of_whole) - 1 : sizeof(end_of_cut) - 1);
    return n + (is_whole ? sizeof(end_of_whole) : sizeof(end_of_cut)) - 1;
}
