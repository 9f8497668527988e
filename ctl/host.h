/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel says of this host and of the server's process. Whatever cannot be read is not
 * known: NAN, or an empty text.
 */
#ifndef MAYFLY_CTL_HOST_H
#define MAYFLY_CTL_HOST_H

#include "ctl/ask.h"

#define HOST_ROOT ""

struct host {
    bool has_process;      /* the server runs here, as far as can be seen */
    double resident_bytes; /* of the process */
    double swapped_bytes;
    double files_max;    /* descriptors that it may open */
    double cgroup_bytes; /* the least memory.max on the way up from its group; INFINITY: none */
    double memory_bytes; /* of the host */
    double overcommit;   /* vm.overcommit_memory: 0, 1, 2 */
    double backlog_max;  /* net.core.somaxconn */
    char huge_pages[16]; /* always, madvise, never */
    char clock[32];      /* the clock that the kernel reads */
};

/*
 * The process of the server: the one that `stats` names, if the connection is to a unix socket
 * or a loopback address and that process looks like a mayflyd (the number is of no use if the
 * server is in a container). 0: it is not on this host.
 */
int host_pid(const struct ctl *c, const struct stats *general);

/* Read all; root stands before every path. pid 0: nothing of a process. */
void host_read(struct host *h, const char *root, int pid);

#endif
