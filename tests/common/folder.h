/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A folder for the files of one test. A function that cannot do its work fails the running
 * test.
 */
#ifndef MAYFLY_TESTS_COMMON_FOLDER_H
#define MAYFLY_TESTS_COMMON_FOLDER_H

/* Its path, while there is one. */
extern char folder[64];

/* Make it, empty, and remove it with all that is in it: the fixture of a test. */
void folder_make(void);
void folder_remove(void);

/* Remove one in which nothing but a file of this name may be left. */
void folder_remove_with(const char *name);

/* Write a file of this text below it, and make the folders on the way. */
void folder_put(const char *name, const char *text);

#endif
