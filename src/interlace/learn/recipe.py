"""The settings of learning with labels: every weight, rate and length of training in one frozen object."""

from __future__ import annotations

import dataclasses
import math
import numbers
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

LOSSES = (
    *("contrastive", "cross_entropy", "regression", "triplet", "asymmetric_triplet"),
    *("pairwise", "soft_hard", "soft_triplet"),  # of DQN, DPQ and PQN
)
OPTIMIZERS = ("joint", "alternate")
THETA = ("gradient", "em")
GROUPS = ("soft", "hard")
CRUDE_RULES = ("energy", "forall")
SIGMA_RULES = ("variances", "codes")
AUGMENTS = ("none", "crops")
#: Values of the fields that are strings.
CHOICES = {
    "theta": THETA,
    "groups": GROUPS,
    "crude": CRUDE_RULES,
    "sigma_rule": SIGMA_RULES,
    "augment": AUGMENTS,
}
#: Weights of L_P and L_ICQ in ``Recipe.paper``, where both are sums.
PAPER_GAMMA1, PAPER_GAMMA2 = 1e-2, 1e-1
#: For ``batch_size=0``: rows of a batch, at least and at most, and steps of an epoch.
LEAST_ROWS, MOST_ROWS, STEPS = 100, 500, 16


@dataclass(frozen=True)
class Recipe:
    """Weights of the losses, length of the phases, rates, and how the split is made.

    ``Recipe()`` is the default, ``Recipe.paper()`` the method as written in the paper; ``Recipe(pi2=0.3)`` and
    ``Recipe.paper(pi2=0.3)`` change single values. Weights are for vectors of total variance 1. The default scales the
    embedding to that, so weights do not depend on the scale of the data.
    """

    name: str = "default"
    # The prior: pi1 = 1 - pi2. ``robustness`` weights log P(SN), which keeps the second mode from becoming empty.
    pi2: float = 0.4
    alpha2: float = -10.0
    robustness: float = 1.0
    theta: str = "gradient"  #: how Theta is fitted: by ``"gradient"`` in each step, or by ``"em"`` after each epoch
    raw_variances: bool = False  #: apply the prior to raw variances, not divided by their mean
    raw_words: bool = False  #: L_ICQ as written: a sum over all words, in the unit of the data
    fading: bool = False  #: the paper's gradient of the online variance, which vanishes late in an epoch
    # Weights: L_E has 1.
    error: float = 0.2  #: of the quantization error, the first part of L_C
    soft_error: float = 0.0  #: the same for product books with soft codes (DPQ, PQN), which learn from L_E
    cross: float = 30.0  #: of the variance of the cross terms, the second part of L_C
    gamma1: float = 0.005  #: of L_P
    gamma2: float = 20.0  #: of L_ICQ
    scale: float = 8.0  #: of squared distances in the contrastive loss
    ridge: float = 1e-3  #: of the regression loss, relative
    triplet_margin: float = 0.1  #: in squared distances, of total variance 1
    softness: float = 0.3  #: of soft codes, in units of the error of a book; for soft_hard and soft_triplet
    central: float = 0.1  #: of the joint central loss, for soft_hard
    gini: float = 0.1  #: of the Gini term (all words used, one word per row), for soft_hard
    # Phases, in epochs.
    warm_up: int = 8  #: L_E of the embedding alone
    shape: int = 4  #: L_E and L_P, which make the variances bi-modal
    epochs: int = 20  #: all four losses
    patience: int = 8  #: epochs of the last phase without a better validation score before learning stops
    augment: str = "none"  #: or ``"crops"``: images are shifted by up to 4 pixels and mirrored at random
    triplets: int = 0  #: drawn for all epochs, for asymmetric_triplet and soft_triplet; 0: all rows of a batch
    batch_size: int = 0  #: 0: depends on the number of rows, see :meth:`batch_rows`
    # Learning rates of Adam; networks other than linear and mlp use a fifth of the first two.
    rate_warm_up: float = 5e-3
    rate_shape: float = 2.5e-3
    rate_embedding: float = 1e-4
    rate_books: float = 1e-2
    rate_head: float = 1e-2
    rate_theta: float = 2e-2
    weight_decay: float = 1e-4  #: of the warm-up
    # The split.
    standardize: bool = True  #: inputs to mean 0 and variance 1 per feature
    rotate: bool = True  #: rotate the embedding to principal axes and total variance 1 after the warm-up
    level: bool = True  #: and rotate the leading axes until their variances are equal
    cap: bool = True  #: at most as many such axes as a linear map needs for the classes (classes - 1)
    split_start: bool = True  #: books start on psi or on its complement, not on all dimensions
    groups: str = "soft"  #: first: ``"soft"`` (by L_ICQ) or ``"hard"`` (words are zero off their group)
    hard_end: bool = True  #: set words to zero off their group in the end
    hard_after: int = 4  #: epochs of the last phase before that
    psi_share: float = 0.25  #: share of the books that are on psi (at least one book)
    crude: str = "energy"  #: without split_start, which books are crude: by ``"energy"``, or the paper's ``"forall"``
    sigma: float = 1.0  #: factor of the constant of margin="paper"
    #: That constant: ``"variances"`` (the paper's: the sum of lambda over the dimensions off psi) or ``"codes"`` (the
    #: variance of what the books after the crude ones add).
    sigma_rule: str = "variances"
    sweeps: int = 1  #: of ICM after the greedy codes, in every batch

    @classmethod
    def paper(cls, **changes: Any) -> Recipe:
        """The method as written: raw variances and words, a small pi2, soft constraints only, "for all c", sigma x 1.

        Its weights were chosen on held-out rows for sums in the unit of the data (experiments/PROTOCOL.md).
        """
        written: dict[str, Any] = {
            "name": "paper",
            "pi2": 0.15,
            "raw_variances": True,
            "raw_words": True,
            "gamma1": PAPER_GAMMA1,
            "gamma2": PAPER_GAMMA2,
            "fading": True,
            "standardize": False,
            "rotate": False,
            "level": False,
            "split_start": False,
            "groups": "soft",
            "hard_end": False,
            "crude": "forall",
        }
        return cls(**written | changes)

    @classmethod
    def named(cls, recipe: Any) -> Recipe:
        """``"default"``, ``"paper"``, a recipe, or a dict of :meth:`to_dict` (as stored in model files)."""
        if isinstance(recipe, Recipe):
            return recipe
        if isinstance(recipe, dict):
            unknown = recipe.keys() - {field.name for field in dataclasses.fields(cls)}
            if unknown:
                raise InputError(f"a recipe has no field {min(unknown, key=str)!r}")
            return cls(**recipe)
        if isinstance(recipe, str) and recipe in ("default", "paper"):
            return cls() if recipe == "default" else cls.paper()
        raise InputError(f"recipe must be 'default', 'paper' or an interlace.Recipe, got {recipe!r}")

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "pi2": (1e-3, 1 - 1e-3),
            "alpha2": (-1e3, 0.0),
            "robustness": (0.0, 1e3),
            "scale": (1e-6, 1e6),
            "ridge": (1e-12, 1e6),
            "softness": (1e-6, 1e6),
            "psi_share": (0.0, 1.0),
            "warm_up": (0, 10**6),
            "shape": (0, 10**6),
            "epochs": (0, 10**6),
            "patience": (1, 10**6),
            "batch_size": (0, 10**7),
            "triplets": (0, 10**9),
            "sweeps": (0, 255),
        }
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "bool" and not isinstance(value, bool):
                raise InputError(f"{field.name} of a recipe must be True or False, got {value!r}")
            if field.type == "str" and not isinstance(value, str):
                raise InputError(f"{field.name} of a recipe must be a string, got {value!r}")
            if field.type == "int" and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
                raise InputError(f"{field.name} of a recipe must be an integer, got {value!r}")
            if field.type in ("int", "float"):
                least, most = ranges.get(field.name, (0.0, 1e6))
                real = isinstance(value, numbers.Real) and not isinstance(value, bool)
                if not least <= (value if real else math.nan) <= most:  # NaN compares false
                    raise InputError(f"{field.name} of a recipe must be {least:g} to {most:g}, got {value!r}")
                # NumPy numbers become Python numbers, for JSON.
                object.__setattr__(self, field.name, int(value) if field.type == "int" else float(value))
        if self.batch_size == 1:  # one row has no variance
            raise InputError("batch_size of a recipe must be 0 (depends on the number of rows) or 2 to 1e+07, got 1")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name} of a recipe must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    def __repr__(self) -> str:
        """The values that differ from the default."""
        default = {field.name: field.default for field in dataclasses.fields(self)}
        changed = (f"{name}={value!r}" for name, value in self.to_dict().items() if value != default[name])
        return f"Recipe({', '.join(changed)})"

    def batch_rows(self, n_rows: int) -> int:
        """Rows of a batch, for ``n_rows`` rows to learn from: ``batch_size``, or 100 to 500 such that an epoch has 16
        steps. From 8,000 rows on that is 500."""
        return self.batch_size or min(MOST_ROWS, max(LEAST_ROWS, n_rows // STEPS))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The same as :meth:`to_dict`; scikit-learn needs it for parameters such as ``recipe__pi2``."""
        return self.to_dict()

    def with_params(self, **changes: Any) -> Recipe:
        """A copy with these values changed."""
        return Recipe.named(self.to_dict() | changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``Recipe(**values)`` is the inverse."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Joint:
    """The checked parameters of ``fit(x, y)`` of ICQ, SQ and others; weights and rates are in the recipe."""

    kind: str  #: ``"icq"``, ``"cq"`` or ``"pq"``
    n_books: int
    n_words: int
    n_crude: int | None  #: None: the number with the least measured work
    cross: str  #: ``"constant"``, ``"byte"`` or ``"exact"``
    dim: int | None
    embedding: Any  #: a name, or a torch module
    hidden: tuple[int, ...]
    loss: str
    optimize: str
    recipe: Recipe
    validation: float
    checkpoint: Any
    device: str
    seed: int
    threads: int
