"""The figures of text tasks: of classes and numbers, ranking, chunks of tags, answers to questions."""

from suites.nlp.metrics.chunks import ChunkScores, chunk_figures, chunks_of
from suites.nlp.metrics.classes import ClassScores, NumberScores, mean_reciprocal_rank
from suites.nlp.metrics.pretraining import PretrainingScores
from suites.nlp.metrics.ranking import RankingScores, VectorScores
from suites.nlp.metrics.reading import ReadingScores, answer_figures, best_threshold

__all__ = [
    "ChunkScores",
    "ClassScores",
    "NumberScores",
    "PretrainingScores",
    "RankingScores",
    "ReadingScores",
    "VectorScores",
    "answer_figures",
    "best_threshold",
    "chunk_figures",
    "chunks_of",
    "mean_reciprocal_rank",
]
