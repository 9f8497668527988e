# SPDX-License-Identifier: BSD-3-Clause
"""Keys and certificates, made by openssl."""
import atexit
import os
import shutil
import ssl
import subprocess
import tempfile

import mayfly


class Certificates:
    """A folder of them: NAME.key and NAME.pem. The test is skipped if they cannot be made."""

    def __init__(self):
        mayfly.needs("openssl")
        mayfly.skip_if(mayfly.has_text(b"built without OpenSSL"), "mayflyd is built without TLS")
        self.folder = tempfile.mkdtemp(prefix="mayfly-tls.")
        atexit.register(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *args, **kw):
        return subprocess.run(["openssl", *args], check=True, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **kw)

    def make(self, name, authority=None, subject=None, names=None):
        """Self-signed for its own name by default. names: those of its extension."""
        request = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name + ".key",
                   "-subj", subject or "/CN=" + name] + (["-addext", "subjectAltName=" + names] if names else [])
        if authority is None:
            self.openssl(*request, "-x509", "-out", name + ".pem", "-days", "2")
            return
        self.openssl(*request, "-out", name + ".csr")
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                     "-CAcreateserial", "-out", name + ".pem", "-days", "2", "-copy_extensions", "copyall")

    def serve(self, name):
        """The options of a server that uses this certificate, which is self-signed."""
        self.make(name, names="DNS:" + name)
        return "-Z", "-o", "ssl_chain_cert=%s,ssl_key=%s" % (self.path(name + ".pem"), self.path(name + ".key"))

    def context(self, certificate=None, newest=None, authority="ca"):
        """For a client that trusts certificates signed by this authority; None: it trusts all."""
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname = False
        if authority is None:
            c.verify_mode = ssl.CERT_NONE
        else:
            c.load_verify_locations(self.path(authority + ".pem"))
        if certificate:
            c.load_cert_chain(self.path(certificate + ".pem"), self.path(certificate + ".key"))
        if newest:
            c.maximum_version = newest
        return c


def make_or_skip_all(**made):
    """Certificates, with the arguments of make() for each name; the script is skipped if they cannot be made."""
    try:
        certificates = Certificates()
    except mayfly.Skip as why:
        mayfly.skip_all(why)
    for name, how in made.items():
        certificates.make(name, **how)
    return certificates
