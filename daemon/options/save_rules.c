/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a snapshot is saved by itself: see save_rules.h.
 */
#include "daemon/options/save_rules.h"

#include <string.h>

#include "lib/base/num.h"
#include "lib/base/span.h"

bool save_rules_parse(const char *text, struct save_rules *out)
{
    out->count = 0;
    if (text == NULL || text[0] == '\0') {
        return true;
    }
    for (;;) {
        const char *colon = strchr(text, ':');
        size_t len = strcspn(text, ",");

        if (colon == NULL || colon >= text + len || out->count == SAVE_RULES_MAX ||
            num_u32(span_of(text, (size_t)(colon - text)), &out->rule[out->count].seconds) !=
                MF_OK ||
            num_u64(span_of(colon + 1, len - (size_t)(colon + 1 - text)),
                    &out->rule[out->count].changes) != MF_OK ||
            out->rule[out->count].seconds == 0 || out->rule[out->count].changes == 0) {
            return false;
        }
        out->count++;
        if (text[len] == '\0') {
            return true;
        }
        text += len + 1;
    }
}

bool save_rules_met(const struct save_rules *r, uint64_t seconds, uint64_t changes)
{
    for (unsigned i = 0; i < r->count; i++) {
        if (seconds >= r->rule[i].seconds && changes >= r->rule[i].changes) {
            return true;
        }
    }
    return false;
}
