/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of the process, generated from options.def and compat.def.
 *
 * Fields of life BOOT are constant once the threads run. Fields of life LIVE are relaxed
 * atomics: read them by setting_get(), change them by setting_set(). The options of the engine
 * are fields of `engine`, which the engine reads directly. Texts of life BOOT are owned by the
 * settings and NULL when unset; those of life LIVE are part of it, and copied by
 * setting_copy_text().
 */
#ifndef MAYFLY_DAEMON_OPTIONS_SETTINGS_H
#define MAYFLY_DAEMON_OPTIONS_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/engine_options.h"

/* ---- live_text.c ------------------------------------------------------------------------- */

/*
 * A text option that may change while other threads read it. The bytes are part of the struct,
 * so nothing has to be released while a thread reads. One lock guards the texts of all
 * settings, as they are short and rarely read. A struct of zeros is the empty text.
 */

/* Room for the longest text, with the NUL at its end. */
#define LIVE_TEXT_BYTES 512u

struct live_text {
    char bytes[LIVE_TEXT_BYTES]; /* [lock of live_text.c] ends with NUL */
};

/*
 * Copy the text to out, which has room for `bytes`, LIVE_TEXT_BYTES at least. Returns its
 * length; 0: it is empty, which of an option means unset. Context: any thread.
 */
size_t live_text_get(const struct live_text *text, char *out, size_t bytes);

/* Replace the text. The new one is shorter than LIVE_TEXT_BYTES. Context: any thread. */
void live_text_set(struct live_text *text, const char *value);

/* ---- settings.c -------------------------------------------------------------------------- */

/* load: treatment of the snapshot at the start. */
enum load_mode { LOAD_NO, LOAD_YES, LOAD_STRICT, LOAD_SALVAGE };

/* Values of settings.protocol, in the order of its words. */
enum binding_protocol { PROTOCOL_AUTO, PROTOCOL_ASCII, PROTOCOL_BINARY };

/* settings.admin_commands: clients that may use operator commands without a rule. */
enum admin_by { ADMIN_BY_ALL, ADMIN_BY_CONTROL };

/* Room for the longest number, word, live text or message about a value. */
#define OPTION_TEXT_BYTES LIVE_TEXT_BYTES

/* Where a value came from; a later source overrides an earlier one. */
enum option_source {
    OPTION_DEFAULT,
    OPTION_ENVIRONMENT,    /* MAYFLY_NAME */
    OPTION_MEMCACHED_CONF, /* --memcached-conf */
    OPTION_FILE,           /* --config */
    OPTION_COMMAND_LINE,
    OPTION_RUN_TIME,
};

enum option_id {
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, settings,    \
            help)                                                                              \
    OPTION_##field,
#include "daemon/options/options.def"
    OPTION_COUNT
};

enum compat_id {
#define TAKEN(id, letter, name, arg, help) COMPAT_##id,
#include "daemon/options/compat.def"
    COMPAT_COUNT
};

/* Texts are the daemon's alone; the other kinds are those of the engine's options. */
typedef char *option_STR_BOOT;
typedef struct live_text option_STR_LIVE;
typedef char *option_LIST_BOOT;

/* A file that options came from; its name as given, or as found by an include. */
struct option_file {
    struct option_file *next; /* owned */
    char name[];
};

/* How an option was typed. */
enum option_form {
    OPTION_BY_NAME,      /* name = value, in a file */
    OPTION_BY_LETTER,    /* -x */
    OPTION_BY_FLAG,      /* --name */
    OPTION_BY_SUBOPTION, /* -o name */
    OPTION_BY_VARIABLE,  /* MAYFLY_NAME */
};

/* The source that has set or unset an option. */
struct option_place {
    const char *file; /* [borrowed] name of an option_file; NULL: no line of a file */
    unsigned line;
    enum option_form form;
    bool is_in_bytes; /* by a name that counts bytes, whatever the option's unit */
};

struct passed_on;       /* daemon/net/passed_on.h */
struct option_messages; /* options_apply.h */

struct settings {
    /* [const] or [atomic], by the life column of their rows */
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, settings,    \
            help)                                                                              \
    option_##kind##_##life field;
#define ENGINE_OPT(...) /* fields of engine */
#include "daemon/options/options.def"
    struct engine_options engine;
    /* [atomic] */
    _Atomic uint8_t sources[OPTION_COUNT]; /* enum option_source */
    _Atomic uint8_t shares[OPTION_COUNT];  /* percent of what the machine has (machine.h), for
                                              OPT_SHARE and OPT_AUTO; 0: a number was given */
    /* [const] */
    bool compat[COMPAT_COUNT];                /* flags without effect that were given */
    struct option_place places[OPTION_COUNT]; /* of values that came from a file */
    struct option_file *files;                /* owned */
    int argc;                                 /* the arguments of the process */
    char **argv;                              /* [borrowed] */
    char *config_path;                        /* owned; NULL: no --config */
    char *memcached_conf_path;                /* owned; NULL: no --memcached-conf */
    struct passed_on *passed; /* [borrowed, main] from another program; NULL: nothing */
    /* [main] */
    struct option_messages *messages; /* [borrowed] about these options; NULL: go to stderr */
};

/* Where the value of an option came from. Context: any thread. */
static inline enum option_source setting_source(const struct settings *s, enum option_id id)
{
    return (enum option_source)atomic_load_explicit(&s->sources[id], memory_order_relaxed);
}

/*
 * The share of the machine that an option was set to, in percent; 0: a number. Its field has
 * the number that follows from it (options.h). Context: any thread.
 */
static inline uint32_t setting_share(const struct settings *s, enum option_id id)
{
    return atomic_load_explicit(&s->shares[id], memory_order_relaxed);
}

static inline void setting_set_share(struct settings *s, enum option_id id, uint32_t percent)
{
    atomic_store_explicit(&s->shares[id], (uint8_t)percent, memory_order_relaxed);
}

/* Read or change a LIVE setting. Context: any thread. */
#define setting_get(s, field) atomic_load_explicit(&(s)->field, memory_order_relaxed)
#define setting_set(s, field, value)                                                           \
    atomic_store_explicit(&(s)->field, (value), memory_order_relaxed)

/*
 * Copy a LIVE text to out, which has room for `bytes`, OPTION_TEXT_BYTES at least. Returns its
 * length; 0: unset. Two texts that were set by one change are copied one after the other, so a
 * thread that needs a consistent pair reads both again when it is notified of a change
 * (crew_options_changed()). Context: any thread.
 */
#define setting_copy_text(s, field, out, bytes) live_text_get(&(s)->field, (out), (bytes))

/* Fill in the defaults; owns nothing yet. Context: main, before start. */
void settings_init(struct settings *s);

/*
 * Keep the name of a file that options are read from. NULL: no memory. Context: main, before
 * start.
 */
const char *settings_keep_file(struct settings *s, const char *name);

/* Release the texts and the names of files. Context: main, after all threads ended. */
void settings_fini(struct settings *s);

/*
 * Call fn for each line of `stats settings`, in memcached's order, own ones last. Name and
 * value are borrowed for the call. Context: any thread.
 */
typedef void (*settings_line_fn)(void *arg, const char *name, const char *value);
void settings_each_line(const struct settings *s, settings_line_fn fn, void *arg);

#endif
