/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A build without libsasl2. The options refuse -S, so no exchange ever begins.
 */
#include "daemon/access/auth_sasl.h"

#include "lib/base/check.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int auth_sasl_find_configuration(void)
{
    return 0;
}

int auth_sasl_start(const struct auth *users)
{
    unreachable();
}

void auth_sasl_stop(void)
{
}

struct span auth_sasl_mechanisms(void)
{
    return span_of(NULL, 0);
}

enum exchange_result exchange_begin(struct exchange **x, const char *mechanism,
                                    struct span data, struct span *challenge)
{
    *x = NULL;
    *challenge = span_of(NULL, 0);
    return EXCHANGE_FAILED;
}

enum exchange_result exchange_step(struct exchange *x, struct span data, struct span *challenge)
{
    *challenge = span_of(NULL, 0);
    return EXCHANGE_FAILED;
}

const struct siphash_digest *exchange_login(const struct exchange *x)
{
    return NULL;
}

unsigned exchange_hashes(const struct exchange *x)
{
    return 0;
}

struct span exchange_user(const struct exchange *x)
{
    return span_of(NULL, 0);
}

struct span exchange_name(const struct exchange *x)
{
    return exchange_user(x);
}

void exchange_destroy(struct exchange *x)
{
}
