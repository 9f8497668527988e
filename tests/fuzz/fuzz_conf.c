/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a configuration file, and the same bytes as a file of flags. What must hold for
 * any input:
 *   - nothing outside the text is read, and every byte is in exactly one line;
 *   - name and value are in their line, and a value that is printed is read again as it was;
 *   - a value that an option takes is shown in a form that it takes again, to the same effect;
 *   - words of flags are texts of their own, in the order of their lines;
 *   - a line that is edited has the new value, and all other bytes are as they were; a line
 *     that is added is the only new one;
 *   - as the words of a command, those in quotes are the same when they are quoted again.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/command/exec.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"

/* The option takes what it shows. */
static void check_option(enum option_id id, const char *value)
{
    struct settings s;
    struct settings again;
    char why[OPTION_TEXT_BYTES];
    char text[OPTION_TEXT_BYTES];
    char other[OPTION_TEXT_BYTES];

    settings_init(&s);
    settings_init(&again);
    if (option_set(&s, id, value, OPTION_FILE, why)) {
        const char *typed = option_typed(&s, id, text);

        if (typed[0] == '\0') {
            require(option_may_be_unset(&option_rows[id]));
        } else {
            require(option_set(&again, id, typed, OPTION_FILE, why));
        }
        require(strcmp(typed, option_typed(&again, id, other)) == 0);
    } else {
        require(strlen(why) > 0 && strlen(why) < OPTION_TEXT_BYTES);
        require(setting_source(&s, id) == OPTION_DEFAULT);
    }
    settings_fini(&again);
    settings_fini(&s);
}

/* The value, printed after a name, is the value of that line. */
static void check_value(const char *value)
{
    struct conf_line line = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    require(out != NULL);
    fputs("name = ", out);
    conf_value_print(out, value);
    fclose(out);
    char *again = exact_block(size + 1);
    struct span rest = span_of(text, size);
    require(conf_line_next(&rest, &line) && line.why == NULL && rest.len == 0);
    conf_line_value(&line, again);
    require(strcmp(again, value) == 0);
    free(again);
    free(text);
}

static void check_line(const struct conf_line *line)
{
    check_span(line->name, line->whole.ptr, line->whole.len);
    check_span(line->raw, line->whole.ptr, line->whole.len);
    require(line->whole.len > 0);
    if (line->why != NULL || line->name.len == 0) {
        return;
    }
    char *value = exact_block(line->raw.len + 1);
    conf_line_value(line, value);
    require(strlen(value) <= line->raw.len);
    check_value(value);
    const enum option_id id = option_find(line->name.ptr, line->name.len);
    if (id != OPTION_COUNT) {
        check_option(id, value);
    } else {
        (void)option_nearest(line->name.ptr, line->name.len);
    }
    free(value);
}

static struct conf_line line_of(struct span text, unsigned number)
{
    struct conf_line line = {0};

    while (line.number < number && conf_line_next(&text, &line)) {
    }
    return line;
}

/* The value of a line, from 1, is changed. */
static void check_edit(struct span text, const struct conf_line *line, const char *value)
{
    struct buf out = {0};
    char again[64];

    const enum conf_edit result = conf_edit_value(&out, text, line->number, value);
    if (line->why != NULL || line->name.len == 0) {
        require(result == CONF_EDIT_NO_LINE && buf_len(&out) == 0);
    } else {
        const struct conf_line edited = line_of(buf_span(&out), line->number);
        const size_t before = (size_t)(line->whole.ptr - text.ptr);
        const size_t after = text.len - before - line->whole.len;

        require(result == CONF_EDITED);
        require(edited.why == NULL && span_eq(edited.name, line->name));
        require(edited.raw.len < sizeof(again));
        conf_line_value(&edited, again);
        require(strcmp(again, value) == 0);
        require(span_eq(span_of(buf_begin(&out), before), span_of(text.ptr, before)));
        require(buf_len(&out) == before + edited.whole.len + after);
        require(span_eq(span_of(buf_end(&out) - after, after),
                        span_of(text.ptr + before + line->whole.len, after)));
    }
    buf_fini(&out);
}

/* A line is added: one more has this name, or the mark is there in addition. */
static void check_add(struct span text)
{
    struct conf_line line = {0};
    struct buf out = {0};
    unsigned names[2] = {0, 0};

    require(conf_edit_add(&out, text, "fuzz", "a b") == CONF_EDITED);
    for (unsigned i = 0; i < 2; i++) {
        struct span rest = i == 0 ? text : buf_span(&out);

        memset(&line, 0, sizeof(line));
        while (conf_line_next(&rest, &line)) {
            names[i] += line.why == NULL && span_is(line.name, "fuzz");
        }
    }
    require(names[1] == names[0] + 1);
    require(buf_len(&out) > text.len);
    buf_fini(&out);
}

static void check_lines(const char *text, size_t size)
{
    struct span rest = span_of(text, size);
    struct conf_line line = {0};
    const char *at = text;
    unsigned number = 0;

    while (conf_line_next(&rest, &line)) {
        require(line.whole.ptr == at && line.number == ++number);
        check_line(&line);
        if (number <= 4) { /* the whole text is copied each time */
            check_edit(span_of(text, size), &line, number % 2 == 0 ? "1" : " \"#\\");
        }
        at += line.whole.len;
        require(rest.ptr == at && rest.len == (size_t)(text + size - at));
    }
    require(at == text + size);
    check_add(span_of(text, size));
}

static void check_words(const char *text, size_t size)
{
    struct span rest = span_of(text, size);
    struct conf_words words;
    unsigned number = 0;

    require(conf_words_init(&words, size));
    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        const size_t len = end != NULL ? (size_t)(end - rest.ptr) : rest.len;
        const int argc = words.argc;
        const char *why = conf_words_add(&words, span_of(rest.ptr, len), ++number);

        require(why == NULL || words.argc == argc);
        rest = span_of(rest.ptr + len + (end != NULL), rest.len - len - (end != NULL));
    }
    require(words.used <= size + 1 && words.argv[words.argc] == NULL);
    const char *at = words.chars;
    for (int i = 1; i < words.argc; i++) {
        require(words.argv[i] == at && words.lines[i] >= words.lines[i - 1]);
        at += strlen(at) + 1;
    }
    require(at == words.chars + words.used);
    conf_words_fini(&words);
}

/* A word, quoted, is one word again. */
static void check_quoting(const char *word)
{
    struct config_words again;
    char *line = exact_block(strlen(word) * CONF_CHAR_MAX + 3);
    char *out = line;

    *out++ = '"';
    for (const char *p = word; *p != '\0'; p++) {
        char text[CONF_CHAR_MAX];
        const size_t len = conf_char_quote(*p, text);

        memcpy(out, text, len);
        out += len;
    }
    *out++ = '"';
    if ((size_t)(out - line) < CONFIG_TEXT_MAX) {
        require(config_words_split(&again, span_of(line, (size_t)(out - line))) == NULL);
        require(again.count == 1 && strcmp(again.word[0], word) == 0);
    }
    free(line);
}

static void check_command(const char *text, size_t size)
{
    struct config_words words;
    const char *end = memchr(text, '\n', size);
    const size_t len = end != NULL ? (size_t)(end - text) : size;

    if (config_words_split(&words, span_of(text, len)) != NULL) {
        return;
    }
    require(words.count <= CONFIG_WORDS_MAX);
    const char *at = words.text;
    for (unsigned i = 0; i < words.count; i++) {
        require(words.word[i] == at && at + strlen(at) < words.text + CONFIG_TEXT_MAX);
        check_quoting(at);
        at += strlen(at) + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy(data, size);

    check_lines(copy, size);
    check_words(copy, size);
    check_command(copy, size);
    free(copy);
    return 0;
}
