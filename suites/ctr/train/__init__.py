"""How a click model is trained: one update of dense weights and rows, several at a time, and figures on the way."""
