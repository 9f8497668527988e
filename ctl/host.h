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
    bool has_process;      /* the server's process was found on this host */
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
    unsigned workers;    /* worker threads, idle ones included; 0: not measured */
    unsigned workers_full;  /* of these: those that used most of a CPU */
    double busiest, idlest; /* of the workers that serve: the part of a CPU that each used */
    char huge_pages[16];    /* always, madvise, never */
    char clock[32];         /* the clock that the kernel reads */
};

/*
 * The id of the server's process: the one in `stats`, if the connection is to a unix socket or
 * a loopback address and the process with that id looks like a mayflyd (a server in a container
 * reports an id of another namespace). 0: not on this host.
 */
int host_pid(const struct ctl *c, const struct stats *general);

/* CPU time used up to now, in ticks. */
#define HOST_WORKERS_MAX 512
struct host_load {
    double all, idle; /* of all CPUs of the host together */
    unsigned cpus;
    double worker[HOST_WORKERS_MAX]; /* NAN: there is no such thread */
};

/* Read the CPU times; root and pid as in host_read(). False: they cannot be read. */
bool host_load_read(struct host_load *l, const char *root, int pid);

/*
 * Set the figures of h that measure the CPUs and the first `workers` workers, from the CPU
 * times at two moments. Nothing changes if no time has passed in between.
 */
void host_judge_load(struct host *h, const struct host_load *before,
                     const struct host_load *after, unsigned workers);

/* Read all other figures. root is put before every path. pid 0: none about a process. */
void host_read(struct host *h, const char *root, int pid);

#endif
