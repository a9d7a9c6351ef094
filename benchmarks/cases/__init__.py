"""Every case by name, in the order in which they run. A new case is one file and one line."""

from benchmarks.cases import (
    batched_simplex,
    cost_growth,
    default_solvers,
    first_use,
    import_time,
    l1_least_squares,
    matrix_completion,
    simplex_least_squares,
    step_costs,
)
from benchmarks.harness import Case

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        default_solvers.CASE,
        l1_least_squares.CASE,
        simplex_least_squares.CASE,
        matrix_completion.CASE,
        batched_simplex.CASE,
        cost_growth.CASE,
        step_costs.CASE,
        import_time.CASE,
        first_use.CASE,
    )
}
