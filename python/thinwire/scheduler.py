"""A torch.optim.lr_scheduler that follows one of DeepSpeed's schedules."""

from torch.optim.lr_scheduler import LRScheduler

from .schedules import point


class Schedule(LRScheduler):
    """Sets lr, and with OneCycle the momentum, of every parameter group of `optimizer`.

    `scheduler` is a config.Scheduler. Call step() once after each optimizer step. The state is the
    step (last_epoch) and each group's rate at the start.
    """

    def __init__(self, optimizer, scheduler, last_epoch=-1):
        self.scheduler = scheduler
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        points = [point(self.scheduler, self.last_epoch, float(lr)) for lr in self.base_lrs]
        for group, each in zip(self.optimizer.param_groups, points, strict=True):
            if each.momentum is None:
                continue
            if "betas" in group:
                group["betas"] = (each.momentum, group["betas"][1])
            elif "momentum" in group:
                group["momentum"] = each.momentum
        return [each.lr for each in points]

    def state_dict(self):
        """The schedule itself is the config's, not the checkpoint's."""
        state = super().state_dict()
        state.pop("scheduler")
        return state
