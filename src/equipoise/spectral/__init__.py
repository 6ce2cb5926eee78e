"""Numerics only: knows matrices, never users or files.

`gram` answers the one question to the data, `weighted` makes the matrix of the problem from it,
`eigen` and `lanczos` find its leading eigenpairs, `budget` bounds the reconstruction error,
`certificate` proves the result, and `solve` conducts. `minmax` maximizes the smallest or a fair sum
of the utilities of groups (`welfare`) over the matrices of `families`, by the small problems of
`reduced` and `faces`.
"""
