"""Does a learned optimizer beat tuned hand-designed ones on problems it has never seen?

    min ½ αᵀ(K + I/C)α  over the simplex,   SVM duals of the digits 7, 8 and 9

The shipped controllers against every hand-designed method, whose constants are tuned on other
problems: iterations, gradient evaluations and seconds to three accuracies, medians and quartiles.

See: learned atoms need fewer gradients than the corrective solver they improve on, and far fewer
than FISTA; in time, on problems this small, the plain methods are as good; and the report lists
where the learned ones lose.
"""

import torch

from fwnet import learned
from fwnet.show.scripts import options, save

CONTROLLERS = ("corrective-atoms", "simplex-qp", "pairwise")


def main() -> None:
    arguments = options(__doc__)
    n, problems, steps = ((40, 60), 3, 120) if arguments.quick else ((150, 250), 10, 600)
    found = learned.evaluate(
        {f"learned {name}": learned.load(name) for name in CONTROLLERS},
        learned.families.digits_pairs("test", C=10.0, n=n),
        validation=learned.families.digits_pairs("validation", C=10.0, n=n),
        problems=problems,
        max_steps=steps,
        generator=torch.Generator().manual_seed(0),
    )
    print(found.report())
    if arguments.plot:
        save(found.plot().axes[0], arguments.plot)


if __name__ == "__main__":
    main()
