"""Starting a run: what every door calls."""

from app.domain.errors import AgentError
from app.domain.run import NewRun
from app.engine.runtime import Runtime


class UnpricedModel(AgentError):
    """A cost budget was asked for, but the model has no price: the budget could not be kept."""


def submit(runtime: Runtime, new: NewRun) -> str:
    """Write the run down, then ring for its first step; returns the run's id.

    Raises:
        UnpricedModel: nothing was written.
    """
    if new.cost_budget_nano is not None and not runtime.prices.knows(new.agent.model):
        raise UnpricedModel(f"no price for {new.agent.model!r}: a cost budget could not be kept")
    run_id, dispatch = runtime.store.create_run(new)
    runtime.dispatcher.dispatch([dispatch])
    return run_id
