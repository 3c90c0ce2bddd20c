"""A topology as text and as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from nadi.plan.distribution import drawn, svg

APP = """@app:name('D<&>')
@source(type='http') define stream S (k string, v int);
define stream Ask (k string);
@dist(execGroup='a', parallel='2') @info(name='first') from S select * insert into M;
@dist(execGroup='b', parallel='3') @info(name='counts') partition with (k of M) begin
  from M#window.timeBatch(1 sec) select k, count() as n insert into N; end;
@info(name='asks') from Ask join N#window.length(1) on Ask.k == N.k select n insert into Answer;
"""


def test_the_text_names_groups_channels_instances_and_what_one_should_know(cut):
    expected = """app D<&>: 4 groups, 7 instances, 4 channels on kafka

group D<&>-passthrough-S-1: 1 instance, takes in what comes from outside
  reads S from its source
  writes S to D-3c-26-3e.S
  D<&>-passthrough-S-1-1

group D<&>-a: 2 instances
  runs first
  reads S from D-3c-26-3e.S: by turns
  writes M to D-3c-26-3e.M.k
  D<&>-a-1
  D<&>-a-2

group D<&>-b: 3 instances
  runs counts
  reads M from D-3c-26-3e.M.k: by key k
  writes N to D-3c-26-3e.N
  D<&>-b-1: key-groups 0 to 42
  D<&>-b-2: key-groups 43 to 85
  D<&>-b-3: key-groups 86 to 127

group D<&>-default: 1 instance, of what names no group
  runs asks
  reads Ask from D-3c-26-3e.Ask, which is filled from outside
  reads N from D-3c-26-3e.N
  D<&>-default-1

channels
  D-3c-26-3e.Ask: Ask, 1 partition
    outside → D<&>-default
  D-3c-26-3e.M.k: M by k, 3 partitions, for at most 3 instances of a group; 128 after a change
    D<&>-a → D<&>-b
  D-3c-26-3e.N: N, 1 partition
    D<&>-b → D<&>-default
  D-3c-26-3e.S: S, 2 partitions
    D<&>-passthrough-S-1 → D<&>-a

notes
  the window timeBatch(1000) of query 'unnamed_1' begins in each instance of 'D<&>-b' with the first event there; with a \
start time it would begin alike in all
  'asks' of 'D<&>-default' keeps something of 'N', which 3 instances of 'D<&>-b' make: of events of the same millisecond \
it has those of one instance, then those of the next one
"""
    assert drawn(cut(APP, "kafka")) == expected.replace("unnamed_1", "query_2")


def test_the_picture_is_well_formed_the_same_each_time_and_has_all_names(cut):
    topology = cut(APP)
    picture = svg(topology)
    assert picture == svg(cut(APP))
    assert "data-instance" not in picture
    texts = {t.text for t in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}
    assert {g.name for g in topology.groups} <= texts
    assert {i.name for i in topology.instances} <= texts
    assert {"D-3c-26-3e_M_k (3)", "D-3c-26-3e_Ask", "outside"} <= texts


def test_a_picture_for_a_page_has_the_states_of_instances_and_no_style_of_its_own(cut):
    topology = cut(APP)
    names = [i.name for i in topology.instances]
    root = ElementTree.fromstring(svg(topology, {names[0]: "running", names[1]: '"><b>'}))
    boxes = {r.get("data-instance"): r.get("class") for r in root.iter() if r.get("data-instance")}
    assert boxes == dict.fromkeys(names, "instance ") | {
        names[0]: "instance running", names[1]: 'instance "><b>'
    }  # fmt: skip
    assert not list(root.iter("{http://www.w3.org/2000/svg}style"))


def test_boxes_stand_apart(cut):
    picture = svg(cut(APP))
    boxes = [
        (int(r.get("x")), int(r.get("y")), int(r.get("width")), int(r.get("height")))
        for r in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}rect")
        if "group" in r.get("class", "")
    ]
    assert len(boxes) == 5
    for i, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[i + 1 :]:
            apart = (
                x + width < other_x or other_x + other_width < x or y + height < other_y or other_y + other_height < y
            )
            assert apart


def test_an_app_without_queries_has_no_groups(cut):
    topology = cut("@app:name('Empty') define stream S (a int);")
    assert drawn(topology) == "app Empty: 0 groups, 0 instances, 0 channels on nats\n\nchannels: none\n"
    assert ElementTree.fromstring(svg(topology)) is not None
