"""The one way in for what people bring: names of files, texts, tables. What is not read is counted and named."""
