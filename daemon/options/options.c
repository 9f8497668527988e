/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From defaults, environment, files and command line to settings: each source overrides the
 * previous ones, wherever the flags that name the files are. So the command line is parsed
 * twice.
 */
#include "daemon/options/options.h"

#include <stdlib.h>
#include <sysexits.h>

#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/options/options_value.h"
#include "lib/base/context.h"

/*
 * Read the environment and the files. tells: as for conf_read_environment(). Returns 0, or the
 * exit status after messages.
 */
static int read_files(struct settings *s, bool tells, const char *memcached_conf,
                      const char *config, struct conf_texts *texts)
{
    int status = conf_read_environment(s, tells);

    if (memcached_conf != NULL) {
        const int other = conf_read_memcached(s, memcached_conf);
        status = status != 0 ? status : other;
    }
    if (config != NULL) {
        const int other = conf_read(s, config, texts);
        status = status != 0 ? status : other;
    }
    return status;
}

/* Where a file is, whatever folder the process goes to. False: no memory. */
static bool keep_path(const char *path, char **out)
{
    *out = path != NULL ? path_absolute(path) : NULL;
    return path == NULL || *out != NULL;
}

bool options_read_again(const struct settings *s, enum options_again what, struct settings *out,
                        struct conf_texts *texts, struct option_messages *said)
{
    struct option_giver giver = {.settings = out, .source = OPTION_COMMAND_LINE};

    must_be_main();
    settings_init(out);
    out->messages = said;
    bool is_good = read_files(out, false, s->memcached_conf_path, s->config_path, texts) == 0;
    if (what == OPTIONS_AGAIN_ALL) {
        is_good = is_good && flags_apply(&giver, s->argc, s->argv) == FLAGS_APPLIED &&
                  options_check(out) == 0;
    }
    out->messages = NULL;
    return is_good;
}

enum options_result options_parse(int argc, char **argv, struct settings *out, int *exit_status)
{
    struct option_giver giver = {.settings = out, .source = OPTION_COMMAND_LINE};
    struct flags_wishes wishes;

    must_be_main();
    settings_init(out);
    if (!flags_scan(argc, argv, &wishes)) {
        option_say(NULL, "out of memory");
        *exit_status = EX_OSERR;
        return OPTIONS_EXIT;
    }
    if (wishes.is_ambiguous) {
        option_say(NULL, "--config and --memcached-conf can be given once, and one of "
                         "--check-config and --print-config");
        *exit_status = EX_USAGE;
        return OPTIONS_EXIT;
    }
    *exit_status = wishes.is_question
                       ? 0
                       : read_files(out, true, wishes.memcached_conf, wishes.config, NULL);
    if (*exit_status != 0) {
        return OPTIONS_EXIT;
    }
    switch (flags_apply(&giver, argc, argv)) {
    case FLAGS_APPLIED:
        break;
    case FLAGS_ANSWERED:
        *exit_status = EXIT_SUCCESS;
        return OPTIONS_EXIT;
    case FLAGS_REFUSED:
        *exit_status = giver.status;
        return OPTIONS_EXIT;
    }
    *exit_status = options_check(out);
    if (*exit_status != 0) {
        return OPTIONS_EXIT;
    }
    out->argc = argc;
    out->argv = argv;
    if (!keep_path(wishes.config, &out->config_path) ||
        !keep_path(wishes.memcached_conf, &out->memcached_conf_path)) {
        option_say(NULL, "out of memory");
        *exit_status = EX_OSERR;
        return OPTIONS_EXIT;
    }
    if (wishes.print) {
        options_print_config(stdout, out);
        return OPTIONS_EXIT;
    }
    return wishes.check ? OPTIONS_CHECK : OPTIONS_RUN;
}

void options_log(const struct settings *s)
{
    char text[OPTION_TEXT_BYTES];
    char where[OPTION_WHERE_BYTES];

    must_be_main();
    for (unsigned id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (setting_source(s, id) == OPTION_DEFAULT) {
            continue;
        }
        if (row->traits & OPT_IGNORED) {
            log_info("options, %s accepted without effect (%s)", row->name, row->help);
        } else {
            log_info("options, %s is %s (%s)", row->name, option_show(s, id, text),
                     option_where(s, id, where));
        }
    }
    conf_log_environment();
    for (size_t i = 0; i < compat_row_count; i++) {
        const struct compat_row *row = &compat_rows[i];
        if (row->verdict == COMPAT_TAKEN && s->compat[row->id]) {
            log_info("options, %s accepted without effect (%s)", row->name, row->text);
        }
    }
}
