"""The chapters whose functions the oracle knows, and what the forms of a map end with."""

import dlref

CHAPTERS = sorted(
    {name for name in dlref.__all__ if hasattr(getattr(dlref, name), "__path__")} - {"check"}
)
FORMS = ("_vjp", "_jvp", "_deriv", "_deriv2", "_jacobian", "_grad", "_hessian")
