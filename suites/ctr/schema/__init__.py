"""What a click log declares: features, labels and formats, the signs of values, and the native form of all that."""

from suites.ctr.schema.declaration import Fields, Format, Schema, read_schema, schema_of

__all__ = ["Fields", "Format", "Schema", "read_schema", "schema_of"]
