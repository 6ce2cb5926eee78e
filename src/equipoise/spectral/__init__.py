"""Numerical linear algebra: this package works on matrices, not on users, models or files.

- `gram`: the product XᵀXV, by which the solver reads the data; `kernels`: its parallel loops
- `weighted`: the matrix M = ½(DC + CD) of the problem, as an operator
- `lapack`: eigenpairs of dense matrices; `lanczos` and `krylov`: of operators
- `budget`: a bound on the reconstruction error
- `certificate`: an upper bound on the objective
- `solve`: chooses a solver and calls the modules above
- `minmax`: the smallest or a fair sum of the utilities of groups (`welfare`), maximized over the
  matrices of `families` by the small problems of `reduced` and `faces`
- `norms`, `matmul`: norms of columns, and matrix products in threads
"""
