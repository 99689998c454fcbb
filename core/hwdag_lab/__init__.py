"""What measures and compares: other papers' methods, baselines, evaluation, studies of heads."""
