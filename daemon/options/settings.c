/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings as a whole: see settings.h.
 */
#include "daemon/options/settings.h"

#include <string.h>

#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

void settings_init(struct settings *s)
{
    must_be_main();
    memset(s, 0, sizeof(*s));
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (!option_is_text(row)) { /* texts are unset already */
            option_store(s, row, row->def);
        }
    }
}

const char *settings_keep_file(struct settings *s, const char *name)
{
    const size_t size = strlen(name) + 1;
    struct option_file *file = mem_alloc(sizeof(*file) + size);

    must_be_main();
    if (file == NULL) {
        return NULL;
    }
    memcpy(file->name, name, size);
    file->next = s->files;
    s->files = file;
    return file->name;
}

void settings_fini(struct settings *s)
{
    must_be_main();
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (option_is_text(row)) {
            option_unset_text(s, row);
        }
    }
    mem_free(s->config_path);
    mem_free(s->memcached_conf_path);
    s->config_path = NULL;
    s->memcached_conf_path = NULL;
    while (s->files != NULL) {
        struct option_file *file = s->files;

        s->files = file->next;
        mem_free(file);
    }
}

void settings_each_line(const struct settings *s, settings_line_fn fn, void *arg)
{
    char text[OPTION_TEXT_BYTES];
    for (size_t i = 0; i < option_line_count; i++) {
        const struct option_line *line = &option_lines[i];
        must(line->id <= OPTION_COUNT);
        if (line->name[0] == '\0') {
            continue;
        }
        if (line->words[0] != NULL) {
            fn(arg, line->name, line->words[option_is(s, line->id, line->number)]);
        } else if (line->is_as_given) {
            fn(arg, line->name, option_typed(s, line->id, text));
        } else {
            fn(arg, line->name,
               line->id == OPTION_COUNT ? line->value : option_show(s, line->id, text));
        }
    }
}
