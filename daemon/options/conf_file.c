/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conf_file.h. An include is read at its place, as if the file contained those lines.
 */
#include "daemon/options/conf_file.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/options_live.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* What is read of a folder that an include names without a pattern. */
#define PATTERN_OF_FOLDER "*.conf"

struct conf_reader {
    struct option_giver giver;
    struct conf_texts *texts; /* [borrowed] NULL: none are kept */
    const char *named_by;     /* [borrowed] the option that names the file that is read */
    unsigned depth;
    unsigned files;
};

/* A file being read. Its text is owned by the reader or by its `texts`. */
struct loaded {
    struct span text;
    struct file_text own; /* owned */
};

static void read_file(struct conf_reader *r, const char *path);

static void out_of_memory(struct conf_reader *r)
{
    option_complain(&r->giver, EX_OSERR, "out of memory");
}

/* ---- include ----------------------------------------------------------------------------- */

/* Read the files of a folder that match the pattern, sorted by name; there may be none. */
static void include_folder(struct conf_reader *r, const char *folder, const char *pattern)
{
    uv_fs_t names;
    uv_dirent_t name;
    char path[PATH_MAX];
    const int status = uv_fs_scandir(NULL, &names, folder, 0, NULL);

    if (status < 0) {
        option_complain(&r->giver, EX_USAGE, "include: cannot read the folder %s (%s)", folder,
                        strerror(-status));
    }
    while (status >= 0 && uv_fs_scandir_next(&names, &name) == 0) {
        if (fnmatch(pattern, name.name, FNM_PERIOD) != 0) {
            continue;
        }
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name.name) < sizeof(path)) {
            read_file(r, path);
        } else {
            option_complain(&r->giver, EX_USAGE,
                            "include: the name of a file in %s is too long", folder);
        }
    }
    uv_fs_req_cleanup(&names);
}

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

/*
 * The value of an include: a file, a folder, or a folder and a pattern, relative to the folder
 * of the including file.
 */
static void include_path(struct conf_reader *r, const char *value)
{
    const char *file = r->giver.place.file;
    const char *slash = strrchr(file, '/');
    const int folder_len = value[0] == '/' || slash == NULL ? 0 : (int)(slash + 1 - file);
    char path[PATH_MAX];
    struct stat st;

    if (value[0] == '\0') {
        option_complain(&r->giver, EX_USAGE, "include: a file or folder is missing");
        return;
    }
    if ((size_t)snprintf(path, sizeof(path), "%.*s%s", folder_len, file, value) >=
        sizeof(path)) {
        option_complain(&r->giver, EX_USAGE, "include: the path is too long");
        return;
    }
    char *last = strrchr(path, '/');
    char *name = last != NULL ? last + 1 : path;
    if (is_pattern(name)) {
        char pattern[NAME_MAX + 1];

        if ((size_t)snprintf(pattern, sizeof(pattern), "%s", name) >= sizeof(pattern)) {
            option_complain(&r->giver, EX_USAGE, "include: the pattern is too long");
            return;
        }
        *name = '\0';
        if (name > path + 1) {
            name[-1] = '\0'; /* "folder/", but "/" stays */
        }
        include_folder(r, path[0] != '\0' ? path : ".", pattern);
    } else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        include_folder(r, path, PATTERN_OF_FOLDER);
    } else {
        read_file(r, path);
    }
}

/* ---- a file ------------------------------------------------------------------------------ */

static void apply_line(struct conf_reader *r, const struct conf_line *line)
{
    if (line->why != NULL) {
        option_complain(&r->giver, EXIT_FAILURE, "%s", line->why);
        return;
    }
    if (line->name.len == 0) {
        return;
    }
    char *value = mem_alloc(line->raw.len + 1);
    if (value == NULL) {
        out_of_memory(r);
        return;
    }
    conf_line_value(line, value);
    if (span_is(line->name, "include")) {
        include_path(r, value);
    } else {
        option_apply_setting(&r->giver, line->name, value);
    }
    mem_free(value);
}

static void apply_text(struct conf_reader *r, struct span text)
{
    struct conf_line line = {0};

    while (conf_line_next(&text, &line)) {
        r->giver.place.line = line.number;
        apply_line(r, &line);
    }
}

struct conf_text *conf_texts_find(struct conf_texts *t, const char *path)
{
    char real[PATH_MAX];

    must_be_main();
    if (realpath(path, real) == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->items[i].path, real) == 0) {
            return &t->items[i];
        }
    }
    return NULL;
}

/* Keep the text, which is now of the texts. False: no memory, and nothing is kept. */
static bool keep_text(struct conf_texts *t, const char *path, const struct file_text *text)
{
    char real[PATH_MAX];
    struct conf_text *items = mem_realloc(t->items, (t->count + 1) * sizeof(*items));

    if (items == NULL) {
        return false;
    }
    t->items = items;
    items = &items[t->count];
    memset(items, 0, sizeof(*items));
    if (realpath(path, real) == NULL || (items->path = mem_alloc(strlen(real) + 1)) == NULL) {
        return false;
    }
    strcpy(items->path, real);
    items->old = *text;
    t->count++;
    return true;
}

void conf_texts_fini(struct conf_texts *t)
{
    must_be_main();
    for (size_t i = 0; i < t->count; i++) {
        mem_free(t->items[i].path);
        mem_free(t->items[i].old.bytes);
        buf_fini(&t->items[i].now);
    }
    mem_free(t->items);
    memset(t, 0, sizeof(*t));
}

/* Returns what is wrong, or NULL. */
static const char *take_text(struct conf_texts *texts, const char *path, struct loaded *l)
{
    const struct conf_text *kept = texts != NULL ? conf_texts_find(texts, path) : NULL;

    if (kept != NULL) {
        l->text = conf_text_now(kept);
        return l->text.len > CONF_FILE_MAX ? "too large" : NULL;
    }
    const char *why = file_read_all(path, CONF_FILE_MAX, &l->own);
    if (why == NULL) {
        l->text = span_of(l->own.bytes, l->own.len);
        if (texts != NULL && !keep_text(texts, path, &l->own)) {
            return "out of memory, or it has changed meanwhile";
        }
        if (texts != NULL) {
            l->own.bytes = NULL;
        }
    }
    return why;
}

/* Read the file; false after a message. unload() in either case. */
static bool load_text(struct conf_reader *r, const char *path, struct loaded *l)
{
    memset(l, 0, sizeof(*l));
    const char *why = take_text(r->texts, path, l);

    if (why != NULL) {
        option_complain(&r->giver, EX_USAGE, "%s: cannot read %s (%s)", r->named_by, path, why);
    }
    return why == NULL;
}

static void unload(struct loaded *l)
{
    mem_free(l->own.bytes);
}

/* Let the messages name the file. False: no memory. */
static bool enter_file(struct conf_reader *r, const char *path)
{
    const char *name = settings_keep_file(r->giver.settings, path);

    if (name == NULL) {
        out_of_memory(r);
        return false;
    }
    r->giver.place = (struct option_place){.file = name};
    return true;
}

static void read_file(struct conf_reader *r, const char *path)
{
    const struct option_place place = r->giver.place;
    struct loaded file;

    if (r->depth == CONF_DEPTH_MAX || r->files == CONF_FILES_MAX) {
        option_complain(&r->giver, EX_USAGE, "%s: cannot read %s (%s)", r->named_by, path,
                        r->depth == CONF_DEPTH_MAX ? "files include each other too deep"
                                                   : "too many files");
        return;
    }
    r->depth++;
    r->files++;
    if (load_text(r, path, &file) && enter_file(r, path)) {
        r->named_by = "include";
        apply_text(r, file.text);
    }
    unload(&file);
    r->depth--;
    r->giver.place = place;
}

int conf_read(struct settings *s, const char *path, struct conf_texts *texts)
{
    struct conf_reader r = {.giver = {.settings = s, .source = OPTION_FILE},
                            .texts = texts,
                            .named_by = "--config"};

    must_be_main();
    read_file(&r, path);
    return r.giver.errors > 0 ? r.giver.status : 0;
}

/* ---- a file of flags --------------------------------------------------------------------- */

static void add_lines(struct conf_reader *r, struct conf_words *words, struct span text)
{
    while (text.len > 0) {
        const char *why = conf_words_add(words, span_cut(&text, '\n'), ++r->giver.place.line);

        if (why != NULL) {
            option_complain(&r->giver, EXIT_FAILURE, "%s", why);
        }
    }
}

int conf_read_memcached(struct settings *s, const char *path)
{
    struct conf_reader r = {.giver = {.settings = s, .source = OPTION_MEMCACHED_CONF},
                            .named_by = "--memcached-conf"};
    struct conf_words words;
    struct loaded file;

    must_be_main();
    if (load_text(&r, path, &file) && enter_file(&r, path)) {
        if (!conf_words_init(&words, file.text.len)) {
            out_of_memory(&r);
        } else {
            add_lines(&r, &words, file.text);
            flags_apply_words(&r.giver, &words);
        }
        conf_words_fini(&words);
    }
    unload(&file);
    return r.giver.errors > 0 ? r.giver.status : 0;
}

/* ---- variables of the environment -------------------------------------------------------- */

#define PREFIX     OPTION_VARIABLE_PREFIX
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* A variable whose name begins with the prefix. */
struct variable {
    char given[OPTION_GIVEN_BYTES]; /* its name; cut if it is too long for any option */
    char name[OPTION_GIVEN_BYTES];  /* what follows the prefix, in small letters */
    const char *value;              /* [borrowed] */
    bool has_name_of_option;
};

/* What this program hands over to the next one, and what tests set. */
static bool is_own(const char *given)
{
    return strncmp(given, PREFIX "PASSED_", PREFIX_LEN + 7) == 0 ||
           strncmp(given, PREFIX "UPGRADE_", PREFIX_LEN + 8) == 0 ||
           strcmp(given, MACHINE_ROOT_VARIABLE) == 0;
}

/* Kubernetes names the address of a service "port". */
static bool is_of_kubernetes(const struct variable *v)
{
    return strncmp(v->value, "tcp://", 6) == 0 || strncmp(v->value, "udp://", 6) == 0 ||
           strncmp(v->value, "sctp://", 7) == 0;
}

/* False: it is no variable with the prefix and a value, or one of our own. */
static bool read_variable(const char *entry, struct variable *v)
{
    const size_t len = strcspn(entry, "=");
    bool has_small = false;
    size_t i;

    if (strncmp(entry, PREFIX, PREFIX_LEN) != 0 || len == PREFIX_LEN || entry[len] == '\0' ||
        entry[len + 1] == '\0') {
        return false;
    }
    snprintf(v->given, sizeof(v->given), "%.*s", (int)(sizeof(v->given) - 1), entry);
    v->given[len < sizeof(v->given) ? len : sizeof(v->given) - 1] = '\0';
    for (i = PREFIX_LEN; v->given[i] != '\0'; i++) {
        has_small |= islower((unsigned char)v->given[i]) != 0 || v->given[i] == '-';
        v->name[i - PREFIX_LEN] = (char)tolower((unsigned char)v->given[i]);
    }
    v->name[i - PREFIX_LEN] = '\0';
    v->value = entry + len + 1;
    v->has_name_of_option = !has_small && len < sizeof(v->given) &&
                            (option_find(v->name, strlen(v->name)) != OPTION_COUNT ||
                             compat_find(v->name, strlen(v->name)) != NULL) &&
                            !is_of_kubernetes(v);
    return !is_own(v->given);
}

/* The name of the option that may be meant, in capitals. False: there is none. */
static bool nearest(const struct variable *v, char text[OPTION_GIVEN_BYTES])
{
    const size_t len = strlen(v->name);
    const bool is_other_case =
        option_find(v->name, len) != OPTION_COUNT && !is_of_kubernetes(v);
    const char *name = is_other_case ? v->name : option_nearest(v->name, len);

    if (name == NULL) {
        return false;
    }
    snprintf(text, OPTION_GIVEN_BYTES, "%.*s", OPTION_GIVEN_BYTES - 1, name);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
    return true;
}

int conf_read_environment(struct settings *s, bool tells)
{
    struct option_giver g = {.settings = s, .source = OPTION_ENVIRONMENT};
    char meant[OPTION_GIVEN_BYTES];
    struct variable v;

    must_be_main();
    for (char **entry = environ; *entry != NULL; entry++) {
        if (!read_variable(*entry, &v)) {
            continue;
        }
        if (v.has_name_of_option) {
            option_apply_variable(&g, v.given, span_str(v.name), v.value);
        } else if (tells && nearest(&v, meant)) {
            option_say(s->messages, "%s: not an option (did you mean " PREFIX "%s?)", v.given,
                       meant);
        }
    }
    return g.errors > 0 ? g.status : 0;
}

void conf_log_environment(void)
{
    struct variable v;

    must_be_main();
    for (char **entry = environ; *entry != NULL; entry++) {
        if (read_variable(*entry, &v) && !v.has_name_of_option) {
            log_info("options, the environment variable %s names no option", v.given);
        }
    }
}
