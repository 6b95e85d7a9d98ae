"""
The innermost loop of a product of matrices, for whole tiles of the result.

A current processor multiplies and adds two vectors of 16 numbers in each cycle if they are in its
registers; a loop over rows and columns waits for memory instead. So a product is divided into tiles
small enough for the registers.  For each index k of the sum, the tile ::

            w[k, 0:16]     w[k, 16:32]
    a[0,k]  a[0,k] * w     a[0,k] * w
    a[1,k]  a[1,k] * w     a[1,k] * w       += an outer product of 8 rows and 32 columns
    ...
    a[7,k]  a[7,k] * w     a[7,k] * w

loads 2 vectors and 8 numbers and computes 16 vectors with them, while the sums stay in registers.
To read the columns as vectors in sequence, they are first copied into *panels*
(`dlref._math.gemm`).

A compiler that gets the loops finds the vectors but keeps the sums in memory, at half the speed, so
this function is written in LLVM's intermediate language, through llvmlite. It computes the same as
`_interpreted`.

.. [1] K. Goto, R. A. van de Geijn: Anatomy of high-performance matrix multiplication.
   ACM Trans. Math. Softw. 34(3), 2008, https://doi.org/10.1145/1356052.1356053
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._core.jit import COMPILED, intrinsic, target_has

if TYPE_CHECKING:
    from .._core.arguments import FloatArray

if COMPILED:
    from llvmlite import ir

#: Bytes of a vector. Sixteen AVX2 registers hold the sums of 6 rows, 32 AVX-512 registers hold 8.
WIDE = not COMPILED or target_has("avx512f")
VECTOR = 64 if WIDE else 32
VECTORS = 2
WIDTH_BYTES = VECTORS * VECTOR  #: bytes in a row of a panel
ROWS = 8 if WIDE else 6  #: rows of a tile
HALF = ROWS // 2  #: rows of a smaller one, for the remaining rows
PANELS = 8 if WIDE else 4  #: side by side for a single row, so that there are enough sums
FEW_PANELS = PANELS // 2  #: for the remaining panels


def _interpreted(a: FloatArray, panels: FloatArray, out: FloatArray) -> None:
    """Add the product of rows `a` (R, K) with panels (P, K, W) to `out` (R, P W)."""
    width = panels.shape[2]
    for p, panel in enumerate(panels):
        for i, row in enumerate(a):  # one at a time: NumPy would sum several in another order
            out[i, p * width : (p + 1) * width] += row @ panel


class _Code:
    """Writes the loop over k; offsets are in bytes."""

    def __init__(self, builder: Any, number: Any, size: int) -> None:
        self.lanes = VECTOR // size
        self.builder = builder
        self.number = number
        self.vector = ir.VectorType(number, self.lanes)
        self.size = ir.IntType(64)

    def integer(self, value: int) -> Any:
        return ir.Constant(self.size, value)

    def at(self, array: Any, kind: Any, *offsets: Any) -> Any:
        """Return a pointer to a number or a vector of an array."""
        place = self.builder.bitcast(array.data, ir.IntType(8).as_pointer())
        for offset in offsets:
            place = self.builder.gep(place, [offset])
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, array: Any, kind: Any, *offsets: Any) -> Any:
        """Load a number, or a vector that may straddle cache lines."""
        return self.builder.load(self.at(array, kind, *offsets), align=4)

    def spread(self, number: Any) -> Any:
        """Return a vector of equal numbers."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        place = ir.IntType(32)
        single = self.builder.insert_element(undefined, number, ir.Constant(place, 0))
        zeros = ir.Constant(ir.VectorType(place, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, undefined, zeros)

    def add_product(self, total: Any, x: Any, y: Any) -> Any:
        """Return total + x y, rounded once where the processor can."""
        rounded_once = ("contract",)
        product = self.builder.fmul(x, y, flags=rounded_once)
        return self.builder.fadd(total, product, flags=rounded_once)

    def loop(
        self, end: Any, step: int, totals: int, body: Callable[[Any, list[Any]], list[Any]]
    ) -> list[Any]:
        """Emit a loop in which `body` computes new totals for k = 0, step, ... below the end."""
        builder, before = self.builder, self.builder.block
        names = ("product.while", "product.do", "product.end")
        condition, inside, after = (builder.append_basic_block(name) for name in names)
        builder.branch(condition)
        builder.position_at_end(condition)
        k = builder.phi(self.size)
        sums = [builder.phi(self.vector) for _ in range(totals)]
        builder.cbranch(builder.icmp_signed("<", k, end), inside, after)
        builder.position_at_end(inside)
        news = [builder.add(k, self.integer(step)), *body(k, sums)]
        for value, new in zip([k, *sums], news, strict=True):
            value.add_incoming(ir.Constant(value.type, None), before)
            value.add_incoming(new, builder.block)
        builder.branch(condition)
        builder.position_at_end(after)
        return sums


def _begin(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Return the code builder, and the arguments as arrays."""
    kinds = zip(signature.args, args, strict=True)
    arrays = [context.make_array(kind)(context, builder, value) for kind, value in kinds]
    number = context.get_data_type(signature.args[0].dtype)
    return [_Code(builder, number, context.get_abi_sizeof(number)), *arrays]


def _tile(rows: int, count: int) -> Callable[..., None]:
    """Return the function for tiles of some rows and panels."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, a, w, out = _begin(context, builder, signature, args)
        (row, step), (panel, line, _) = (
            [builder.extract_value(array.strides, i) for i in range(n)]
            for array, n in ((a, 2), (w, 3))
        )
        to_row = builder.extract_value(out.strides, 0)
        numbers = [builder.mul(row, code.integer(i)) for i in range(rows)]
        lines = [builder.mul(to_row, code.integer(i)) for i in range(rows)]
        starts = [builder.mul(panel, code.integer(p)) for p in range(count)]
        vectors = [code.integer(i * VECTOR) for i in range(count * VECTORS)]

        def add_outer_product(k: Any, sums: list[Any]) -> list[Any]:
            along, down = builder.mul(k, step), builder.mul(k, line)
            columns = [
                code.load(w, code.vector, start, down, vector)
                for start in starts
                for vector in vectors[:VECTORS]
            ]
            xs = [code.spread(code.load(a, code.number, i, along)) for i in numbers]
            factors = [(x, y) for x in xs for y in columns]
            return [code.add_product(s, x, y) for s, (x, y) in zip(sums, factors, strict=True)]

        depth = builder.extract_value(a.shape, 1)
        sums = code.loop(depth, 1, rows * len(vectors), add_outer_product)
        places = [code.at(out, code.vector, i, vector) for i in lines for vector in vectors]
        for place, total in zip(places, sums, strict=True):
            builder.store(builder.fadd(builder.load(place, align=4), total), place, align=4)
        return context.get_dummy_value()

    return intrinsic(_interpreted, emit)


add_tile = _tile(ROWS, 1)
add_half = _tile(HALF, 1)
add_row = _tile(1, PANELS)
add_short_row = _tile(1, FEW_PANELS)
add_part_of_row = _tile(1, 1)
