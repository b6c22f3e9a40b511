"""Tokenizers: text to token ids with their places in the text."""

from suites.nlp.tokenizers.base import Tokenizer, Tokens, tokenizer_from
from suites.nlp.tokenizers.byte_pairs import RobertaTokenizer
from suites.nlp.tokenizers.json_files import JsonTokenizer, PublishedTokenizer
from suites.nlp.tokenizers.lac import LacTokenizer
from suites.nlp.tokenizers.sentence_piece import SentencePieceTokenizer
from suites.nlp.tokenizers.subwords import CharacterTokenizer, SubwordTokenizer
from suites.nlp.tokenizers.wordpiece import BertTokenizer, ErnieTokenizer
from suites.nlp.tokenizers.words import WordTokenizer

__all__ = [
    "BertTokenizer",
    "CharacterTokenizer",
    "ErnieTokenizer",
    "JsonTokenizer",
    "LacTokenizer",
    "PublishedTokenizer",
    "RobertaTokenizer",
    "SentencePieceTokenizer",
    "SubwordTokenizer",
    "Tokenizer",
    "Tokens",
    "WordTokenizer",
    "tokenizer_from",
]
