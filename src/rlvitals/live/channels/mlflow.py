"""MLflow, which has no alerts: tags on the run, one for the verdict and one for each fault."""

from __future__ import annotations

from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.live.channels import NotSent
from rlvitals.live.message import Message

PREFIX = "rlvitals."
MAX_VALUE = 5000  # characters; the smallest limit on a tag's value among MLflow's stores


class MlflowChannel:
    """The active MLflow run, or the one of an id. Raises InputError when mlflow is not installed."""

    name = "mlflow"

    def __init__(self, run_id: str = "") -> None:
        try:
            import mlflow
        except ImportError as error:
            hint = "Install it: pip install mlflow-skinny"
            raise InputError(Problem("alerts through MLflow need the package mlflow", hint=hint)) from error
        self._mlflow: Any = mlflow
        self._given = run_id
        self._run_id = run_id

    def prepare(self) -> None:
        """Note the active run: MLflow keeps one per thread."""
        if not self._given:
            active = self._mlflow.active_run()
            self._run_id = active.info.run_id if active is not None else self._run_id

    def send(self, message: Message) -> None:
        """Set the tags. Raises NotSent when there is no run."""
        if not self._run_id:
            raise NotSent("no MLflow run: call mlflow.start_run first")
        client = self._mlflow.MlflowClient()
        client.set_tag(self._run_id, f"{PREFIX}verdict", message.verdict)
        client.set_tag(self._run_id, f"{PREFIX}{message.check}", message.text[:MAX_VALUE])
