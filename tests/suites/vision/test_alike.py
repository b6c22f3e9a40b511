"""What stands in a batch with others is shown to a network as if it were alone, and comes back to its place."""

import numpy as np

from suites.classification.processor import ClassificationProcessor
from suites.engine.contract.batch import POSITIONS, in_place
from suites.engine.predict.items import batches_of, embed_items, predict_items
from suites.retrieval.processor import RetrievalProcessor
from suites.vision.alike import AlikeBatches, alike, parts
from suites.vision.augmentation.transforms import Normalize

SIZES = ((8, 8), (6, 9), (8, 8), (9, 6), (6, 9))


def pictures():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]


def test_equal_keys_stand_together_in_the_order_in_which_they_come_first():
    assert alike("abacb") == [[0, 2], [1, 4], [3]] and alike("") == []


def test_results_of_several_batches_come_in_the_items_order():
    found = [(["a", "c"], {POSITIONS: [0, 2]}), (["b"], {POSITIONS: [1]})]
    assert in_place(found) == ["a", "b", "c"] and in_place([]) == []


def test_a_loader_carries_a_batch_of_each_key():
    made = parts(AlikeBatches(lambda samples: {"x": np.array(samples)}, lambda x: x % 2)([1, 2, 3]))
    assert [batch["x"].tolist() for batch in made] == [[1, 3], [2]]


def test_pictures_of_all_sizes_are_predicted_on_at_once():
    processor = ClassificationProcessor([Normalize()], ["dark", "bright"])

    def bright(arrays):
        mean = arrays["images"].mean(axis=(1, 2, 3))
        return {"scores": np.stack([-mean, mean], axis=1)}

    items = pictures()
    together = predict_items(processor, ("images",), bright, items)
    assert together == [predict_items(processor, ("images",), bright, [item])[0] for item in items]
    assert [batch["images"].shape[0] for batch in batches_of(processor, items)] == [2, 2, 1]


def test_vectors_of_pictures_of_all_sizes_come_in_their_order():
    processor = RetrievalProcessor([Normalize()], [])

    def means(arrays):
        return {"vectors": arrays["images"].mean(axis=(1, 2))}

    found = embed_items(processor, ("images",), means, pictures(), "vector")
    alone = [embed_items(processor, ("images",), means, [item], "vector")[0] for item in pictures()]
    assert found.shape == (5, 3)
    np.testing.assert_array_equal(found, alone)
