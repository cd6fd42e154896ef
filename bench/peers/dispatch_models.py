"""The pydantic types of the medium call's arguments."""

from typing import Literal

from pydantic import BaseModel


class Edit(BaseModel):
    line: int
    text: str
    op: Literal["insert", "delete", "replace"]


class Meta(BaseModel):
    author: str
    priority: int
