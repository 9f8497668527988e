/* SPDX-License-Identifier: BSD-3-Clause */
/* See access.h. */
#include "daemon/access/access.h"

/* Every line that is wrong gets a message. */
static void complain_of_line(void *arg, unsigned line, const char *why)
{
    struct access_file *f = arg;

    if (line > 0) {
        access_file_complain(f, "access, %s:%u: %s", f->path, line, why);
    } else {
        access_file_complain(f, "access, %s: %s", f->path, why);
    }
}

static void *parse(struct access_file *f, struct span text)
{
    return rules_create(text, complain_of_line, f);
}

static size_t count(const void *rules)
{
    return rules_count(rules);
}

static void destroy(void *rules)
{
    rules_destroy(rules);
}

const struct access_file_kind rules_file_kind = {
    .area = "access",
    .contents = "rules",
    .noun = "",
    .is_empty = "it has no rules",
    .bytes_max = RULES_FILE_MAX,
    .parse = parse,
    .count = count,
    .destroy = destroy,
};
