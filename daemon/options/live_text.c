/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See settings.h.
 */
#include "daemon/options/settings.h"

#include <pthread.h>
#include <string.h>

#include "lib/base/check.h"

static pthread_mutex_t live_text_lock = PTHREAD_MUTEX_INITIALIZER;

size_t live_text_get(const struct live_text *text, char *out, size_t bytes)
{
    must(bytes >= LIVE_TEXT_BYTES);
    pthread_mutex_lock(&live_text_lock);
    size_t len = strlen(text->bytes);
    memcpy(out, text->bytes, len + 1);
    pthread_mutex_unlock(&live_text_lock);
    return len;
}

void live_text_set(struct live_text *text, const char *value)
{
    const size_t size = strlen(value) + 1;

    must(size <= LIVE_TEXT_BYTES);
    pthread_mutex_lock(&live_text_lock);
    memcpy(text->bytes, value, size);
    pthread_mutex_unlock(&live_text_lock);
}
