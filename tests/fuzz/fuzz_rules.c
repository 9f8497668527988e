/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: a file of rules. What must hold for any input:
 *   - nothing outside the text is read;
 *   - it becomes a table exactly when nothing is complained about, and a table has no more
 *     rules than the text has lines;
 *   - nobody is granted more than the listener grants, and a right to change options never
 *     without a rule of the user's own;
 *   - who is limited to prefixes may use none of the shortest keys but by them.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/access/rules.h"

static unsigned complaints;

static void note(void *arg, unsigned line, const char *why)
{
    (void)arg;
    (void)line;
    require(strlen(why) > 0);
    complaints++;
}

static size_t lines_of(struct span text)
{
    size_t lines = 1;

    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
    }
    return lines;
}

static void check_word(const struct rules *rules, struct span word)
{
    uint32_t certificate = rules_find_certificate(rules, word, RULES_NONE);
    struct grant user = rules_grant(rules, word, RULES_NONE, word, RIGHTS_ORDINARY);
    struct grant nobody =
        rules_grant(rules, span_of(NULL, 0), RULES_NONE, word, RIGHTS_ORDINARY);
    struct grant named =
        rules_grant(rules, span_of(NULL, 0), certificate, word, RIGHTS_ORDINARY);

    require((nobody.rights & RIGHT_CONFIG) == 0);
    require(certificate != RULES_NONE || named.rights == nobody.rights);
    require((user.rights & (uint8_t)~RIGHTS_OPERATOR) == 0);
    require(!rules_allow_key(rules, user.rule, span_of(NULL, 0)) || user.rule == RULES_NONE);
    (void)rules_allow_key(rules, user.rule, word);
    (void)rules_allow_key(rules, named.rule, word);
    (void)rules_allow_key(rules, nobody.rule, word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = exact_copy(data, size);
    struct span text = span_of(copy, size);

    complaints = 0;
    struct rules *rules = rules_create(text, note, NULL);
    require((rules == NULL) == (complaints > 0));
    if (rules != NULL) {
        require(rules_count(rules) <= lines_of(text));
        for (size_t i = 0; i < size && i < 256; i++) {
            size_t len = 0;

            while (i + len < size && copy[i + len] != ' ' && copy[i + len] != '\n') {
                len++;
            }
            check_word(rules, span_of(copy + i, len));
        }
    }
    rules_destroy(rules);
    free(copy);
    return 0;
}
