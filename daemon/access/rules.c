/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of rules: its lines, and the table that is made of them. Rules are sorted by kind
 * and name. Their texts lie in one block, unescaped, which is never longer than the file.
 */
#include "daemon/access/rules.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/options/conf_line.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

/* Bytes of a message, and of a word in it. */
#define WHY_BYTES  200
#define WORD_SHOWN 64

enum kind { KIND_CERTIFICATE, KIND_DEFAULT, KIND_LISTENER, KIND_USER, KINDS };

static const char *const kinds[KINDS] = {
    [KIND_CERTIFICATE] = "certificate",
    [KIND_DEFAULT] = "default",
    [KIND_LISTENER] = "listener",
    [KIND_USER] = "user",
};

/* The right of `admin` is more than a bit: see rules_grant(). */
static const struct {
    const char *word;
    uint8_t rights;
    bool is_alone;
} rights_words[] = {
    {"read", RIGHT_READ, false},
    {"write", RIGHT_WRITE, false},
    {"admin", RIGHT_ADMIN | RIGHT_CONFIG | RIGHT_REPLICATE, false},
    {"replicate", RIGHT_REPLICATE, false},
    {"all", RIGHTS_OPERATOR, true},
    {"none", 0, true},
};

struct access_rule {
    struct span name;
    uint32_t line;
    uint8_t kind; /* enum kind */
    uint8_t rights;
    uint8_t prefix_count;
    uint32_t prefix_at; /* of its first in the table's prefixes */
};

struct rules {
    /* [const] */
    uint32_t generation;
    uint32_t count;
    uint32_t prefix_count;
    struct access_rule *rules; /* owned; by kind and name */
    struct span *prefixes;     /* owned */
    char *bytes;               /* owned; of names and prefixes */
    size_t used;               /* of bytes */
};

/* A text while it is read. */
struct rules_reader {
    struct rules *rules;
    rules_complain_fn fn;
    void *arg;
    unsigned line;
    bool is_bad; /* fn was told of something */
};

/* ---- complaints -------------------------------------------------------------------------- */

static MF_PRINTF(2, 3) bool complain(struct rules_reader *r, const char *fmt, ...)
{
    char why[WHY_BYTES];

    MF_FORMAT(why, sizeof(why), fmt);
    r->fn(r->arg, r->line, why);
    r->is_bad = true;
    return false;
}

/* A word for a message: short, and printable. */
static const char *shown(struct span word, char out[WORD_SHOWN + 1])
{
    size_t n = word.len < WORD_SHOWN ? word.len : WORD_SHOWN;

    for (size_t i = 0; i < n; i++) {
        out[i] = word.ptr[i] >= ' ' && word.ptr[i] <= '~' ? word.ptr[i] : '?';
    }
    out[n] = '\0';
    return out;
}

/* ---- words ------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/*
 * Take the next word off the line, unescaped into the table's bytes; it is empty at the end of
 * the line. *is_word: there was one. False: the word is no good, and was complained about.
 */
static bool next_word(struct rules_reader *r, struct span *line, struct span *word,
                      bool *is_word)
{
    const char *p = line->ptr;
    const char *end = p + line->len;
    char *begin = r->rules->bytes + r->rules->used;
    char *out = begin;
    bool is_quoted = false;

    while (p < end && is_blank(*p)) {
        p++;
    }
    *is_word = p < end;
    while (p < end && (is_quoted || !is_blank(*p))) {
        if (*p == '"') {
            is_quoted = !is_quoted;
            p++;
        } else if (is_quoted && *p == '\\') {
            const size_t len = conf_char_take(span_of(p, (size_t)(end - p)), out++);

            if (len == 0) {
                return complain(r, "within \"\" a \\ stands before \", \\ or xHH");
            }
            p += len;
        } else {
            *out++ = *p++;
        }
    }
    if (is_quoted) {
        return complain(r, "a \" is missing");
    }
    *line = span_of(p, (size_t)(end - p));
    *word = span_of(begin, (size_t)(out - begin));
    r->rules->used += word->len;
    return true;
}

/* The same where there must be one. */
static bool want_word(struct rules_reader *r, struct span *line, struct span *word,
                      const char *what)
{
    bool is_word;

    if (!next_word(r, line, word, &is_word)) {
        return false;
    }
    return is_word && word->len > 0 ? true : complain(r, "%s is missing", what);
}

/* ---- lines ------------------------------------------------------------------------------- */

static bool take_kind(struct rules_reader *r, struct span *line, struct access_rule *rule)
{
    char text[WORD_SHOWN + 1];
    struct span word;

    if (!want_word(r, line, &word, "a kind")) {
        return false;
    }
    for (uint8_t i = 0; i < KINDS; i++) {
        if (span_is(word, kinds[i])) {
            rule->kind = i;
            return true;
        }
    }
    return complain(r, "\"%s\" is no user, certificate, listener or default",
                    shown(word, text));
}

static bool add_right(struct rules_reader *r, struct span word, bool is_alone, uint8_t *rights)
{
    char text[WORD_SHOWN + 1];

    for (size_t i = 0; i < sizeof(rights_words) / sizeof(rights_words[0]); i++) {
        if (span_is(word, rights_words[i].word)) {
            if (rights_words[i].is_alone && !is_alone) {
                return complain(r, "%s stands alone", rights_words[i].word);
            }
            *rights |= rights_words[i].rights;
            return true;
        }
    }
    return complain(r, "\"%s\" is no right (read, write, admin and replicate, all, or none)",
                    shown(word, text));
}

static bool take_rights(struct rules_reader *r, struct span *line, struct access_rule *rule)
{
    struct span word;

    if (!want_word(r, line, &word, "a list of rights")) {
        return false;
    }
    bool is_alone = memchr(word.ptr, ',', word.len) == NULL;
    for (;;) {
        const char *comma = word.len > 0 ? memchr(word.ptr, ',', word.len) : NULL;
        size_t len = comma != NULL ? (size_t)(comma - word.ptr) : word.len;

        if (!add_right(r, span_of(word.ptr, len), is_alone, &rule->rights)) {
            return false;
        }
        if (comma == NULL) {
            return true;
        }
        word = span_of(comma + 1, word.len - len - 1);
    }
}

static bool add_prefix(struct rules_reader *r, struct access_rule *rule, struct span prefix)
{
    if (rule->kind == KIND_LISTENER) {
        return complain(r, "a listener has no prefix");
    }
    if (prefix.len == 0 || prefix.len > RULES_PREFIX_BYTES) {
        return complain(r, "a prefix has 1 to %u bytes", RULES_PREFIX_BYTES);
    }
    if (rule->prefix_count == RULES_PREFIXES_MAX) {
        return complain(r, "more than %u prefixes", RULES_PREFIXES_MAX);
    }
    rule->prefix_count++;
    r->rules->prefixes[r->rules->prefix_count++] = prefix;
    return true;
}

static bool take_limits(struct rules_reader *r, struct span *line, struct access_rule *rule)
{
    static const char prefix[] = "prefix=";
    const size_t len = sizeof(prefix) - 1;
    char text[WORD_SHOWN + 1];
    struct span word;
    bool is_word;

    rule->prefix_at = r->rules->prefix_count;
    while (next_word(r, line, &word, &is_word)) {
        if (!is_word) {
            return true;
        }
        if (word.len < len || memcmp(word.ptr, prefix, len) != 0) {
            return complain(r, "\"%s\" is no prefix=...", shown(word, text));
        }
        if (!add_prefix(r, rule, span_of(word.ptr + len, word.len - len))) {
            return false;
        }
    }
    return false;
}

static void read_line(struct rules_reader *r, struct span line)
{
    struct access_rule rule = {.line = r->line, .name = span_of("", 0)};

    if (line.len > RULES_LINE_MAX) {
        (void)complain(r, "the line is longer than %u bytes", RULES_LINE_MAX);
        return;
    }
    if (memchr(line.ptr, '\0', line.len) != NULL || memchr(line.ptr, '\r', line.len) != NULL) {
        (void)complain(r, "the line has a byte that is no text");
        return;
    }
    if (take_kind(r, &line, &rule) &&
        (rule.kind == KIND_DEFAULT || want_word(r, &line, &rule.name, "a name")) &&
        take_rights(r, &line, &rule) && take_limits(r, &line, &rule)) {
        r->rules->rules[r->rules->count++] = rule;
    }
}

/* Is there nothing to read? */
static bool is_idle(struct span line)
{
    size_t i = 0;

    while (i < line.len && is_blank(line.ptr[i])) {
        i++;
    }
    return i == line.len || line.ptr[i] == '#';
}

static void read_lines(struct rules_reader *r, struct span text)
{
    while (text.len > 0) {
        struct span line = span_cut(&text, '\n');

        line.len -= line.len > 0 && line.ptr[line.len - 1] == '\r';
        r->line++;
        if (!is_idle(line)) {
            read_line(r, line);
        }
    }
}

/* ---- the table --------------------------------------------------------------------------- */

static int compare_names(uint8_t a_kind, struct span a, uint8_t b_kind, struct span b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;

    if (a_kind != b_kind) {
        return a_kind < b_kind ? -1 : 1;
    }
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_rules(const void *one, const void *other)
{
    const struct access_rule *a = one;
    const struct access_rule *b = other;
    int order = compare_names(a->kind, a->name, b->kind, b->name);

    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

static void refuse_twins(struct rules_reader *r)
{
    for (uint32_t i = 1; i < r->rules->count; i++) {
        const struct access_rule *a = &r->rules->rules[i - 1];
        const struct access_rule *b = &r->rules->rules[i];
        char text[WORD_SHOWN + 1];

        if (compare_names(a->kind, a->name, b->kind, b->name) == 0) {
            r->line = b->line;
            (void)complain(r, "%s%s%s has a rule in line %u", kinds[b->kind],
                           b->name.len > 0 ? " " : "", shown(b->name, text), (unsigned)a->line);
        }
    }
}

/* How many lines there are, and words that may be prefixes: each follows a blank. */
static void count_text(struct span text, size_t *lines, size_t *words)
{
    *lines = 1;
    *words = 0;
    for (size_t i = 0; i < text.len; i++) {
        *lines += text.ptr[i] == '\n';
        *words += is_blank(text.ptr[i]); /* not by its =, which may be written as \x3d */
    }
}

static struct rules *rules_alloc(struct span text)
{
    static _Atomic uint32_t generations;
    struct rules *rules = mem_zalloc(sizeof(*rules));
    size_t lines;
    size_t words;

    if (rules == NULL) {
        return NULL;
    }
    rules->generation = atomic_fetch_add_explicit(&generations, 1, memory_order_relaxed) + 1;
    count_text(text, &lines, &words);
    rules->rules = mem_alloc(lines * sizeof(rules->rules[0]));
    rules->prefixes = mem_alloc((words + 1) * sizeof(rules->prefixes[0]));
    rules->bytes = mem_alloc(text.len + 1);
    if (rules->rules == NULL || rules->prefixes == NULL || rules->bytes == NULL) {
        rules_destroy(rules);
        return NULL;
    }
    return rules;
}

struct rules *rules_create(struct span text, rules_complain_fn fn, void *arg)
{
    struct rules_reader r = {.fn = fn, .arg = arg};

    if (text.len > RULES_FILE_MAX) {
        (void)complain(&r, "it is longer than %u bytes", RULES_FILE_MAX);
        return NULL;
    }
    r.rules = rules_alloc(text);
    if (r.rules == NULL) {
        (void)complain(&r, "out of memory");
        return NULL;
    }
    read_lines(&r, text);
    must(r.rules->used <= text.len);
    qsort(r.rules->rules, r.rules->count, sizeof(r.rules->rules[0]), compare_rules);
    refuse_twins(&r);
    if (r.is_bad) {
        rules_destroy(r.rules);
        return NULL;
    }
    return r.rules;
}

void rules_destroy(struct rules *rules)
{
    if (rules != NULL) {
        mem_free(rules->rules);
        mem_free(rules->prefixes);
        mem_free(rules->bytes);
        mem_free(rules);
    }
}

uint32_t rules_generation(const struct rules *rules)
{
    return rules->generation;
}

size_t rules_count(const struct rules *rules)
{
    return rules->count;
}

void rules_each_listener(const struct rules *rules,
                         void (*fn)(void *arg, struct span name, unsigned line), void *arg)
{
    for (uint32_t i = 0; i < rules->count; i++) {
        const struct access_rule *rule = &rules->rules[i];

        if (rule->kind == KIND_LISTENER) {
            fn(arg, rule->name, rule->line);
        }
    }
}

/* ---- what they grant --------------------------------------------------------------------- */

static uint32_t find(const struct rules *rules, uint8_t kind, struct span name)
{
    uint32_t low = 0;
    uint32_t high = rules->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct access_rule *rule = &rules->rules[middle];
        int order = compare_names(rule->kind, rule->name, kind, name);

        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return RULES_NONE;
}

uint32_t rules_find_certificate(const struct rules *rules, struct span name, uint32_t best)
{
    uint32_t found = find(rules, KIND_CERTIFICATE, name);

    if (found == RULES_NONE ||
        (best != RULES_NONE && rules->rules[best].line < rules->rules[found].line)) {
        return best;
    }
    return found;
}

struct grant rules_grant(const struct rules *rules, struct span user, uint32_t certificate,
                         struct span listener, uint8_t otherwise)
{
    uint32_t of_listener = find(rules, KIND_LISTENER, listener);
    uint32_t of_client = user.len > 0 ? find(rules, KIND_USER, user) : RULES_NONE;
    struct grant g;

    of_client = of_client == RULES_NONE ? certificate : of_client;
    bool is_named = of_client != RULES_NONE;
    if (!is_named) {
        of_client =
            of_listener != RULES_NONE ? of_listener : find(rules, KIND_DEFAULT, span_of("", 0));
    }
    g.is_explicit = of_client != RULES_NONE;
    g.rights = g.is_explicit ? rules->rules[of_client].rights : otherwise;
    if (of_listener != RULES_NONE) {
        g.rights &= rules->rules[of_listener].rights;
    }
    if (!is_named || of_listener == RULES_NONE) {
        g.rights &= (uint8_t)~RIGHT_CONFIG;
    }
    g.rule = g.is_explicit && rules->rules[of_client].prefix_count > 0 ? of_client : RULES_NONE;
    return g;
}

bool rules_allow_key(const struct rules *rules, uint32_t rule, struct span key)
{
    if (rule == RULES_NONE) {
        return true;
    }
    must(rule < rules->count);
    const struct access_rule *r = &rules->rules[rule];
    for (uint32_t i = 0; i < r->prefix_count; i++) {
        const struct span *prefix = &rules->prefixes[r->prefix_at + i];

        if (key.len >= prefix->len && memcmp(key.ptr, prefix->ptr, prefix->len) == 0) {
            return true;
        }
    }
    return false;
}
