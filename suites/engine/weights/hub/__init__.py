"""A model hub: names of its repositories, what is fetched of them, and runs that are shared there."""
