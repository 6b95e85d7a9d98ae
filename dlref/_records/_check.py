"""Names of the functions of dlref.check, which have no records."""

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "check_gradients": ["torch.autograd.gradcheck", "jax.test_util.check_grads", "gradcheck"],
    "check_forward": ["torch.testing.assert_close", "assert_close", "allclose"],
}
