/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A folder for the files of one test. A function that cannot do its work fails the running
 * test.
 */
#ifndef MAYFLY_TESTS_COMMON_FOLDER_H
#define MAYFLY_TESTS_COMMON_FOLDER_H

/* The path of the folder, while it exists. */
extern char folder[64];

/* Make the folder, and remove it with its content: the fixture of a test. */
void folder_make(void);
void folder_remove(void);

/* Remove a folder in which nothing but a file of this name may be left. */
void folder_remove_with(const char *name);

/* Write a file with this text below the folder, and make the folders on its path. */
void folder_put(const char *name, const char *text);

#endif
