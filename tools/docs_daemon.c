/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is made of options.def, topics.def, compat.def, counters.def and stats_lines.def: lists
 * of mayflyd(8), mayfly.conf(5) and mayfly-stats(7), and etc/mayfly.conf.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/wrap.h"
#include "daemon/options/conf_line.h"
#include "daemon/options/options.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/counters.h"
#include "tools/docs.h"

#define CONF_WIDTH 78

/* ---- topics ------------------------------------------------------------------------------ */

enum topic {
    TOPIC_NONE, /* of ignored options */
#define TOPIC(topic, title) TOPIC_##topic,
#include "daemon/options/topics.def"
    TOPIC_COUNT
};

static const char *const titles[TOPIC_COUNT] = {
#define TOPIC(topic, title) [TOPIC_##topic] = (title),
#include "daemon/options/topics.def"
};

static const unsigned char topic_of[OPTION_COUNT] = {
#define IN(topic, field) [OPTION_##field] = TOPIC_##topic,
#include "daemon/options/topics.def"
};

/* Each option that has an effect has a topic; the compiler rejects an option with two. */
enum {
    HAVE_TOPIC = 0
#define IN(topic, field) +1
#include "daemon/options/topics.def"
    ,
    HAVE_EFFECT = 0
#define OPT(kind, field, letter, name, def, min, max, unit, life, traits, status, line, help)  \
    +(((traits)&OPT_IGNORED) == 0)
#include "daemon/options/options.def"
};
_Static_assert((int)HAVE_TOPIC == (int)HAVE_EFFECT,
               "an option without a row in daemon/options/topics.def");

/* Print each topic with its options. */
static void roff_topics(void (*put)(enum option_id id))
{
    for (unsigned topic = TOPIC_NONE + 1; topic < TOPIC_COUNT; topic++) {
        printf(".Ss %s\n.Bl -tag -width Ds\n", titles[topic]);
        for (unsigned id = 0; id < OPTION_COUNT; id++) {
            if (topic_of[id] == topic) {
                put(id);
            }
        }
        printf(".El\n");
    }
}

/* ---- mayflyd(8) -------------------------------------------------------------------------- */

/* A list of words is longer than a line, which may end after each. */
static void roff_value(const char *form)
{
    for (; *form != '\0'; form++) {
        printf("%c%s", *form, *form == '|' ? "\\:" : "");
    }
}

static void roff_flag(enum option_id id)
{
    const struct option_row *row = &option_rows[id];
    char form[OPTION_TEXT_BYTES];
    char note[OPTION_TEXT_BYTES];

    printf(".It ");
    if (row->letter != 0) {
        printf("Fl %c , ", row->letter);
    }
    printf("Fl \\-%s%s", option_has_no_form(row) ? "[no-]" : "", row->name);
    option_value_form(row, form);
    if (form[0] == '=' && form[1] == '<') {
        printf(" Ns = Ns Ar %s\n", row->unit);
    } else {
        printf("%s", form[0] != '\0' ? " Ns " : "");
        roff_value(form);
        printf("\n");
    }
    docs_roff("%s", row->help);
    option_value_note(id, note);
    if (note[0] != '\0') {
        docs_roff("%s", note);
    }
    if (row->life == OPT_LIVE) {
        docs_roff("live");
    }
}

static void roff_ignored(FILE *out, const char *name, int letter)
{
    char text[OPTION_TEXT_BYTES];

    if (letter != 0) {
        fprintf(out, ".It Fl %c , Fl \\-%s\n", letter, name);
    } else {
        fprintf(out, ".It Cm %s\n", option_with_underscores(name, text));
    }
}

static void roff_flags(void)
{
    printf(".\\\" Made from options.def, topics.def and compat.def by `make docs`: do not "
           "edit.\n");
    roff_topics(roff_flag);
    printf(".Ss Options without effect\n"
           "These options and\n.Fl o\nnames of\n.Xr memcached 1\n"
           "are accepted, after the same checks of their values, and have no effect here.\n"
           ".Bl -tag -width Ds -compact\n");
    options_each_ignored(stdout, roff_ignored);
    printf(".El\n.Ss Options that are refused\n"
           "These\n.Fl o\nnames of\n.Xr memcached 1\n"
           "end the start with a message, because mayfly does not have what they ask for:\n"
           ".Bl -tag -width Ds -compact\n");
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].verdict == COMPAT_REFUSED) {
            roff_ignored(stdout, compat_rows[i].name, compat_rows[i].letter);
        }
    }
    printf(".El\n.Ss Names of Redis\n"
           "These names of Redis are accepted on the command line, in the file and by\n"
           ".Ic config set ,\nas values mean the same.\n"
           ".Bl -tag -width Ds -compact\n");
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];

        if (row->is_of_redis && row->verdict == COMPAT_ALIAS) {
            printf(".It Cm %s\n.Cm %s%s\n", row->name, option_rows[row->option].name,
                   row->is_in_bytes ? ", in bytes or with suffix kb, mb or gb" : "");
        }
    }
    printf(".El\n.Pp\nOptions of Redis that mean something else here, or nothing:\n"
           ".Bl -tag -width Ds -compact\n");
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].verdict == COMPAT_INSTEAD) {
            printf(".It Cm %s\n", compat_rows[i].name);
            docs_roff("%s", compat_rows[i].text);
        }
    }
    printf(".El\n");
}

/* Print the flags of the synopsis with this letter, those with a value or those without. */
static void synopsis_letter(int letter, bool has_value)
{
    char form[OPTION_TEXT_BYTES];

    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        if (row->letter != letter || (row->traits & OPT_IGNORED) != 0 ||
            option_may_stand_alone(row) == has_value) {
            continue;
        }
        if (!has_value) {
            putchar(letter);
        } else if (row->kind != OPT_ENUM) {
            printf(".Op Fl %c Ar %s\n", letter, row->unit);
        } else {
            option_value_form(row, form);
            printf(".Op Fl %c", letter);
            for (char *word = strtok(form, "=|"); word != NULL; word = strtok(NULL, "|")) {
                printf("%s Cm %s", word == form + 1 ? "" : " |", word);
            }
            putchar('\n');
        }
    }
    if (letter == 'o' && has_value) {
        printf(".Op Fl o Ar list\n");
    }
}

static void roff_synopsis(void)
{
    printf(".\\\" Made from options.def by `make docs`: do not edit.\n.Nm\n.Op Fl ");
    for (int pass = 0; pass < 2; pass++) {
        for (int letter = 'A'; letter <= 'Z'; letter++) {
            synopsis_letter(letter, pass == 1);
            synopsis_letter(tolower(letter), pass == 1);
        }
        printf(pass == 0 ? "\n" : ".Nm\n.Fl h | i | V\n");
    }
}

/* ---- mayfly.conf(5) and etc/mayfly.conf -------------------------------------------------- */

/*
 * Fill text with unit and range or choices of an option, its letter, and whether it is live,
 * such as "Threads, 1 to 512; flag -t".
 */
static const char *describe_option(const struct option_row *row, char text[DOCS_BYTES])
{
    char range[OPTION_TEXT_BYTES];
    char word[OPTION_TEXT_BYTES];
    char *out = text;

    option_range(row, range);
    switch (row->kind) {
    case OPT_BOOL:
        out += sprintf(out, "yes or no");
        break;
    case OPT_ENUM:
        for (unsigned n = 0; option_word(row, n, OPTION_WORD_TYPED, word) != NULL; n++) {
            out += sprintf(out, "%s %s", n > 0 ? "," : "one of", word);
        }
        break;
    case OPT_CHAR:
        out += sprintf(out, "one character");
        break;
    case OPT_STR:
    case OPT_LIST:
        out += sprintf(out, "%s", row->unit);
        break;
    case OPT_MB:
    case OPT_KB:
        out += sprintf(out, "%s, or a size with suffix k, m or g", range);
        break;
    default:
        out += sprintf(out, "%s%s, %s%s", row->unit,
                       row->kind == OPT_OCTAL  ? " in octal"
                       : row->kind == OPT_SIZE ? " with suffix k, m, g or none"
                                               : "",
                       range, option_may_be_unset(row) ? "; empty: unset" : "");
        break;
    }
    out += row->letter != 0 ? sprintf(out, "; flag -%c", row->letter) : 0;
    sprintf(out, "%s", row->life == OPT_LIVE ? "; live" : "");
    return text;
}

/* The default as a user types it. Fills text. */
static const char *default_of(enum option_id id, char text[OPTION_TEXT_BYTES])
{
    struct settings defaults;

    settings_init(&defaults);
    const char *typed = option_typed(&defaults, id, text);
    if (typed != text) {
        snprintf(text, OPTION_TEXT_BYTES, "%s", typed);
    }
    settings_fini(&defaults);
    return text;
}

static void roff_setting(enum option_id id)
{
    char text[DOCS_BYTES];

    printf(".It Cm %s No = %s\n", option_name(id), default_of(id, text));
    docs_roff("%s", option_rows[id].help);
    docs_roff("%s", describe_option(&option_rows[id], text));
}

static void roff_settings(void)
{
    printf(".\\\" Made from options.def and topics.def by `make docs`: do not edit.\n");
    roff_topics(roff_setting);
}

static void conf_options(void)
{
    char text[DOCS_BYTES];
    char described[DOCS_BYTES];

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        struct wrap w = {.out = stdout, .width = CONF_WIDTH, .prefix = "# "};

        if (row->name[0] == '\0' || (row->traits & OPT_IGNORED) != 0) {
            continue;
        }
        putchar('\n');
        wrap_text(&w, docs_sentence(text, "%s", row->help));
        wrap_text(&w, docs_sentence(text, "%s", describe_option(row, described)));
        default_of(id, text);
        printf("\n#%s =%s", row->name, text[0] != '\0' ? " " : "");
        if (text[0] != '\0') {
            conf_value_print(stdout, text);
        }
        putchar('\n');
    }
}

/* ---- mayfly-stats(7) --------------------------------------------------------------------- */

enum section {
#define SECTION(id, command, text) SECTION_##id,
#include "daemon/stats/stats_lines.def"
    SECTIONS
};

static const struct {
    const char *command;
    const char *text;
} sections[] = {
#define SECTION(id, command, text) {command, text},
#include "daemon/stats/stats_lines.def"
};

static const struct {
    enum section section;
    const char *name;
    const char *unit;
    const char *help;
} lines[] = {
#define STAT(section, name, unit, help) {SECTION_##section, name, unit, help},
#include "daemon/stats/stats_lines.def"
};

static const struct {
    enum section section;
    unsigned where;
} shown[] = {
#define SHOWN(section, where) {SECTION_##section, where},
#include "daemon/stats/stats_lines.def"
};

static const char *condition_of(unsigned marks)
{
    static const struct {
        unsigned mark;
        const char *text;
    } conditions[] = {
        {CTR_IF_IDLE, "; with idle_timeout"},
        {CTR_IF_UDP, "; with UDP"},
        {CTR_IF_SESSIONS, "; with TLS and ssl_session_cache"},
        {CTR_IF_TLS, "; with TLS"},
        {CTR_IF_AUTH, "; with authentication"},
    };

    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        if ((marks & conditions[i].mark) != 0) {
            return conditions[i].text;
        }
    }
    return "";
}

static void roff_counters(enum section section)
{
    static const char *const kinds[] = {
        [CTR_KIND_COUNT] = "counts",
        [CTR_KIND_GAUGE] = "goes up and down",
    };
    unsigned where = 0;

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        where |= shown[i].section == section ? shown[i].where : 0;
    }
    for (const struct counter_row *row = counter_rows; row < counter_rows + CTR_COUNT; row++) {
        if ((row->shown & where) != 0) {
            printf(".It Li %s\n", row->line);
            docs_roff("%s", row->meaning);
            printf(".Pq %s%s\n", kinds[row->kind], condition_of(row->shown));
        }
    }
}

static void roff_lines(enum section section)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (lines[i].section == section) {
            printf(".It Li %s\n", lines[i].name);
            docs_roff("%s%s%s", lines[i].help, lines[i].unit[0] != '\0' ? ", in " : "",
                      lines[i].unit);
        }
    }
}

/* The help says what a switch does that is on; its line may be "no" or "off" then. */
static bool is_off_when_on(const struct option_row *row, char word[OPTION_TEXT_BYTES])
{
    return row->kind == OPT_BOOL && option_word(row, 1, OPTION_WORD_SHOWN, word) != NULL &&
           (strcmp(word, "no") == 0 || strcmp(word, "off") == 0);
}

static void roff_line_of_setting(const struct option_line *line)
{
    const struct option_row *row = &option_rows[line->id];
    char word[OPTION_TEXT_BYTES];

    printf(".It Li %s\n", line->name);
    if (line->id == OPTION_COUNT) {
        docs_roff("always the same; memcached's, without effect here");
    } else if (line->words[0] != NULL) {
        printf("%s where %s is %s, else %s.\n", line->words[1], row->name,
               option_word(row, (unsigned)line->number, OPTION_WORD_TYPED, word),
               line->words[0]);
    } else if (line->is_as_given) {
        docs_roff("the value of %s as it was given", row->name);
    } else {
        const bool is_off = is_off_when_on(row, word);

        docs_roff("%s%s%s", is_off ? word : "", is_off ? ": " : "", row->help);
        printf((row->traits & OPT_IGNORED) != 0 ? ".Pq memcached's; without effect here\n"
                                                : ".Pq Cm %s\n",
               row->name);
    }
}

static void roff_stats(void)
{
    printf(".\\\" Made from counters.def, options.def and stats_lines.def by `make docs`: "
           "do not edit.\n");
    for (unsigned s = 0; s < SECTIONS; s++) {
        if (s == SECTION_BOTH) {
            continue;
        }
        printf(".Ss %s\n", sections[s].command);
        docs_roff("%s", sections[s].text);
        printf(".Bl -tag -width Ds\n");
        for (size_t i = 0; s == SECTION_SETTINGS && i < option_line_count; i++) {
            if (option_lines[i].name[0] != '\0') {
                roff_line_of_setting(&option_lines[i]);
            }
        }
        roff_lines(s);
        if (s == SECTION_EXPIRE || s == SECTION_SHARDS) {
            roff_lines(SECTION_BOTH);
        }
        roff_counters(s);
        printf(".El\n");
    }
}

const struct docs_part docs_daemon_parts[] = {
    {"mayflyd-options", roff_flags},     {"mayflyd-synopsis", roff_synopsis},
    {"mayflyd-settings", roff_settings}, {"mayflyd-stats", roff_stats},
    {"config-options", conf_options},    {NULL, NULL},
};
