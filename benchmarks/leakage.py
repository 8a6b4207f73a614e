"""Precision and recall of `rlvitals audit leakage` on a planted set: what was copied into training is known.

    python -m benchmarks.leakage [--rows 20000] [--seed 0]

Word problems with random names, things and numbers. Of 1,000 held-out problems one tenth each is planted in the
training set as an exact copy, with other case and punctuation, inside a longer text, with two words exchanged, with a
sentence added, and reworded in every sentence (the same names and numbers); one tenth has a training problem of the
same template with other numbers (no leak); the rest is only held out.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from rlvitals.audit.overlap import find_overlaps

NAMES = (
    "Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Ines", "Jonas", "Kira", "Leo", "Mona", "Nils", "Olga",
    "Paul", "Quinn", "Rosa", "Sven", "Tara",
)  # fmt: skip
THINGS = (
    "apples", "stamps", "marbles", "coins", "books", "pencils", "shells", "tickets", "cards", "beads", "plums", "boxes",
)  # fmt: skip
PLACES = (
    "market", "school", "harbour", "station", "library", "garden", "museum", "kitchen", "workshop", "office",
)  # fmt: skip
VERBS = ["buys", "finds", "collects", "receives", "picks"]
LOSSES = ("gives away", "sells", "loses", "donates", "returns")
OPENINGS = (
    "In the morning {a} goes to the {p} and {v} {x} {t}.", "{a} {v} {x} {t} at the {p} on Monday.",
    "At the {p}, {a} {v} {x} {t} before noon.", "{a} walks past the {p} and {v} {x} {t} there.",
)  # fmt: skip
MIDDLES = (
    "Later {b} brings {y} more {t} for the whole class.", "Then {b} {w} {y} of them to a neighbour.",
    "On the way home {a} meets {b}, who adds {y} {t}.", "After lunch {b} {w} {y} {t} in the rain.",
)  # fmt: skip
ENDS = (
    "How many {t} does {a} have in the end?", "What is the number of {t} that are left for {a}?",
    "How many {t} are there now, counted together?", "Find how many {t} {a} can show to {b} today.",
)  # fmt: skip
Form = tuple[str, dict[str, str]]


def form(draw: random.Random) -> Form:
    """Return a template of three sentences with its names."""
    a, b = draw.sample(NAMES, 2)
    names = {"a": a, "b": b, "t": draw.choice(THINGS), "p": draw.choice(PLACES), "v": draw.choice(VERBS)}
    names["w"] = draw.choice(LOSSES)
    return " ".join(draw.choice(part) for part in (OPENINGS, MIDDLES, ENDS)), names


def fresh(draw: random.Random) -> tuple[int, int]:
    return draw.randint(2, 9999), draw.randint(2, 9999)


def filled(made: Form, numbers: tuple[int, int]) -> str:
    """Return the problem of a template with its two numbers."""
    return made[0].format(x=numbers[0], y=numbers[1], **made[1])


def other_case(text: str, draw: random.Random) -> str:
    return "  " + text.upper().replace(".", " .").replace("?", " ??")


def inside(text: str, draw: random.Random) -> str:
    return f"Solve the task below and explain each step with care. {text} Write the answer in the last line, please."


def two_words(text: str, draw: random.Random) -> str:
    found = text.split()
    places = [i for i, w in enumerate(found) if w.isalpha() and w.islower()]
    for i in draw.sample(places, 2):
        found[i] = draw.choice(("indeed", "quite", "soon", "also"))
    return " ".join(found)


def sentence(text: str, draw: random.Random) -> str:
    return f"{text} Think first."


def reworded(made: Form, numbers: tuple[int, int]) -> str:
    """Return the problem with every sentence replaced by another one that says the same."""
    parts = []
    for options in (OPENINGS, MIDDLES, ENDS):
        used = next(i for i, o in enumerate(options) if o in made[0])
        parts.append(options[(used + 1) % len(options)])
    return " ".join(parts).format(x=numbers[0], y=numbers[1], **made[1])


PLANTS: dict[str, Callable[[str, random.Random], str]] = {
    "exact copy": lambda text, draw: text,
    "other case and punctuation": other_case,
    "inside a longer text": inside,
    "two words exchanged": two_words,
    "a sentence added": sentence,
}


def planted(rows: int, held: int, seed: int) -> tuple[list[str], list[str], dict[str, set[int]], set[int]]:
    """Return training texts, held-out texts, plant -> held-out rows that were planted, rows with a decoy."""
    draw = random.Random(seed)
    training = [filled(form(draw), fresh(draw)) for _ in range(rows)]
    forms = [form(draw) for _ in range(held)]
    numbers = [fresh(draw) for _ in forms]
    held_out = [filled(f, n) for f, n in zip(forms, numbers, strict=True)]
    part = held // 10
    where: dict[str, set[int]] = {}
    for k, (name, change) in enumerate(PLANTS.items()):
        where[name] = set(range(k * part, (k + 1) * part))
        training += [change(held_out[i], draw) for i in sorted(where[name])]
    where["reworded in every sentence"] = set(range(len(PLANTS) * part, (len(PLANTS) + 1) * part))
    training += [reworded(forms[i], numbers[i]) for i in sorted(where["reworded in every sentence"])]
    decoys = set(range((len(PLANTS) + 1) * part, (len(PLANTS) + 2) * part))
    training += [filled(forms[i], fresh(draw)) for i in sorted(decoys)]
    draw.shuffle(training)
    return training, held_out, where, decoys


def measure(rows: int, held: int, seed: int) -> dict[str, float]:
    """Return recall per plant, precision and recall over all, decoys taken for leaks, and seconds."""
    training, held_out, where, decoys = planted(rows, held, seed)
    begin = time.perf_counter()
    found = {m.held_out for m in find_overlaps(training, held_out).matches}
    seconds = time.perf_counter() - begin
    truth = set().union(*where.values())
    out = {name: len(found & at) / len(at) for name, at in where.items()}
    return out | {
        "precision": len(found & truth) / len(found),
        "recall": len(found & truth) / len(truth),
        "decoys taken for leaks": len(found & decoys) / len(decoys),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="training problems beside the planted ones")
    parser.add_argument("--held-out", type=int, default=1_000, help="held-out problems, a multiple of 10")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, value in measure(given.rows, given.held_out, given.seed).items():
        print(f"{name:<30} {value:8.3f}")


if __name__ == "__main__":
    main()
