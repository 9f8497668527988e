/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carrying large values over, a part of carry.c. They are copied outside the shards: in one
 * section if they stand in pieces, else segment by segment while they are pinned, so that no
 * section lasts long and room is made in small steps. An ordinary store links them, and asks
 * whether it is still the same value.
 */
#ifndef MAYFLY_LIB_RESHARD_CARRY_LARGE_H
#define MAYFLY_LIB_RESHARD_CARRY_LARGE_H

#include "lib/reshard/carry.h"

/*
 * Carry the item over whose key is in c->large, unless it is gone. If there is no room for it,
 * its slot waits from now on; c->state says whether the move was stopped. Context: the thread
 * that carries, outside a section.
 */
void carry_value(struct carry *c);

#endif
