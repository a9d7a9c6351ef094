"""DeepSVC: a support vector machine on top of a network, trained together."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from fwnet.domains import Simplex
from fwnet.estimators import inputs
from fwnet.estimators.calibration import MarginClassifier, cross_validated_sigmoids
from fwnet.estimators.deep.modes import ExactMode, Mode, NetMode
from fwnet.estimators.deep.modules import evaluating, features_of, kind_of, own_module, try_points
from fwnet.estimators.deep.training import DeepRound, LabelledPoints, Training, TrainingSchedule
from fwnet.layers import FWNet
from fwnet.learned import LearnedUpdates
from fwnet.learned import Optimizer as LearnedOptimizer
from fwnet.numerics import checks
from fwnet.numerics.files import fingerprint
from fwnet.numerics.log import logger
from fwnet.oracles import Softmin
from fwnet.show.progress import progress_bar
from fwnet.solvers import FrankWolfe
from fwnet.steps import LineSearch

_MODES = ("exact", "forward", "unrolled")
_STOPPED = {"max_steps": "max_iter", "max_seconds": "max_time", "stalled": "patience"}
_SHARP = 1e-6  # the relative gap that the last solve must reach; double precision allows 1e-12


@dataclass(eq=False, repr=False)
class DeepSVC(MarginClassifier, BaseEstimator):
    """Squared-hinge support vector classification on the features of a network.

        min over the network h of  min over w of  ½|w|² + ½ Σ Cᵢ max(0, 1 − yᵢ⟨w, (h(xᵢ), 1)⟩)²

    The inner minimum is 1/(4 f*), f* = min ½ αᵀ(yyᵀ∘(HHᵀ + 1) + diag(1/C))α over the simplex.
    Several classes are one problem each against the rest, on shared features. Training keeps the
    best network that it saw; then one exact solve on the features of all training points gives
    the classifier, with its duality gap. A prediction is one forward pass.

    Arguments:
        module: maps points (n, …) to features (n, d): an `nn.Module`, of which a copy is trained;
            a function that builds one, its weights then drawn from `random_state`; or None for a
            small network.
        C: weight of the errors; Cᵢ = C · sample weight.
        mode: "exact" solves the SVM at every update and holds it fixed in the gradient;
            "forward" moves α by `fw_steps` Frank-Wolfe steps an update, forward only, as in the
            paper; "unrolled" differentiates through these steps. Both start from the solved SVM.
        fw_steps: steps an update, by default 1 (forward) or 10 (unrolled).
        solver: the Frank-Wolfe cell on the simplex for these two modes; by default
            `FrankWolfe(Simplex(), LineSearch())`, in forward mode with
            `oracle=Softmin(5.0, relative=True)`, which moves many points a step.
        lr: of the optimizer.
        optimizer: called with parameters and lr=; `torch.optim.Adam` by default. Or learned updates
            such as `learned.LSTMUpdates`, which need no lr.
        max_iter: updates of the network.
        max_time: seconds for the training, None for no limit.
        batch_size: points of an update, None for all. Each batch is an SVM of its own with C
            raised by n/batch_size; take it well above the number of features.
        validation_fraction: share of the points, of each class alike, that is held out. The best
            network is then the one with the best accuracy there, else the one with the least loss.
        check_every: updates a round, after which the SVM is solved on all training points; by
            default an epoch, or 10 updates without `batch_size`.
        patience: stop after so many rounds without a better one; None goes on.
        checkpoint: a file, written after each round; a fit that finds one goes on from there, to
            the same result as without a break, on one kind of processor.
        progress: show a bar (needs rich).
        verbose: 1 logs a line a round (logger "fwnet").
        random_state: of the default network, of dropout, batches and the held-out points.
        probability: fit Platt's sigmoid by five-fold cross-validation, for `predict_proba`: five
            more trainings.

    Attributes: module_, classes_, n_features_in_, n_iter_ (updates), history_ (a `DeepRound` each
    round), stopped_ ("max_iter", "max_time", "patience", "interrupted" or "non_finite"),
    support_ (indices of training points), n_support_, dual_coef_ (problems, support) with entries
    yᵢβᵢ, coef_ (problems, d) on the features, intercept_, duality_gap_ (the
    largest (P − D)/P of the problems).

    Example:
        >>> from sklearn.datasets import make_circles
        >>> X, y = make_circles(400, factor=0.2, noise=0.1, random_state=0)
        >>> clf = DeepSVC(random_state=0).fit(X, y)
        >>> float(clf.score(X, y)), clf.duality_gap_ < 1e-9
        (1.0, True)

    Reference: Schramowski, Bauckhage and Kersting, Neural Conditional Gradients (2018), Fig. 3.
    """

    module: nn.Module | Callable[[], nn.Module] | None = None
    C: float = 1.0
    mode: str = "exact"
    _: KW_ONLY
    fw_steps: int | None = None
    solver: FrankWolfe | None = None
    lr: float = 0.02
    optimizer: Callable[..., torch.optim.Optimizer] | LearnedUpdates | None = None
    max_iter: int = 100
    max_time: float | None = None
    batch_size: int | None = None
    validation_fraction: float = 0.0
    check_every: int | None = None
    patience: int | None = None
    checkpoint: str | Path | None = None
    progress: bool = False
    verbose: int = 0
    random_state: Any = None
    probability: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DeepSVC:
        """Train on points X (n, d) or (n, …), as an array or a tensor, with labels y (n,).

        A point of weight 0 is left out; batches and held-out points do not see the weights.
        """
        schedule = self._schedule()
        X, y = validate_data(
            self, _array(X), _array(y), allow_nd=True, dtype=(np.float32, np.float64)
        )
        check_classification_targets(y)
        weight = inputs.sample_weights(_array(sample_weight), len(y))
        there = np.flatnonzero(weight)
        X, weight = X[there], weight[there]
        self.classes_, labels = np.unique(y[there], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "DeepSVC needs points of at least two classes; got one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        kept, held = self._held_out(labels, schedule.seed)
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng())
            stack.enter_context(torch.enable_grad())
            torch.manual_seed(schedule.seed)
            training = self._training(X, labels, weight, kept, held, schedule)
            path = None if self.checkpoint is None else Path(self.checkpoint)
            facts = {} if path is None else self._facts(training)
            status = training.run(path, facts, self._show(stack))
        self.stopped_: str = _STOPPED.get(status, status)
        self._store(training, labels, kept, there)
        self._warn()
        self._forget_sigmoids()
        if self.probability:
            quiet = {"checkpoint": None, "progress": False, "verbose": 0}
            other = clone(self).set_params(probability=False, **quiet)
            self.sigmoids_ = cross_validated_sigmoids(other, X, labels, weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f (n,) for two classes, else one score a class (n, classes)."""
        check_is_fitted(self)
        X = validate_data(
            self, _array(X), reset=False, allow_nd=True, dtype=(np.float32, np.float64)
        )
        if X.shape[1:] != self._shape:
            raise ValueError(
                f"X must hold points of shape {self._shape} as at fit; got {X.shape[1:]}."
            )
        dtype, device = kind_of(self.module_)
        features = features_of(self.module_, torch.tensor(X, dtype=dtype, device=device))
        decisions = features.cpu().numpy() @ self.coef_.T + self.intercept_
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    def _schedule(self) -> TrainingSchedule:
        """The limits, after a look at every parameter."""
        inputs.check_switches(self)
        checks.positive("DeepSVC(C=...)", self.C)
        checks.positive("DeepSVC(lr=...)", self.lr)
        checks.one_of("DeepSVC(mode=...)", self.mode, _MODES)
        if not 0 <= checks.non_negative("validation_fraction", self.validation_fraction) < 1:
            raise ValueError(
                "DeepSVC(validation_fraction=...) must be at least 0 and below 1; got "
                f"{self.validation_fraction!r}."
            )
        domain = getattr(self.solver, "domain", None)
        if self.solver is not None and not isinstance(domain, Simplex):
            raise TypeError(
                f"DeepSVC(solver=...) must be a FrankWolfe over Simplex(); got {self.solver!r}."
            )
        if self.solver is not None and self.mode == "exact":
            raise ValueError(
                'DeepSVC(solver=...) is for mode="forward" and mode="unrolled"; got mode="exact".'
            )
        if self.optimizer is not None and not callable(self.optimizer):
            raise TypeError(
                "DeepSVC(optimizer=...) must be a function of parameters and lr=, such as "
                f"torch.optim.Adam, or learned updates; got {self.optimizer!r}."
            )
        checks.verbosity("verbose", self.verbose)
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise TypeError(
                "DeepSVC(checkpoint=...) must be the path of a file, or None; got "
                f"{self.checkpoint!r}."
            )
        _whole("fw_steps", self.fw_steps, 1)
        most = None if self.max_time is None else checks.positive("max_time", self.max_time)
        return TrainingSchedule(
            _whole("max_iter", self.max_iter, 1) or 1,
            _whole("batch_size", self.batch_size, 2),
            _whole("check_every", self.check_every, 1),
            _whole("patience", self.patience, 1),
            most,
            int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _show(self, stack: ExitStack) -> Callable[[DeepRound], None]:
        """What shows a round as `progress` and `verbose` ask; the stack closes what it opens."""
        advance = progress_bar(stack, self.max_iter) if self.progress else None

        def show(record: DeepRound) -> None:
            if self.verbose:
                logger.info("DeepSVC update %d: %s, %.2f s", record.t, record, record.seconds)
            if advance is not None:
                advance(record.t, str(record))

        return show

    def _held_out(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the points that train, and of those that are held out."""
        everything = np.arange(len(labels))
        if self.validation_fraction == 0:
            return everything, everything[:0]
        counts, classes = np.bincount(labels), len(self.classes_)
        aside = int(np.ceil(self.validation_fraction * len(labels)))
        if counts.min() < 2 or aside < classes or len(labels) - aside < classes:
            raise ValueError(
                f"DeepSVC(validation_fraction={self.validation_fraction!r}) must leave a point of "
                f"each class on both sides; there are {len(labels)} points of {classes} classes, "
                f"the smallest with {counts.min()}. Change the fraction, or set it to 0."
            )
        kept, held = train_test_split(
            everything, test_size=aside, stratify=labels, random_state=seed
        )
        return np.sort(kept), np.sort(held)

    def _training(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray,
        kept: np.ndarray,
        held: np.ndarray,
        plan: TrainingSchedule,
    ) -> Training:
        self._shape = X.shape[1:]
        points_64, weight_64 = (torch.tensor(a[kept], dtype=torch.float64) for a in (X, weight))
        module = own_module(self.module, points_64, weight_64)
        dtype, device = kind_of(module)

        def points(index: np.ndarray) -> LabelledPoints:
            classes = torch.tensor(labels[index], device=device)
            return LabelledPoints(
                torch.tensor(X[index], dtype=dtype, device=device),
                classes,
                _signs(classes, len(self.classes_)),
            )

        train = points(kept)
        with evaluating(module):  # lazy layers take their shape here
            try_points(module, train.X[:2])
        parameters = [p for p in module.parameters() if p.requires_grad]
        optimizer: Any
        if isinstance(self.optimizer, LearnedUpdates):
            optimizer = LearnedOptimizer(parameters, self.optimizer)
        else:
            optimizer = (self.optimizer or torch.optim.Adam)(parameters, lr=self.lr)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"DeepSVC(optimizer=...) must build a torch.optim.Optimizer; got {optimizer!r}."
            )
        held_out = points(held) if len(held) else None
        mode = self._mode()
        C = torch.tensor(float(self.C) * weight[kept], device=device)
        return Training(module, optimizer, mode, train, held_out, C, plan)

    def _mode(self) -> Mode:
        if self.mode == "exact":
            return ExactMode()
        unrolled = self.mode == "unrolled"
        solver = copy.deepcopy(self.solver)
        if solver is None:
            # Through a softmin's steps, the network learned to please the solver, not the SVM.
            oracle = None if unrolled else Softmin(5.0, relative=True)
            solver = FrankWolfe(Simplex(), LineSearch(), oracle=oracle)
        solver.max_steps = self.fw_steps or (10 if unrolled else 1)
        return NetMode(FWNet(solver), unrolled)

    def _facts(self, training: Training) -> dict[str, Any]:
        """What must agree for a checkpoint to be that of this fit."""
        train = training.train
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in ("mode", "fw_steps", "batch_size", "check_every")
        }
        for name in ("C", "lr", "validation_fraction"):
            facts[name] = float(getattr(self, name))
        facts["module"] = repr(training.module)
        facts["solver"] = repr(self.solver)
        facts["optimizer"] = type(training.optimizer).__name__
        facts["X"], facts["y"] = fingerprint(train.X), fingerprint(train.classes)
        facts["sample_weight"] = fingerprint(training.C)
        facts["seed"] = training.schedule.seed
        facts["weights"] = fingerprint(*training.module.state_dict().values())
        return facts

    def _store(
        self, training: Training, labels: np.ndarray, kept: np.ndarray, there: np.ndarray
    ) -> None:
        _, head = training.solve()
        weights = head.weights.cpu().numpy()
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        self.duality_gap_ = max(float(head.gap.max()), 0.0)
        coefs = (head.beta * training.train.labels).cpu().numpy()
        self.dual_coef_ = coefs[:, coefs.any(axis=0)]
        support = kept[np.flatnonzero(coefs.any(axis=0))]
        self.support_ = there[support]
        self.n_support_ = np.bincount(labels[support], minlength=len(self.classes_))
        self.module_ = training.module.eval()
        self.history_ = training.history
        self.n_iter_ = max(training.t, 1)

    def _warn(self) -> None:
        if self.stopped_ == "non_finite":
            warnings.warn(
                f"DeepSVC stopped after {self.n_iter_} updates: the network's features or "
                "gradients became infinite, NaN or too large to solve an SVM. The best network "
                "before that is kept. Lower lr, or scale X.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.duality_gap_ > _SHARP:
            warnings.warn(
                f"DeepSVC solved the SVM on the features to a relative duality gap of "
                f"{self.duality_gap_:.1e} only, above {_SHARP:g}. The features are badly scaled: "
                "end the network with a bounded or normalising layer, or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _array(X: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return X.detach().cpu().numpy() if isinstance(X, Tensor) else X


def _signs(classes: Tensor, count: int) -> Tensor:
    """Labels −1, +1 `(problems, n)`: one problem for two classes, else one a class."""
    positive = torch.arange(1 if count == 2 else 0, count, device=classes.device)
    return 2.0 * (classes == positive.unsqueeze(-1)).double() - 1.0


def _whole(name: str, value: Any, least: int) -> int | None:
    """A whole number of at least `least`, or None."""
    return None if value is None else checks.at_least(f"DeepSVC({name}=...)", value, least)
