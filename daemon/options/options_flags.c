/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flags by getopt_long(), short and long, and the suboptions of -o, all looked up in the
 * tables. What memcached refuses is refused with its exit status; what it takes by mistake
 * (trailing garbage, stray words) is refused here too.
 */
#include "daemon/options/options_apply.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/options/options.h"
#include "daemon/options/options_rows.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* What getopt_long() returns for a long flag: a base and the number of its row. */
enum {
    LONG_ROW = 1000,                        /* --name */
    LONG_ROW_OFF = LONG_ROW + OPTION_COUNT, /* --no-name */
    LONG_COMPAT = LONG_ROW_OFF + OPTION_COUNT,
    LONG_CONFIG = 10000,
    LONG_MEMCACHED_CONF,
    LONG_CHECK_CONFIG,
    LONG_PRINT_CONFIG,
    LONG_WORD, /* no flag: a word */
};

/* A row makes at most two long flags, and a few flags have no row. */
#define FLAGS_OWN     8
#define FLAGS_MAX     (2 * OPTION_COUNT + compat_row_count + FLAGS_OWN)
#define OFF_NAME_SIZE 40

/*
 * The start of getopt's option string. ":" distinguishes a missing argument from an unknown
 * flag. "+" for a file: words that are no flags are not moved to the end.
 */
#define LETTERS_MODE         ":"
#define LETTERS_MODE_OF_FILE "+" LETTERS_MODE

struct flags {
    char *letters;        /* owned: getopt's option string, after LETTERS_MODE_OF_FILE */
    struct option *longs; /* owned */
    char (*names)[OFF_NAME_SIZE]; /* owned: the names of --no-* */
};

/* ---- the tables of getopt_long() --------------------------------------------------------- */

static void add_letter(struct flags *f, int letter, int has_arg)
{
    size_t n = strlen(f->letters);
    f->letters[n++] = (char)letter;
    if (has_arg == required_argument) {
        f->letters[n++] = ':';
    }
    f->letters[n] = '\0';
}

static void add_row_flags(struct flags *f, struct option **next, unsigned id)
{
    const struct option_row *row = &option_rows[id];
    const bool is_alone = option_may_stand_alone(row);
    if (row->letter != 0) {
        add_letter(f, row->letter, is_alone ? no_argument : required_argument);
    }
    if (row->name[0] == '\0') {
        return;
    }
    *(*next)++ = (struct option){row->name, is_alone ? optional_argument : required_argument,
                                 NULL, LONG_ROW + (int)id};
    if (row->kind == OPT_BOOL && row->letter == 0) {
        int len = snprintf(f->names[id], OFF_NAME_SIZE, "no-%s", row->name);
        must(len < OFF_NAME_SIZE);
        *(*next)++ = (struct option){f->names[id], no_argument, NULL, LONG_ROW_OFF + (int)id};
    }
}

/* Release what flags_init() made, also after it failed. */
static void flags_fini(struct flags *f)
{
    mem_free(f->letters);
    mem_free(f->longs);
    mem_free(f->names);
}

/* Make getopt's tables from the rows. False: no memory. */
static bool flags_init(struct flags *f)
{
    f->letters = mem_zalloc(strlen(LETTERS_MODE_OF_FILE) + 2 * FLAGS_MAX + 1);
    f->longs = mem_zalloc((FLAGS_MAX + 1) * sizeof(*f->longs));
    f->names = mem_zalloc(OPTION_COUNT * sizeof(*f->names));
    if (f->letters == NULL || f->longs == NULL || f->names == NULL) {
        return false;
    }
    strcpy(f->letters, LETTERS_MODE_OF_FILE);
    struct option *next = f->longs;
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        add_row_flags(f, &next, id);
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        if (row->letter != 0) {
            const int has_arg = row->arg == COMPAT_ARG ? required_argument : no_argument;
            add_letter(f, row->letter, has_arg);
            *next++ = (struct option){row->name, has_arg, NULL, LONG_COMPAT + (int)i};
        } else if (row->is_of_redis) {
            *next++ = (struct option){row->name, required_argument, NULL, LONG_COMPAT + (int)i};
        }
    }
    static const struct option own[FLAGS_OWN] = {
        {"help", no_argument, NULL, 'h'},
        {"license", no_argument, NULL, 'i'},
        {"version", no_argument, NULL, 'V'},
        {"extended", required_argument, NULL, 'o'},
        {"config", required_argument, NULL, LONG_CONFIG},
        {"memcached-conf", required_argument, NULL, LONG_MEMCACHED_CONF},
        {"check-config", no_argument, NULL, LONG_CHECK_CONFIG},
        {"print-config", no_argument, NULL, LONG_PRINT_CONFIG}};
    must((size_t)(next - f->longs) + FLAGS_OWN <= FLAGS_MAX);
    memcpy(next, own, sizeof(own));
    add_letter(f, 'h', no_argument);
    add_letter(f, 'i', no_argument);
    add_letter(f, 'V', no_argument);
    add_letter(f, 'o', required_argument);
    must(strlen(f->letters) <= strlen(LETTERS_MODE_OF_FILE) + 2 * FLAGS_MAX);
    return true;
}

/* On the command line, words that are no flags may come at any place. */
static const char *letters_of_line(const struct flags *f)
{
    return f->letters + strlen(LETTERS_MODE_OF_FILE) - strlen(LETTERS_MODE);
}

/* ---- applying them ----------------------------------------------------------------------- */

/* The argument of -o: suboptions between commas; a comma at the end is allowed. */
static int apply_suboptions(struct option_giver *g, const char *list)
{
    int status = 0;
    char *copy = mem_alloc(strlen(list) + 1);

    if (copy == NULL) {
        return option_complain(g, EX_OSERR, "out of memory");
    }
    strcpy(copy, list);
    for (char *p = copy; status == 0 && *p != '\0';) {
        char *end = p + strcspn(p, ",");
        const bool is_last = *end == '\0';
        *end = '\0';
        status = option_apply_suboption(g, p);
        p = is_last ? end : end + 1;
    }
    mem_free(copy);
    return status;
}

static int apply_letter(struct option_giver *g, int letter, const char *value)
{
    const char given[] = {'-', (char)letter, '\0'};

    g->place.form = OPTION_BY_LETTER;
    g->place.is_in_bytes = false;
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].letter == letter) {
            return option_apply(g, id, given, value);
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].letter == letter) {
            return option_apply_compat(g, &compat_rows[i], given, value);
        }
    }
    unreachable(); /* getopt_long() knows only the letters of the tables */
}

static int apply_long(struct option_giver *g, int code, const char *value)
{
    char given[OPTION_GIVEN_BYTES];

    g->place.form = OPTION_BY_FLAG;
    g->place.is_in_bytes = false;
    if (code >= LONG_COMPAT) {
        const struct compat_row *row = &compat_rows[code - LONG_COMPAT];
        snprintf(given, sizeof(given), "--%s", row->name);
        return option_apply_compat(g, row, given, value);
    }
    if (code >= LONG_ROW_OFF) {
        option_apply_off(g, (enum option_id)(code - LONG_ROW_OFF));
        return 0;
    }
    const enum option_id id = (enum option_id)(code - LONG_ROW);
    return option_apply_or_unset(g, id, option_in_form(id, OPTION_BY_FLAG, given), value);
}

/* A flag of a row, or -o. */
static int apply_flag(struct option_giver *g, int code)
{
    if (code == 'o') {
        return apply_suboptions(g, optarg);
    }
    return code < LONG_ROW ? apply_letter(g, code, optarg) : apply_long(g, code, optarg);
}

/* Flags that print something, and end the process. */
static bool is_question(int code)
{
    return code == 'h' || code == 'i' || code == 'V';
}

/* Flags that say what to do with options, and are none. */
static bool is_about_options(int code)
{
    return code >= LONG_CONFIG && code <= LONG_PRINT_CONFIG;
}

/* ---- questions and refusals -------------------------------------------------------------- */

static void answer_question(int code)
{
    switch (code) {
    case 'h':
        options_print_help(stdout);
        break;
    case 'i':
        options_print_license(stdout);
        break;
    default:
        options_print_version(stdout);
        break;
    }
}

/* Is it the beginning of several long flags? */
static bool is_ambiguous(const struct flags *f, const char *name, size_t len)
{
    unsigned count = 0;

    for (const struct option *o = f->longs; o->name != NULL; o++) {
        count += strncmp(o->name, name, len) == 0;
    }
    return count > 1;
}

/* A flag of which getopt_long() says '?', in this word. */
static int refuse_flag(struct option_giver *g, const struct flags *f, const char *word)
{
    char hint[OPTION_TEXT_BYTES];
    const size_t len = strcspn(word, "=");

    /* Of several letters in a word the first ones come while it is not counted: not by word. */
    if (optopt != 0 && optopt < LONG_ROW && !is_question(optopt)) {
        return isgraph(optopt)
                   ? option_complain(g, EXIT_FAILURE, "-%c: unknown option%s", optopt,
                                     option_hint("", 0, hint))
                   : option_complain(g, EXIT_FAILURE, "-\\x%02x: unknown option%s",
                                     (unsigned)(unsigned char)optopt, option_hint("", 0, hint));
    }
    if (optopt != 0) {
        return option_complain(g, EXIT_FAILURE, "%.*s: takes no value", (int)len, word);
    }
    if (is_ambiguous(f, word + 2, len - 2)) {
        return option_complain(g, EXIT_FAILURE, "%.*s: the beginning of several options",
                               (int)len, word);
    }
    return option_complain(g, EXIT_FAILURE, "%.*s: unknown option%s", (int)len, word,
                           option_hint(word + 2, len - 2, hint));
}

/* A flag without the argument that it needs, in this word. */
static int refuse_without_value(struct option_giver *g, const char *word)
{
    const bool has_row = optopt != 'o' && !is_about_options(optopt) && !is_question(optopt);

    if (has_row) {
        return optopt < LONG_ROW ? apply_letter(g, optopt, NULL) : apply_long(g, optopt, NULL);
    }
    return strncmp(word, "--", 2) == 0
               ? option_complain(g, EXIT_FAILURE, "%s: a value is missing", word)
               : option_complain(g, EXIT_FAILURE, "-%c: a value is missing", optopt);
}

/* ---- one flag after the other ------------------------------------------------------------ */

/* Flags that are read, from the command line or from a file. */
struct flags_walk {
    struct flags flags;
    struct option_giver *giver;     /* [borrowed] NULL: nothing is applied */
    struct flags_wishes *wishes;    /* [borrowed] if there is no giver */
    const struct conf_words *words; /* [borrowed] of a file; NULL: the command line */
    enum flags_result result;
};

/* Take a flag of this word, by its code. False: do not go on. */
typedef bool (*flag_fn)(struct flags_walk *w, int code, const char *word);

/*
 * Manifests of containers have words such as "-m 1024", which memcached accepts: spaces between
 * a flag and a value in the same word do not belong to the value, unless it is all spaces.
 */
static void skip_spaces(const char *word)
{
    if (optarg != NULL && optarg > word && optarg < word + strlen(word) && word[1] != '-') {
        const size_t n = strspn(optarg, " \t");

        optarg += optarg[n] != '\0' ? n : 0;
    }
}

/* False: no memory. */
static bool flags_each(struct flags_walk *w, int argc, char **argv, flag_fn take)
{
    const bool is_made = flags_init(&w->flags);
    const char *letters = w->words != NULL ? w->flags.letters : letters_of_line(&w->flags);
    bool goes_on = is_made;

    must_be_main();
    optind = 0; /* glibc: start over */
    opterr = 0; /* messages are our own */
    while (goes_on) {
        const int first = optind > 0 ? optind : 1;
        if (w->words != NULL && first >= argc) {
            break; /* after a "--" getopt_long() would start again there */
        }
        const int found = getopt_long(argc, argv, letters, w->flags.longs, NULL);
        const int code = found != -1 ? found : LONG_WORD;
        int at = w->words != NULL ? first : optind - 1;

        if (found == -1 && optind >= argc) {
            break;
        }
        at = found == -1 ? optind++ : at;
        if (found != -1) {
            skip_spaces(argv[at]);
        }
        if (w->words != NULL) {
            w->giver->place.line = w->words->lines[at];
        }
        goes_on = take(w, code, argv[at]);
    }
    opterr = 1;
    flags_fini(&w->flags);
    return is_made;
}

static void note_wish(struct flags_wishes *wishes, int code)
{
    switch (code) {
    case LONG_CONFIG:
        wishes->is_ambiguous |= wishes->config != NULL;
        wishes->config = optarg;
        break;
    case LONG_MEMCACHED_CONF:
        wishes->is_ambiguous |= wishes->memcached_conf != NULL;
        wishes->memcached_conf = optarg;
        break;
    case LONG_CHECK_CONFIG:
        wishes->check = true;
        break;
    default:
        wishes->print = true;
        break;
    }
    wishes->is_ambiguous |= wishes->check && wishes->print;
}

static bool scan_flag(struct flags_walk *w, int code, const char *word)
{
    (void)word;
    if (is_about_options(code)) {
        note_wish(w->wishes, code);
        return true;
    }
    if (is_question(code) || code == '?' || code == ':') {
        memset(w->wishes, 0, sizeof(*w->wishes));
        w->wishes->is_question = is_question(code);
        return false; /* flags_apply() comes to the same error, and says so */
    }
    return code != LONG_WORD;
}

bool flags_scan(int argc, char **argv, struct flags_wishes *wishes)
{
    struct flags_walk w = {.wishes = wishes};

    memset(wishes, 0, sizeof(*wishes));
    return flags_each(&w, argc, argv, scan_flag);
}

static int apply_code(struct flags_walk *w, int code, const char *word)
{
    switch (code) {
    case LONG_WORD:
        return option_complain(w->giver, EXIT_FAILURE,
                               "%s: not an option (they begin with - or --)", word);
    case '?':
        return refuse_flag(w->giver, &w->flags, word);
    case ':':
        return refuse_without_value(w->giver, word);
    default:
        return apply_flag(w->giver, code);
    }
}

static bool apply_flag_of_line(struct flags_walk *w, int code, const char *word)
{
    if (is_question(code)) {
        answer_question(code);
        w->result = FLAGS_ANSWERED;
    } else if (!is_about_options(code) && apply_code(w, code, word) != 0) {
        w->result = FLAGS_REFUSED;
    }
    return w->result == FLAGS_APPLIED;
}

enum flags_result flags_apply(struct option_giver *g, int argc, char **argv)
{
    struct flags_walk w = {.giver = g, .result = FLAGS_APPLIED};

    if (!flags_each(&w, argc, argv, apply_flag_of_line)) {
        option_complain(g, EX_OSERR, "out of memory");
        return FLAGS_REFUSED;
    }
    return w.result;
}

static bool apply_flag_of_file(struct flags_walk *w, int code, const char *word)
{
    if (is_question(code) || is_about_options(code)) {
        option_complain(w->giver, EXIT_FAILURE, "%s: for the command line only", word);
    } else {
        (void)apply_code(w, code, word);
    }
    return true;
}

void flags_apply_words(struct option_giver *g, const struct conf_words *words)
{
    struct flags_walk w = {.giver = g, .words = words};

    if (!flags_each(&w, words->argc, words->argv, apply_flag_of_file)) {
        option_complain(g, EX_OSERR, "out of memory");
    }
}
