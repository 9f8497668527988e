/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Budgets: BUDGET_loop_units and the others of budgets.def, and the costs of steps that
 * budgets.def does not list.
 */
#ifndef MAYFLY_LIB_BASE_BUDGETS_H
#define MAYFLY_LIB_BASE_BUDGETS_H

enum {
#define BUDGET(name, value, unit, text) BUDGET_##name = (value),
#include "lib/base/budgets.def"
};

/* Bytes read or sent that cost one unit. */
#define COST_UNIT_BYTES 4096u

/* Units that an event of a connection costs in addition to its work, for two system calls. */
#define COST_EVENT_UNITS 4u

/* Units that a datagram of a reply costs: it takes about as long as two requests. */
#define COST_DATAGRAM_UNITS 2u

/* Index buckets that a resize moves in each step of BUDGET_home_work. */
#define COST_HOME_BUCKETS 32

/* Number of small steps in a slice between two readings of the clock. */
#define STEPS_A_LOOK 16u

#endif
