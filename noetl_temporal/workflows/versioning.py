"""Versions workers by builds, with Temporal's worker deployments.

A run with its loops and calls is pinned to the build on which it started, so no build has to replay the history of
another. When another build becomes current, a run that waits only for timers continues as new on that build, and so
does a run that continues as new because its history is long. A loop stays on the build of the run that started it.

The versioning behaviour is declared here and not on the workflows: if the workflows declared one, the server would
refuse the workflow tasks of workers without a build.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

__all__ = ["DEPLOYMENT", "BuildNameError", "continue_as_new_versioning", "deployment_config", "wants_upgrade"]

DEPLOYMENT = "noetl"
"""The default name of the deployment."""

_NAME_BYTES = 200


class BuildNameError(ValueError):
    """Temporal does not accept this name. It reports no error: the worker would poll and never get a task."""


def deployment_config(build_id: str, deployment: str = DEPLOYMENT) -> WorkerDeploymentConfig:
    """Return the deployment options of a worker of this build. Raises BuildNameError."""
    for noun, name in (("build", build_id), ("deployment", deployment)):
        if not name.strip() or name.startswith("__") or len(name.encode()) > _NAME_BYTES:
            message = f"{name!r} cannot name a {noun}: 1 to {_NAME_BYTES} bytes that do not begin with __"
            raise BuildNameError(message)
    if "." in deployment or ":" in deployment:
        raise BuildNameError(f"{deployment!r} cannot name a deployment: Temporal allows neither . nor : in it")
    return WorkerDeploymentConfig(
        WorkerDeploymentVersion(deployment, build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


def wants_upgrade() -> bool:
    """Whether another build is current, on which this run should continue as new.

    Temporal does not report this for a run that an operator has pinned to its build, which would otherwise continue as
    new endlessly.
    """
    info = workflow.info()
    return info.parent is None and info.is_target_worker_deployment_version_changed()


def continue_as_new_versioning() -> workflow.ContinueAsNewVersioningBehavior | None:
    """Return how a run that continues as new chooses its build; None if it stays on its build."""
    return workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE if wants_upgrade() else None
