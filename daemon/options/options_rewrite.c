/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See options.h.
 */
#include "daemon/options/options.h"

#include <string.h>

#include "daemon/options/conf_line.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"

/* Has a line of the files of --config named it last? */
static bool has_line(const struct settings *files, enum option_id id)
{
    const enum option_source source = setting_source(files, id);

    /* An empty value takes it back to its default; in --memcached-conf it is that of a flag. */
    return (source == OPTION_FILE || source == OPTION_DEFAULT) &&
           files->places[id].file != NULL && files->places[id].form == OPTION_BY_NAME;
}

/* Write a value into the text of its file. False after a message. */
static bool edit_option(struct options_rewrite *r, const char *config_path, enum option_id id,
                        struct option_messages *said)
{
    const struct option_place *place = &r->files.places[id];
    const bool is_there = has_line(&r->files, id);
    struct conf_text *text = conf_texts_find(&r->texts, is_there ? place->file : config_path);
    char value[OPTION_TEXT_BYTES];
    const char *typed = is_there && place->is_in_bytes
                            ? option_typed_in_bytes(&r->live, id, value)
                            : option_typed(&r->live, id, value);
    struct buf out = {0};

    if (text == NULL) {
        option_say(said, "%s: it has changed meanwhile", is_there ? place->file : config_path);
        return false;
    }
    enum conf_edit result =
        is_there ? conf_edit_value(&out, conf_text_now(text), place->line, typed)
                 : conf_edit_add(&out, conf_text_now(text), option_name(id), typed);
    if (result != CONF_EDITED) {
        option_say(said, "%s: %s", text->path,
                   result == CONF_EDIT_NO_MEMORY ? "out of memory" : "it has no such line");
        buf_fini(&out);
        return false;
    }
    buf_fini(&text->now);
    text->now = out;
    text->is_edited = true;
    r->edits[r->edit_count++] = id;
    return true;
}

/* Where the command line counts, the file may have the value already. */
static bool is_written(const struct options_rewrite *r, enum option_id id)
{
    char text[OPTION_TEXT_BYTES];
    char other[OPTION_TEXT_BYTES];

    return setting_source(&r->next, id) == OPTION_COMMAND_LINE &&
           strcmp(option_typed(&r->live, id, text), option_typed(&r->files, id, other)) == 0;
}

/*
 * Write what differs from what a start would have by the files as they are. Lines are added
 * last: they may come above others, whose numbers are those of before.
 */
static bool edit_all(struct options_rewrite *r, const struct settings *given,
                     struct option_messages *said)
{
    enum option_id ids[OPTION_COUNT];
    const unsigned count = options_differing(&r->live, &r->next, true, ids);

    for (int adds = 0; adds <= 1; adds++) {
        for (unsigned i = 0; i < count; i++) {
            if (has_line(&r->files, ids[i]) == (adds == 0) && !is_written(r, ids[i]) &&
                !edit_option(r, given->config_path, ids[i], said)) {
                return false;
            }
        }
    }
    return true;
}

/* Read the files as they are edited so far, without and with the command line. */
static bool read_both(struct options_rewrite *r, const struct settings *given,
                      struct option_messages *said)
{
    settings_fini(&r->files);
    settings_fini(&r->next);
    return options_read_again(given, OPTIONS_AGAIN_FILES, &r->files, &r->texts, said) &&
           options_read_again(given, OPTIONS_AGAIN_ALL, &r->next, &r->texts, said);
}

bool options_rewrite_plan(const struct settings *given, const struct settings *live,
                          struct options_rewrite *out, struct option_messages *said)
{
    must_be_main();
    must(given->config_path != NULL);
    memset(out, 0, sizeof(*out));
    options_copy_live(&out->live, live);
    if (!read_both(out, given, said) || !edit_all(out, given, said) ||
        !read_both(out, given, said)) {
        return false;
    }
    out->overridden_count = options_differing(&out->live, &out->next, true, out->overridden);
    return true;
}

void options_rewrite_fini(struct options_rewrite *r)
{
    must_be_main();
    settings_fini(&r->files);
    settings_fini(&r->next);
    conf_texts_fini(&r->texts);
    memset(r, 0, sizeof(*r));
}
