/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the engine, generated from engine_options.def. The caller that starts an
 * engine owns them. The engine keeps a pointer, so a change of a LIVE option takes effect at
 * once.
 */
#ifndef MAYFLY_LIB_BASE_ENGINE_OPTIONS_H
#define MAYFLY_LIB_BASE_ENGINE_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* option_KIND_LIFE: how a value of each kind is stored, by the life of its row. */
#define KIND(kind, type, scale)                                                                \
    typedef type option_##kind##_BOOT;                                                         \
    typedef _Atomic type option_##kind##_LIVE;
#include "lib/base/option_kinds.def"

/* OPTION_SCALE_KIND: stored units in one unit of the command line. */
enum {
#define KIND(kind, type, scale) OPTION_SCALE_##kind = scale,
#include "lib/base/option_kinds.def"
};

/* The words of maxmemory_policy, in the order of its row. */
enum evict_choice {
    CHOICE_DENSITY,
    CHOICE_NOEVICTION,
    CHOICE_ALLKEYS_LRU,
    CHOICE_ALLKEYS_LFU,
    CHOICE_ALLKEYS_RANDOM,
    CHOICE_VOLATILE_LRU,
    CHOICE_VOLATILE_LFU,
    CHOICE_VOLATILE_RANDOM,
    CHOICE_VOLATILE_TTL,
    EVICT_CHOICES
};

struct engine_options {
    /* [const] or [atomic], by the life column of their rows */
#define ENGINE_OPT(kind, field, letter, name, def, min, max, unit, life, traits, status,       \
                   settings, help)                                                             \
    option_##kind##_##life field;
#include "lib/base/engine_options.def"
};

/* Every option at its default. */
extern const struct engine_options engine_options_default;

/* The value of a LIVE option. Context: any thread. */
#define engine_option(options, field)                                                          \
    atomic_load_explicit(&(options)->field, memory_order_relaxed)

#endif
