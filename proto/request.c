/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Look-ups in the table of commands. Constant data, any thread.
 */
#include "proto/request.h"

#include "lib/base/check.h"

struct command_row {
    struct span name;
    uint8_t cls; /* enum command_class */
    bool is_extension;
};

static const struct command_row commands[CMD_COUNT] = {
    [CMD_NONE] = {{"", 0}, CLASS_ADMIN, false},
#define COMMAND(id, text, cls, kind)   [CMD_##id] = {{text, sizeof(text) - 1}, cls, false},
#define EXTENSION(id, text, cls, kind) [CMD_##id] = {{text, sizeof(text) - 1}, cls, true},
#include "proto/command.def"
#undef COMMAND
};

const uint8_t command_kinds[CMD_COUNT] = {
    [CMD_NONE] = KIND_OTHER,
#define COMMAND(id, text, cls, kind) [CMD_##id] = (kind),
#include "proto/command.def"
#undef COMMAND
};

static const char *const kind_names[KIND_COUNT] = {
#define KIND(id, name, meaning) [KIND_##id] = (name),
#include "proto/kinds.def"
#undef KIND
};

enum command command_find(struct span name)
{
    if (name.len == 0) {
        return CMD_NONE;
    }
    for (int i = CMD_NONE + 1; i < CMD_COUNT; i++) {
        /* Length and first letter rule out all but one or two names. */
        const struct span *row = &commands[i].name;
        if (row->len == name.len && row->ptr[0] == name.ptr[0] && span_eq(*row, name)) {
            return (enum command)i;
        }
    }
    return CMD_NONE;
}

enum command_class command_class_of(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return (enum command_class)commands[command].cls;
}

bool command_is_extension(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return commands[command].is_extension;
}

struct span command_name(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return commands[command].name;
}

const char *command_kind_name(enum command_kind kind)
{
    must((unsigned)kind < KIND_COUNT);
    return kind_names[kind];
}
