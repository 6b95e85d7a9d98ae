from . import calculus as calculus
from ._parallel import get_num_threads as get_num_threads
from ._parallel import set_num_threads as set_num_threads

__version__: str
