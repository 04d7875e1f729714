"""chains"""
def chain_covariance(problem, local, C, options, watch):
    raise NotImplementedError
