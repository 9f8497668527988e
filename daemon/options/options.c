/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line: short and long flags by getopt_long(), and the suboptions of -o, all looked
 * up in the tables. What memcached refuses is refused with its text and exit status; what it
 * takes by mistake (trailing garbage, stray words) is refused here too.
 */
#include "daemon/options/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "daemon/base/log.h"
#include "daemon/options/options_check.h"
#include "daemon/options/options_help.h"
#include "daemon/options/options_live.h"
#include "daemon/options/options_rows.h"
#include "daemon/options/options_value.h"
#include "lib/base/check.h"
#include "lib/base/context.h"
#include "lib/base/mem.h"

/* What getopt_long() returns for a long flag: a base and the number of its row. */
enum {
    LONG_ROW = 1000,                        /* --name */
    LONG_ROW_OFF = LONG_ROW + OPTION_COUNT, /* --no-name */
    LONG_COMPAT = LONG_ROW_OFF + OPTION_COUNT,
    LONG_DESCRIBE = 10000,
};

/* A row makes at most two long flags, and a few flags have no row. */
#define FLAGS_OWN     5
#define FLAGS_MAX     (2 * OPTION_COUNT + compat_row_count + FLAGS_OWN)
#define OFF_NAME_SIZE 40

struct flags {
    char *letters;                /* owned: getopt's option string */
    struct option *longs;         /* owned */
    char (*names)[OFF_NAME_SIZE]; /* owned: the names of --no-* */
};

/* What to do after a flag or suboption. */
enum step { STEP_GO_ON, STEP_EXIT };

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
    f->letters = mem_zalloc(2 * FLAGS_MAX + 1);
    f->longs = mem_zalloc((FLAGS_MAX + 1) * sizeof(*f->longs));
    f->names = mem_zalloc(OPTION_COUNT * sizeof(*f->names));
    if (f->letters == NULL || f->longs == NULL || f->names == NULL) {
        return false;
    }
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
        }
    }
    static const struct option own[FLAGS_OWN] = {
        {"help", no_argument, NULL, 'h'},
        {"license", no_argument, NULL, 'i'},
        {"version", no_argument, NULL, 'V'},
        {"extended", required_argument, NULL, 'o'},
        {"describe", required_argument, NULL, LONG_DESCRIBE}};
    must((size_t)(next - f->longs) + FLAGS_OWN <= FLAGS_MAX);
    memcpy(next, own, sizeof(own));
    add_letter(f, 'h', no_argument);
    add_letter(f, 'i', no_argument);
    add_letter(f, 'V', no_argument);
    add_letter(f, 'o', required_argument);
    must(strlen(f->letters) <= 2 * FLAGS_MAX);
    return true;
}

static void print_suggestion(const char *given, size_t len)
{
    const char *name = option_nearest(given, len);
    if (name != NULL) {
        fprintf(stderr, " (did you mean \"%s\"?)", name);
    }
    fputc('\n', stderr);
}

static enum step set_row(struct settings *s, enum option_id id, const char *given,
                         const char *value, int *exit_status)
{
    char why[OPTION_TEXT_BYTES];
    if (option_set(s, id, value, OPTION_COMMAND_LINE, why)) {
        return STEP_GO_ON;
    }
    if (value == NULL) {
        fprintf(stderr, "Missing argument for %s\n", given);
        *exit_status = EXIT_FAILURE;
    } else {
        fprintf(stderr, "Invalid value for %s: %s\n", given, why);
        *exit_status = option_rows[id].status;
    }
    return STEP_EXIT;
}

static enum step apply_compat(struct settings *s, const struct compat_row *row,
                              const char *given, const char *value, int *exit_status)
{
    switch (row->verdict) {
    case COMPAT_ALIAS:
        return set_row(s, row->option, given, value, exit_status);
    case COMPAT_REFUSED:
        fprintf(stderr, "This server is not built with %s support (%s)\n", row->text, given);
        *exit_status = EX_USAGE;
        return STEP_EXIT;
    case COMPAT_TAKEN:
        break;
    }
    if (row->arg == COMPAT_ARG && (value == NULL || value[0] == '\0')) {
        fprintf(stderr, "Missing argument for %s\n", given);
        *exit_status = EXIT_FAILURE;
        return STEP_EXIT;
    }
    s->compat[row->id] = true;
    return STEP_GO_ON;
}

/* Turn the option <name> of no_<name> off. False: there is none that can be turned off. */
static bool set_off_by_name(struct settings *s, const char *name, size_t len)
{
    enum option_id id = option_find(name, len);

    return id != OPTION_COUNT && option_set_off(s, id, OPTION_COMMAND_LINE);
}

/* One name or name=value of -o; the text is NUL-terminated. */
static enum step apply_suboption(struct settings *s, const char *text, int *exit_status)
{
    const size_t len = strcspn(text, "=");
    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    char given[OPTION_NAME_MAX + 8];
    snprintf(given, sizeof(given), "%.*s", (int)(len < OPTION_NAME_MAX ? len : OPTION_NAME_MAX),
             text);

    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (option_name_is(option_rows[id].name, text, len)) {
            return set_row(s, id, given, value, exit_status);
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        if (option_name_is(compat_rows[i].name, text, len)) {
            return apply_compat(s, &compat_rows[i], given, value, exit_status);
        }
    }
    if (len > 3 && option_name_is("no-", text, 3) && set_off_by_name(s, text + 3, len - 3)) {
        return STEP_GO_ON;
    }
    fprintf(stderr, "Illegal suboption \"%s\"", text);
    print_suggestion(text, len);
    *exit_status = EXIT_FAILURE;
    return STEP_EXIT;
}

/* The argument of -o: suboptions between commas; a comma at the end is allowed. */
static enum step apply_suboptions(struct settings *s, const char *list, int *exit_status)
{
    enum step step = STEP_GO_ON;
    char *copy = mem_alloc(strlen(list) + 1);
    if (copy == NULL) {
        fprintf(stderr, "out of memory\n");
        *exit_status = EX_OSERR;
        return STEP_EXIT;
    }
    strcpy(copy, list);
    for (char *p = copy; step == STEP_GO_ON && *p != '\0';) {
        char *end = p + strcspn(p, ",");
        const bool is_last = *end == '\0';
        *end = '\0';
        step = apply_suboption(s, p, exit_status);
        p = is_last ? end : end + 1;
    }
    mem_free(copy);
    return step;
}

static enum step apply_letter(struct settings *s, int letter, const char *value,
                              int *exit_status)
{
    const char given[] = {'-', (char)letter, '\0'};
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].letter == letter) {
            return set_row(s, id, given, value, exit_status);
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        if (compat_rows[i].letter == letter) {
            return apply_compat(s, &compat_rows[i], given, value, exit_status);
        }
    }
    unreachable(); /* getopt_long() knows only the letters of the tables */
}

static enum step apply_long(struct settings *s, int code, const char *value, int *exit_status)
{
    char given[OPTION_NAME_MAX + 8];
    if (code >= LONG_COMPAT) {
        const struct compat_row *row = &compat_rows[code - LONG_COMPAT];
        snprintf(given, sizeof(given), "--%s", row->name);
        return apply_compat(s, row, given, value, exit_status);
    }
    if (code >= LONG_ROW_OFF) {
        option_set_off(s, (enum option_id)(code - LONG_ROW_OFF), OPTION_COMMAND_LINE);
        return STEP_GO_ON;
    }
    const enum option_id id = (enum option_id)(code - LONG_ROW);
    snprintf(given, sizeof(given), "--%s", option_rows[id].name);
    return set_row(s, id, given, value, exit_status);
}

/* After getopt_long() has printed what is wrong. */
static enum step refuse_flag(const char *word, int *exit_status)
{
    fprintf(stderr, "Illegal argument \"?\"");
    if (strncmp(word, "--", 2) == 0) {
        print_suggestion(word + 2, strcspn(word + 2, "="));
    } else {
        fputc('\n', stderr);
    }
    *exit_status = EXIT_FAILURE;
    return STEP_EXIT;
}

static enum step print_part_of_manual(const char *part, int *exit_status)
{
    *exit_status = EXIT_SUCCESS;
    if (strcmp(part, "options") == 0) {
        options_print_manual(stdout);
    } else if (strcmp(part, "synopsis") == 0) {
        options_print_synopsis(stdout);
    } else {
        fprintf(stderr,
                "Invalid value for --describe: \"%s\" is neither options nor synopsis\n", part);
        *exit_status = EX_USAGE;
    }
    return STEP_EXIT;
}

static enum step apply_flag(struct settings *s, int code, char **argv, int *exit_status)
{
    switch (code) {
    case 'h':
        options_print_help(stdout);
        break;
    case 'i':
        options_print_license(stdout);
        break;
    case 'V':
        options_print_version(stdout);
        break;
    case 'o':
        return apply_suboptions(s, optarg, exit_status);
    case '?':
        return refuse_flag(argv[optind - 1], exit_status);
    case LONG_DESCRIBE:
        return print_part_of_manual(optarg, exit_status);
    default:
        return code < LONG_ROW ? apply_letter(s, code, optarg, exit_status)
                               : apply_long(s, code, optarg, exit_status);
    }
    *exit_status = EXIT_SUCCESS;
    return STEP_EXIT;
}

enum options_result options_parse(int argc, char **argv, struct settings *out, int *exit_status)
{
    struct flags flags;
    enum step step = STEP_GO_ON;

    must_be_main();
    settings_init(out);
    if (!flags_init(&flags)) {
        fprintf(stderr, "out of memory\n");
        *exit_status = EX_OSERR;
        flags_fini(&flags);
        return OPTIONS_EXIT;
    }
    optind = 0; /* glibc: start over, in case a test has called this before */
    while (step == STEP_GO_ON) {
        const int code = getopt_long(argc, argv, flags.letters, flags.longs, NULL);
        if (code == -1) {
            break;
        }
        step = apply_flag(out, code, argv, exit_status);
    }
    flags_fini(&flags);
    if (step == STEP_GO_ON && optind < argc) {
        fprintf(stderr, "Illegal argument \"%s\"\n", argv[optind]);
        *exit_status = EXIT_FAILURE;
        step = STEP_EXIT;
    }
    if (step == STEP_GO_ON) {
        *exit_status = options_check(out);
        step = *exit_status == 0 ? STEP_GO_ON : STEP_EXIT;
    }
    return step == STEP_GO_ON ? OPTIONS_RUN : OPTIONS_EXIT;
}

void options_log(const struct settings *s)
{
    static const char *const sources[] = {
        [OPTION_DEFAULT] = "default",
        [OPTION_FILE] = "configuration file",
        [OPTION_COMMAND_LINE] = "command line",
        [OPTION_RUN_TIME] = "run time",
    };
    char text[OPTION_TEXT_BYTES];

    must_be_main();
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        const enum option_source source = setting_source(s, id);
        must(source <= OPTION_RUN_TIME);
        if (source == OPTION_DEFAULT) {
            continue;
        }
        if (row->traits & OPT_IGNORED) {
            log_info("options, %s accepted without effect (%s)", row->name, row->help);
        } else {
            log_info("options, %s is %s (%s)", row->name, option_show(s, id, text),
                     sources[source]);
        }
    }
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        if (row->verdict == COMPAT_TAKEN && s->compat[row->id]) {
            log_info("options, %s accepted without effect (%s)", row->name, row->text);
        }
    }
}
