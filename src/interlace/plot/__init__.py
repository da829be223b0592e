"""Pictures of a model and of its search: the variances and their prior, the losses, what a margin costs.

Every function draws into ``ax``, or into a new figure of pyplot, and returns the axes; nothing is shown or saved.
Figures of your own should have ``layout="constrained"``: legends stand below the axes. matplotlib (extra ``plot``) is
imported when the first picture is drawn.
"""

from .history import losses
from .margins import MarginPoint, margin_points, ops_against_agreement
from .spectrum import variance_spectrum

__all__ = ["MarginPoint", "losses", "margin_points", "ops_against_agreement", "variance_spectrum"]
