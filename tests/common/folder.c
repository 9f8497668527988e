/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A folder for the files of one test: see folder.h.
 */
#include "tests/common/folder.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char folder[64];

void folder_make(void)
{
    strcpy(folder, "/tmp/mayfly-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void folder_remove(void)
{
    ck_assert_int_eq(nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void folder_remove_with(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

void folder_put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}
