"""How the shipped controllers were trained: `python -m fwnet.lab.recipes`, all seeded.

Data that anyone has: scikit-learn's digits, circles, moons, random problems. The digits 7 to 9 are
left for tests, and so is all of MNIST. Only the paper's LSTMs need features of CIFAR-10.
"""

from fwnet.lab.recipes import digits, paper, simplex, trace_norm
from fwnet.lab.recipes.base import SEED, Recipe
from fwnet.lab.recipes.simplex import svm_families

RECIPES: dict[str, Recipe] = {
    **simplex.RECIPES,
    **digits.RECIPES,
    **trace_norm.RECIPES,
    **paper.RECIPES,
}

__all__ = ["RECIPES", "SEED", "Recipe", "svm_families"]
