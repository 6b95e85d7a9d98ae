from ._fake_quantize import fake_quantize as fake_quantize
from ._fake_quantize import fake_quantize_jvp as fake_quantize_jvp
from ._fake_quantize import fake_quantize_vjp as fake_quantize_vjp
from ._quantize_blocks import dequantize_blocks as dequantize_blocks
from ._quantize_blocks import quantize_blocks as quantize_blocks
