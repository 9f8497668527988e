/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The texts of enum mf_err and the names of enum outcome, made from their tables.
 */
#include "lib/base/err.h"

#include <stddef.h>

static const char *const err_texts[MF_ERR_COUNT] = {
    [MF_ERR_INDEX_OK] = "success",
#define ERR(name, text) [MF_ERR_INDEX_##name] = text,
#include "lib/base/errors.def"
#undef ERR
};

static const char *const outcome_names[OUT_COUNT] = {
#define OUTCOME(name) [OUT_##name] = #name,
#include "lib/base/outcomes.def"
#undef OUTCOME
};

const char *mf_strerror(enum mf_err err)
{
    int index = -(int)err;

    return index < 0 || index >= (int)MF_ERR_COUNT ? "unknown error" : err_texts[index];
}

const char *outcome_name(enum outcome outcome)
{
    return (size_t)outcome >= (size_t)OUT_COUNT ? "unknown outcome" : outcome_names[outcome];
}
