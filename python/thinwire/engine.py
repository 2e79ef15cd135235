"""The object that `initialize` returns: a module that trains its model sharded over the ranks."""

import atexit
import contextlib
import json
import weakref

import torch
from torch import nn

from thinwire import checkpoints, comms, export, full, takeover, tensors, trace, types, weights
from thinwire import optimizer as optimizers
from thinwire import units as unit_choice
from thinwire.absent import absent_in
from thinwire.groups import Groups
from thinwire.hooks import GatherHooks
from thinwire.native import _native
from thinwire.options import choice_of_recipe, engine_options
from thinwire.progress import Progress
from thinwire.shards import Shards
from thinwire.together import together

_ENDLESS = 2**31 - 1
_NOTHING = contextlib.nullcontext()

_engines = weakref.WeakSet()


class _Ended:
    """In the place of what an engine had before destroy()."""

    def __getattr__(self, name):
        raise _native.UsageError(
            "the engine was destroyed: make another one with thinwire.initialize and a new model"
        )

    def __contains__(self, parameter):
        return False


class Engine(nn.Module):
    """Calls `module` with its parameters gathered, and drives the passes and steps of training."""

    def __init__(self, module, settings, optimizer=None, groups=None, units=(), values=None):
        super().__init__()
        self._ended = True  # there is nothing to end yet
        self.module = module
        self.settings = settings
        self._trace = trace.TraceOfSteps(settings)
        absent = absent_in(module)
        takeover.refuse(module)
        self.types = types.Types(settings, module)
        options, notes = self._options(settings, module)
        notes += types.notes(module, self.types)
        self.optimizer = optimizers.choose(
            settings, optimizer, module, groups or list(module.parameters()), options
        )
        self.optimizer.attach(self.step)
        chosen = unit_choice.choose(module, self.types.of, units or settings.units)
        options.prefetch += unit_choice.depth(module, chosen) - 1
        self._groups = Groups(options.deadline, settings.shared_memory, settings.ranks_per_host)
        self.rank = self._groups.rank
        takeover.equalize(module, absent)
        self._begin(options, chosen, absent, values)
        if settings.dtype:
            takeover.cast_buffers(module, settings.dtype)
        self.lr_scheduler = None
        self._losses = []
        self._progress = Progress(settings)
        self.global_steps = 0
        self._micro_steps_before = 0  # the micro-batches of this step
        self._boundary = None  # what the caller said of the passes that begin now
        self._set_boundary(None)
        self.last_step = None
        _engines.add(self)
        self._ended = False
        self._say(notes)
        self._trace.after(0, self.session, self.rank)

    def _options(self, settings, module):
        return engine_options(settings, module, self.types)

    def _weight(self, scale_wrt_gas):
        """What a loss is multiplied with, given that the engine takes the mean."""
        return 1 if scale_wrt_gas else self.settings.micro_batches

    def _begin(self, options, chosen, absent, values):
        modules = list(dict.fromkeys(unit.module for unit in chosen))
        filled = [unit for unit in chosen if unit.parameters]
        group_of = self.optimizer.group_of_parameters()
        self.session = _native.Session(
            links=self._groups.links,
            options=options,
            topology=(self.settings.hosts or 0, self.settings.ranks_per_host or 0),
            units=[takeover.spec_of(unit, group_of) for unit in filled],
            **choice_of_recipe(self.settings),
        )
        with together(self.session, "filling the model"):
            weights.fill(self.session, self.module, filled, absent, values)
        self.session.adopt(
            parameters=[list(unit.parameters.values()) for unit in filled],
            units_of_module=[
                [index for index, unit in enumerate(filled) if unit.module is each]
                for each in modules
            ],
        )
        self.shards = Shards(self.session, filled, self._groups.everyone)
        self._hooks = [full.fill_state_dicts(self.module, self.shards)]
        for index, each in enumerate(modules):
            cores = unit_choice.cores(each, modules) if each is self.module else []
            self._hooks += GatherHooks(self.session, index).on([each, *cores])

    def _say(self, notes):
        for note in (*self.settings.notes, *notes):
            self.say(note)
        self.say(f"config in effect: {json.dumps(self.settings.effective())}")
        if self.rank == 0:
            print(self.session.choice + self.plan, end="", flush=True)

    def say(self, line):
        if self.rank == 0:
            print(f"thinwire: {line}", flush=True)

    @property
    def plan(self):
        """The plan as text: recipe, units, codecs, buffers, predicted bytes and memory."""
        return self.session.plan

    def forward(self, *args, **kwargs):
        """The module's. Where it, or backward, raises an error on all ranks, they may go on with
        any call: the micro-batch does not count then, see `micro_steps`."""
        dtype = self.settings.autocast
        if self.settings.cast_inputs:
            args, kwargs = tensors.cast((args, kwargs), types.DTYPES[self.settings.dtype])
        timed = self._progress.timed("forward") if torch.is_grad_enabled() else _NOTHING
        try:
            with timed, torch.autocast("cpu", types.DTYPES[dtype]) if dtype else _NOTHING:
                return self.module(*args, **kwargs)
        except Exception:
            self.session.expect_no_backward()
            raise

    def abandon(self):
        """Gives up the forward whose backward has not come to its end, on all ranks. By itself it
        is done at the next call, unless the loss still lives. Returns whether there was one."""
        return self.session.abandon()

    @contextlib.contextmanager
    def serving(self):
        """For generation and evaluation in which ranks make different numbers of forwards:

            with engine.serving(), torch.no_grad():
                while not done:
                    logits = engine(tokens)

        Inside, all of them without grad, each rank calls the module as often as it wants. One that
        comes to the end first gives its share of the weights to the others until all are there.
        Nothing else that ranks do together (steps, state_dict, collectives) belongs inside.
        """
        self.session.settle()
        try:
            yield self
        except _native.Error:
            raise
        except Exception:
            self.session.serve_until_all_done()  # what failed here ends no other rank
            raise
        self.session.serve_until_all_done()

    @property
    def micro_steps(self):
        """Micro-batches that count. Those of a step that had begun are gone with an abandoned one
        whose gradients were added to theirs."""
        return self._micro_steps_before + self.session.micro_batches_done

    @micro_steps.setter
    def micro_steps(self, value):
        self._micro_steps_before = value - self.session.micro_batches_done

    def backward(self, loss, scale_wrt_gas=True):
        """Gradients of `loss`, which is this micro-batch's mean. The engine takes the mean over
        micro-batches and ranks; `scale_wrt_gas=False` says that `loss` is divided by the number of
        micro-batches already."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            found = f"one of {list(loss.shape)}" if hasattr(loss, "shape") else type(loss).__name__
            raise _native.UsageError(
                f"rank {self.rank}: backward: expected a loss, a tensor of one number, "
                f"found {found}"
            )
        scale = self.session.loss_scale * self._weight(scale_wrt_gas)
        with self._progress.timed("backward"):
            (loss * scale if scale != 1 else loss).backward()
        del self._losses[max(0, self.session.micro_batches_done - 1) :]  # of abandoned ones
        self._losses.append(loss.detach())
        return loss

    def is_gradient_accumulation_boundary(self):
        """Whether the micro-batch that is under way, or has been through backward without its step,
        or else the next one, is the last of a step."""
        return self.session.ends_step

    def set_gradient_accumulation_boundary(self, is_boundary):
        """Says of the forwards that begin from now on whether each is the last of its step;
        None: by the config's gradient_accumulation_steps again. The mean is over those there were.
        """
        if self.session.in_pass and is_boundary not in (None, self.session.ends_step):
            raise _native.UsageError(
                f"set_gradient_accumulation_boundary({is_boundary}) between a forward that began "
                "otherwise and the end of its backward: call it before forward"
            )
        self._set_boundary(is_boundary)

    def _set_boundary(self, is_boundary):
        if is_boundary is False and self.settings.micro_batches == 1:
            raise _native.UsageError(
                "no_sync() or set_gradient_accumulation_boundary(False) where the config's "
                "gradient_accumulation_steps is 1: give it a larger number"
            )
        self._boundary = is_boundary
        lengths = {None: self.settings.micro_batches, True: 1, False: _ENDLESS}
        self.session.end_steps_after(lengths[is_boundary])

    @contextlib.contextmanager
    def no_sync(self):
        """The forwards that begin inside are not the last of their step, whatever the config says.
        Gradients travel all the same where no rank has room for all of them (stages 2 and 3)."""
        before = self._boundary
        self._set_boundary(False)
        try:
            yield
        finally:
            self._set_boundary(before)

    def step(self):
        """After the last micro-batch: updates the weights, then calls the scheduler. Before it:
        nothing."""
        self.session.settle()
        if self.session.micro_batches_done > 0 and not self.session.step_is_due:
            if self._boundary:
                raise _native.UsageError(
                    "step: set_gradient_accumulation_boundary(True) came after the forward of the "
                    "last micro-batch: call it before"
                )
            return
        self.shards.refuse_lent("step")
        if self.optimizer.name == "none":
            raise _native.UsageError(
                "step: expected an optimizer, in the config or as optimizer= of initialize()"
            )
        losses = [float(loss) for loss in self._losses]
        self._losses.clear()
        micro_steps = self.micro_steps
        with self._progress.timed("step"):
            self.last_step = self.session.step(
                groups=self.optimizer.settings(), loss=sum(losses) / max(1, len(losses))
            )
        self.micro_steps = micro_steps
        if review := self.last_step.pop("review"):
            self.say(review)
        self.optimizer.overflow = not self.last_step["applied"]
        self.global_steps += 1
        for line in self.last_step["notes"]:
            self.say(line)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for line in self._progress.lines(self.global_steps, self.last_step["loss"], rates):
            self.say(line)
        if lines := self._trace.after(self.global_steps, self.session, self.rank):
            self.say(lines)
        if self.lr_scheduler is not None and not self.optimizer.overflow:
            # torch warns of a schedule without optimizer steps, and this is how it knows of them.
            getattr(self.lr_scheduler, "optimizer", self.optimizer)._opt_called = True
            self.lr_scheduler.step()

    def get_global_grad_norm(self):
        """Of the last step, before clipping."""
        return self.last_step["grad_norm"] if self.last_step else None

    def comms_summary(self):
        """What this rank has sent over each hop since the engine was made, and how long that took:
        a comms.CommsSummary, which prints as a table."""
        return comms.summary_of(
            self.session, self.rank, self.global_steps, self.settings.micro_batches
        )

    def trace(self, path):
        """What computes, what is sent and what waits for what, on all ranks, in the steps inside:

            with engine.trace("trace.json"):
                for batch in batches: ...  # a few steps

        The file is a Chrome trace, for ui.perfetto.dev; a table of where the time went is printed.
        All ranks enter it, between steps; rank 0 writes."""
        return trace.traced(self, path)

    def zero_grad(self, set_to_none=True):
        """Nothing: gradients are gone as soon as they are reduced."""

    def state_dict(self, dtype=None):
        """The module's, with whole tensors, in `dtype` or the types that the module computes in.
        All ranks call it and get it."""
        return full.state_dict_of(self.module, self.shards, dtype)

    def load_state_dict(self, state_dict, strict=True):
        """The same values on every rank, into the owners' shards."""
        parameters = list(self.module.parameters())
        with full.lent(self.shards, parameters, call="load_state_dict"), torch.no_grad():
            return self.module.load_state_dict(state_dict, strict)

    def catch_up(self):
        """Where the recipe sends differences: brings the weights in use up to the masters, for an
        evaluation of what a checkpoint would hold. All ranks call it, between passes; it sends
        full values once. With other recipes they are that already."""
        self.session.meet("catch_up")
        self.session.catch_up()

    def save_checkpoint(
        self,
        save_dir,
        tag=None,
        client_state=None,
        save_latest=True,
        exclude_frozen_parameters=False,
    ):
        """Saves weights, optimizer, scheduler, buffers and `client_state` (what JSON can hold)
        below `save_dir`. All ranks call it, between passes; without `tag` it is the step's. What
        micro-batches of an unfinished step have summed up is not saved. Without frozen parameters
        it is loaded with load_module_strict=False."""
        return checkpoints.save(
            self, save_dir, tag, client_state, save_latest, not exclude_frozen_parameters
        )

    def save_16bit_model(
        self,
        save_dir,
        save_filename="model.safetensors",
        exclude_frozen_parameters=False,
        max_shard_size="5GB",
        dtype=None,
    ):
        """Saves the whole model for plain torch, `safetensors` and Hugging Face's libraries: one
        file, or several of at most `max_shard_size` and an index. Parameters are in `dtype`, or in
        the type that the module computes in. All ranks call it, rank 0 writes, and one unit at a
        time is in memory as a whole. Always saves: stage3_gather_16bit_weights_on_model_save is
        about what the Hugging Face Trainer saves by itself. Returns True."""
        self.session.meet("save_16bit_model")
        export.save(
            self.module,
            self.shards,
            self.session,
            self.rank,
            save_dir,
            save_filename,
            not exclude_frozen_parameters,
            max_shard_size,
            dtype,
        )
        return True

    def export_gguf(self, path, type="f16", *, tokenizer=None, config=None, merge_adapters=False):
        """Writes the model as a GGUF file, for `thinwire run`, thinwire.infer and llama.cpp: LLaMA,
        Mistral, Qwen2, GPT-2 or OPT with the names that Hugging Face gives their parameters. All
        ranks call it, rank 0 writes, and one unit at a time is in memory as a whole. type: of the
        matrices, as `thinwire quantize` takes it; the others as of thinwire.infer.from_engine."""
        from thinwire.infer import gguf

        gguf.export(self, path, type, tokenizer, config, merge_adapters)

    def load_checkpoint(
        self,
        load_dir,
        tag=None,
        load_module_strict=True,
        load_optimizer_states=True,
        load_lr_scheduler_states=True,
        load_module_only=False,
    ):
        """What was saved, by any number of ranks; all call it. Returns (path, client_state), or
        (None, {}) where nothing was saved. Names and shapes must be those saved; without
        `load_module_strict`, parameters that were not saved keep their values."""
        self.shards.refuse_lent("load_checkpoint")
        return checkpoints.load(
            self,
            load_dir,
            tag,
            load_module_strict,
            load_optimizer_states and not load_module_only,
            load_lr_scheduler_states and not load_module_only,
        )

    def destroy(self):
        """Ends the engine; parameters stay without values. Called at exit for those still there."""
        if self._ended:
            return
        self._ended = True
        if self.settings.comms_summary:
            self.say(self.comms_summary())
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.session = self.shards = _Ended()
        self._groups.close()
        _engines.discard(self)

    def __del__(self):
        # The groups of an engine that was dropped would keep their threads and sockets.
        if not self.__dict__.get("_ended", True):
            self.destroy()

    def __reduce_ex__(self, protocol):
        raise _native.UsageError(
            "an engine can be neither copied nor pickled: save_checkpoint, save_16bit_model and "
            "state_dict have what it holds; copy a model before initialize()"
        )


def engine_of(parameter):
    """The engine that holds the parameter's values, or None."""
    return next((each for each in _engines if parameter in each.shards), None)


@atexit.register
def _end_all():
    for engine in list(_engines):
        engine.destroy()
