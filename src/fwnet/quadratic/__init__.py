"""min ½ xᵀQx + cᵀx over the simplex: exact solutions, in batches, with faces and gradients."""

from fwnet.quadratic.solve import SimplexQPSolution, check_matrix, simplex_qp, solve_simplex_qp

__all__ = ["SimplexQPSolution", "check_matrix", "simplex_qp", "solve_simplex_qp"]
