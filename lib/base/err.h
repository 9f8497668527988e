/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two kinds of result: enum mf_err of functions (errors.def), and enum outcome of commands
 * (outcomes.def).
 */
#ifndef MAYFLY_LIB_BASE_ERR_H
#define MAYFLY_LIB_BASE_ERR_H

enum mf_err_index {
    MF_ERR_INDEX_OK,
#define ERR(name, text) MF_ERR_INDEX_##name,
#include "lib/base/errors.def"
#undef ERR
    MF_ERR_COUNT
};

enum mf_err {
    MF_OK = 0,
#define ERR(name, text) MF_E##name = -(int)MF_ERR_INDEX_##name,
#include "lib/base/errors.def"
#undef ERR
};

enum outcome {
#define OUTCOME(name) OUT_##name,
#include "lib/base/outcomes.def"
#undef OUTCOME
    OUT_COUNT
};

/* The text of an error, in static memory. Context: any thread. */
const char *mf_strerror(enum mf_err err);

/* The name of an outcome as in outcomes.def, for logs and tests. Context: any thread. */
const char *outcome_name(enum outcome outcome);

#endif
