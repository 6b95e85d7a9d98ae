"""The chapters whose functions the oracle knows, and what the forms of a map end with."""

import dlref
from dlref._records import records
from dlref.check._oracle.explanations import explanation_of

CHAPTERS = sorted(
    {name for name in dlref.__all__ if hasattr(getattr(dlref, name), "__path__")} - {"check"}
)
FORMS = ("_vjp", "_jvp", "_deriv", "_deriv2", "_jacobian", "_grad", "_hessian")
RECORDS = [record for chapter in CHAPTERS for record in records(chapter)]
WHY = {r.name: explanation_of(r) for r in RECORDS}
#: The formulas and variants that explain results, by the name of a map and its form.
PLAIN = {(name, form): f for name, why in WHY.items() for form, f in why.plain.items()}
VARIANTS = {(name, form): fs for name, why in WHY.items() for form, fs in why.variants.items()}
