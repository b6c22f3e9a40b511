"""Text: classification, pairs, tagging and reading comprehension, on ragged batches without padding."""
