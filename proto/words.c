/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words of a line: the parts that are not on the hot path. Any thread.
 */
#include "proto/words.h"

#include "lib/base/check.h"
#include "lib/base/num.h"

void words_cut(struct line line, struct args *args)
{
    struct span word;

    args->count = 0;
    args->last = span_of("", 0);
    while (words_next(&line, &word)) {
        if (args->count < ARGS_MAX) {
            args->word[args->count] = word;
        }
        args->last = word;
        args->count++;
    }
}

bool words_has_long(struct line line, size_t max)
{
    const char *p = line.begin;

    debug_must(max > 0 && line.begin <= line.end);
    /*
     * Look max bytes ahead and search back for a space. After a space that is found, start
     * over; if there is none, this word is too long. So only a few bytes of every max are read.
     */
    while ((size_t)(line.end - p) > max) {
        const char *space = memrchr(p, ' ', max + 1);
        if (space == NULL) {
            return true;
        }
        p = space + 1;
    }
    return false;
}

bool words_value_len(struct span word, size_t *out)
{
    int64_t n;

    if (num_i64(word, &n) != MF_OK || n < 0 || n > TEXT_VALUE_LEN_MAX) {
        return false;
    }
    *out = (size_t)n;
    return true;
}
