"""Models of other papers, for comparison, and two baselines."""
