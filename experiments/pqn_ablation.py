"""Why PQN misses its reported MAP on CIFAR-10: the network, the loss, the schedule or the triplets. One JSON per run.

    python experiments/pqn_ablation.py [--list] [--only NAME ...] [--results DIR] [--networks DIR]

Every run has the 3-layer network of PQN's paper, learns from the 50,000 training images of CIFAR-10 (the database) and
is measured with the 10,000 test images. The first runs train the embedding without codes, with a one-cycle schedule;
the others fit PQN with 6 books (48 bits). A killed run continues after its last epoch, and runs that have a file in
results/pqn-ablation are skipped. Networks are kept in the folder of checkpoints (not committed).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import interlace as il
from interlace.evaluate.ranking import map_of_ranking
from interlace.learn.joint.architectures import EmbeddingNetwork
from interlace.learn.joint.augment import crops
from interlace.learn.joint.layers import statistics_of
from interlace.learn.joint.losses.asymmetric_triplet import asymmetric_triplet
from interlace.learn.joint.networks import build
from interlace.paper.measure import measure
from interlace.paper.problem import Problem
from interlace.paper.provenance import current
from interlace.paper.results import rounded
from interlace.paper.runner import versions
from interlace.paper.sizes import FULL, size_of
from interlace.paper.sources import load
from interlace.quantizers import PQN

RESULTS = Path(__file__).resolve().parent / "results" / "pqn-ablation"
BOOKS, DIM, SEED = 6, 500, 0
#: One-cycle training: rows of a batch, largest rate of SGD with Nesterov's momentum, weight decay, part of warming up.
BATCH, RATE, DECAY, WARM = 250, 0.05, 5e-4, 0.2
#: The network learns in bfloat16; it is measured in float32.
BLOCK = 1_000
#: Parts of length 1, as in the paper of PQN.
PARTS = 4


@dataclass(frozen=True)
class Experiment:
    """One run."""

    name: str  #: of its file
    label: str
    epochs: int
    loss: str = "soft_triplet"  #: of PQN; or of the embedding alone: ``cross_entropy``, ``triplet``
    start: str = ""  #: the run whose network it starts from; empty: random weights
    recipe: dict[str, Any] = field(default_factory=dict)

    @property
    def codes(self) -> bool:
        """Whether it learns codes."""
        return self.loss == "soft_triplet"


EXPERIMENTS = (
    Experiment("cross-entropy", "cross-entropy, one cycle, no codes", 36, "cross_entropy"),
    Experiment("pqn-warm", "PQN, from the network of cross-entropy", 6, start="cross-entropy"),
    Experiment("triplet", "PQN's loss with parts of length 1, one cycle, no codes", 36, "triplet"),
    Experiment("pqn-warm-triplet", "PQN, from the network of its own loss", 6, start="triplet"),
    Experiment(
        "pqn-400k",
        "PQN, 400K drawn triplets",
        30,
        recipe={"warm_up": 20, "epochs": 10, "triplets": 400_000, "batch_size": 600},
    ),
)


def main(argv: list[str] | None = None) -> int:
    """Execute the runs that have no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in EXPERIMENTS]
    parser.add_argument("--list", action="store_true", help="list the runs and whether they have results")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="runs to execute")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results (default: %(default)s)")
    parser.add_argument("--networks", type=Path, help="folder of checkpoints (default: networks in that folder)")
    options = parser.parse_args(argv)
    folder = options.networks or options.results / "networks"
    wanted = [one for one in EXPERIMENTS if one.name in options.only]
    if options.list:
        for one in wanted:
            print(f"{'done' if (options.results / f'{one.name}.json').exists() else '-':6s}{one.name}: {one.label}")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    problem = None
    for one in wanted:
        if (path := options.results / f"{one.name}.json").exists():
            continue
        problem = problem or load("cifar10-images", SEED, size_of(FULL), folder, 1)
        print(f"{one.name}: {one.label}", file=sys.stderr, flush=True)
        _write(path, run(one, problem, folder))
    return 0


def run(one: Experiment, problem: Problem, folder: Path) -> dict[str, Any]:
    """Train and measure; the contents of the JSON file."""
    if one.codes:
        measures, seconds, settings = with_codes(one, problem, folder)
    else:
        trained = Trained(one, problem, folder)
        seconds = trained.run()
        measures, settings = trained.measures(), trained.settings
    return {
        "name": one.name,
        "label": one.label,
        "loss": one.loss,
        "start": one.start,
        "epochs": one.epochs,
        "settings": settings,
        "data": problem.description,
        "measures": measures,
        "fit_seconds": seconds,
        "provenance": current().to_dict(),
        "versions": versions(),
    }


# --- the embedding without codes


class Trained:
    """A network that learns with one cycle of the learning rate, saved after each epoch."""

    def __init__(self, one: Experiment, problem: Problem, folder: Path) -> None:
        self.one, self.problem, self.path = one, problem, folder / f"{one.name}.pt"
        generator = torch.Generator().manual_seed(SEED)
        self.network = build("cnn3", input_shape=problem.x.shape[1:], dim=DIM, generator=generator)
        self.head = nn.Linear(DIM, 10)
        with torch.no_grad():
            self.head.weight.normal_(0.0, DIM**-0.5, generator=generator)
            self.head.bias.zero_()
        self.settings = {
            "optimizer": "SGD, Nesterov momentum .9",
            "batch_size": BATCH,
            "rate": RATE,
            "weight_decay": DECAY,
            "augment": "crops",
            "precision": "bfloat16",
        }

    def run(self) -> float:
        """Do the remaining epochs; the seconds of all of them."""
        x, y = self.problem.x, torch.from_numpy(np.asarray(self.problem.labels, np.int64))
        blocks = (torch.from_numpy(x[i : i + BLOCK].copy()) for i in range(0, len(x), BLOCK))
        self.network.set_statistics(*statistics_of(blocks, self.network.standardize.shape))
        parameters = [*self.network.parameters(), *self.head.parameters()]
        optimizer = torch.optim.SGD(parameters, RATE, momentum=0.9, nesterov=True, weight_decay=DECAY)
        steps = self.one.epochs * (len(x) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, RATE, total_steps=steps, pct_start=WARM, cycle_momentum=False
        )
        first, seconds = 0, 0.0
        if self.path.exists():
            saved = torch.load(self.path)
            for part, name in zip((self.network, self.head, optimizer, schedule), _PARTS, strict=True):
                part.load_state_dict(saved[name])
            first, seconds = saved["epoch"], saved["seconds"]
        for epoch in range(first, self.one.epochs):
            started = time.process_time()
            loss = self._epoch(epoch, x, y, optimizer, schedule)
            seconds += time.process_time() - started
            print(f"  epoch {epoch + 1}/{self.one.epochs}: {loss:.4f}, {seconds:.0f} s", file=sys.stderr, flush=True)
            saved = {
                name: part.state_dict()
                for part, name in zip((self.network, self.head, optimizer, schedule), _PARTS, strict=True)
            }
            temporary = self.path.with_suffix(".tmp")
            torch.save({**saved, "epoch": epoch + 1, "seconds": seconds}, temporary)
            os.replace(temporary, self.path)
        return seconds

    def _epoch(self, epoch: int, x: Any, y: Tensor, optimizer: Any, schedule: Any) -> float:
        self.network.train()
        self.network.reseed(SEED * 1_000_003 + epoch)
        order = np.random.default_rng((SEED, epoch)).permutation(len(x))
        total = 0.0
        steps = len(x) // BATCH
        for step in range(steps):
            rows = order[step * BATCH : (step + 1) * BATCH]
            images = crops(torch.from_numpy(x[rows]).float(), SEED, epoch, step)
            with torch.autocast("cpu", torch.bfloat16):
                z = self.network(images)
                scores = self.head(z) if self.one.loss == "cross_entropy" else None
            if scores is not None:
                loss = nn.functional.cross_entropy(scores.float(), y[rows])
            else:
                unit = unit_parts(z.float())
                loss = asymmetric_triplet(unit, unit, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        return total / steps

    @torch.no_grad()
    def measures(self) -> dict[str, Any]:
        """Rankings by the embedding; with cross-entropy also the accuracy and a ranking by predicted classes."""
        self.network.eval()
        problem = self.problem
        queries, rows = (embedded(self.network, part) for part in (problem.queries, problem.x))
        found: dict[str, Any] = {"float": _map(problem, queries, rows)}
        found["float, parts of length 1"] = _map(problem, unit_parts(queries), unit_parts(rows))
        if self.one.loss == "cross_entropy":
            of_queries, of_rows = (self.head(part).softmax(1) for part in (queries, rows))
            found["accuracy"] = _accuracy(of_queries, problem.query_labels)
            found["accuracy, training images"] = _accuracy(of_rows, problem.labels)
            found["class prediction"] = _map(problem, of_queries, of_rows, squares=np.zeros(len(of_rows)))
        return found


_PARTS = ("network", "head", "optimizer", "schedule")


def unit_parts(z: Tensor) -> Tensor:
    """Vectors whose PARTS parts have length 1 each."""
    return nn.functional.normalize(z.reshape(len(z), PARTS, -1), dim=2).reshape(len(z), -1)


def embedded(network: EmbeddingNetwork, images: Any) -> Tensor:
    """The outputs of a network, in float32."""
    parts = [network(torch.from_numpy(images[i : i + BLOCK].copy())) for i in range(0, len(images), BLOCK)]
    return torch.cat(parts)


def _map(problem: Problem, queries: Tensor, rows: Tensor, **options: Any) -> dict[str, float]:
    vectors = (part.numpy() for part in (queries, rows))
    return map_of_ranking(*vectors, problem.query_labels, problem.labels, at=100, **options)


def _accuracy(probabilities: Tensor, labels: Any) -> float:
    return float((probabilities.argmax(1).numpy() == np.asarray(labels)).mean())


# --- with codes


def with_codes(one: Experiment, problem: Problem, folder: Path) -> tuple[dict[str, Any], float, dict[str, Any]]:
    """Fit PQN, from random weights or from a network of this script, and measure it as the figures do."""
    embedding: Any = "cnn3"
    if one.start:
        embedding = build("cnn3", input_shape=problem.x.shape[1:], dim=DIM)
        embedding.load_state_dict(torch.load(folder / f"{one.start}.pt")["network"])
    short = {"warm_up": 0, "epochs": one.epochs}
    recipe = il.Recipe(**{**short, "shape": 0, "augment": "crops", **one.recipe})
    checkpoint = folder / f"{one.name}.checkpoint"
    started = time.process_time()
    model = PQN(n_books=BOOKS, dim=DIM, embedding=embedding, recipe=recipe, checkpoint=checkpoint, seed=SEED, threads=1)
    model.set_params(progress=_say).fit(problem.x, problem.labels)
    seconds = time.process_time() - started
    return dict(measure(model, problem)), seconds, {"recipe": recipe.to_dict()}


def _say(text: str, share: float) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _write(path: Path, result: dict[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(rounded(result), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


if __name__ == "__main__":
    sys.exit(main())
