"""What goes on with a text begins with the space behind it, whole and in pieces, with any tokenizer that writes."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from suites.engine.serving.generation.texts import Growing
from suites.nlp.tokenizers import CharacterTokenizer, SubwordTokenizer, WordTokenizer
from suites.nlp.tokenizers.json_files import JsonTokenizer

TEXTS = ["a small house and a small dog", "the cat  sat on the mat 12345", "Ünïcode 漢字 👍 text,  with   spaces"] * 3


def sentencepieces():
    """Llama 2's form: the space is a part of the word behind it, and the first one of a text is left out."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    state = json.loads(made.to_str())
    for i in range(256):
        state["model"]["vocab"][f"<0x{i:02X}>"] = len(state["model"]["vocab"])
    return JsonTokenizer(json.dumps(state), {"bos_token": "<s>", "eos_token": "</s>"})


def learnt(tokenizer):
    tokenizer.learn(TEXTS)
    return tokenizer


TOKENIZERS = {
    "sentencepieces": sentencepieces,
    "pairs": lambda: learnt(SubwordTokenizer(size=300)),
    "unigram": lambda: learnt(SubwordTokenizer(size=300, pieces="unigram")),
    "words": lambda: learnt(WordTokenizer(pieces="words")),
    "characters": lambda: learnt(CharacterTokenizer(200)),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_prompt_and_what_follows_are_the_text_of_both(name):
    tokenizer, rng = TOKENIZERS[name](), np.random.default_rng(0)
    letters = [*"".join(TEXTS), "é", "👩‍👧", "한", "  "]
    prompts = [t.ids.tolist() for t in tokenizer.encode([*TEXTS[:3], "a", "a small "])]
    for prompt in prompts:
        for count in (1, 2, 3, 5, 20, 40):
            ids = tokenizer.encode(["".join(rng.choice(letters, count).tolist())])[0].ids.tolist()
            text = tokenizer.continued(prompt, ids)
            assert tokenizer.text(prompt) + text == tokenizer.text([*prompt, *ids])
            growing = Growing(tokenizer.text, (), prompt)
            assert "".join([*map(growing.add, ids), growing.end()]) == text
        words = tokenizer.encode(["a small house"])[0].ids.tolist()
        assert tokenizer.continued((), words) == tokenizer.text(words)
