from masgrad import errors as errors
from masgrad import theory as theory
from masgrad.chains.run import run as run
from masgrad.chains.trace import Summary as Summary
from masgrad.chains.trace import Trace as Trace
from masgrad.covariance.moments import Moments as Moments
from masgrad.covariance.moments import moments as moments
from masgrad.data.simulate import Simulator as Simulator
from masgrad.inference.law import Law as Law
from masgrad.inference.lyapunov import stationary_law as stationary_law
from masgrad.kernels.diffusion import diffusion as diffusion
from masgrad.kernels.methods import adagrad as adagrad
from masgrad.kernels.methods import masgrad as masgrad
from masgrad.kernels.methods import natural_gradient as natural_gradient
from masgrad.kernels.methods import sgd as sgd
from masgrad.models.custom import CustomLoss as CustomLoss
from masgrad.models.glm import GLM as GLM
from masgrad.models.glm import Linear as Linear
from masgrad.models.glm import Logistic as Logistic
from masgrad.models.glm import Poisson as Poisson
from masgrad.models.mixture import GaussianMixture as GaussianMixture
from masgrad.models.network import ReluNetwork as ReluNetwork
from masgrad.models.trace import TraceRegression as TraceRegression

__version__: str
