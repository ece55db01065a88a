"""Replaces Kubernetes' API server: accepts Events over HTTPS and checks each request.

    python apiserver.py FOLDER

Makes a certificate and a service account's files (`token`, `ca.crt`) in FOLDER, prints its port,
and then one JSON line for each request: the request, the response, and what is wrong with the
request. The first request gets status 503. For the second one, the token has expired.

Objects are checked against Kubernetes' OpenAPI schemas, and then against the further rules of
`pkg/apis/core/validation/events.go` (1.34).
"""

import copy
import http.server
import json
import os
import re
import ssl
import subprocess
import sys
import threading

import kubernetes_validate

VERSIONS = ["1.30", "1.34", "1.37"]
PATH = re.compile(r"/api/v1/namespaces/([a-z0-9.-]+)/events(?:/([a-z0-9.-]+))?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
FIRST, SECOND = "token-of-the-first-hour", "token-of-the-second-hour"


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.requests = 0
        self.events = {}
        self.token(FIRST)

    def token(self, text):
        with open(os.path.join(self.folder, "token"), "w") as file:
            file.write(text + "\n")

    def answer(self, method, path, headers, body):
        """Returns the HTTP status, the response object, and what is wrong with the request."""
        self.requests += 1
        if self.requests == 1:
            return 503, {"message": "etcd has no leader"}, []
        if self.requests == 2:
            self.token(SECOND)
            return 401, {"message": "Unauthorized"}, []
        if headers.get("Authorization") != f"Bearer {SECOND}":
            return 401, {"message": "Unauthorized"}, ["the token"]
        found = PATH.fullmatch(path)
        if not found:
            return 404, {"message": "no such resource"}, [f"path {path}"]
        namespace, name = found.groups()
        if method == "POST" and name is None:
            return self.create(namespace, headers, body)
        if method == "PATCH" and name is not None:
            return self.patch(namespace, name, headers, body)
        return 405, {"message": "no such verb"}, [f"{method} {path}"]

    def create(self, namespace, headers, body):
        wrong = [] if headers.get("Content-Type") == "application/json" else ["Content-Type"]
        event = json.loads(body)
        wrong += problems(event, namespace)
        if wrong:
            return 422, {"message": "; ".join(wrong)}, wrong
        key = (namespace, event["metadata"]["name"])
        if key in self.events:
            return 409, {"message": "AlreadyExists"}, []
        self.events[key] = event
        return 201, event, []

    def patch(self, namespace, name, headers, body):
        # The patch changes only top-level fields. For these, merge patch and strategic merge patch
        # do the same.
        kinds = ("application/merge-patch+json", "application/strategic-merge-patch+json")
        wrong = [] if headers.get("Content-Type") in kinds else ["Content-Type"]
        event = copy.deepcopy(self.events.get((namespace, name)))
        if event is None:
            return 404, {"message": "NotFound"}, wrong
        event.update(json.loads(body))
        wrong += problems(event, namespace)
        if wrong:
            return 422, {"message": "; ".join(wrong)}, wrong
        self.events[(namespace, name)] = event
        return 200, event, []


def problems(event, namespace):
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(event, version, strict=True)
        except Exception as error:  # noqa: BLE001  # any exception of the validator
            found.append(f"{version}: {error}")
    metadata, about = event.get("metadata", {}), event.get("involvedObject", {})
    if not NAME.fullmatch(metadata.get("name", "")) or len(metadata["name"]) > 253:
        found.append("metadata.name is no DNS subdomain")
    if not metadata.get("namespace") == about.get("namespace") == namespace:
        found.append("involvedObject.namespace does not match event.namespace")
    if len(event.get("message", "").encode()) > 1024:
        found.append("message has more than 1024 bytes")
    if not 0 < len(event.get("reason", "")) <= 128:
        found.append("reason")
    if event.get("type") != "Warning" or not about.get("uid") or about.get("kind") != "Pod":
        found.append("not a Warning on a pod with its uid")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.get("lastTimestamp", "")):
        found.append("lastTimestamp is no metav1.Time")
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def take(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        cluster = self.server.cluster
        with cluster.lock:
            status, said, wrong = cluster.answer(self.command, self.path, self.headers, body)
            tell(method=self.command, path=self.path, status=status, wrong=wrong, event=said, body=body.decode())
        said = json.dumps(said).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = take

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def finish_request(self, request, client_address):
        try:
            request.do_handshake()
        except (ssl.SSLError, OSError) as error:
            tell(handshake=str(error))
            return
        super().finish_request(request, client_address)


def tell(**line):
    print(json.dumps(line), flush=True)


def certificate(folder):
    """Makes a certificate for 127.0.0.1 that the cluster's certificate authority (CA) signed.

    Also makes `other.crt`, the certificate of a CA that signed nothing here.
    """
    at = lambda name: os.path.join(folder, name)  # noqa: E731

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    for name in ("ca", "other"):
        openssl("req", "-x509", *curve, "-subj", f"/CN={name}", "-keyout", at(f"{name}.key"), "-out", at(f"{name}.crt"))
    openssl("req", *curve, "-subj", "/CN=kube-apiserver", "-keyout", at("server.key"), "-out", at("server.csr"))
    with open(at("extensions"), "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
    authority = ["-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2"]
    openssl("x509", "-req", "-in", at("server.csr"), *authority, "-extfile", at("extensions"), "-out", at("server.crt"))
    return at("server.crt"), at("server.key")


def main():
    folder = sys.argv[1]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))
    server = Server(("127.0.0.1", 0), Handler)
    server.cluster = Cluster(folder)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
