"""Small graphs that need no model; each of their runs leaves a line in the file `started`."""

import asyncio
import pathlib
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

HERE = pathlib.Path(__file__).parent


class State(TypedDict, total=False):
    text: str
    answer: str
    told: dict[str, Any]
    messages: list[dict[str, Any]]


def one_node(node):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END).compile()


def note(config: RunnableConfig):
    told = config["configurable"]
    with open(HERE / "started", "a") as started:
        started.write(f"{told['graph_id']} {told['thread_id']}\n")
    return told


def turn_round(state: State, config: RunnableConfig):
    """Answers with the text turned round, and with what came along."""
    told = note(config)
    return {"answer": state["text"][::-1], "told": {key: told.get(key) for key in ("virtual_key", "trace_id")}}


async def wait_for_gate(state: State, config: RunnableConfig):
    """Is done when there is a file `gate`."""
    note(config)
    while not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return {"answer": "the gate was opened"}


def fail(state: State, config: RunnableConfig):
    note(config)
    raise ValueError("the soup is cold")


def ask(state: State, config: RunnableConfig):
    return {"answer": interrupt({"question": "may I?"})}


def talk(state: State, config: RunnableConfig):
    """Leaves messages as a model does, with what they cost."""
    cost = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37}
    said = {"type": "ai", "content": "hello", "usage_metadata": cost}
    return {"messages": state.get("messages", []) + [said, said]}


echo = one_node(turn_round)
gated = one_node(wait_for_gate)
failing = one_node(fail)
asking = one_node(ask)
talking = one_node(talk)
