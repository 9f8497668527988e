/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: SASL exchanges of clients with the users of a plain file. The input is a list of
 * lines: a mechanism, the initial response, then one response for each step. What must hold for
 * any input:
 *   - an exchange by the mechanism PLAIN succeeds exactly when user and password are in the
 *     file, and no client is let in under another's name;
 *   - a challenge is bounded;
 *   - nothing outside a response is read.
 */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>

#include "daemon/access/auth.h"
#include "daemon/access/auth_sasl.h"
#include "daemon/base/version.h"
#include "lib/base/rcu.h"

#define STEPS_MAX 8

static struct auth users;

static void stop(void)
{
    auth_sasl_stop();
    auth_table_destroy(users.file.content);
    rcu_unregister();
}

/* Once; fails when the library's mechanism PLAIN is not installed. */
static void start(void)
{
    static char name[] = "users"; /* a path switches authentication on */
    static const char text[] = "user:pass\n";
    static bool is_started;
    size_t bad_line;

    if (is_started) {
        return;
    }
    users.file.path = name;
    users.file.content =
        auth_table_create(&users.key, AUTH_PWDB, span_of(text, sizeof(text) - 1), &bad_line);
    require(users.file.content != NULL);
    require(auth_sasl_start(&users) == 0);
    rcu_register();
    atexit(stop);
    is_started = true;
}

/* Take the first line off the input, in a block of its exact size; the caller frees it. */
static char *take_line(struct span *input, size_t *len)
{
    const char *newline = memchr(input->ptr, '\n', input->len);
    size_t n = newline != NULL ? (size_t)(newline - input->ptr) : input->len;
    char *line = exact_block(n + 1);

    memcpy(line, input->ptr, n);
    line[n] = '\0'; /* the library puts one after what it passes on */
    *len = n;
    n += newline != NULL;
    *input = span_of(input->ptr + n, input->len - n);
    return line;
}

/* "[user]\0user\0pass" and nothing else. */
static bool is_good(const char *line, size_t len)
{
    static const char plain[] = "user\0user\0pass";

    return (len == 14 && memcmp(line, plain, 14) == 0) ||
           (len == 10 && memcmp(line, plain + 4, 10) == 0);
}

/* The library strips blanks from both ends of a name: the same without them. */
static bool is_good_but_for_blanks(const char *line, size_t len)
{
    char bare[64];
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof(bare); i++) {
        if (!isspace((unsigned char)line[i])) {
            bare[n++] = line[i];
        }
    }
    return is_good(bare, n);
}

static void exchange(struct span *input)
{
    struct exchange *x = NULL;
    struct span challenge;
    size_t len;
    char *mechanism = take_line(input, &len);
    char *line = take_line(input, &len);
    enum exchange_result result = exchange_begin(&x, mechanism, span_of(line, len), &challenge);

    for (int step = 0; result == EXCHANGE_GOES_ON && step < STEPS_MAX && input->len > 0;
         step++) {
        require(challenge.len <= AUTH_CHALLENGE_MAX);
        free(line);
        line = take_line(input, &len);
        result = exchange_step(x, span_of(line, len), &challenge);
    }
    if (result == EXCHANGE_DONE) {
        /* PLAIN has variants ("PLAIN-PLUS"), and LOGIN sends the password alone. */
        require(memmem(line, len, "pass", 4) != NULL);
        require(strcasecmp(mechanism, "PLAIN") != 0 || is_good_but_for_blanks(line, len) ||
                memchr(line, '@', len) != NULL);
    }
    if (strcmp(mechanism, "PLAIN") == 0 && is_good(line, len)) {
        require(result == EXCHANGE_DONE);
    }
    free(line);
    free(mechanism);
    exchange_destroy(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = span_of(data, size);

    start();
    while (input.len > 0) {
        exchange(&input);
    }
    return 0;
}
