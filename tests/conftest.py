"""Settings for every test: which hypothesis profile runs; and the servers of `tests.servers`.

`HYPOTHESIS_PROFILE` names it. `ci`, the default, tries the same examples in every run, so that a failure is never
a surprise on somebody else's machine. `deep` tries many random ones. Neither has a deadline: no test measures time.
"""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers"]

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "deep", max_examples=2_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
