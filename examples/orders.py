"""An order from the basket to the parcel, as one function: tasks side by side, a question, a payment that happens once.

No key, no network: the warehouse and the payment provider are two lists in this process.

Run it: python examples/orders.py ORDER AMOUNT [--thread ID] [--db FILE]
It prices the order, asks whether to go on, charges, and prints the receipt. Stop it at the question (Ctrl-C), and run it
again with the same --thread and --db: it asks again, and what was done isn't done again.
"""

import argparse
import sys
from dataclasses import dataclass
from typing import Any

from juncture import Command, entrypoint, gather, interrupt, once, task


@dataclass
class Order:
    """What somebody wants to buy."""

    item: str
    amount: int


@dataclass
class Receipt:
    """What became of it."""

    order: Order
    total: int
    payment: str | None
    orders_so_far: int


looked_up: list[str] = []
charged: list[str] = []


@task
def price(item: str) -> int:
    """What one costs."""
    looked_up.append(f"price of {item}")
    return 3 * len(item)


@task
async def in_stock(item: str) -> int:
    """How many there are."""
    looked_up.append(f"stock of {item}")
    return 100


@entrypoint(name="buy")
def buy(order: Order, *, previous: int | None = None) -> entrypoint.final[Receipt, int]:
    """Prices an order, asks, and charges. Remembers how many orders there were on its thread."""
    cost, stock = gather(price(order.item), in_stock(order.item)).result()
    total = cost * order.amount
    count = (previous or 0) + 1
    if order.amount > stock or not interrupt({"charge": total, "for": order.item}, key="sure"):
        return entrypoint.final(value=Receipt(order, total, None, count), save=count)

    def charge(idempotency_key: str) -> str:
        charged.append(idempotency_key)
        return f"payment {len(charged)}"

    payment = once("charge", charge)
    return entrypoint.final(value=Receipt(order, total, payment, count), save=count)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("item")
    parser.add_argument("amount", type=int)
    parser.add_argument("--thread", default="1")
    parser.add_argument("--db", default="orders.db")
    options = parser.parse_args(arguments)
    with entrypoint(f"sqlite:{options.db}", name="buy")(buy.function) as shop:
        open_questions = shop.get_state({"configurable": {"thread_id": options.thread}}).interrupts
        given: Any = Order(options.item, options.amount)
        result = None if open_questions else shop.invoke(given, thread_id=options.thread)
        questions = open_questions if result is None else result.interrupts
        if questions:
            sys.stderr.write(f"Charge {questions[0].value}? (y/n) ")
            sys.stderr.flush()
            answer = sys.stdin.readline().strip().lower() == "y"
            result = shop.invoke(Command(resume={"sure": answer}), thread_id=options.thread)
        sys.stdout.write(f"{result.value if result is not None else None}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
