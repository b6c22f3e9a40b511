"""Adapters of low rank: the same function before training, after merging, and through PEFT's files."""

import json

import numpy as np
import pytest

from framework import nn, ops, program, tensor
from framework.errors import AttributeValueError, CheckpointError
from framework.io import save_tensors
from suites.engine.config.sections import LoraSettings
from suites.engine.weights.formats.reading import read_weights
from suites.engine.weights.lora.layers import adapters, add_lora, merge_lora
from suites.engine.weights.lora.peft import load_adapter, save_adapter
from suites.nlp.models.language_model import LanguageModel


class Net(nn.Layer):
    """A convolution, a depthwise one, three matrices side by side, and a head."""

    class_tensors = (r"^fc\.",)

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)
        self.qkv = nn.Linear(4, 12)
        self.qkv.blocks = 3
        self.fc = nn.Linear(12, 2)

    def forward(self, x):
        x = self.depthwise(self.conv(x))
        return self.fc(ops.mean(self.qkv(x), axes=(1, 2)))


def made(**settings):
    model = Net()
    paths = add_lora(model, LoraSettings(**{"rank": 2, "alpha": 3.0, **settings})) if settings is not None else []
    nn.init.initialize(model, seed=1)
    return model.eval(), paths


def moved(model, seed=0):
    """The model with adapters that do something."""
    generator = np.random.default_rng(seed)
    for _, _, adapter in adapters(model):
        adapter.b.set(tensor(generator.standard_normal(adapter.b.shape).astype(np.float32)))
    return model


X = np.random.default_rng(5).standard_normal((2, 6, 6, 3)).astype(np.float32)


def test_linear_layers_and_convolutions_get_adapters_that_change_nothing_at_first():
    plain = Net()
    nn.init.initialize(plain, seed=1)
    model, paths = made()
    assert paths == ["conv", "qkv"]
    np.testing.assert_array_equal(model(tensor(X)).numpy(), plain.eval()(tensor(X)).numpy())
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {"conv.lora.a", "conv.lora.b", "qkv.lora.a", "qkv.lora.b", "fc.weight", "fc.bias"}


def test_merged_weights_compute_the_same():
    model, _ = made()
    before = moved(model)(tensor(X)).numpy()
    names = set(Net().state_dict())
    assert merge_lora(model) == 2 and set(model.state_dict()) == names and not list(adapters(model))
    largest = np.abs(before).max()  # sums of 27 products and fewer in another order
    np.testing.assert_allclose(model(tensor(X)).numpy(), before, rtol=0, atol=64 * 2**-23 * largest)
    assert merge_lora(model) == 0


def test_matrices_side_by_side_have_products_of_their_own():
    model, _ = made(targets=["qkv"])
    moved(model)
    ((_, layer, adapter),) = adapters(model)
    a, b, change = adapter.a.numpy(), adapter.b.numpy(), adapter.product()
    for i in range(3):
        np.testing.assert_allclose(
            change[4 * i : 4 * i + 4], 1.5 * b[4 * i : 4 * i + 4] @ a[2 * i : 2 * i + 2], rtol=1e-6
        )
    assert layer.weight.shape == change.shape


def test_matrices_of_other_heights_have_products_of_their_own_and_their_own_names_in_a_file(tmp_path):
    nn.init.initialize(model := LanguageModel(11, width=8, layers=1, heads=4, kv_heads=2, max_length=8), seed=0)
    ids, offsets = tensor(np.array([1, 5, 2, 7])), tensor(np.array([0, 4]))
    plain = model.eval()(ids, offsets).numpy()
    add_lora(model, LoraSettings(rank=2, targets=["qkv"], train=[]))
    nn.init.initialize(model, seed=0)
    np.testing.assert_array_equal(model.eval()(ids, offsets).numpy(), plain)
    before = moved(model)(ids, offsets).numpy()
    save_adapter(model, tmp_path)
    fields = json.loads((tmp_path / "adapter_config.json").read_text())
    assert [name.rpartition(".")[2] for name in fields["target_modules"]] == ["k_proj", "q_proj", "v_proj"]
    shapes = {name.split(".")[-3]: array.shape for name, array in read_weights(
        tmp_path / "adapter_model.safetensors").items() if "lora_B" in name}  # fmt: skip
    assert shapes == {"q_proj": (8, 2), "k_proj": (4, 2), "v_proj": (4, 2)}
    again = LanguageModel(11, width=8, layers=1, heads=4, kv_heads=2, max_length=8)
    add_lora(again, LoraSettings(rank=2, targets=["qkv"], train=[]))
    nn.init.initialize(again, seed=0)
    load_adapter(again, tmp_path)
    np.testing.assert_array_equal(again.eval()(ids, offsets).numpy(), before)
    merge_lora(again)
    largest = np.abs(before).max()  # sums of 32 products and fewer in another order, through one layer
    np.testing.assert_allclose(again(ids, offsets).numpy(), before, rtol=0, atol=64 * 2**-23 * largest)


def test_gradients_reach_the_adapters_and_what_is_trained_alone_also_in_a_program():
    model, _ = made(dropout=0.5)
    moved(model).train()

    def step(x):
        ops.sum(model(x)).backward()
        return [p.grad for p in model.parameters() if p.requires_grad]

    grads = program(step)(tensor(X))
    assert len(grads) == 6 and all(np.abs(g.numpy()).any() for g in grads)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank must be 1 or more"),
        ({"alpha": -1.0}, "alpha above 0"),
        ({"targets": ["nowhere"]}, "no linear layer or convolution .* has a path with 'nowhere'; there are conv, qkv"),
        ({"targets": ["depthwise"]}, "no linear layer or convolution without groups"),
        ({"targets": ["("]}, "is no regular expression"),
    ],
)
def test_settings_that_are_none(settings, message):
    with pytest.raises(AttributeValueError, match=message):
        made(**settings)


def test_peft_files_carry_adapters_and_heads(tmp_path):
    model, _ = made()
    moved(model)
    model.fc.bias.set(tensor(np.array([1.0, 2.0], np.float32)))
    config, weights = save_adapter(model, tmp_path, base="hf:a/b")
    fields = json.loads(config.read_text())
    assert (fields["r"], fields["lora_alpha"], fields["base_model_name_or_path"]) == (2, 3.0, "hf:a/b")
    assert fields["target_modules"] == ["conv", "qkv.0", "qkv.1", "qkv.2"] and fields["modules_to_save"] == ["fc"]
    from framework.io import read_arrays

    arrays = read_arrays(weights)
    assert arrays["base_model.model.conv.lora_A.weight"].shape == (2, 3, 3, 3)
    assert arrays["base_model.model.conv.lora_B.weight"].shape == (4, 2, 1, 1)
    other, _ = made(alpha=6.0)
    (line,) = load_adapter(other, tmp_path)
    assert line.startswith("adapters of 2 layers and 2 other tensors")
    np.testing.assert_allclose(other(tensor(X)).numpy(), model(tensor(X)).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'; only 'LORA' is computed"),
        ({"use_dora": True}, "use_dora is 'True'; only False is computed"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"alpha_pattern": {"x": 2}}, "alpha_pattern is .*not known here"),
        ({"r": "8"}, "r is '8'"),
    ],
)
def test_files_that_ask_for_more_are_refused(tmp_path, change, message):
    model, _ = made()
    config, _ = save_adapter(model, tmp_path)
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(CheckpointError, match=message):
        load_adapter(model, tmp_path)


def test_files_that_do_not_fit_leave_the_model_as_it_was(tmp_path):
    model, _ = made()
    save_adapter(moved(model), tmp_path)
    other, _ = made(targets=["conv"])
    with pytest.raises(CheckpointError, match=r"does not fit the adapters of this Net; left over: .*qkv"):
        load_adapter(other, tmp_path)
    other, _ = made(rank=3)
    with pytest.raises(CheckpointError, match=r"lora\.rank must be the file's, 2"):
        load_adapter(other, tmp_path)
    assert not any(adapter.b.numpy().any() for _, _, adapter in adapters(other))
    with pytest.raises(CheckpointError, match=r"has no adapter_config\.json"):
        load_adapter(other, tmp_path / "none")
    with pytest.raises(CheckpointError, match="has no adapters; train with `lora`"):
        save_adapter(Net(), tmp_path)
    save_tensors(tmp_path / "adapter_model.safetensors", {"x.lora_A.weight": tensor(np.ones((2, 2), np.float32))})
    with pytest.raises(CheckpointError, match="does not fit the adapters"):
        load_adapter(made()[0], tmp_path)
