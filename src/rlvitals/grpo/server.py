"""A sampling server for the remote protocol: one model, one request at a time.

    python -m rlvitals.grpo.server --model tiny --port 8100

It listens on this machine alone unless told otherwise, has no authentication, and takes weights from whoever can reach
it: put it behind the network of the training job and nowhere else.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

import torch

from rlvitals.grpo.models import load_policy
from rlvitals.grpo.sampling import LocalSampler
from rlvitals.grpo.wire import MAX_BYTES, pack_answer, unpack_request, unpack_weights

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Service:
    """A model that samples and takes new weights, one at a time."""

    def __init__(self, model: Any, end_id: int, pad_id: int) -> None:
        self._sampler = LocalSampler(model, end_id, pad_id)
        self._lock = threading.Lock()

    @property
    def version(self) -> int:
        return self._sampler.version

    def generate(self, body: bytes) -> bytes:
        """Answer a request. Raises ValueError for a broken one."""
        prompts, seeds, budgets, sampling = unpack_request(body)
        with self._lock:
            return pack_answer(self._sampler.generate(prompts, seeds, budgets, sampling))

    def weights(self, body: bytes) -> bytes:
        """Take new weights. Raises ValueError for those of another model."""
        tensors, version = unpack_weights(body)
        with self._lock:
            model: Any = self._sampler.model
            own = model.state_dict()
            unlike = sorted(n for n, t in tensors.items() if n not in own or own[n].shape != t.shape)
            if unlike:
                raise ValueError(f"weights of another model: {', '.join(unlike[:4])}")
            model.load_state_dict(tensors, strict=False)
            self._sampler.version = version
        return json.dumps({"version": version}).encode()


def handler(service: Service) -> type[BaseHTTPRequestHandler]:
    """Return the request handler of a service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                self._reply(200, json.dumps({"version": service.version}).encode())
            else:
                self._reply(404, b"no such path")

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            if not 0 < size <= MAX_BYTES:
                self._reply(413, b"no body, or one too large")
                return
            body = self.rfile.read(size)
            does = {"/generate": service.generate, "/weights": service.weights}.get(self.path)
            if does is None:
                self._reply(404, b"no such path")
                return
            try:
                self._reply(200, does(body))
            except (ValueError, TypeError, KeyError, RuntimeError) as error:
                self._reply(400, str(error)[:200].encode())

        def _reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep requests out of the console."""

    return Handler


def serve(service: Service, host: str, port: int) -> HTTPServer:
    """Return a server bound to an address (port 0 for a free one), not yet running."""
    return ThreadingHTTPServer((host, port), handler(service))


def main() -> None:
    parser = argparse.ArgumentParser(prog="rlvitals.grpo.server", description="Sampling server of rlvitals train.")
    parser.add_argument("--model", default="tiny", help="tiny, smollm2, or a folder or hub name")
    parser.add_argument("--task", default="arithmetic", help="task that the tiny model is made for")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float32", help="of the weights")
    asked = parser.parse_args()
    loaded = load_policy(asked.model, task=asked.task)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = loaded.model.to(device, DTYPES[asked.dtype]).eval()
    pad = loaded.tokenizer.pad_token_id
    end = int(loaded.tokenizer.eos_token_id)
    server = serve(Service(model, end, end if pad is None else int(pad)), asked.host, asked.port)
    print(f"sampling with {loaded.identity} on http://{asked.host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
