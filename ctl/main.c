/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main function of mayflyctl: it parses the command line and runs its command. ctl.h
 * describes the folder.
 */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "ctl/ask.h"
#include "ctl/commands.h"
#include "ctl/ctl.h"
#include "ctl/prompt.h"

/* Check that the options agree with one another. */
static enum ctl_status check_options(struct ctl *c)
{
    const struct options *o = &c->options;

    if (o->host != NULL && option_is_given(o, OPT_control)) {
        return ctl_fail(c, CTL_USAGE, "--host and --control exclude each other");
    }
    if (o->host == NULL && option_is_given(o, OPT_port)) {
        return ctl_fail(c, CTL_USAGE, "--port needs --host");
    }
    if (!o->tls &&
        (o->ca != NULL || o->cert != NULL || o->key != NULL || o->tls_name != NULL)) {
        return ctl_fail(c, CTL_USAGE, "--ca, --cert, --key and --tls-name need --tls");
    }
    if (o->key != NULL && o->cert == NULL) {
        return ctl_fail(c, CTL_USAGE, "--key needs --cert");
    }
    if (o->password_file != NULL && o->user == NULL) {
        return ctl_fail(c, CTL_USAGE, "--password-file needs --user");
    }
    return CTL_OK;
}

static int run_line(struct ctl *c, const struct ctl_words *line)
{
    struct ctl_words args;

    if (!options_read(&c->options, line, true, &args, c->why, sizeof(c->why))) {
        return CTL_USAGE;
    }
    if (c->options.version) {
        fprintf(c->out, "mayflyctl %s\n", PACKAGE_VERSION);
        return CTL_OK;
    }
    if (c->options.help && args.count == 0) {
        describe_help(c->out);
        return CTL_OK;
    }
    enum ctl_status status = check_options(c);
    if (status != CTL_OK) {
        return status;
    }
    if (args.count > 0) {
        return command_run(c, &args);
    }
    if (!isatty(STDIN_FILENO)) {
        return ctl_fail(c, CTL_USAGE, "which command? (see mayflyctl --help)");
    }
    return prompt_run(c);
}

int main(int argc, char **argv)
{
    struct ctl c = {.out = stdout, .is_terminal = isatty(STDOUT_FILENO) != 0};
    struct ctl_words line = {0};
    const bool is_check = strcmp(program_invocation_short_name, "mayfly-check") == 0;

    (void)signal(SIGPIPE, SIG_IGN);
    (void)setlocale(LC_CTYPE, "");
    c.is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (argc > WORDS_MAX) {
        fprintf(stderr, "%s: %d words or more\n", program_invocation_short_name, WORDS_MAX);
        return is_check ? EX_USAGE : CTL_USAGE;
    }
    if (is_check) {
        line.word[line.count++] = span_str("check");
    }
    for (int i = 1; i < argc; i++) {
        line.word[line.count++] =
            span_str(is_check && strcmp(argv[i], "-h") == 0 ? "--help" : argv[i]);
    }
    options_init(&c.options);
    int status = run_line(&c, &line);
    ctl_report(&c);
    ask_disconnect(&c);
    if (fflush(stdout) != 0 && errno != EPIPE && status == CTL_OK) {
        status = CTL_SYSTEM;
    }
    if (is_check && (status == CTL_USAGE || status == CTL_SYSTEM)) {
        return status == CTL_USAGE ? EX_USAGE : EX_IOERR; /* the status of mayfly-check */
    }
    return status;
}
