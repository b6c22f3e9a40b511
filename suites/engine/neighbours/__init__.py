"""The index of named vectors that every suite searches: exactly, or by a graph of near neighbours."""
