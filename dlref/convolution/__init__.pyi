from ._conv import conv as conv
from ._conv import conv_jvp as conv_jvp
from ._conv import conv_vjp as conv_vjp
