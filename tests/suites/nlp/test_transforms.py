"""Text transforms change what they say, and nothing else."""

import pytest

from suites.nlp.transforms import JoinTreebankTokens


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("they wo n't sit still for it , however good .", "they won't sit still for it, however good."),
        ("`` so bad '' it 's -lrb- almost -rrb- fun !", '"so bad" it\'s ( almost ) fun!'),
        ("We 'LL ca N'T -LSB- sic -RSB-", "We'LL caN'T [ sic ]"),
        ("", ""),
        ("plain text stays, isn't it?", "plain text stays, isn't it?"),
    ],
)
def test_treebank_tokens_are_written_as_words(tokens, text):
    assert JoinTreebankTokens()(tokens) == text
