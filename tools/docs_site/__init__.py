"""The docs as a site: `make site`. Pages of docs/ and of the generated reference are laid out, then mkdocs builds."""
