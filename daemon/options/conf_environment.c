/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See conf_environment.h.
 */
#include "daemon/options/conf_environment.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/options/options_apply.h"
#include "daemon/options/options_live.h"
#include "lib/base/context.h"

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
            option_say("%s: not an option (did you mean " PREFIX "%s?)", v.given, meant);
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
            log_info("options, the variable %s is none", v.given);
        }
    }
}
