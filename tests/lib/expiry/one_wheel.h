/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wheel of fake items that all have the same size. The state is that of the test that
 * includes this.
 */
#ifndef MAYFLY_TESTS_LIB_EXPIRY_ONE_WHEEL_H
#define MAYFLY_TESTS_LIB_EXPIRY_ONE_WHEEL_H

#include "lib/expiry/wheel.h"
#include "tests/common/unit.h"
#include "tests/common/verify.h"
#include "tests/lib/expiry/fake.h"

#define UNITS (FAKE_BYTES / ITEM_UNIT)

static char *base;
static struct wheel *wheel;
static msec_t now;

static inline void stop_wheel(void)
{
    ck_assert(wheel_verify(wheel));
    wheel_destroy(&wheel);
    free(base);
}

/* Room for this number of items. */
static inline void start_wheel(size_t items, msec_t at)
{
    now = at;
    base = calloc(items + 1, FAKE_BYTES);
    wheel = wheel_create(base, NULL, NULL, now);
    ck_assert(base && wheel);
    unit_at_end(stop_wheel);
}

static inline handle_t handle_of(uint32_t i)
{
    return (handle_t)((i + 1) * UNITS);
}

static inline struct item *item_of(uint32_t i)
{
    return item_at(base, handle_of(i));
}

static inline void add_item(uint32_t i, msec_t deadline)
{
    fake_item(item_of(i), UNITS, deadline);
    ck_assert(wheel_reserve(wheel));
    wheel_add(wheel, handle_of(i));
}

#endif
