"""MLflow: tags on the run; the server or folder is the one that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

from typing import Any

from rlvitals.errors import InputError, Problem
from rlvitals.record.entry import Entry
from rlvitals.record.trackers.fields import PREFIX, flat

MAX_VALUE = 5_000  # characters; the smallest limit on a tag's value among MLflow's stores


def write(run: str, entry: Entry) -> None:
    """Set one tag per field. Raises InputError without mlflow or for a run that it does not know."""
    try:
        import mlflow
    except ImportError as error:
        raise InputError(Problem("MLflow is not installed", hint="pip install mlflow-skinny")) from error
    client: Any = mlflow.MlflowClient()
    try:
        for name, value in flat(entry).items():
            client.set_tag(run, f"{PREFIX}.{name}", value[:MAX_VALUE])
    except mlflow.exceptions.MlflowException as error:
        where = f"mlflow:{run}"
        raise InputError(Problem("MLflow did not take the record", where, str(error)[:300], "a run id")) from error
