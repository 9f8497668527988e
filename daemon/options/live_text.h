/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A text option that may change while other threads read it. The bytes are part of the struct,
 * so nothing has to be released while a thread reads. One lock guards the texts of all
 * settings, as they are short and rarely read. A struct of zeros is the empty text.
 */
#ifndef MAYFLY_DAEMON_OPTIONS_LIVE_TEXT_H
#define MAYFLY_DAEMON_OPTIONS_LIVE_TEXT_H

#include <stddef.h>

/* Room for the longest text, with the NUL at its end. */
#define LIVE_TEXT_BYTES 512u

struct live_text {
    char bytes[LIVE_TEXT_BYTES]; /* [lock of live_text.c] ends with NUL */
};

/*
 * Copy the text to out, which has room for `bytes`, LIVE_TEXT_BYTES at least. Returns its
 * length; 0: it is empty, which of an option means unset. Context: any thread.
 */
size_t live_text_get(const struct live_text *text, char *out, size_t bytes);

/* Replace the text. The new one is shorter than LIVE_TEXT_BYTES. Context: any thread. */
void live_text_set(struct live_text *text, const char *value);

#endif
