/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mayfly-check: the command line, and one file after the other. See examine.h for what the
 * folder is.
 */
#include <getopt.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "inspect/examine.h"
#include "inspect/report.h"
#include "lib/snapshot/load.h"

/* A file that is replaced again and again while it is read is given up after this number. */
#define TRIES 5

struct options {
    bool is_json, is_quiet;
};

static void print_help(FILE *out)
{
    fputs("usage: mayfly-check [option ...] FILE...\n"
          "Say what is in snapshots of mayflyd, and whether they are whole.\n"
          "\n"
          "  -j, --json     one JSON array, an object for each file\n"
          "  -q, --quiet    only files that are not whole\n"
          "  -h, --help     print this help and exit\n"
          "  -V, --version  print the version and exit\n"
          "\n"
          "The logs that are loaded with a snapshot belong to it. Exits with 0 if all are "
          "whole, 1 "
          "if one\n"
          "or a log of it is damaged or a log is missing, 65 if one is not a snapshot or one "
          "that "
          "this\n"
          "program cannot read, 66 if one cannot be opened or read; the greatest counts.\n",
          out);
}

static int64_t unix_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Has a server replaced the file meanwhile, and so removed the logs of the old one? */
static bool is_replaced(const char *name, const struct snap_header *h)
{
    struct load_file file;
    bool is_other = true;

    if (load_open_any(&file, name)) {
        is_other = file.header.sum != h->sum;
        load_close(&file);
    }
    return is_other;
}

/* False: no memory. */
static bool examine_once(struct examined *x, const char *name, int64_t now)
{
    struct load_file file;
    bool is_done;

    if (!load_open_any(&file, name)) {
        *x = (struct examined){.fault = file.fault, .flush_at = INT64_MAX};
        return true;
    }
    is_done = examine(x, load_read, &file, now);
    load_close(&file);
    if (is_done && x->has_header && !examine_is_log(x)) {
        is_done = examine_logs(&x->logs, name, &x->header);
    }
    return is_done;
}

static bool examine_file(struct examined *x, const char *name, int64_t now)
{
    bool is_done;
    int tries = 0;

    do {
        is_done = examine_once(x, name, now);
    } while (is_done && x->logs.end != KEYCHAIN_DONE && is_replaced(name, &x->header) &&
             ++tries < TRIES);
    return is_done;
}

static int check(char *const *names, const struct options *o)
{
    bool is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    int64_t now = unix_now_ms();
    int status = VERDICT_WHOLE;
    struct json j;

    json_init(&j, stdout);
    if (o->is_json) {
        json_begin(&j, '[');
    }
    for (; *names != NULL; names++) {
        struct examined x;

        if (!examine_file(&x, *names, now)) {
            fputs("mayfly-check: out of memory\n", stderr);
            return EX_OSERR;
        }
        if (!o->is_quiet || examine_verdict(&x) != VERDICT_WHOLE) {
            if (o->is_json) {
                report_json(&j, *names, &x, now);
            } else {
                report_text(stdout, *names, &x, now, is_utf8);
            }
        }
        status = (int)examine_verdict(&x) > status ? (int)examine_verdict(&x) : status;
    }
    if (o->is_json) {
        json_end(&j, '[');
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, 'j'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {.is_json = false};
    int status = VERDICT_WHOLE;
    int c;

    (void)setlocale(LC_CTYPE, "");
    while ((c = getopt_long(argc, argv, "jqhV", longs, NULL)) != -1) {
        switch (c) {
        case 'j':
            o.is_json = true;
            break;
        case 'q':
            o.is_quiet = true;
            break;
        case 'h':
            print_help(stdout);
            return EX_OK;
        case 'V':
            printf("mayfly-check %s\n", PACKAGE_VERSION);
            return EX_OK;
        default:
            return EX_USAGE; /* getopt has said why */
        }
    }
    if (optind == argc) {
        print_help(stderr);
        return EX_USAGE;
    }
    status = check(argv + optind, &o);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("mayfly-check: cannot write the report\n", stderr);
        return EX_IOERR;
    }
    return status;
}
