/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carrying large values over, a part of carry.c. They are copied outside the shards: in one
 * section if they are in pieces only, otherwise segment by segment while they are pinned, so
 * that no section lasts long and room is made in small steps. An ordinary store links the copy
 * if the value is still the same.
 */
#ifndef MAYFLY_LIB_RESHARD_CARRY_LARGE_H
#define MAYFLY_LIB_RESHARD_CARRY_LARGE_H

#include "lib/reshard/carry.h"

/*
 * Carry over the item whose key is in c->large, unless it is gone. If there is no room for it,
 * its slot is added to c->waits. c->state says whether the move was stopped. Context: the
 * thread that carries, outside a section.
 */
void carry_value(struct carry *c);

#endif
