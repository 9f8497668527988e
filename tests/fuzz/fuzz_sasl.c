/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what clients say in exchanges of SASL with users of a plain file. The input is a
 * row of lines: a mechanism, then what is said at once, then what is said at each step; an
 * empty line begins the next exchange. What must hold for any of them:
 *   - an exchange ends in success exactly for user and password that stand in the file, by the
 *     mechanism PLAIN, and for nobody else's name;
 *   - a challenge is bounded;
 *   - nothing outside what was said is read (it stands in a block of its exact size).
 */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access/auth.h"
#include "daemon/access/auth_sasl.h"
#include "lib/base/rcu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define require(x)                                                                             \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #x);             \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#define STEPS_MAX 8

static struct auth users;

static void stop(void)
{
    auth_sasl_stop();
    auth_table_destroy(users.table);
    rcu_unregister();
}

/* False where there is no library, or none of its mechanisms. */
static bool start(void)
{
    static char name[] = "users"; /* that it has one says that it is on */
    static const char text[] = "user:pass\n";
    static int state;
    size_t bad_line;

    if (state == 0) {
        state = -1;
        if (auth_sasl_is_built()) {
            users.path = name;
            users.table = auth_table_create(&users.key, AUTH_PWDB,
                                            span_of(text, sizeof(text) - 1), &bad_line);
            if (users.table != NULL && auth_sasl_start(&users) == 0) {
                rcu_register();
                atexit(stop);
                state = 1;
            }
        }
        if (state < 0) {
            fprintf(stderr, "SASL with PLAIN is not here\n");
        }
    }
    return state > 0;
}

/* A line off the front of the input, as a text of its exact size; the caller frees it. */
static char *take_line(struct span *input, size_t *len)
{
    const char *newline = memchr(input->ptr, '\n', input->len);
    size_t n = newline != NULL ? (size_t)(newline - input->ptr) : input->len;
    char *line = malloc(n + 1);

    require(line != NULL);
    memcpy(line, input->ptr, n);
    line[n] = '\0'; /* the library promises one behind what it is given */
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

/* The library takes blanks off both ends of a name: the same once they are gone. */
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
        /* PLAIN has other names ("PLAIN-PLUS"), and LOGIN sends the password alone. */
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

    while (start() && input.len > 0) {
        exchange(&input);
    }
    return 0;
}
