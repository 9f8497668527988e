/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The defaults of the engine's options.
 */
#include "lib/base/engine_options.h"

const struct engine_options engine_options_default = {
#define ENGINE_OPT(kind, field_, letter, name, def, min, max, unit, life, traits, status,      \
                   settings, help)                                                             \
    .field_ = (option_##kind##_BOOT)(def)*OPTION_SCALE_##kind,
#include "lib/base/engine_options.def"
};
