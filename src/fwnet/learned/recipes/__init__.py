"""How the shipped controllers were trained: `python -m fwnet.learned.recipes`, all seeded.

Data that anyone has: scikit-learn's digits, circles, moons, random problems. The digits 7 to 9 are
left for tests, and so is all of MNIST.
"""

from fwnet.learned.recipes import digits, simplex, trace_norm
from fwnet.learned.recipes.base import SEED, Recipe
from fwnet.learned.recipes.simplex import svm_families

RECIPES: dict[str, Recipe] = {**simplex.RECIPES, **digits.RECIPES, **trace_norm.RECIPES}

__all__ = ["RECIPES", "SEED", "Recipe", "svm_families"]
