/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctl/show.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "lib/base/num.h"
#include "lib/base/utf8.h"

/* ---- characters -------------------------------------------------------------------------- */

/* Does a terminal show a glyph for this character, in its place? */
static bool is_harmless(uint32_t c)
{
    return (c >= ' ' && c < 0x7f) ||
           (c >= 0xa0 &&
            !(c == 0xad || c == 0x61c || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
              (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
              (c >= 0xd800 && c <= 0xf8ff) || c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) ||
              c >= 0xe0000 || (c & 0xfffe) == 0xfffe));
}

size_t show_text(FILE *out, struct span s, bool is_utf8)
{
    size_t columns = 0;

    while (s.len > 0) {
        uint32_t c = 0;
        size_t n = utf8_decode(s, &c);

        if (n == 0 || !is_harmless(c) || (n > 1 && !is_utf8)) {
            n = n == 0 ? 1 : n;
            for (size_t i = 0; i < n; i++) {
                static const char plain[] = "\n\r\t", letters[] = "nrt";
                const char *found = s.ptr[i] != '\0' ? strchr(plain, s.ptr[i]) : NULL;

                if (out != NULL && found != NULL) {
                    fprintf(out, "\\%c", letters[found - plain]);
                } else if (out != NULL) {
                    fprintf(out, "\\x%02x", (unsigned)(unsigned char)s.ptr[i]);
                }
                columns += found != NULL ? 2 : 4;
            }
        } else if (c == '\\') {
            columns += 2;
            if (out != NULL) {
                fputs("\\\\", out);
            }
        } else {
            columns++;
            if (out != NULL) {
                fwrite(s.ptr, 1, n, out);
            }
        }
        s = span_of(s.ptr + n, s.len - n);
    }
    return columns;
}

size_t show_columns(struct span s, bool is_utf8)
{
    return show_text(NULL, s, is_utf8);
}

size_t show_value(FILE *out, enum unit unit, struct span value, bool is_utf8)
{
    char text[UNIT_TEXT_BYTES];
    double number;

    if (unit != UNIT_NONE && num_fraction(value, &number)) {
        unit_short(text, unit, number);
        value = span_str(text);
    }
    return show_text(out, value, is_utf8);
}

void show_pad(FILE *out, size_t width, size_t columns)
{
    fprintf(out, "%*s", width > columns ? (int)(width - columns) : 0, "");
}

bool show_unescape(char *out, size_t *len, struct span s)
{
    char *p = out;
    size_t i = 0;

    while (i < s.len) {
        static const char letters[] = "nrt0\\\"'", bytes[] = "\n\r\t\0\\\"'";

        if (s.ptr[i] != '\\') {
            *p++ = s.ptr[i++];
            continue;
        }
        if (++i == s.len || s.ptr[i] == '\0') {
            return false;
        }
        const char *found = strchr(letters, s.ptr[i]);
        if (found != NULL) {
            *p++ = bytes[found - letters];
            i++;
        } else if (s.ptr[i] == 'x' && i + 2 < s.len && num_hex_byte(s.ptr + i + 1) >= 0) {
            *p++ = (char)num_hex_byte(s.ptr + i + 1);
            i += 3;
        } else {
            return false;
        }
    }
    *len = (size_t)(p - out);
    return true;
}

/* ---- units ------------------------------------------------------------------------------- */

enum unit unit_of(struct span name)
{
    /* Whole names come first, as memcached's names do not end in a unit. */
    static const struct {
        const char *name; /* if it begins with _: the end of a name */
        enum unit unit;
    } units[] = {
        {"bytes", UNIT_BYTES},
        {"bytes_read", UNIT_BYTES},
        {"bytes_written", UNIT_BYTES},
        {"limit_maxbytes", UNIT_BYTES},
        {"maxbytes", UNIT_BYTES},
        {"total_malloced", UNIT_BYTES},
        {"mem_requested", UNIT_BYTES},
        {"chunk_size", UNIT_BYTES},
        {"item_size_max", UNIT_BYTES},
        {"read_buf_bytes_free", UNIT_BYTES},
        {"uptime", UNIT_S},
        {"time", UNIT_UNIX_S},
        {"rusage_user", UNIT_S},
        {"rusage_system", UNIT_S},
        {"secs_since_last_cmd", UNIT_S},
        {"age", UNIT_S},
        {"_bytes", UNIT_BYTES},
        {"_us", UNIT_US},
        {"_ms", UNIT_MS},
        {"_seconds", UNIT_S},
        {"_pct", UNIT_PCT},
        {"_per_s", UNIT_NONE},
        {"_s", UNIT_S},
    };

    for (size_t i = name.len; i > 0; i--) {
        if (name.ptr[i - 1] == ':') {
            name = span_after(name, i);
            break;
        }
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        const size_t n = strlen(units[i].name);

        if (units[i].name[0] == '_' && name.len >= n
                ? memcmp(name.ptr + name.len - n, units[i].name, n) == 0
                : span_is(name, units[i].name)) {
            return units[i].unit;
        }
    }
    return UNIT_NONE;
}

void duration_text(char text[UNIT_TEXT_BYTES], double seconds)
{
    static const struct {
        double s;
        const char *one, *many;
    } steps[] = {{86400, "day", "days"}, {3600, "h", "h"}, {60, "min", "min"}, {1, "s", "s"}};
    const char *sign = seconds < 0 ? "-" : "";
    double v = fabs(seconds);

    if (!(v < 1e15)) {
        snprintf(text, UNIT_TEXT_BYTES, "forever");
        return;
    }
    if (v < 60) {
        if (v == 0) {
            snprintf(text, UNIT_TEXT_BYTES, "0 s");
        } else if (v < 0.001) {
            snprintf(text, UNIT_TEXT_BYTES, "%s%.3g us", sign, v * 1e6);
        } else if (v < 1) {
            snprintf(text, UNIT_TEXT_BYTES, "%s%.3g ms", sign, v * 1e3);
        } else {
            snprintf(text, UNIT_TEXT_BYTES, "%s%.4g s", sign, v);
        }
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        double n = floor(v / steps[i].s);
        double rest = floor((v - n * steps[i].s) / steps[i + 1].s);

        if (n < 1) {
            continue;
        }
        if (rest > 0 && n < 1000) {
            snprintf(text, UNIT_TEXT_BYTES, "%s%.0f %s %.0f %s", sign, n,
                     n == 1 ? steps[i].one : steps[i].many, rest, steps[i + 1].many);
        } else {
            snprintf(text, UNIT_TEXT_BYTES, "%s%.0f %s", sign, n,
                     n == 1 ? steps[i].one : steps[i].many);
        }
        return;
    }
}

/* Write a number of bytes in units of powers of 1024, with three digits. */
static void bytes_text(char text[UNIT_TEXT_BYTES], double v)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t i = 0;

    while (fabs(v) >= 1023.5 && i < 6) {
        v /= 1024;
        i++;
    }
    snprintf(text, UNIT_TEXT_BYTES, i == 0 || fabs(v) >= 99.95 ? "%.0f %s" : "%.1f %s", v,
             names[i]);
}

void number_short(char text[UNIT_TEXT_BYTES], double v)
{
    static const char names[] = " kMGTPE";
    size_t i = 0;

    if (fabs(v) < 9999.5) {
        snprintf(text, UNIT_TEXT_BYTES, fabs(v) < 9.95 && v != floor(v) ? "%.1f" : "%.0f", v);
        return;
    }
    while (fabs(v) >= 999.5 && i < 6) {
        v /= 1000;
        i++;
    }
    snprintf(text, UNIT_TEXT_BYTES, fabs(v) >= 99.95 ? "%.0f%c" : "%.1f%c", v, names[i]);
}

static void unix_text(char text[UNIT_TEXT_BYTES], double v)
{
    time_t t = (time_t)v;
    struct tm tm;

    if (!(v >= 0 && v < 253402300800.0) || gmtime_r(&t, &tm) == NULL ||
        strftime(text, UNIT_TEXT_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) {
        text[0] = '\0';
    }
}

void unit_short(char text[UNIT_TEXT_BYTES], enum unit unit, double v)
{
    switch (unit) {
    case UNIT_BYTES:
        bytes_text(text, v);
        break;
    case UNIT_US:
        duration_text(text, v / 1e6);
        break;
    case UNIT_MS:
        duration_text(text, v / 1e3);
        break;
    case UNIT_S:
        duration_text(text, v);
        break;
    case UNIT_PCT:
        snprintf(text, UNIT_TEXT_BYTES, "%.3g %%", v);
        break;
    case UNIT_UNIX_S:
        unix_text(text, v);
        break;
    case UNIT_NONE:
        number_short(text, v);
        break;
    }
}

void unit_text(char text[UNIT_TEXT_BYTES], enum unit unit, double v)
{
    text[0] = '\0';
    if (unit != UNIT_NONE && !(v == 0 && unit != UNIT_UNIX_S)) {
        unit_short(text, unit, v);
    }
}
