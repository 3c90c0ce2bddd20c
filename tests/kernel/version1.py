"""An app with every kind of cell, and the events that made `data/state-version-1.bin`: a dump after 30 of them, three deltas after five each."""

from __future__ import annotations

from nadi.functions.registry import default_registry
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.plan import plan_app

APP = """
define stream In (sym string, price double, tag object);
define table T (sym string, price double);
@info(name='w') from In#window.time(20) select sym, sum(price) as total, distinctCount(sym) as n group by sym insert into Out;
@info(name='t') from In select sym, price update or insert into T set T.price = price on T.sym == sym;
partition with (sym of In) begin
    @info(name='p') from every e1=In -> e2=In[price > e1.price] -> e3=In[price > e2.price] within 40 milliseconds
    select e1.price as a, e2.price as b, e3.price as c insert into Out2;
    @info(name='c') from every e1=In<2:3> -> e2=In[price < e1[0].price] select e1[0].price as a, e2.price as b insert into Out3;
    @info(name='l') from In#window.length(4) select sym, max(price) as most insert into Out4;
end;
"""
OUTPUTS = ("Out", "Out2", "Out3", "Out4")


def begun() -> RowsKernel:
    kernel = made()
    kernel.start(1_000)
    return kernel


def made() -> RowsKernel:
    registry = default_registry()
    return RowsKernel(plan_app(APP, registry), registry)


def fed(kernel: RowsKernel, first: int, end: int) -> None:
    """Send events [first, end)."""
    for i in range(first, end):
        kernel.advance(1_000 + 3 * i)
        row = (f"S{i % 4}", float(i * 7 % 11), (i, [f"x{i}"], {i: {"y"}}) if i % 3 else None)
        kernel.deliver("In", [Event(CURRENT, 1_000 + 3 * i, row)])
