"""The shapes of what is told when a request, or a command that outlasted one, is refused; for the OpenAPI document."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Fault(BaseModel):
    """One place in the request."""

    pointer: str = Field(description="RFC 6901, into the body; or the name of a parameter")
    detail: str


class Problem(BaseModel):
    """RFC 9457. `type` is stable: branch on it."""

    type: str = Field(examples=["urn:waterclock:problem:invalid"])
    title: str
    status: int
    detail: str
    errors: list[Fault] = []
    hint: str = ""


class OperationProblem(BaseModel):
    """Why a command was refused."""

    type: str
    title: str
    detail: str
