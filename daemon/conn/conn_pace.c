/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The regular check for clients that are too slow; see conn_pace.h. On their worker.
 */
#include "daemon/conn/conn_pace.h"

#include "daemon/conn/conn_pin.h"
#include "daemon/conn/conn_upload.h"
#include "daemon/worker/cron.h"
#include "lib/base/context.h"

void conn_pace_check(struct worker *w)
{
    msec_t now = worker_now(w);

    must_be_worker(w);
    must_not_be_reading();
    if (now - w->conns->pins_checked >= CONN_PACE_PINS_MS) {
        w->conns->pins_checked = now;
        conn_pin_check(w, now);
    }
    if (conn_upload_check(w, now)) {
        cron_pace_ms(w, CONN_PACE_UPLOADS_MS);
    } else if (conn_pin_has_any(w)) {
        cron_pace_ms(w, CONN_PACE_PINS_MS);
    }
}
