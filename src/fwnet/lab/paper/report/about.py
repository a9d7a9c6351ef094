"""What the page says to readers who do not know the paper: what it is, how to read, words."""

from __future__ import annotations

from fwnet.lab.paper.claims import Verdict
from fwnet.lab.paper.report.text import safe

PAPER = (
    "<p><b>The paper.</b> Patrick Schramowski, Christian Bauckhage and Kristian Kersting, "
    '<i>Neural Conditional Gradients</i>, 2018, <a href="https://arxiv.org/abs/1803.04300">'
    "arXiv:1803.04300</a>.</p>"
    "<p><b>Its abstract in three sentences.</b> Optimizers that are learned by a neural network "
    "work well, but with constraints they would need a projection at every step, which can be "
    "expensive. The Frank-Wolfe method needs none, and can itself be written as a recurrent "
    "network, so that parts of it can be learned by another network. The paper reports that such "
    "learned optimizers beat hand-designed ones, and learned ones without constraints, in training "
    "support vector machines and softmax classifiers.</p>"
    "<p><b>This page.</b> We ran its experiments again with our own code. The paper gives curves "
    "and few numbers, and not all settings; the baselines are shown as in the paper and tuned. "
    "No data of the paper's own runs was available.</p>"
)

_MEANINGS = {
    Verdict.HOLDS: "by every criterion and reading, against tuned baselines too",
    Verdict.READING: "by one criterion, or for one of several readings of the text, not for all",
    Verdict.UNTUNED: "the paper's own baseline is beaten, a tuned one is not",
    Verdict.FAILS: "for no reading",
    Verdict.UNTRAINED: "training never improved on the first weights, so nothing is judged",
}

_READ = (
    "Every figure is judged by two criteria that were fixed beforehand: the area under the curve "
    "and the value at the end; where the paper counts iterations, by the iterations to a level. "
    "Where the text allows two readings, both were run, and the one kinder to the paper comes "
    "first. Learned optimizers are trained at the horizon, size and objective at which they are "
    "judged, until a third of the planned updates brought nothing new; a training that failed is "
    "named and left out of every number."
)
SHORT = '<p class="notice">' + (
    "This page comes from the quick profile: small data and short trainings. It shows the shape of "
    "every figure; its verdicts on learned optimizers are not those of trained ones.</p>"
)

_WORDS = {
    "Frank-Wolfe, conditional gradient": "a method for problems with constraints: it moves towards "
    "the corner of the feasible set that the gradient prefers, and never leaves the set",
    "FWNet": "Frank-Wolfe written as a recurrent network, one iteration a layer",
    "softmin, β": "a smooth choice of the corner; the larger β, the sharper",
    "step size, γ": "how far to go towards the corner: 0.01, 2/(t+2), or by a line search",
    "L2LC_γ": "an LSTM chooses the step size",
    "L2LC_∇": "an LSTM reshapes the gradient before the corner is chosen",
    "+ kernel": "LSTMs also move the weights of the kernel network, which Adam moves otherwise",
    "L2L, L2LG": "an LSTM replaces gradient descent; constraints by a softmax or by a Lagrangian",
    "deep SVM": "a support vector machine on the features of a network, trained together",
    "trace norm": "the sum of a matrix's singular values; a ball in it has corners of rank 1",
    "tuned": "its constants were chosen on data that the test does not use",
    "f − f*": "how far the loss is above the least possible one",
    "meta lr": "the learning rate with which an LSTM was trained",
}


def how_to_read() -> str:
    """The criteria and the verdicts' words."""
    verdicts = "".join(
        f"<dt>{verdict.value}</dt><dd>{safe(text)}</dd>" for verdict, text in _MEANINGS.items()
    )
    return f'<h2 id="read">How to read this page</h2><p>{safe(_READ)}</p><dl>{verdicts}</dl>'


def glossary() -> str:
    """The words of the figures."""
    words = "".join(f"<dt>{safe(k)}</dt><dd>{safe(v)}</dd>" for k, v in _WORDS.items())
    return f'<h2 id="words">Words</h2><dl>{words}</dl>'
