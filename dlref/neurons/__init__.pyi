from ._linear import linear as linear
from ._linear import linear_jacobian as linear_jacobian
from ._linear import linear_jvp as linear_jvp
from ._linear import linear_vjp as linear_vjp
from ._neuron import neuron as neuron
from ._neuron import neuron_grad as neuron_grad
from ._neuron import neuron_jvp as neuron_jvp
from ._neuron import neuron_vjp as neuron_vjp
