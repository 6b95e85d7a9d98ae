from ._causal_conv import causal_conv as causal_conv
from ._causal_conv import causal_conv_jvp as causal_conv_jvp
from ._causal_conv import causal_conv_vjp as causal_conv_vjp
from ._conv import conv as conv
from ._conv import conv_jvp as conv_jvp
from ._conv import conv_vjp as conv_vjp
