"""What makes models smaller and says what that costs, whatever the task: importance of parts, a table of models."""
