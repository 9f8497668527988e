# SPDX-License-Identifier: BSD-3-Clause
"""A TCP proxy that disturbs connections: it cuts, stalls, throttles, half-closes and flips bits at a chosen byte."""
import contextlib
import socket
import threading

PIECE = 1 << 16


class Plan:
    """What becomes of one connection. Down is what the server says, up what its client says; each number is the count
    of bytes that pass before it happens.

    cut: both ends are closed. flip: a bit of the next byte of down is turned. stall: nothing more passes down, and the
    connection stays. half: the server's end is announced to the client, what the client says still passes.
    rate: bytes a second of down. cut_before, stall_after: the same before these words, or after their line; each is looked
    for in what comes at a time."""

    def __init__(self, cut=None, cut_up=None, flip=None, bit=0, stall=None, half=None, rate=None, cut_before=None,
                 stall_after=None):
        self.cut, self.cut_up, self.flip, self.bit = cut, cut_up, flip, bit
        self.stall, self.half, self.rate = stall, half, rate
        self.cut_before, self.stall_after = cut_before, stall_after


PASSES = Plan()


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy, client, plan):
        self.proxy, self.client, self.plan = proxy, client, plan
        self.down = self.up = 0
        self.was_spoilt = False         # the plan has come true
        self.over = threading.Event()
        self.recorded = bytearray() if proxy.records else None
        try:
            self.server = socket.create_connection(("127.0.0.1", proxy.target))
        except OSError:
            self.server = None
            proxy.links.append(self)
            client.close()
            self.over.set()
            return
        proxy.links.append(self)        # before anything passes
        for end in (client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threads = [threading.Thread(target=run, daemon=True) for run in (self.pass_up, self.pass_down)]
        for thread in threads:
            thread.start()
        threading.Thread(target=self.release, args=(threads,), daemon=True).start()

    def release(self, threads):
        """Bytes that neither end has read are lost when the descriptors are closed, and the sender gets an error."""
        for thread in threads:
            thread.join()
        self.client.close()
        self.server.close()

    def close(self):
        self.over.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                if end is not None:
                    end.shutdown(socket.SHUT_RDWR)

    def spoil(self):
        self.was_spoilt = True
        self.close()

    def pass_up(self):
        limit = self.plan.cut_up
        with contextlib.suppress(OSError):
            while not self.over.is_set():
                data = self.client.recv(PIECE)
                if not data:
                    break
                if limit is not None and self.up + len(data) >= limit:
                    self.server.sendall(data[:limit - self.up])
                    self.up = limit
                    self.spoil()
                    break
                self.server.sendall(data)
                self.up += len(data)
        self.close()

    def pass_down(self):
        with contextlib.suppress(OSError):
            while not self.over.is_set() and self.pass_some():
                pass
        if self.plan.half is None:
            self.close()

    def up_to_words(self, data):
        """What is passed of this piece, after which the plan comes true if its words are in it."""
        plan = self.plan
        words = plan.cut_before or plan.stall_after
        at = data.find(words)
        if at < 0:
            return data
        if plan.cut_before:
            plan.cut = self.down + at
            return data[:at]
        end = data.find(b"\n", at) + 1
        plan.stall = self.down + (end or len(data))
        return data[:end or len(data)]

    def wait_while_stalled(self):
        while self.proxy.is_stalled.is_set() and not self.over.wait(0.002):
            pass

    def pass_some(self):
        """Pass a piece down; false: it was the last one."""
        plan = self.plan
        points = [p for p in (plan.cut, plan.stall, plan.half) if p is not None]
        until = min(points) if points else None
        if until is not None and self.down >= until:
            self.was_spoilt = True
            if plan.half is not None:
                self.client.shutdown(socket.SHUT_WR)
            elif plan.stall is not None:
                self.over.wait()
            return False
        self.wait_while_stalled()
        data = self.server.recv(PIECE if until is None else min(PIECE, until - self.down))
        if not data:
            return False
        self.wait_while_stalled()
        plan = self.plan                # it may have been changed meanwhile
        if plan.flip is not None and self.down <= plan.flip < self.down + len(data):
            spoilt = bytearray(data)
            spoilt[plan.flip - self.down] ^= 1 << plan.bit
            data = bytes(spoilt)
            self.was_spoilt = True
        if plan.cut_before is not None or plan.stall_after is not None:
            data = self.up_to_words(data)
        if self.recorded is not None:
            self.recorded += data
        self.client.sendall(data)
        self.down += len(data)
        if plan.rate is not None:
            self.over.wait(len(data) / plan.rate)
        return True


class Proxy:
    """Listens on a separate port, and forwards to a port of this host, which may be changed: so a restarted server is
    reached at the same port."""

    def __init__(self, target, records=False):
        self.target, self.records = target, records
        self.plans = []         # of the next connections; the others pass
        self.is_refusing = False
        self.only_planned = False   # without a plan a connection is refused
        self.is_stalled = threading.Event()
        self.links = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.is_refusing or (self.only_planned and not self.plans):
                client.close()
                continue
            Link(self, client, self.plans.pop(0) if self.plans else PASSES)

    def cut(self):
        """Cut the existing links."""
        for link in list(self.links):
            link.close()

    def stall(self, is_stalled):
        """Hold back data from servers, or let it pass."""
        (self.is_stalled.set if is_stalled else self.is_stalled.clear)()

    def close(self):
        self.is_refusing = True
        self.is_stalled.clear()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Scripted:
    """A simulated server: each connection is passed to a function, as a socket, in a thread."""

    def __init__(self, serve):
        self.serve, self.count = serve, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ends = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                end, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            self.ends.append(end)
            threading.Thread(target=self.run, args=(end,), daemon=True).start()

    def run(self, end):
        try:
            self.serve(end)
        except OSError:
            pass
        finally:
            end.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
