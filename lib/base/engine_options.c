/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The defaults of the engine's options.
 */
#include "lib/base/engine_options.h"

/* From the unit of the command line to the stored one; all other kinds have one unit. */
#define STORED_BOOL(value)   (value)
#define STORED_SWITCH(value) (value)
#define STORED_I32(value)    (value)
#define STORED_U32(value)    (value)
#define STORED_LEVEL(value)  (value)
#define STORED_OCTAL(value)  (value)
#define STORED_ENUM(value)   (value)
#define STORED_CHAR(value)   (value)
#define STORED_SIZE(value)   (value)
#define STORED_MB(value)     ((uint64_t)(value) << 20)
#define STORED_KB(value)     ((uint64_t)(value) << 10)
#define STORED_DEC2(value)   (value)
#define STORED_DEC3(value)   (value)

const struct engine_options engine_options_default = {
#define ENGINE_OPT(kind, field_, letter, name, def, min, max, unit, life, traits, status,      \
                   settings, help)                                                             \
    .field_ = STORED_##kind(def),
#include "lib/base/engine_options.def"
};
