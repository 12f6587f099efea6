"""The base class of interceptors that change what workflows start: activities, local activities and children."""

from __future__ import annotations

from temporalio.worker import (
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

__all__ = ["OutboundInterceptor"]


class OutboundInterceptor(Interceptor):
    """Wraps the outbound calls of every workflow with ``outbound``."""

    outbound: type[WorkflowOutboundInterceptor]

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        wrap = self.outbound

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(wrap(outbound))

        return Inbound
