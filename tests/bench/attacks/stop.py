# SPDX-License-Identifier: BSD-3-Clause
import signal
import time

import attack
import busy


class Attack(attack.Attack):
    """SIGTERM while 32 clients are busy: how many see a truncated answer?"""

    memory_mib = 256
    flags = ["-t", "4"]
    episodes = 20

    def episode(self, server):
        clients = [busy.Client(busy.dial(server.address), busy.mixed(b"c%d" % i)) for i in range(25)]
        clients += [busy.Client(busy.dial(server.address), busy.large(b"l%d" % i)) for i in range(3)]
        clients += [busy.Client(busy.dial(server.address), busy.large(b"s%d" % i), 0.005, 1 << 16, one_by_one=True)
                    for i in range(4)]
        told = busy.run(clients, lambda: server.process.send_signal(signal.SIGTERM))
        status = server.process.wait(20)
        took = time.monotonic() - told
        ok = sum(c.is_whole and c.end == "end" for c in clients)
        bad = sum(c.is_whole and c.end != "end" for c in clients)
        return ok, bad, len(clients) - ok - bad, "%.2f s, exit status %d" % (took, status)
