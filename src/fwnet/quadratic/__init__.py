"""min ½ xᵀQx + cᵀx over the simplex: exact solutions, their faces and gradients."""
