"""Speed of the TensorBoard reader: 100,000 steps x 40 tags, written here, one event per scalar as trainers do.

python -m benchmarks.tensorboard [--steps N] [--tags K]
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import tempfile
import time
from pathlib import Path

from rlvitals.ingest.readers.tensorboard import read
from rlvitals.ingest.readers.tfrecord import crc32c, mask
from rlvitals.ingest.sources import Source

RESULTS = Path(__file__).parent / "results" / "tensorboard.json"
STEPS = 100_000
TARGET_S = 10.0  # source: issue 4


def varint_bytes(value: int) -> bytes:
    """Return a number in protobuf's variable length."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def bytes_field(number: int, content: bytes) -> bytes:
    """Return a protobuf field of bytes: a string or a message."""
    return varint_bytes(number << 3 | 2) + varint_bytes(len(content)) + content


def framed(record: bytes) -> bytes:
    """Return a record as it stands in an event file."""
    head = struct.pack("<Q", len(record))
    return head + struct.pack("<I", mask(crc32c(head))) + record + struct.pack("<I", mask(crc32c(record)))


def scalar_event(wall_time: float, step: int, tag: str, value: float) -> bytes:
    """Return one event with one simple value."""
    summary = bytes_field(1, bytes_field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint_bytes(step) + bytes_field(5, summary)


def write(path: Path, steps: int, tags: int) -> None:
    """Write an event file with `steps` x `tags` scalars."""
    names = [f"train/group_{i % 7}/metric_{'x' * (i % 5)}{i}" for i in range(tags)]
    with path.open("wb") as stream:
        stream.write(framed(b"\x09" + struct.pack("<d", 1.7e9) + bytes_field(3, b"brain.Event:2")))
        for step in range(1, steps + 1):
            stream.write(
                b"".join(framed(scalar_event(1.7e9 + step, step, n, step * 0.5 + i)) for i, n in enumerate(names))
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--tags", type=int, default=40)
    parser.add_argument("--keep", type=Path, help="write the file here and use it again next time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.keep or Path(folder) / "events.out.tfevents.1700000000.host.1.0"
        if not path.exists():
            write(path, args.steps, args.tags)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start, cpu = time.perf_counter(), time.process_time()
        (table,) = read(Source(str(path), path))
        took, cpu = time.perf_counter() - start, time.process_time() - cpu
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        size = path.stat().st_size / 2**20
    last = table.columns["train/group_0/metric_0"][-1]
    figures = {"steps": table.rows, "tags": len(table.columns) - 1, "MB": round(size), "wall_s": round(took, 2),
               "cpu_s": round(cpu, 2), "memory_grew_MB": round(grown)}  # fmt: skip
    if args.steps == STEPS:
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{table.rows:,} rows x {len(table.columns) - 1} tags, last value {last:g}, {size:.0f} MB: {took:.2f} s,")
    print(f"{cpu:.2f} s of it on the processor (target {TARGET_S:g} s); peak memory grew by {grown:.0f} MB")


if __name__ == "__main__":
    main()
