"""Drawn lines and pages of text, from texts and fonts, to train on and to test with: `paddock data render`."""
