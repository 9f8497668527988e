/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target over seeds, without a fuzzer: those named on the command line, otherwise
 * all of tests/fuzz/<program>.in.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <unistd.h>

/* The longest seed; of a longer one, the rest is ignored. */
#define SEED_MAX ((size_t)4 * 1024 * 1024)

static int replay_file(const char *path)
{
    static uint8_t seed[SEED_MAX];
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t size = fread(seed, 1, sizeof(seed), file);
    int failed = ferror(file);
    fclose(file);
    if (!failed) {
        LLVMFuzzerTestOneInput(seed, size);
    }
    return failed;
}

static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    int failed = 0;
    int count = 0;

    if (dir == NULL || chdir(folder) != 0) {
        perror(folder);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            failed |= replay_file(entry->d_name);
            count++;
        }
    }
    closedir(dir);
    failed |= count == 0;
    printf("1..1\n%s - %d seeds\n", failed ? "not ok" : "ok", count);
    return failed;
}

int main(int argc, char **argv)
{
    const char *source = getenv("MAYFLY_SRCDIR");
    const char *slash = strrchr(argv[0], '/');
    char folder[4096];
    int failed = 0;

    if (argc == 1) {
        snprintf(folder, sizeof(folder), "%s/tests/fuzz/%s.in", source != NULL ? source : ".",
                 slash != NULL ? slash + 1 : argv[0]);
        return replay_folder(folder);
    }
    for (int i = 1; i < argc; i++) {
        failed |= replay_file(argv[i]);
    }
    return failed;
}
