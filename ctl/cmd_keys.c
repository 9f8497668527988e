/* SPDX-License-Identifier: BSD-3-Clause */
/* `get`, `set`, `delete`, `ttl`, `touch`: send meta commands for single keys. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/json.h"
#include "ctl/show.h"
#include "lib/base/mem.h"
#include "lib/base/num.h"
#include "proto/encode.h"

/* A key as the user gave it, and as it is sent. */
struct key {
    char bytes[ASK_KEY_MAX];
    size_t len;
    char line[ENCODE_BASE64_BYTES(ASK_KEY_MAX)];
    size_t line_len;
    bool is_encoded; /* it is sent in base64, with the flag b */
};

static struct span key_span(const struct key *k)
{
    return span_of(k->bytes, k->len);
}

static enum ctl_status read_key(struct ctl *c, struct span word, struct key *k)
{
    char *bytes = mem_alloc(word.len + 1);
    enum ctl_status status = CTL_OK;

    if (bytes == NULL) {
        return ctl_fail(c, CTL_SYSTEM, "no memory");
    }
    if (!c->options.escaped) {
        memcpy(bytes, word.ptr, word.len);
        k->len = word.len;
    } else if (!show_unescape(bytes, &k->len, word)) {
        status = ctl_fail(c, CTL_USAGE, "invalid escape: %.*s", 300, word.ptr);
    }
    if (status == CTL_OK && (k->len == 0 || k->len > ASK_KEY_MAX)) {
        status = ctl_fail(c, CTL_USAGE, "a key has 1 to %d bytes, this one has %zu",
                          ASK_KEY_MAX, k->len);
    }
    if (status == CTL_OK) {
        memcpy(k->bytes, bytes, k->len);
        k->is_encoded = !encode_is_plain(key_span(k));
        if (k->is_encoded) {
            k->line_len = encode_base64(k->line, key_span(k));
            if (k->line_len > ASK_KEY_MAX) {
                status = ctl_fail(
                    c, CTL_USAGE,
                    "a key with such bytes is sent in base64 and has at most 186 bytes");
            }
        } else {
            memcpy(k->line, k->bytes, k->len);
            k->line_len = k->len;
        }
    }
    mem_free(bytes);
    return status;
}

/* Read the first line of the answer. sent: the status of sending the request. */
static enum ctl_status read_meta(struct ctl *c, enum ctl_status sent, struct meta_answer *m)
{
    struct span line = {0};
    enum ctl_status status = ask_answer(c, sent, &line);

    return status == CTL_OK && !answer_meta(line, m) ? ask_garbled(c, line) : status;
}

/*
 * Send "<command> <key> [b] <flags>" and read the first line of the answer. *is_yes is set if
 * its code is `yes`; otherwise there is no such key.
 */
static enum ctl_status ask_meta(struct ctl *c, const char *command, const struct key *k,
                                const char *flags, const char *yes, struct meta_answer *m,
                                bool *is_yes)
{
    enum ctl_status status =
        ask_line(c, "%s %.*s%s%s%s", command, (int)k->line_len, k->line,
                 k->is_encoded ? " b" : "", flags[0] != '\0' ? " " : "", flags);

    status = read_meta(c, status, m);
    if (status != CTL_OK) {
        return status;
    }
    *is_yes = answer_code_is(m, yes);
    return *is_yes || answer_code_is(m, "EN") || answer_code_is(m, "NF")
               ? CTL_OK
               : ask_garbled(c, span_of(m->code, 2));
}

/* ---- the arguments as keys --------------------------------------------------------------- */

/* A function that is called for each key. Sets *is_yes as ask_meta() does. */
typedef enum ctl_status (*key_fn)(struct ctl *c, const struct key *k, struct json *j,
                                  bool *is_yes);

static enum ctl_status each_key(struct ctl *c, const struct ctl_words *args, key_fn fn)
{
    struct json j = ctl_json(c);
    enum ctl_status status = CTL_OK;
    unsigned absent = 0;

    json_begin(&j, NULL, '[');
    for (unsigned i = 1; i < args->count && status == CTL_OK; i++) {
        struct key k;
        bool is_yes = false;

        status = read_key(c, args->word[i], &k);
        if (status == CTL_OK) {
            status = fn(c, &k, &j, &is_yes);
        }
        if (status == CTL_OK && !is_yes) {
            absent++;
            if (!c->options.json) {
                (void)fflush(c->out);
                fputs("mayflyctl: no such key: ", stderr);
                (void)show_text(stderr, key_span(&k), c->is_utf8);
                fputc('\n', stderr);
            }
        }
    }
    json_end(&j, '[');
    return status == CTL_OK && absent > 0 ? CTL_NO : status;
}

static void put_key(struct ctl *c, const struct key *k)
{
    (void)show_text(c->out, key_span(k), c->is_utf8);
}

/* Begin the object of a key. */
static void begin_key(struct json *j, const struct key *k, const char *name, bool value)
{
    json_begin(j, NULL, '{');
    (void)json_bytes(j, "key", key_span(k));
    json_bool(j, name, value);
}

static void ttl_words(char text[UNIT_TEXT_BYTES], int64_t ttl_s)
{
    char duration[UNIT_TEXT_BYTES];

    if (ttl_s < 0) {
        snprintf(text, UNIT_TEXT_BYTES, "never");
    } else {
        duration_text(duration, (double)ttl_s);
        snprintf(text, UNIT_TEXT_BYTES, "in %.40s", ttl_s == 0 ? "less than 1 s" : duration);
    }
}

static void put_ttl_json(struct json *j, const struct meta_answer *m)
{
    json_i64_or_null(j, "ttl_s", m->ttl_s < 0 ? -1 : m->ttl_s, -1);
}

/* ---- get --------------------------------------------------------------------------------- */

static void put_item(struct ctl *c, const struct key *k, const struct meta_answer *m,
                     struct span value)
{
    char text[UNIT_TEXT_BYTES];

    put_key(c, k);
    fputs("\n  value     ", c->out);
    (void)show_text(c->out, value, c->is_utf8);
    unit_short(text, UNIT_BYTES, (double)value.len);
    fprintf(c->out, "\n  size      %s\n  flags     %" PRIu64 "\n", text, m->flags);
    ttl_words(text, m->ttl_s);
    fprintf(c->out, "  expires   %s%s\n", text, m->is_stale ? " (stale)" : "");
    duration_text(text, (double)m->last_s);
    fprintf(c->out, "  last use  %s ago%s\n", text,
            m->was_hit ? "" : ", and never fetched before");
    fprintf(c->out, "  cas       %" PRIu64 "\n", m->cas);
}

static bool put_item_json(struct json *j, const struct key *k, const struct meta_answer *m,
                          struct span value)
{
    begin_key(j, k, "found", true);
    bool is_ok = json_bytes(j, "value", value);
    json_u64(j, "size", value.len);
    json_u64(j, "flags", m->flags);
    put_ttl_json(j, m);
    json_u64(j, "last_use_s", m->last_s);
    json_bool(j, "was_fetched", m->was_hit);
    json_bool(j, "stale", m->is_stale);
    json_u64(j, "cas", m->cas);
    json_end(j, '{');
    return is_ok;
}

/*
 * Report the result for a key: in JSON with its time to live, if the answer has it. For people
 * `words` are printed if is_yes.
 */
static void tell_key(struct ctl *c, struct json *j, const struct key *k, const char *name,
                     bool is_yes, const struct meta_answer *m, const char *words)
{
    begin_key(j, k, name, is_yes);
    if (is_yes && m->has_ttl) {
        put_ttl_json(j, m);
    }
    json_end(j, '{');
    if (!c->options.json && is_yes) {
        put_key(c, k);
        fprintf(c->out, ": %s\n", words);
    }
}

static enum ctl_status get_one(struct ctl *c, const struct key *k, struct json *j, bool *is_yes)
{
    struct meta_answer m;
    struct span value = {0};
    enum ctl_status status = ask_meta(c, "mg", k, "v f t l h c", "VA", &m, is_yes);

    if (status != CTL_OK) {
        return status;
    }
    if (!*is_yes) {
        tell_key(c, j, k, "found", false, &m, "");
        return CTL_OK;
    }
    if (m.value_len > ASK_VALUE_MAX - 2) {
        return ask_garbled(c, span_of(m.code, 2));
    }
    status = ask_value(c, m.value_len + 2, &value);
    if (status != CTL_OK) {
        return status;
    }
    if (memcmp(value.ptr + m.value_len, "\r\n", 2) != 0) {
        return ask_garbled(c, span_str("a value longer than announced"));
    }
    value.len = m.value_len;
    if (c->options.json) {
        return put_item_json(j, k, &m, value) ? CTL_OK : ctl_fail(c, CTL_SYSTEM, "no memory");
    }
    if (c->options.raw || !c->is_terminal) {
        fwrite(value.ptr, 1, value.len, c->out);
    } else {
        put_item(c, k, &m, value);
    }
    return CTL_OK;
}

int cmd_get(struct ctl *c, const struct ctl_words *args)
{
    return each_key(c, args, get_one);
}

/* ---- delete, ttl ------------------------------------------------------------------------- */

static enum ctl_status delete_one(struct ctl *c, const struct key *k, struct json *j,
                                  bool *is_yes)
{
    struct meta_answer m;
    enum ctl_status status = ask_meta(c, "md", k, "", "HD", &m, is_yes);

    if (status == CTL_OK) {
        tell_key(c, j, k, "deleted", *is_yes, &m, "deleted");
    }
    return status;
}

int cmd_delete(struct ctl *c, const struct ctl_words *args)
{
    return each_key(c, args, delete_one);
}

static enum ctl_status ttl_one(struct ctl *c, const struct key *k, struct json *j, bool *is_yes)
{
    struct meta_answer m;
    char text[UNIT_TEXT_BYTES];
    char words[UNIT_TEXT_BYTES + 8];
    enum ctl_status status = ask_meta(c, "mg", k, "t", "HD", &m, is_yes);

    if (status != CTL_OK) {
        return status;
    }
    if (*is_yes && !m.has_ttl) {
        return ask_garbled(c, span_of(m.code, 2));
    }
    ttl_words(text, m.ttl_s);
    snprintf(words, sizeof(words), "expires %s", text);
    tell_key(c, j, k, "found", *is_yes, &m, words);
    return CTL_OK;
}

int cmd_ttl(struct ctl *c, const struct ctl_words *args)
{
    return each_key(c, args, ttl_one);
}

/* ---- touch ------------------------------------------------------------------------------- */

static enum ctl_status read_ttl(struct ctl *c, const char *text, int64_t *ttl)
{
    return num_i64(span_str(text), ttl) == MF_OK
               ? CTL_OK
               : ctl_fail(c, CTL_USAGE, "not a number of seconds: %.100s", text);
}

int cmd_touch(struct ctl *c, const struct ctl_words *args)
{
    struct meta_answer m;
    struct key k;
    struct json j = ctl_json(c);
    char flags[32];
    int64_t ttl = 0;
    bool is_yes;
    enum ctl_status status = read_key(c, args->word[1], &k);

    if (status == CTL_OK) {
        status = read_ttl(c, args->word[2].ptr, &ttl);
    }
    if (status == CTL_OK) {
        snprintf(flags, sizeof(flags), "T%" PRId64, ttl);
        status = ask_meta(c, "mg", &k, flags, "HD", &m, &is_yes);
    }
    if (status != CTL_OK) {
        return status;
    }
    tell_key(c, &j, &k, "touched", is_yes, &m, "touched");
    return is_yes ? CTL_OK : ctl_fail(c, CTL_NO, "no such key");
}

/* ---- set --------------------------------------------------------------------------------- */

/* Read the value from the command line, or else all of standard input. */
static enum ctl_status read_value(struct ctl *c, const struct ctl_words *args,
                                  struct buf *value)
{
    size_t len;

    if (args->count > 2) {
        if (!buf_append(value, args->word[2].ptr, args->word[2].len)) {
            return ctl_fail(c, CTL_SYSTEM, "no memory");
        }
        if (c->options.escaped && buf_len(value) > 0) {
            if (!show_unescape(buf_begin(value), &len, buf_span(value))) {
                return ctl_fail(c, CTL_USAGE, "invalid escape in the value");
            }
            value->end = value->begin + len;
        }
        return CTL_OK;
    }
    if (c->is_prompt) {
        return ctl_fail(c, CTL_USAGE, "set needs a value");
    }
    for (;;) {
        if (!buf_reserve(value, 64u * 1024) || buf_len(value) > ASK_VALUE_MAX / 2) {
            return ctl_fail(c, CTL_SYSTEM, "the value is too large");
        }
        ssize_t n = read(STDIN_FILENO, buf_end(value), 64u * 1024);
        if (n <= 0) {
            return n == 0 ? CTL_OK : ctl_fail(c, CTL_SYSTEM, "standard input cannot be read");
        }
        value->end += (size_t)n;
    }
}

/* Send line and value in one request, because a server may refuse the line alone. */
static enum ctl_status send_set(struct ctl *c, const struct key *k, int64_t ttl,
                                struct span value)
{
    struct buf request = {0};
    enum ctl_status status;

    if (buf_reserve(&request, value.len + 512) &&
        buf_printf(&request, "ms %.*s %zu%s F%" PRIu64 " T%" PRId64 "\r\n", (int)k->line_len,
                   k->line, value.len, k->is_encoded ? " b" : "", c->options.flags, ttl) &&
        buf_append(&request, value.ptr, value.len) && buf_append(&request, "\r\n", 2)) {
        status = ask_bytes(c, buf_span(&request));
    } else {
        status = ctl_fail(c, CTL_SYSTEM, "no memory");
    }
    buf_fini(&request);
    return status;
}

int cmd_set(struct ctl *c, const struct ctl_words *args)
{
    struct meta_answer m;
    struct json j = ctl_json(c);
    struct key k;
    struct buf value = {0};
    int64_t ttl = 0;
    bool is_yes = false;
    enum ctl_status status = read_key(c, args->word[1], &k);

    if (status == CTL_OK && c->options.expire != NULL) {
        status = read_ttl(c, c->options.expire, &ttl);
    }
    if (status == CTL_OK && c->options.flags > UINT32_MAX) {
        status = ctl_fail(c, CTL_USAGE, "flags must be at most 4294967295");
    }
    if (status == CTL_OK) {
        status = read_value(c, args, &value);
    }
    if (status == CTL_OK) {
        status = send_set(c, &k, ttl, buf_span(&value));
    }
    status = read_meta(c, status, &m);
    if (status == CTL_OK) {
        char text[UNIT_TEXT_BYTES];
        char words[UNIT_TEXT_BYTES + 8];

        is_yes = answer_code_is(&m, "HD");
        unit_short(text, UNIT_BYTES, (double)buf_len(&value));
        snprintf(words, sizeof(words), "stored, %s", text);
        tell_key(c, &j, &k, "stored", is_yes, &m, words);
        status = is_yes ? CTL_OK : ctl_fail(c, CTL_NO, "not stored (%.2s)", m.code);
    }
    buf_fini(&value);
    return status;
}
