"""What is wrong with an app, where, and what to do: one line per rule."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.plan import bind, bind_collecting, diagnose

S = "define stream S (k string, v int, p double, f bool, o object); "
R = "define stream R (k string, w int); "
T = "define table T (k string, v int); "
W = "define window W (k string, v int) length(3); "
A = "define aggregation A from S select k, sum(v) as total group by k aggregate every sec ... hour; "

# app, condition, Siddhi's class, the underlined text, a part of the message
CASES = [
    # streams, tables and names
    (S + "from X select k insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "X", "'X' is not defined"),
    (S + "from s insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "s", "did you mean 'S'?"),
    (T + "from T insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "T", "join a stream with it"),
    (S + A + "from A insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "A", "an aggregation"),
    (S + "from !S insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "!S", "@OnError(action='STREAM')"),
    (S + "from S insert into !S;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "!S", "@OnError(action='STREAM')"),
    (S + "from #I insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "#I", "only in a partition"),
    (S + "from S insert into #I;", "INVALID_QUERY", "SiddhiAppCreationException", "#I", "only in a partition"),
    (S + "from O insert into P; from S insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "O", "'O'"),
    (S + "from S select X.v insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "X.v", "'X'"),
    (S + "from S select vv insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "vv", "attribute of 'S'"),
    (S + "from S select symbol insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "symbol", "known: "),
    (S + "from S select S.vv insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "S.vv", "mean 'v'?"),
    (S + R + "from S join R select k insert into O;", "ATTRIBUTE_AMBIGUOUS", "SiddhiAppValidationException", "k", "S.k"),
    (S + R + "from S as a join R as b select S.k insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException",
     "S.k", "known: a, b"),
    (S + "from S[v[1] > 2] insert into O;", None, "SiddhiParserException", None, None),
    (S + "from S[S[1].v > 2] insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "S[1].v", "no index"),
    # definitions
    ("define stream S (a int, a int);", "ATTRIBUTE_DEFINED_TWICE", "SiddhiParserException", "a int", "definition of 'S'"),
    (S + "define stream S (k string);", "DUPLICATE_DEFINITION", "DuplicateDefinitionException",
     "define stream S (k string)", "already defined as the stream (k string, v int,"),
    (T + "define table T (k int);", "DUPLICATE_DEFINITION", "DuplicateDefinitionException",
     "define table T (k int)", "the table (k string, v int), which is not the table (k int)"),
    (S + "define table S (k string);", "DUPLICATE_DEFINITION", "DuplicateDefinitionException",
     "define table S (k string)", "the stream"),
    (S + "define trigger S at every 1 sec;", "DUPLICATE_DEFINITION", "DuplicateDefinitionException",
     "define trigger S at every 1 sec", "the trigger (triggered_time long)"),
    ("define trigger X at 'start'; define trigger X at 'start';", "DUPLICATE_DEFINITION",
     "DuplicateDefinitionException", "define trigger X at 'start'", "this trigger"),
    ("define trigger X at 'start'; define trigger X at every 1 sec;", "DUPLICATE_DEFINITION",
     "DuplicateDefinitionException", "define trigger X at every 1 sec", "this trigger"),
    ("define function f[py] return int { 1 }; define function f[py] return int { 2 };", "DUPLICATE_DEFINITION",
     "DuplicateDefinitionException", "define function f[py] return int { 2 }", "another function"),
    ("define trigger X at every 0 sec;", "INVALID_QUERY", "SiddhiAppCreationException", "0 sec", "above 0"),
    (S + "@info(name='q') from S insert into O; @info(name='q') from S insert into P;", "DUPLICATE_NAME",
     "SiddhiAppValidationException", "@info(name='q')", "has the name 'q' already"),
    ("define stream #S (a int);", "INVALID_QUERY", "SiddhiAppCreationException", "#S", "inner and fault streams"),
    ("@index('x') " + T, "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "'x'", "'T'"),
    ("@index('k', 'v') " + T, "ANNOTATION_REJECTED", "SiddhiAppValidationException", "@index('k', 'v')", "@index several"),
    ("@index('k') @index('k') " + T, "ANNOTATION_REJECTED", "SiddhiAppValidationException", "@index('k')", "already"),
    ("@primaryKey('K') " + T, "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "'K'", "did you mean 'k'?"),
    ("@primaryKey('k') @primaryKey('v') " + T, "DUPLICATE_ANNOTATION", "DuplicateAnnotationException",
     "@primaryKey('v')", "given twice"),
    ("@primaryKey " + T, "ANNOTATION_REJECTED", "SiddhiAppValidationException", "@primaryKey", "no attribute"),
    ("@indexBy('k') " + T, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@indexBy('k')", "@primaryKey or @index"),
    ("@async(workers='0') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "workers='0'", "greater than 0"),
    ("@OnError(action='X') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@OnError(action='X')", "STORE"),
    ("@OnError('STREAM') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@OnError('STREAM')", "action = 'STREAM'"),
    ("@OnError(action='') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@OnError(action='')", "action = 'STREAM'"),
    ("@OnError(action='STREAM') define stream E (k int, _error object);", "DUPLICATE_ATTRIBUTE", "DuplicateAttributeException",
     "@OnError(action='STREAM') define stream E (k int, _error object)", "the fault stream '!E'"),
    (S + "@info(name='a') @Info(name='b') from S insert into O;", "DUPLICATE_ANNOTATION", "DuplicateAnnotationException",
     "@Info(name='b')", "@Info is given twice"),
    (S + "@info(name='a', name='b') from S insert into O;", "DUPLICATE_ANNOTATION", "DuplicateAnnotationException",
     "name='b'", "'name' of @info is given twice"),
    ("@app:name('a') @app:name('b') " + S, "DUPLICATE_ANNOTATION", "DuplicateAnnotationException", "@app:name('b')", "twice"),
    ("@async(workers='1') @async(workers='2') " + S, "DUPLICATE_ANNOTATION", "DuplicateAnnotationException",
     "@async(workers='2')", "twice"),
    (S + "partition with (k of S) begin @synchronized('true') @synchronized('true') from S insert into O; end;",
     "DUPLICATE_ANNOTATION", "DuplicateAnnotationException", None, "twice"),
    ("@source(topic='a') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@source(topic='a')", "type='inMemory'"),
    ("@sink(type='log', @map(@payload('x'))) " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException",
     "@map(@payload('x'))", "type='json'"),
    # annotations of the app
    ("@app:playback(idle.time='1 sec') " + S, "ANNOTATION_REJECTED", "SiddhiAppValidationException",
     "@app:playback(idle.time='1 sec')", "increment is missing"),
    ("@app:playback(x='1 sec') " + S, "ANNOTATION_REJECTED", "SiddhiAppValidationException", "x='1 sec'", "not 'x'"),
    ("@app:playback(idle.time='1 sec', increment='2') " + S, "SYNTAX", "SiddhiParserException", "increment='2'", "'2 sec'"),
    ("@app:async " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@app:async", "@async in front of"),
    ("@app:spark(pool='onw') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "pool='onw'", "did you mean 'own'?"),
    ("@app:spark(pool='mine') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "pool='mine'", "'own' or 'shared', not 'mine'"),
    ("@app:spark(pol='own') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "pol='own'", "takes pool and buckets, not 'pol'"),
    ("@app:spark(buckets='0') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "buckets='0'", "a number from 1 to 128, not '0'"),
    ("@app:spark(buckets='many') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "buckets='many'", "1 to 128"),
    ("@app:spark " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@app:spark", "needs pool or buckets"),
    ("@app:spark(pool='own') @app:spark(pool='shared') " + S, "DUPLICATE_ANNOTATION", "DuplicateAnnotationException",
     "@app:spark(pool='shared')", "@app:spark"),
    ("@app:compat('3') " + S, "INVALID_ANNOTATION", "SiddhiAppCreationException", "@app:compat('3')", "not '3'"),
    # expressions
    (S + "from S[v > k] insert into O;", "WRONG_OPERANDS", "SiddhiAppCreationException", "v > k", "int and string"),
    (S + "from S[f < f] insert into O;", "WRONG_OPERANDS", "SiddhiAppCreationException", "f < f", "bool and bool"),
    (S + "from S[o == o] insert into O;", "WRONG_OPERANDS", "SiddhiAppCreationException", "o == o", "object and object"),
    (S + "from S select k + k as x insert into O;", "WRONG_OPERANDS", "SiddhiAppCreationException", "k + k", "'+'"),
    (S + "from S[v] insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException", "v", "a filter needs a bool"),
    (S + "from S[f and v] insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException", "v", "'and' needs a bool"),
    (S + "from S[not v > 1] insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException", "v", "'not' needs"),
    (S + "from S select SUM(v) as x insert into O;", "FUNCTION_NOT_FOUND", "ExtensionNotFoundException", "SUM(v)",
     "did you mean 'sum'?"),
    (S + "from S select str:cat(k) as x insert into O;", "FUNCTION_NOT_FOUND", "ExtensionNotFoundException",
     "str:cat(k)", "did you mean 'str:concat'?"),
    (S + "from S select sum(k) as x insert into O;", "WRONG_ARGUMENTS", "SiddhiAppCreationException", "sum(k)", "number"),
    (S + "from S select coalesce() as x insert into O;", "WRONG_ARGUMENTS", "SiddhiAppCreationException",
     "coalesce()", "needs an argument"),
    (S + "from S[sum(v) > 1] insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "sum(v)", "in a filter"),
    (S + "from S select sum(sum(v)) as x insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "sum(v)",
     "in a aggregator"),
    (S + "from S[k == 'a' in U] insert into O;", "TABLE_NOT_DEFINED", "SiddhiAppCreationException",
     "k == 'a' in U", "'U' is not a table"),
    (S + T + "from S[(T.k == k and (T.v == 1 in T)) in T] insert into O;", "NOT_SUPPORTED",
     "OperationNotSupportedException", "T.v == 1 in T", "'in' within the condition"),
    # windows and stream functions
    (S + "from S#window.lenght(3) insert into O;", "WINDOW_NOT_FOUND", "ExtensionNotFoundException", "lenght(3)",
     "did you mean 'length'?"),
    (S + "from S#window.length(v) insert into O;", "WRONG_ARGUMENTS", "SiddhiAppCreationException", "length(v)", "constant"),
    (S + "from S#window.expression('v <') insert into O;", "SYNTAX", "SiddhiParserException", "expression('v <')", "the end"),
    (S + "from S#window.expression('x > 1') insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException",
     "expression('x > 1')", "'x' is not an attribute of the window's events"),
    (S + "from S#window.expression('v + first.v') insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException",
     "expression('v + first.v')", "a window's expression needs a bool"),
    ("define window W (v int) expression('last.x > 1');", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException",
     "expression('last.x > 1')", "'last'"),
    ("define trigger X at 'noon';", "INVALID_CRON", "SiddhiAppCreationException", "define trigger X at 'noon'", "1 fields"),
    (S + "from S#logg() insert into O;", "STREAM_FUNCTION_NOT_FOUND", "ExtensionNotFoundException", "logg()", "mean 'log'?"),
    (S + "from S#length(3) insert into O;", "STREAM_FUNCTION_NOT_FOUND", "ExtensionNotFoundException", "length(3)",
     "'#window.length(…)'"),
    (S + "from S#pol2Cart() insert into O;", "WRONG_ARGUMENTS", "SiddhiAppCreationException", "pol2Cart()", "two numbers"),
    (S + "from S select coalesce(v, eventTimestamp(x)) as y insert into O;", "ATTRIBUTE_NOT_FOUND",
     "AttributeNotExistException", "x", "'S'"),
    (S + A + "from S join A within '2024-01-02 00:00:00', '2024-01-01 00:00:00' per 'sec' select total insert into O;",
     "INVALID_QUERY", "SiddhiAppCreationException", "'2024-01-02 00:00:00'", "is not before"),
    ("define stream S (cartX int); from S#pol2Cart(cartX, cartX) insert into O;", "DUPLICATE_ATTRIBUTE",
     "DuplicateAttributeException", "pol2Cart(cartX, cartX)", "output of 'pol2Cart'"),
    (W + "from W#window.length(2) insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     "#window.length(2)", "takes no other one"),
    # selection
    (S + "from S select v, v as v insert into O;", "DUPLICATE_ATTRIBUTE", "DuplicateAttributeException", "v as v", "'v'"),
    (S + R + "from S join R insert into O;", "DUPLICATE_ATTRIBUTE", "DuplicateAttributeException", None, "'S' and 'R'"),
    (S + "from S select v group by x insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "x", "'S'"),
    (S + "from S select v having p > 1.0 insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "p", "output"),
    (S + "from S select k having count(*) > 1 insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException",
     "count(*)", "'v' is not an attribute of the output"),
    (S + "from S select sum(v) as t having max(t) > 1 insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     "max(t)", "is an aggregate itself"),
    (S + T + "from S select k, v delete T;", "INVALID_QUERY", "SiddhiAppCreationException", "delete T", "needs 'on'"),
    (S + "from S select v having v insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException", "v", "having"),
    (S + "from S select v order by p insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "p", "output"),
    (S + "from S select v limit -1 insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "-1", "limit must be"),
    (S + "from S select v limit 1 offset 1.5 insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "1.5", "offset"),
    (S + "from S select v output first every 0 events insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     None, "n from 1"),
    (S + "from S select v output every 0 sec insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", None, "above 0"),
    (S + "from S select v limit v insert into O;", "ATTRIBUTE_NOT_FOUND", "AttributeNotExistException", "v", "only constants"),
    # outputs
    (S + R + "from S insert into R;", "DUPLICATE_DEFINITION", "DuplicateDefinitionException", "R", "output (k string, v int"),
    (S + T + "from S insert into T;", "DUPLICATE_DEFINITION", "DuplicateDefinitionException", "T", "the table"),
    (S + W + "from S insert into W;", "DUPLICATE_DEFINITION", "DuplicateDefinitionException", "W", "the window"),
    (S + "from S select v insert into O; from S select p as v insert into O;", "DUPLICATE_DEFINITION",
     "DuplicateDefinitionException", "O", "the stream (v int), which is not the output (v double)"),
    (S + A + "from S insert into A;", "INVALID_QUERY", "SiddhiAppCreationException", "A", "fed by its own definition"),
    (S + "from S return;", "INVALID_QUERY", "SiddhiAppCreationException", "return", "'insert into'"),
    (S + T + "from S delete U on T.k == k;", "TABLE_NOT_DEFINED", "SiddhiAppCreationException", "U", "known: T"),
    (S + T + "from S select v delete T on T.x == v;", "INVALID_OUTPUT", "SiddhiAppCreationException", "T.x", "'T'"),
    (S + T + "from S select v delete T on k == 'a';", "INVALID_OUTPUT", "SiddhiAppCreationException", "k", "of the output"),
    (S + T + "from S select p as v update T on T.k == 'a';", "INVALID_QUERY", "SiddhiAppCreationException", None,
     "the output 'v' is a double, 'T.v' a int"),
    (S + T + "from S select k, p as v update or insert into T on T.k == k;", "INVALID_QUERY", "SiddhiAppCreationException", None,
     "'T.v' a int"),
    (S + T + "from S select v update T set T.x = v on T.v == v;", "INVALID_OUTPUT", "SiddhiAppCreationException",
     "T.x", "the table 'T'"),
    (S + T + "from S select v update T set T.k = v on T.v == v;", "INVALID_QUERY", "SiddhiAppCreationException",
     "T.k = v", "a int cannot be stored in 'T.k', which is a string"),
    (S + T + "from S select v, p update T on T.v == v;", "INVALID_OUTPUT", "SiddhiAppCreationException", None, "'p'"),
    (S + T + "from S select v update or insert into T on T.v == v;", "INVALID_OUTPUT", "SiddhiAppCreationException",
     None, "'k' is not an attribute of the output, and 'T' needs it"),
    # joins
    (T + "define table U (x int); from T join U select x insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     "T join U", "two static sides"),
    (S + T + "from S join T unidirectional select p insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     "T", "a table never does"),
    (S + T + "from S join T#window.length(2) select p insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     "#window.length(2)", "is a table and takes no window"),
    (S + "from S join X on S.v == X.v select p insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException", "X", "'X'"),
    (S + R + "from S join R on S.v select p insert into O;", "CONDITION_NOT_BOOL", "SiddhiAppCreationException",
     "S.v", "join condition"),
    (S + A + "from S join A select total insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "S join A",
     "needs 'within … per …'"),
    (S + R + "from S join R on v == w within 1 sec per 'sec' select v insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", None, "joins of aggregations only"),
    (S + A + "from S join A within '2024-**-** **:**:**' per 'days' select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "'days'", "(sec, min, hour), not 'days'"),
    (S + A + "from S join A within 5L per 'sec' select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "5L", "with one value"),
    (S + A + "from S join A within 5L, 5L per 'sec' select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "5L", "5 is not before 5"),
    (S + A + "from S join A within '2024-**-** 01:**:**' per 'sec' select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "'2024-**-** 01:**:**'", "is not a time"),
    (S + A + "from S join A within p, p per 'sec' select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "p", "not a double"),
    # aggregations
    (S + "define aggregation B from S#window.length(1) select sum(v) as t aggregate every sec;", "INVALID_QUERY",
     "SiddhiAppCreationException", None, "takes no window"),
    (S + "define aggregation B from S select minForever(v) as t aggregate every sec;", "AGGREGATOR_NOT_FOUND",
     "SiddhiAppCreationException", None, "'minForever' is neither an incremental"),
    (S + "define aggregation B from S select summ(v) as t aggregate every sec;", "AGGREGATOR_NOT_FOUND",
     "SiddhiAppCreationException", "summ(v)", "did you mean 'sum'?"),
    (S + A + A, "DUPLICATE_DEFINITION", "DuplicateDefinitionException", None, "this aggregation"),
    (S + A + "from S join A on S.k == A.k within 1L, 2L per v select total insert into O;", "INVALID_QUERY",
     "SiddhiAppCreationException", "v", "'per' takes a text such as 'hours', this is int"),
    (S + "define aggregation B from S select sum(v) as t aggregate every weeks;", "SYNTAX", "SiddhiParserException", None,
     "sec, min, hour"),
    (S + "define aggregation B from S select sum(v) as t aggregate by v every sec;", "INVALID_QUERY",
     "SiddhiAppCreationException", "v", "takes a long or a string"),
    (S + "define aggregation B from S select sum(v) as t aggregate every hour...sec;", "INVALID_QUERY",
     "SiddhiAppCreationException", None, "from the finer to the coarser"),
    (S + "define aggregation B from S select sum(v) as t aggregate every week;", "SYNTAX",
     "SiddhiParserException", None, "unexpected 'week'"),
    (S + "@store(type='rdbms') define aggregation B from S select sum(v) as t aggregate every sec;", "NOT_SUPPORTED",
     "OperationNotSupportedException", "@store(type='rdbms')", "leave @store out"),
    (S + "@store(type='rdbm') define aggregation B from S select sum(v) as t aggregate every sec;", "EXTENSION_NOT_FOUND",
     "ExtensionNotFoundException", "type='rdbm'", "rdbms"),
    (S + "@purge(enable='yes') define aggregation B from S select sum(v) as t aggregate every sec;", "INVALID_ANNOTATION",
     "SiddhiAppCreationException", "enable='yes'", "true or false"),
    (S + "@purge(interval='often') define aggregation B from S select sum(v) as t aggregate every sec;", "ANNOTATION_REJECTED",
     "SiddhiAppValidationException", "interval='often'", "a time with its unit"),
    (S + "@purge(@retentionPeriod(min='2 hours')) define aggregation B from S select sum(v) as t aggregate every sec, hour;",
     "INVALID_ANNOTATION", "SiddhiAppCreationException", "min='2 hours'", "not 'min'"),
    (S + "define aggregation B from S select v as AGG_TIMESTAMP aggregate every sec;", "DUPLICATE_ATTRIBUTE",
     "DuplicateAttributeException", None, "has it as its first column"),
    (S + "@purge(enable='true', @retentionPeriod(sec='60 sec')) define aggregation B from S select sum(v) as t aggregate "
     "every sec;", "INVALID_ANNOTATION", "SiddhiAppCreationException", "sec='60 sec'", "120 sec at least"),
    (S + "@purge(@retentionPeriod(weeks='60 sec')) define aggregation B from S select sum(v) as t aggregate every sec;",
     "ANNOTATION_REJECTED", "SiddhiAppValidationException", "weeks='60 sec'", "not 'weeks'"),
    # patterns and sequences
    (S + W + "from e1=S -> e2=W select e1.v insert into O;", "INVALID_QUERY", "SiddhiAppCreationException", "W", "a window"),
    (S + R + "from e1=S<3:2> -> e2=R select e2.w insert into O;", "INVALID_QUERY", "SiddhiAppCreationException",
     None, "at least 3 and at most 2"),
    (S + R + "from e1=S -> e2=R[e9.v > 1] select e2.w insert into O;", "STREAM_NOT_DEFINED", "SiddhiAppCreationException",
     "e9.v", "known: e1, e2"),
    (S + R + "from e1=S -> e2=R select k insert into O;", "ATTRIBUTE_AMBIGUOUS", "SiddhiAppValidationException", "k", "e1.k"),
    (S + R + "from e1=S -> e2=R[e9[1] is null] select w insert into O;", "STREAM_NOT_DEFINED",
     "SiddhiAppCreationException", "e9[1] is null", "known: e1, e2"),
    # partitions
    ("define stream R (a int); partition with (a of X) begin from R insert into O; end;", "STREAM_NOT_DEFINED",
     "SiddhiAppCreationException", "a of X", "'X'"),
    (S + "partition with (k of S, v of S) begin from S insert into O; end;", "INVALID_QUERY",
     "SiddhiAppCreationException", "v of S", "two keys"),
    (S + "partition with (v as 'x' of S) begin from S insert into O; end;", "CONDITION_NOT_BOOL",
     "SiddhiAppCreationException", "v", "range of a partition"),
    (S + "@purge(idle.period='1 sec') partition with (k of S) begin from S insert into O; end;", "INVALID_ANNOTATION",
     "SiddhiAppCreationException", "@purge(idle.period='1 sec')", "enable='true'"),
    (S + "@purge(enable='on', idle.period='1 sec') partition with (k of S) begin from S insert into O; end;",
     "INVALID_ANNOTATION", "SiddhiAppCreationException", "@purge(enable='on', idle.period='1 sec')", "not 'on'"),
    (S + "@purge(enable='true', idle.period='x') partition with (k of S) begin from S insert into O; end;",
     "ANNOTATION_REJECTED", "SiddhiAppValidationException", "idle.period='x'", "a time with its unit"),
    (S + "@purge(enable='true') partition with (k of S) begin from S insert into O; end;", "INVALID_ANNOTATION",
     "SiddhiAppCreationException", "@purge(enable='true')", "idle.period is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "condition", "kind", "underlined", "message"), CASES)
def test_a_wrong_app_says_what_is_wrong_and_where(catalog, text, condition, kind, underlined, message):
    with pytest.raises(NadiError) as caught:
        bind(parse(text), catalog, text=text)
    found = caught.value.diagnostic
    assert found.siddhi_class == kind
    if condition is not None:
        assert found.condition == condition
        assert message in found.render()
    if underlined is not None:
        assert text[found.span.start : found.span.end] == underlined


def test_the_excerpt_shows_the_line_and_the_name(catalog):
    text = "define stream S (symbol string);\nfrom S select symbl insert into O;"
    with pytest.raises(NadiError) as caught:
        bind(parse(text), catalog, text=text, file="a.siddhi")
    assert str(caught.value) == (
        "a.siddhi:2:15: [ATTRIBUTE_NOT_FOUND] 'symbl' is not an attribute of 'S' (did you mean 'symbol'?)\n"
        "    from S select symbl insert into O;\n"
        "                  ^^^^^"
    )


def test_all_wrong_statements_are_reported_at_once_in_the_order_of_the_text(catalog):
    text = S + "from S[v > k] insert into A1; from X insert into B1; from S select vv insert into C1;"
    made, found = bind_collecting(parse(text), catalog, text=text)
    assert made is None
    assert [d.condition for d in found] == ["WRONG_OPERANDS", "STREAM_NOT_DEFINED", "ATTRIBUTE_NOT_FOUND"]


def test_what_reads_the_output_of_a_wrong_query_is_not_reported_again(catalog):
    text = S + "from S select vv insert into A1; from A1 select x insert into B1; from B1[y > 1] insert into C1;"
    _made, found = bind_collecting(parse(text), catalog, text=text)
    assert [d.condition for d in found] == ["ATTRIBUTE_NOT_FOUND"]


def test_what_uses_a_wrong_definition_is_not_reported_again(catalog):
    text = S + "@index('x') " + T + "from S select k, v insert into T; from S select vv as x insert into O;"
    _made, found = bind_collecting(parse(text), catalog, text=text)
    assert [d.message for d in found] == [
        "'x' is not an attribute of 'T'",
        "'vv' is not an attribute of 'S'",
    ]


def test_a_partition_whose_key_is_wrong_is_reported_once(catalog):
    text = S + "partition with (kk of S) begin from S insert into O; end; from O insert into P;"
    _made, found = bind_collecting(parse(text), catalog, text=text)
    assert [d.condition for d in found] == ["ATTRIBUTE_NOT_FOUND"]


def test_wrong_queries_in_a_partition_are_all_reported(catalog):
    text = S + "partition with (k of S) begin from S select x insert into O; from S select y insert into P; end;"
    _made, found = bind_collecting(parse(text), catalog, text=text)
    assert [d.message for d in found] == ["'x' is not an attribute of 'S'", "'y' is not an attribute of 'S'"]


def test_a_right_app_gives_a_plan_and_nothing_else(catalog):
    made, found = bind_collecting(parse(S + "from S insert into O;"), catalog)
    assert made is not None
    assert found == ()


def test_diagnose_tells_what_cannot_be_read_and_what_makes_no_sense(catalog):
    text = (
        "define stream S (a int);\nfrom S slect a insert into O;\nfrom S select b insert into P;\nfrom O insert into Q;"
    )
    found = diagnose(text, "x.siddhi", catalog)
    assert [(d.siddhi_class, d.span.line) for d in found] == [
        ("SiddhiParserException", 2),
        ("AttributeNotExistException", 3),
    ]


@pytest.mark.parametrize("action", ["update T", "update or insert into T"])
def test_set_takes_a_column_that_is_named_as_one_of_something_else_with_a_warning(catalog, action):
    text = S + T + f"from S select k, v {action}\nset T.k = k, Tt.v = v, S.k = k, v = v on T.v == v;"
    made, found = bind_collecting(parse(text), catalog, text=text)
    assert found == ()
    assert made is not None
    plain = bind(parse(text.replace("Tt.", "T.").replace("S.k", "T.k")), catalog)
    assert plain.queries == made.queries
    assert plain.warnings == ()
    assert [d.condition for d in made.warnings] == ["SET_OF_OTHER_TABLE"] * 2
    first = made.warnings[0]
    assert first.render() == (
        "line 2:14: warning: [SET_OF_OTHER_TABLE] 'set Tt.v' sets the column 'v' of 'T', whatever stands before the point (write 'T.v')\n"
        "    set T.k = k, Tt.v = v, S.k = k, v = v on T.v == v;\n"
        "                 ^^^^"
    )


def test_set_still_needs_a_column_that_the_table_has(catalog):
    text = S + T + "from S select v update T set U.x = v on T.v == v;"
    _made, found = bind_collecting(parse(text), catalog, text=text)
    assert [(d.condition, d.warning) for d in found] == [("INVALID_OUTPUT", False)]
