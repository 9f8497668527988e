/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached assigns items to slab classes by size. mayflyd has no classes: it reports all items
 * in one class, for tools that query classes.
 */
#ifndef MAYFLY_DAEMON_BASE_SLAB_CLASS_H
#define MAYFLY_DAEMON_BASE_SLAB_CLASS_H

/* The class in which all items are shown, as a number and as text; 0 means none. */
#define SLAB_CLASS_OURS      1
#define SLAB_CLASS_OURS_TEXT "1"

/* The highest class that memcached accepts in a command. */
#define SLAB_CLASS_MAX 63

#endif
