from . import activations as activations
from . import attention as attention
from . import calculus as calculus
from . import check as check
from . import convolution as convolution
from . import interop as interop
from . import losses as losses
from . import neurons as neurons
from . import normalization as normalization
from . import positions as positions
from . import propagation as propagation
from . import recurrent as recurrent
from . import training as training
from . import transformer as transformer
from ._core.threads import get_num_threads as get_num_threads
from ._core.threads import set_num_threads as set_num_threads

__version__: str
