"""What tests of several suites do: let a task learn one batch by heart."""

from framework import optim, program


def losses_by_heart(task, batch, name, steps, lr):
    """The loss `name` of each of `steps` updates on one batch; the task's model stays in training mode."""
    optimizer = optim.Adam(task.model.named_parameters(), lr=lr)

    @program
    def step(inputs):
        loss = task.train_step(inputs)[name].mean
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    task.model.train()
    return [float(step({key: batch[key] for key in task.train_inputs})) for _ in range(steps)]
