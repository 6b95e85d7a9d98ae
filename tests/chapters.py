"""The chapters whose functions the oracle knows, and what the forms of a map end with."""

import dlref
from dlref.check._known import records

CHAPTERS = sorted(
    {name for name in dlref.__all__ if hasattr(getattr(dlref, name), "__path__")} - {"check"}
)
FORMS = ("_vjp", "_jvp", "_deriv", "_deriv2", "_jacobian", "_grad", "_hessian")
RECORDS = [record for chapter in CHAPTERS for record in records(chapter)]
#: The formulas and variants in the records, by the name of a map and its form.
PLAIN = {(r.name, form): formula for r in RECORDS for form, formula in r.plain.items()}
VARIANTS = {(r.name, form): formulas for r in RECORDS for form, formulas in r.variants.items()}
