/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures of this host and of the server's process, as the kernel reports them. What cannot be
 * read is unknown: NAN, or an empty text.
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
    double cpus;         /* of the host */
    double cpus_allowed; /* that the process may use: affinity, quota of its groups */
    double cpus_idle;    /* of the host, in the time that was measured */
    unsigned workers;    /* threads of the process that serve or may; 0: not measured */
    unsigned workers_full;  /* of these, those that took most of a CPU */
    double busiest, idlest; /* of the workers that serve: how much of a CPU each took */
    char huge_pages[16];    /* always, madvise, never */
    char clock[32];         /* the clock that the kernel reads */
};

/*
 * The process of the server: the one that `stats` names, if the connection is to a unix socket
 * or a loopback address and that process looks like a mayflyd (the number is of no use if the
 * server is in a container). 0: it is not on this host.
 */
int host_pid(const struct ctl *c, const struct stats *general);

/* Ticks of CPU time up to a moment. */
#define HOST_WORKERS_MAX 512
struct host_load {
    double all, idle; /* of all CPUs of the host together */
    unsigned cpus;
    double worker[HOST_WORKERS_MAX]; /* NAN: there is no such thread */
};

/* Context: root and pid as host_read(). False: it cannot be read. */
bool host_load_read(struct host_load *l, const char *root, int pid);

/*
 * What the CPUs and the first `workers` workers did between two of them. Nothing changes if
 * there was no time between them.
 */
void host_judge_load(struct host *h, const struct host_load *before,
                     const struct host_load *after, unsigned workers);

/* Read all of them; root is a prefix of every path. pid 0: nothing about a process. */
void host_read(struct host *h, const char *root, int pid);

#endif
