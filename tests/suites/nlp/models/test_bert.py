"""BERT: ragged equals padded, presets and config files, what stands on it."""

import json

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, CheckpointError
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_config import PRESETS, config_from_json, config_of_folder
from suites.nlp.models.heads import Pretraining, SequenceClassifier, SpanPredictor, TokenClassifier
from tests.suites.nlp.models.ragged import Batch


def small(**changes) -> Bert:
    """Three layers that take a moment, without dropout."""
    sizes = {"vocab_size": 50, "hidden_size": 24, "layers": 3, "heads": 3, "ffn_size": 48, "max_positions": 40}
    bert = Bert(**{**sizes, "dropout": 0.0, "attention_dropout": 0.0, **changes})
    nn.init.initialize(bert, 0)
    return bert


BATCH = Batch([7, 1, 30, 12], words=50)


def _loss_and_gradients(model, run):
    loss = ops.mean(ops.cross_entropy(run(), framework.tensor(np.array([0, 1, 1, 0]))))
    named = dict(model.named_parameters())
    grads = framework.gradients([loss], list(named.values()))
    return float(loss.numpy()), {n: g.numpy() for n, g in zip(named, grads, strict=True) if g is not None}


@pytest.mark.parametrize("changes", [{}, {"activation": "relu", "task_types": 3}, {"preset": "roberta_base"}])
def test_ragged_equals_padded_in_loss_and_gradients(changes):
    model = SequenceClassifier(small(**changes), 2, dropout=0.0)
    segments = None if "preset" in changes else BATCH.segment_ids
    padded_segments = None if segments is None else BATCH.padded_segments
    ragged = _loss_and_gradients(model, lambda: model(BATCH.ids, BATCH.offsets, segment_ids=segments))

    def through_padding():
        return model.fc(model.encoder.padded(BATCH.padded, BATCH.mask, padded_segments)[1])

    padded = _loss_and_gradients(model, through_padding)
    assert abs(ragged[0] - padded[0]) <= 1e-6
    assert ragged[1].keys() == padded[1].keys() and len(ragged[1]) > 40
    for name, gradient in ragged[1].items():
        np.testing.assert_allclose(gradient, padded[1][name], rtol=0, atol=1e-6, err_msg=name)


def test_every_token_of_ragged_equals_padded():
    encoder = small()
    sequence, pooled = encoder(BATCH.ids, BATCH.offsets, BATCH.segment_ids)
    padded, padded_pooled = encoder.padded(BATCH.padded, BATCH.mask, BATCH.padded_segments)
    rows = padded.numpy()[BATCH.mask.numpy()]
    np.testing.assert_allclose(sequence.numpy(), rows, rtol=0, atol=1e-6 * np.abs(rows).max())
    np.testing.assert_allclose(pooled.numpy(), padded_pooled.numpy(), rtol=0, atol=1e-6)


def test_one_program_serves_all_lengths_and_draws_dropout_anew():
    model = SequenceClassifier(small(dropout=0.1, attention_dropout=0.1), 2)
    step = framework.program(lambda ids, offsets: model(ids, offsets))
    first, again = step(BATCH.ids, BATCH.offsets), step(BATCH.ids, BATCH.offsets)
    assert (first.numpy() != again.numpy()).any()
    other = Batch([3, 3], words=50)
    assert step(other.ids, other.offsets).shape == (2, 2)
    assert step.program_for(other.ids, other.offsets) is step.program_for(BATCH.ids, BATCH.offsets)


def test_positions_begin_where_the_family_has_them():
    roberta, batch = small(preset="roberta_base"), Batch([3, 2], words=50)
    counted = roberta(batch.ids, batch.offsets)[0].numpy()
    given = roberta(batch.ids, batch.offsets, positions=framework.tensor(np.array([0, 1, 2, 0, 1])))[0].numpy()
    np.testing.assert_array_equal(counted, given)
    assert roberta.config.first_position == 2
    too_long = Batch([39], words=50)  # 40 positions less RoBERTa's two
    with pytest.raises(AttributeValueError, match="is 40 but weight has 40"):
        roberta(too_long.ids, too_long.offsets)


def test_heads_give_the_shapes_they_promise():
    encoder = small()
    t, b = BATCH.ids.shape[0], 4
    assert SequenceClassifier(encoder, 3)(BATCH.ids, BATCH.offsets).shape == (b, 3)
    assert TokenClassifier(encoder, 5)(BATCH.ids, BATCH.offsets).shape == (t, 5)
    assert [x.shape for x in SpanPredictor(encoder)(BATCH.ids, BATCH.offsets)] == [(t,), (t,)]
    words, following = Pretraining(encoder)(BATCH.ids, BATCH.offsets, framework.tensor(np.array([2, 9, 30])))
    assert words.shape == (3, 50) and following.shape == (b, 2)
    with pytest.raises(AttributeValueError, match="num_classes is 0"):
        SequenceClassifier(encoder, 0)


def test_masked_words_are_scored_by_the_word_table_itself():
    model = Pretraining(small())
    words, _ = model(BATCH.ids, BATCH.offsets, framework.tensor(np.array([2])))
    (gradient,) = framework.gradients([ops.sum(words)], [model.encoder.embeddings.word.weight])
    assert (np.abs(gradient.numpy()).sum(1) > 0).all()  # every word is an output, also those that no text holds
    assert sum("word" in name for name, _ in model.named_parameters() if name.endswith("weight")) == 2


def test_presets_are_known_by_name_and_can_be_changed():
    assert Bert("bert_tiny", layers=1, vocab_size=11).config.hidden_size == 128
    assert PRESETS["ernie_1.0"].activation == "relu" and PRESETS["ernie_1.0"].max_positions == 513
    with pytest.raises(AttributeValueError, match="no preset is called 'ernie_tny'; did you mean 'ernie_tiny'"):
        Bert("ernie_tny")


def test_config_files_of_all_families_are_read(tmp_path):
    sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    hugging_face = {**sizes, "model_type": "bert", "max_position_embeddings": 12, "type_vocab_size": 2,
                    "intermediate_size": 16, "hidden_act": "gelu_new", "layer_norm_eps": 1e-7}  # fmt: skip
    found = config_from_json(hugging_face)
    assert (found.eps, found.activation, found.ffn_size, found.task_types) == (1e-7, "gelu_tanh", 16, 0)
    ernie = {**sizes, "max_position_embeddings": 513, "sent_type_vocab_size": 4, "hidden_act": "relu",
             "task_type_vocab_size": 16, "use_task_id": True}  # fmt: skip
    found = config_from_json(ernie)
    assert (found.eps, found.segment_types, found.task_types, found.ffn_size) == (1e-5, 4, 16, 32)
    assert config_from_json({**ernie, "use_task_id": False}).task_types == 0
    roberta = {**hugging_face, "model_type": "xlm-roberta", "pad_token_id": 1}
    assert config_from_json(roberta).first_position == 2
    (tmp_path / "model_config.json").write_text(json.dumps({"init_args": [{"init_args": [ernie]}, 0.1]}))
    assert config_of_folder(tmp_path).max_positions == 513


def test_config_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no config\.json"):
        config_of_folder(tmp_path)
    for text, reason in (
        ("{", "cannot be read as JSON"),
        ("[]", "holds a list"),
        ('{"vocab_size": 4}', "hidden_size, num_hidden_layers, num_attention_heads, max_position_embeddings missing"),
        (
            '{"vocab_size": 4, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, '
            '"max_position_embeddings": 4, "hidden_act": "swish"}',
            "hidden_act is 'swish'; known are gelu",
        ),
    ):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=reason) as caught:
            config_of_folder(tmp_path)
        assert str(tmp_path) in str(caught.value)
