/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under the address sanitizer the bytes of a hole after its header are poisoned. So reads of
 * freed item memory are detected although all segments are one mapping.
 */
#ifndef MAYFLY_LIB_MEMORY_POISON_H
#define MAYFLY_LIB_MEMORY_POISON_H

#include <stddef.h>

#include "lib/memory/item.h"

#if defined(__SANITIZE_ADDRESS__)
#define MAYFLY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAYFLY_ASAN 1
#endif
#endif

#ifdef MAYFLY_ASAN
void __asan_poison_memory_region(void const volatile *addr, size_t size);
void __asan_unpoison_memory_region(void const volatile *addr, size_t size);
#define POISON(addr, size)   __asan_poison_memory_region((addr), (size))
#define UNPOISON(addr, size) __asan_unpoison_memory_region((addr), (size))
#else
#define POISON(addr, size)   ((void)(addr), (void)(size))
#define UNPOISON(addr, size) ((void)(addr), (void)(size))
#endif

static inline void poison_block(const struct item *it, size_t bytes)
{
    POISON(it + 1, bytes - sizeof(*it));
}

static inline void unpoison_block(const struct item *it, size_t bytes)
{
    UNPOISON(it + 1, bytes - sizeof(*it));
}

#endif
