/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of /metrics. Counters count from the start of the process: `stats reset` does not
 * change them, because Prometheus takes a falling counter for a restart.
 */
#ifndef MAYFLY_DAEMON_STATS_METRICS_TEXT_H
#define MAYFLY_DAEMON_STATS_METRICS_TEXT_H

#include <stdbool.h>

#include "lib/base/buf.h"

struct crew;

enum metrics_format { METRICS_TEXT, METRICS_OPEN };

/* The Content-Type of a format. */
const char *metrics_content_type(enum metrics_format format);

/*
 * Does a client with this Accept header (NULL: it has none) take OpenMetrics? It does if it
 * names application/openmetrics-text, unless with a quality of 0.
 */
enum metrics_format metrics_format_for(const char *accept);

/*
 * Append all metrics. False when there is no memory; what was appended is of no use then.
 * Context: any thread, outside a shard, while workers run.
 */
bool metrics_compose(struct crew *crew, enum metrics_format format, struct buf *out);

#endif
