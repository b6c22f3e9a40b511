"""What a search may be."""

import pytest

from framework.errors import AttributeValueError
from suites.nlp.writing import Search


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p is 1.5"),
        ({"temperature": 1.0, "min_p": -0.5}, "min_p is -0.5"),
        ({"temperature": 1.0, "top_k": 0}, "top_k is 0"),
        ({"temperature": 1.0, "beam": 2}, "beams draw nothing"),
        ({"results": 2}, "results is 2"),
        ({"stop": ("a", "")}, "empty text"),
        ({"coverage_penalty": -0.1}, "coverage_penalty is -0.1"),
        ({"beam": 2, "length_penalty": float("nan")}, "length_penalty nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty is inf"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, match):
    with pytest.raises(AttributeValueError, match=match):
        Search(**settings)
