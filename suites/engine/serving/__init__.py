"""Any model with a `Processor` as an HTTP service: requests in, batches through the network, answers out.

`batcher` gathers items of all requests, `workers` run them, `service` knows the model, `app` speaks HTTP,
`client` asks.
"""
