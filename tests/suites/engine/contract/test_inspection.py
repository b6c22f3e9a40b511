"""What is said about the classes of a set."""

from suites.engine.contract.inspection import class_findings


def texts(counts):
    return [finding.text for finding in class_findings(counts, "texts", 10)]


def test_a_set_of_one_class_is_told_as_training_refuses_it():
    assert texts({"good": 40}) == ["all 40 texts are of one class, 'good'"]
    assert texts({"good": 40, "bad": 0}) == [
        "1 of 2 classes have no texts: bad",
        "all 40 texts are of one class, 'good'",
    ]


def test_classes_that_can_be_told_apart_are_none_to_tell():
    assert texts({"good": 40, "bad": 10}) == [] and texts({}) == []
    assert texts({"good": 40, "bad": 9}) == ["1 classes have fewer than 10 texts"]
