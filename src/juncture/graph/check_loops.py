"""The two walks over a graph that find its order and its loops. Without recursion: graphs may be long chains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def post_order(edges: Mapping[str, Iterable[str]], roots: Iterable[str]) -> list[str]:
    """Every node that the roots lead to, each after those that it leads to, loops aside."""
    done: list[str] = []
    seen: set[str] = set()
    for root in roots:
        work = [] if root in seen else [(root, iter(edges.get(root, ())))]
        seen.add(root)
        while work:
            name, ends = work[-1]
            end = next((end for end in ends if end not in seen), None)
            if end is None:
                done.append(name)
                work.pop()
            else:
                seen.add(end)
                work.append((end, iter(edges.get(end, ()))))
    return done


def components(edges: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """The loops: sets of nodes each of which leads to all of them.

    Source:
        Kosaraju's algorithm: the nodes that lead to the last node of the order form a component.
    """
    back: dict[str, list[str]] = {}
    for name, ends in edges.items():
        for end in ends:
            back.setdefault(end, []).append(name)
    free = set(edges).union(back)
    for name in reversed(post_order(edges, edges)):
        if name not in free:
            continue
        free.discard(name)
        found = [name]
        for member in found:  # grows while it is walked
            for before in back.get(member, ()):
                if before in free:
                    free.discard(before)
                    found.append(before)
        if len(found) > 1 or name in edges.get(name, ()):
            yield found


__all__ = ["components", "post_order"]
