"""The demo of the suite: a log with drift is trained on, published and served at once, and a page shows the figures.

`make ctr-demo`, or `python -m suites.ctr.demo --help`. Three processes (`children`) write the log, train and serve; the
command (`show`) starts and ends them, asks the server (`asking`), gathers figures (`board`) and shows them (`page`).
"""
