/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what a server sends to mayflyctl, line by line, through every reader of lines
 * and every printer. What must hold for any input:
 *   - nothing outside a line is read, and spans that are returned lie in it;
 *   - keys fit their room;
 *   - what is printed has no byte that a terminal takes for a command, and unescapes to what it
 *     was;
 *   - JSON of it is UTF-8 without control characters, with quotes in pairs.
 */
#include "tests/fuzz/fuzz.h"

#include "ctl/answer.h"
#include "ctl/ask.h"
#include "ctl/json.h"
#include "ctl/options.h"
#include "ctl/show.h"
#include "lib/base/utf8.h"

static void check_readers(const char *copy, size_t len)
{
    struct span line = span_of(copy, len);
    struct span rest = line;
    struct span name, value;
    struct meta_answer m;
    struct dump_item item;

    (void)answer_is_error(line);
    if (answer_pair(line, "STAT", &name, &value)) {
        require(name.len > 0);
        check_span(name, copy, len);
        check_span(value, copy, len);
    }
    while (answer_field(&rest, &name, &value)) {
        check_span(name, copy, len);
        check_span(value, copy, len);
    }
    require(rest.len == 0);
    (void)answer_meta(line, &m);
    if (answer_dump_item(line, &item)) {
        require(item.key_len > 0 && item.key_len <= sizeof(item.key));
    }
    if (answer_dump_key(line, &item)) {
        require(item.key_len > 0 && item.key_len <= sizeof(item.key));
    }
}

static void check_text(struct span line, bool is_utf8)
{
    char *text = NULL;
    size_t size = 0;
    size_t back_len = 0;
    FILE *out = open_memstream(&text, &size);

    require(out != NULL);
    (void)show_text(out, line, is_utf8);
    require(fclose(out) == 0);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        require(c >= ' ' && c != 0x7f && (is_utf8 || c < 0x80));
    }
    require(utf8_is_valid(span_of(text, size)));
    char *back = exact_block(size);
    require(show_unescape(back, &back_len, span_of(text, size)));
    require(span_eq(span_of(back, back_len), line));
    free(back);
    free(text);
}

static void check_json(struct span line)
{
    char *text = NULL;
    size_t size = 0;
    size_t quotes = 0;
    FILE *out = open_memstream(&text, &size);
    struct json j;

    require(out != NULL);
    json_init_lines(&j, out);
    json_begin(&j, NULL, '{');
    json_pair(&j, line, line);
    require(json_bytes(&j, "key", line));
    json_end(&j, '{');
    require(fclose(out) == 0);
    require(size > 0 && text[size - 1] == '\n');
    for (size_t i = 0; i + 1 < size; i++) {
        require((unsigned char)text[i] >= ' ');
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            quotes++;
        }
    }
    require(quotes % 2 == 0);
    require(utf8_is_valid(span_of(text, size)));
    free(text);
}

/* The same bytes as a line of the prompt. */
static void check_prompt(const char *copy, size_t len)
{
    static struct ctl_words words, left;
    struct options o;
    char *store = exact_block(len + 1);
    char why[200];

    if (words_split(&words, span_of(copy, len), store, why, sizeof(why))) {
        for (unsigned i = 0; i < words.count; i++) {
            check_span(words.word[i], store, len + 1);
            require(words.word[i].ptr[words.word[i].len] == '\0');
        }
        options_init(&o);
        if (options_read(&o, &words, true, &left, why, sizeof(why))) {
            require(left.count <= words.count);
        }
    }
    free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stats s = {0};

    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end != NULL ? (size_t)(end - data) : size;
        char *copy = exact_copy((const char *)data, len);

        check_readers(copy, len);
        check_text(span_of(copy, len), true);
        check_text(span_of(copy, len), false);
        check_json(span_of(copy, len));
        check_prompt(copy, len);
        (void)stats_take(&s, span_of(copy, len));
        free(copy);
        len += end != NULL ? 1 : 0;
        data += len;
        size -= len;
    }
    for (size_t i = 0; i < s.count; i++) {
        (void)unit_of(stats_name(&s, i));
        require(stats_name(&s, i).len > 0);
        check_text(stats_value(&s, i), true);
    }
    stats_fini(&s);
    return 0;
}
