"""Low-rank matrices on the trace-norm ball: f(W) = φ(XW) at W = U diag(s) Vᵀ, never dense."""
