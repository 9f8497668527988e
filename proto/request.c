/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Look-ups in the table of commands. Constant data, any thread.
 */
#include "proto/request.h"

#include "lib/base/check.h"
#include "proto/meta_parse.h"

struct command_row {
    struct span name;
    uint8_t cls;   /* enum command_class */
    uint8_t needs; /* enum command_needs */
    bool is_extension;
};

static const struct command_row commands[CMD_COUNT] = {
    [CMD_NONE] = {{"", 0}, CLASS_ADMIN, NEED_NOTHING, false},
#define COMMAND(id, text, cls, kind, needs, handler)                                           \
    [CMD_##id] = {{text, sizeof(text) - 1}, cls, needs, false},
#define EXTENSION(id, text, cls, kind, needs, handler)                                         \
    [CMD_##id] = {{text, sizeof(text) - 1}, cls, needs, true},
#include "proto/command.def"
#undef COMMAND
};

const uint8_t command_kinds[CMD_COUNT] = {
    [CMD_NONE] = KIND_OTHER,
#define COMMAND(id, text, cls, kind, needs, handler) [CMD_##id] = (kind),
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

struct span command_name(enum command command)
{
    return (unsigned)command < CMD_COUNT ? commands[command].name : span_of("", 0);
}

enum command_class command_class_of(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return (enum command_class)commands[command].cls;
}

uint8_t command_needs(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return commands[command].needs;
}

uint8_t request_needs(const struct request *req)
{
    uint8_t needs = command_needs((enum command)req->command);

    if (req->command == CMD_MG &&
        (meta_has(req->letters, 'T') || meta_has(req->letters, 'N'))) {
        needs |= NEED_WRITE;
    }
    return needs;
}

bool command_is_extension(enum command command)
{
    must((unsigned)command < CMD_COUNT);
    return commands[command].is_extension;
}

const char *command_kind_name(enum command_kind kind)
{
    must((unsigned)kind < KIND_COUNT);
    return kind_names[kind];
}
