/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classic text protocol, the way in. Any thread.
 *
 * There are two ways through this file, with the same result. The forms that make nearly all of
 * the traffic (get of one key, set, incr, decr, touch, mg, ms, words separated by one space,
 * plain digits) are recognised directly: by try_get(), try_set(), try_key_number(), and in
 * meta_inline.h try_mg() and try_ms(). They accept only what they are sure of. Every other
 * line, and so every bad one, goes the general way, which finds the line end, cuts words and
 * knows all of memcached's rules. A request that a try_ function accepts is the one the general
 * way would make; a request that it does not accept is left half filled in.
 *
 * Words are separated by spaces only: tabs, other control bytes and NUL belong to the word.
 * That is why odd keys work with memcached's clients, and no two keys become one.
 */
#include "proto/text_parse.h"

#include <string.h>

#include "lib/base/check.h"
#include "lib/base/load.h"
#include "lib/base/num.h"
#include "proto/direct.h"
#include "proto/expiry_parse.h"
#include "proto/meta_inline.h"
#include "proto/meta_parse.h"
#include "proto/words.h"

/* A time of a command that stores nothing: a plain number of 32 bits. */
static bool parse_exptime(struct span word, int64_t *out)
{
    return num_i32(word, out) == MF_OK;
}

/* ---- endings of both ways ---------------------------------------------------------------- */

/*
 * The line of a storage command has been read, *used bytes; find its value after it. A value
 * that is too large is swallowed unread, whether it is there already or not.
 */
static inline enum parse_status take_text_value(const char *buf, size_t len,
                                                const struct text_limits *limits,
                                                struct request *req, size_t *used,
                                                enum reply *reply)
{
    size_t whole = req->value_len + 2;

    must(req->key.len >= 1 && req->key.len <= REQUEST_KEY_MAX && *used <= len);
    if (req->key.len + req->value_len > limits->value_max) {
        req->invalidate = req->command == CMD_SET || req->command == CMD_MS;
        req->value_len = whole;
        *reply = REPLY_TOO_LARGE;
        return PARSE_REPLY;
    }
    if (len - *used < whole) {
        return PARSE_BODY;
    }
    const char *value = buf + *used;
    *used += whole;
    if (value[whole - 2] != '\r' || value[whole - 1] != '\n') {
        req->value_len = 0;
        *reply = REPLY_BAD_CHUNK;
        return PARSE_REPLY;
    }
    req->value = span_of(value, req->value_len);
    return PARSE_OK;
}

/* ---- the direct way ---------------------------------------------------------------------- */

/* "get key\r\n"; buf starts with "get ". */
static inline bool try_get(const char *buf, size_t len, struct request *req, size_t *used)
{
    const char *end = buf + len;
    struct span key;
    const char *p = direct_key(buf + 4, end, &key);

    if (p == NULL || !at_line_end(p, end)) {
        return false;
    }
    begin_text_request(req, CMD_GET, CLASS_GET);
    req->key = key;
    *used = (size_t)(p + 2 - buf);
    debug_must(*used <= len);
    return true;
}

/* What most sets have between key and length: flags and exptime of 0. */
#define PLAIN     " 0 0 "
#define PLAIN_LEN 5

/*
 * "set key flags exptime bytes[ noreply]\r\n" and the value; buf starts with "set ". PARSE_OK
 * when all of it is there and good, PARSE_BODY when the line is good and its value is not there
 * as a whole; PARSE_MORE: not decided, take the general way.
 *
 * The request is filled in while the line is read, which keeps few values alive at a time.
 */
static inline enum parse_status try_set(const char *buf, size_t len,
                                        const struct text_limits *limits, struct request *req,
                                        size_t *used)
{
    const char *end = buf + len;
    uint64_t number;
    const char *gap = direct_key(buf + 4, end, &req->key);
    const char *p = gap;

    if (p == NULL || ends_in_number(end)) {
        return PARSE_MORE;
    }
    if (end - p > PLAIN_LEN && memcmp(p, PLAIN, PLAIN_LEN) == 0) {
        req->flags = 0;
        req->exptime = 0;
        p += PLAIN_LEN - 1;
    } else {
        if (*p != ' ' || (p = direct_number(p + 1, &number)) == NULL || number > UINT32_MAX) {
            return PARSE_MORE;
        }
        req->flags = (uint32_t)number;
        if (*p != ' ' || (p = direct_number(p + 1, &number)) == NULL || number > EXPTIME_MAX) {
            return PARSE_MORE;
        }
        req->exptime = (int64_t)number;
    }
    if (*p != ' ' || (p = direct_number(p + 1, &number)) == NULL) {
        return PARSE_MORE;
    }
    /*
     * A space precedes each of the three numbers, and two of them have at least one digit. So
     * if all three together have at most this many bytes, the third has at most DIRECT_DIGITS.
     */
    if (p - gap > DIRECT_DIGITS + 5) {
        return PARSE_MORE;
    }
    req->command = CMD_SET;
    req->cls = CLASS_STORE;
    req->noreply = false;
    req->invalidate = false;
    if (*p == ' ' && end - p > 8 && memcmp(p, " noreply", 8) == 0) {
        req->noreply = true;
        p += 8;
    }
    if (number > TEXT_VALUE_LEN_MAX || req->key.len + number > limits->value_max) {
        return PARSE_MORE;
    }
    req->value_len = (size_t)number;
    clear_uncommon(req);
    if ((size_t)(end - p) < number + 4) {
        clear_span(&req->value);
        *used = (size_t)(p + 2 - buf);
        return at_line_end(p, end) ? PARSE_BODY : PARSE_MORE;
    }
    if (!is_line_end(p) || !is_line_end(p + 2 + number)) {
        return PARSE_MORE;
    }
    req->value = span_of(p + 2, number);
    *used = (size_t)(p + 2 + number + 2 - buf);
    debug_must(*used <= len);
    return PARSE_OK;
}

/*
 * "incr key number\r\n", and decr and touch likewise; buf starts with the name, which has
 * name_len bytes. Only key, *number and *used are set.
 */
static inline bool try_key_number(const char *buf, size_t len, size_t name_len,
                                  struct request *req, uint64_t *number, size_t *used)
{
    const char *end = buf + len;

    if (buf[name_len] != ' ') {
        return false;
    }
    const char *gap = direct_key(buf + name_len + 1, end, &req->key);
    const char *p = gap;
    if (p == NULL || ends_in_number(end) || *p != ' ' ||
        (p = direct_number(p + 1, number)) == NULL || !at_line_end(p, end) ||
        p - gap > DIRECT_DIGITS + 1) {
        return false;
    }
    *used = (size_t)(p + 2 - buf);
    debug_must(*used <= len);
    return true;
}

/* ---- the general way --------------------------------------------------------------------- */

/* True when the line asks for values, of any number of keys. The name must be whole. */
static bool is_get_line(struct line line)
{
    struct span name;

    return words_next(&line, &name) && line.begin < line.end &&
           command_class_of(command_find(name)) == CLASS_GET;
}

/*
 * The longest that this line may be. Only its first TEXT_LINE_MAX bytes decide, so it does not
 * matter how much more of the line has arrived.
 */
static size_t line_bound(const char *buf, size_t len)
{
    if (len <= TEXT_LINE_MAX) {
        return TEXT_LINE_MAX;
    }
    struct line head = {buf, buf + TEXT_LINE_MAX};
    return is_get_line(head) ? TEXT_GET_LINE_MAX : TEXT_LINE_MAX;
}

/* What memcached skips before it looks whether a long line without its end may be a get. */
#define UNENDED_SPACES_MAX 100

/*
 * len bytes of a line have come, but not its end: may it go on? The rules are memcached's, but
 * for unlink, which memcached does not have.
 */
static bool may_go_on(const char *buf, size_t len, const struct text_limits *limits)
{
    size_t spaces = 0;

    if (len <= TEXT_UNENDED_MAX) {
        return true;
    }
    while (spaces <= UNENDED_SPACES_MAX && buf[spaces] == ' ') {
        spaces++;
    }
    buf += spaces;
    if (limits->has_extensions && memcmp(buf, "unlink ", 7) == 0) {
        return len <= TEXT_LINE_MAX;
    }
    return len <= TEXT_GET_LINE_MAX && spaces <= UNENDED_SPACES_MAX &&
           (memcmp(buf, "get ", 4) == 0 || memcmp(buf, "gets ", 5) == 0);
}

static enum reply parse_get(struct line line, struct request *req)
{
    bool touches = req->command == CMD_GAT || req->command == CMD_GATS;
    struct span word;

    req->wants_cas = req->command == CMD_GETS || req->command == CMD_GATS;
    if (touches && !words_next(&line, &word)) {
        return REPLY_BAD_FORMAT;
    }
    struct line keys = line;
    if (!words_next(&line, &req->key)) {
        return REPLY_BAD_FORMAT;
    }
    if (touches && !parse_exptime(word, &req->exptime)) {
        return REPLY_BAD_EXPTIME;
    }
    if (words_has_long(keys, REQUEST_KEY_MAX)) {
        return REPLY_BAD_FORMAT;
    }
    debug_must(req->key.len <= REQUEST_KEY_MAX);
    line.begin = words_skip_spaces(line.begin, line.end);
    req->more = span_of(line.begin, (size_t)(line.end - line.begin));
    return REPLY_NONE;
}

/*
 * key flags exptime bytes [cas] [noreply]; further words are ignored. Once the length is known
 * the value is no command, whatever else is wrong with the line.
 */
static enum reply parse_store(const struct args *args, struct request *req)
{
    bool is_cas = req->command == CMD_CAS;

    if (args->count < 4 || !words_value_len(args->word[3], &req->value_len)) {
        return REPLY_BAD_FORMAT;
    }
    req->noreply = words_is_noreply(args->last);
    req->key = args->word[0];
    if (req->key.len > REQUEST_KEY_MAX || !num_lenient_u32(args->word[1], &req->flags) ||
        !num_lenient_i64(args->word[2], &req->exptime) || req->exptime > EXPTIME_MAX ||
        (is_cas && (args->count < 5 || num_u64(args->word[4], &req->cas) != MF_OK))) {
        req->value_len += 2;
        return REPLY_BAD_FORMAT;
    }
    return REPLY_NONE;
}

/* key [noreply]: old clients send a time, which is ignored as any other word. */
static enum reply parse_delete(const struct args *args, struct request *req)
{
    if (args->count < 1) {
        return REPLY_BAD_FORMAT;
    }
    req->noreply = args->count > 1 && words_is_noreply(args->last);
    req->key = args->word[0];
    return req->key.len > REQUEST_KEY_MAX ? REPLY_BAD_FORMAT : REPLY_NONE;
}

/* incr, decr: key delta [noreply]; touch: key exptime [noreply]. Further words are ignored. */
static enum reply parse_key_number(const struct args *args, struct request *req)
{
    if (args->count < 2) {
        return REPLY_BAD_FORMAT;
    }
    req->noreply = words_is_noreply(args->last);
    req->key = args->word[0];
    if (req->key.len > REQUEST_KEY_MAX) {
        return REPLY_BAD_FORMAT;
    }
    if (req->cls == CLASS_TOUCH && !parse_exptime(args->word[1], &req->exptime)) {
        return REPLY_BAD_EXPTIME;
    }
    if (req->cls == CLASS_ARITH && num_u64(args->word[1], &req->number.delta) != MF_OK) {
        return REPLY_BAD_DELTA;
    }
    return REPLY_NONE;
}

/* [delay] [noreply] */
static enum reply parse_flush(const struct args *args, struct request *req)
{
    if (args->count > (size_t)req->noreply && !parse_exptime(args->word[0], &req->exptime)) {
        return REPLY_BAD_EXPTIME;
    }
    return REPLY_NONE;
}

/* prefix [noreply]; a prefix is as long as a key. A single word is always the prefix. */
static enum reply parse_flush_prefix(const struct args *args, struct request *req)
{
    req->noreply = req->noreply && args->count > 1;
    if (args->count != 1 + (size_t)req->noreply || args->word[0].len > REQUEST_KEY_MAX) {
        return REPLY_PREFIX_USAGE;
    }
    return REPLY_NONE;
}

/*
 * verbosity, cache_memlimit: number [noreply]. They answer differently to a word that is not a
 * number of 32 bits.
 */
static enum reply parse_one_number(const struct args *args, struct request *req)
{
    uint32_t number;

    if (args->count < 1 || num_u32(args->word[0], &number) != MF_OK) {
        return req->command == CMD_VERBOSITY ? REPLY_BAD_FORMAT : REPLY_ERROR;
    }
    req->amount = number;
    return REPLY_NONE;
}

/* Commands that answer whatever their last word is; noreply hides the answer of all others. */
static bool always_answers(enum command command)
{
    return command == CMD_STATS || command == CMD_VERSION || command == CMD_WATCH ||
           command == CMD_QUIT;
}

static enum reply parse_admin(struct line line, const struct args *args, struct request *req)
{
    if (args->count > 0) {
        const char *begin = args->word[0].ptr;
        req->args = span_of(begin, (size_t)(args->last.ptr + args->last.len - begin));
    } else {
        req->args = span_of(line.end, 0);
    }
    req->noreply = !always_answers((enum command)req->command) && words_is_noreply(args->last);
    switch (req->command) {
    case CMD_FLUSH_ALL:
        return parse_flush(args, req);
    case CMD_FLUSH_PREFIX:
        return parse_flush_prefix(args, req);
    case CMD_VERBOSITY:
    case CMD_CACHE_MEMLIMIT:
        return parse_one_number(args, req);
    default:
        return REPLY_NONE;
    }
}

/*
 * A whole line to a request, without the value of a storage command. *is_http: it is one of a
 * browser, which a web page may direct to this port.
 */
static enum reply parse_line(struct line line, const struct text_limits *limits,
                             struct request *req, bool *is_http)
{
    struct span name;
    struct args args;

    debug_must(memchr(line.begin, '\n', (size_t)(line.end - line.begin)) == NULL);
    words_next(&line, &name);
    req->command = (uint8_t)command_find(name);
    if (!limits->has_extensions && command_is_extension((enum command)req->command)) {
        req->command = CMD_NONE;
    }
    req->cls = (uint8_t)command_class_of(req->command);
    if (req->cls == CLASS_GET) {
        return parse_get(line, req);
    }
    if (req->cls == CLASS_META) {
        return meta_parse_line(line, limits, req);
    }
    words_cut(line, &args);
    if (req->command == CMD_NONE) {
        *is_http = words_are_http(args.last);
        req->noreply = words_is_noreply(args.last);
        return *is_http ? REPLY_NONE : REPLY_ERROR;
    }
    switch ((enum command_class)req->cls) {
    case CLASS_STORE:
        return parse_store(&args, req);
    case CLASS_DELETE:
        return parse_delete(&args, req);
    case CLASS_ARITH:
    case CLASS_TOUCH:
        return parse_key_number(&args, req);
    case CLASS_DEADLINE:
    case CLASS_TTL:
    case CLASS_UNLINK:
        return expiry_parse(&args, req);
    case CLASS_ADMIN:
    case CLASS_GET:
    case CLASS_META:
    case CLASS_BINARY:
    case CLASS_BINARY_ADMIN:
    case CLASS_REFUSED:
    case CLASS_BINARY_REFUSED:
        break;
    }
    return parse_admin(line, &args, req);
}

/* Shortest line that memcached looks at, with its end; no command but mn has room in less. */
#define LINE_MIN 4

/* Too short to be a command, or all spaces. Such a line is a bad format, not a bad command. */
static bool is_nothing(struct line line, size_t with_end)
{
    bool is_noop = line.end - line.begin == 2 && memcmp(line.begin, "mn", 2) == 0;

    return (with_end < LINE_MIN && !is_noop) ||
           words_skip_spaces(line.begin, line.end) == line.end;
}

static MF_NOINLINE enum parse_status parse_general(const char *buf, size_t len,
                                                   const struct text_limits *limits,
                                                   struct request *req, size_t *used,
                                                   enum reply *reply)
{
    begin_text_request(req, CMD_NONE, CLASS_ADMIN);
    req->key = span_of(NULL, 0);
    *used = 0;
    if (len == 0) {
        return PARSE_MORE;
    }
    const char *newline = memchr(buf, '\n', len);
    if (newline == NULL) {
        return may_go_on(buf, len, limits) ? PARSE_MORE : PARSE_CLOSE;
    }
    size_t line_len = (size_t)(newline - buf);
    if (line_len > line_bound(buf, line_len)) {
        return PARSE_CLOSE;
    }
    struct line line = {buf, newline};
    if (line.end > line.begin && line.end[-1] == '\r') {
        line.end--;
    }
    *used = line_len + 1;
    if (is_nothing(line, *used)) {
        *reply = REPLY_BAD_FORMAT;
        return PARSE_REPLY;
    }
    bool is_http = false;
    *reply = parse_line(line, limits, req, &is_http);
    if (*reply != REPLY_NONE || is_http) {
        req->key = span_of(NULL, 0); /* the word in its place may have any length */
        return is_http ? PARSE_CLOSE : PARSE_REPLY;
    }
    if (req->cls == CLASS_STORE || req->command == CMD_MS) {
        return take_text_value(buf, len, limits, req, used, reply);
    }
    return PARSE_OK;
}

/*
 * Lines that begin like a set. This, the functions below and the general way are kept out of
 * text_parse(), which ends with a jump to one of them: so a get runs without a stack frame.
 */
static MF_NOINLINE enum parse_status parse_set(const char *buf, size_t len,
                                               const struct text_limits *limits,
                                               struct request *req, size_t *used,
                                               enum reply *reply)
{
    enum parse_status status = try_set(buf, len, limits, req, used);

    if (status == PARSE_MORE) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    return status;
}

/* buf starts with "incr" or "decr". */
static MF_NOINLINE enum parse_status parse_arith(const char *buf, size_t len,
                                                 const struct text_limits *limits,
                                                 struct request *req, size_t *used,
                                                 enum reply *reply)
{
    uint64_t delta;

    if (!try_key_number(buf, len, 4, req, &delta, used)) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    begin_text_request(req, buf[0] == 'i' ? CMD_INCR : CMD_DECR, CLASS_ARITH);
    req->number.delta = delta;
    return PARSE_OK;
}

/* buf starts with "touc". */
static MF_NOINLINE enum parse_status parse_touch(const char *buf, size_t len,
                                                 const struct text_limits *limits,
                                                 struct request *req, size_t *used,
                                                 enum reply *reply)
{
    uint64_t exptime;

    if (buf[4] != 'h' || !try_key_number(buf, len, 5, req, &exptime, used) ||
        exptime > INT32_MAX) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    begin_text_request(req, CMD_TOUCH, CLASS_TOUCH);
    req->exptime = (int64_t)exptime;
    return PARSE_OK;
}

static MF_NOINLINE enum parse_status parse_mg(const char *buf, size_t len,
                                              const struct text_limits *limits,
                                              struct request *req, size_t *used,
                                              enum reply *reply)
{
    if (!try_mg(buf, len, req, used)) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    return PARSE_OK;
}

static MF_NOINLINE enum parse_status parse_ms(const char *buf, size_t len,
                                              const struct text_limits *limits,
                                              struct request *req, size_t *used,
                                              enum reply *reply)
{
    if (!try_ms(buf, len, limits, req, used)) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    return PARSE_OK;
}

enum parse_status text_parse(const char *buf, size_t len, const struct text_limits *limits,
                             struct request *req, size_t *used, enum reply *reply)
{
    *reply = REPLY_NONE;
    if (len < DIRECT_MIN) {
        return parse_general(buf, len, limits, req, used, reply);
    }
    uint32_t head = load_le32(buf);
    if (head == WORD4('g', 'e', 't', ' ')) {
        if (try_get(buf, len, req, used)) {
            return PARSE_OK;
        }
    } else if (head == WORD4('s', 'e', 't', ' ')) {
        return parse_set(buf, len, limits, req, used, reply);
    } else if (head == WORD4('i', 'n', 'c', 'r') || head == WORD4('d', 'e', 'c', 'r')) {
        return parse_arith(buf, len, limits, req, used, reply);
    } else if ((head & WORD4(0xff, 0xff, 0xff, 0)) == WORD4('m', 'g', ' ', 0)) {
        return parse_mg(buf, len, limits, req, used, reply);
    } else if ((head & WORD4(0xff, 0xff, 0xff, 0)) == WORD4('m', 's', ' ', 0)) {
        return parse_ms(buf, len, limits, req, used, reply);
    } else if (head == WORD4('t', 'o', 'u', 'c')) {
        return parse_touch(buf, len, limits, req, used, reply);
    }
    return parse_general(buf, len, limits, req, used, reply);
}

bool text_next_key(struct span *more, struct span *key)
{
    if (more->len == 0) {
        return false; /* ptr may be NULL */
    }
    struct line line = {more->ptr, more->ptr + more->len};
    bool found = words_next(&line, key);
    debug_must(key->len <= more->len);

    *more = span_of(line.begin, (size_t)(line.end - line.begin));
    return found;
}
