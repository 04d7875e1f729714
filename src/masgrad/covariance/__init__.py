"""Mean, covariance and Hessian of the gradient, and the roots V of the covariance."""
