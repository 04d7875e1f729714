"""The proximal experiment: MadProx beside other methods on two penalised regressions."""
