"""Numerics only: knows matrices, never users or files.

`gram` answers the one question to the data, `weighted` makes the matrix of the problem from it,
`eigen` finds its leading eigenpairs, `budget` keeps the reconstruction error within bounds,
`certificate` proves the result, and `solve` conducts.
"""
