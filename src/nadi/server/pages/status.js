// The status page of a worker: what its apps do, and how the last minutes were. `login.js` goes before it.
"use strict";

const EVERY = 5000; // ms between two looks; none while nobody sees the page
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

let timer = 0;

async function look() {
  clearTimeout(timer);
  const answer = await asked("status/apps");
  if (answer === null) return;
  show(await answer.json());
  one("stale").textContent = "";
  wait();
}

function wait() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, EVERY);
}

async function refresh() {
  try {
    await look();
  } catch (problem) {
    one("stale").textContent = `No answer since ${new Date().toLocaleTimeString()}: ${problem.message}`;
    wait();
  }
}

function show(found) {
  letIn();
  one("node").textContent = found.node.id;
  one("ready").textContent = `${found.node.ready ? "ready" : "starting"}, up for ${span(found.node.upSeconds)}`;
  showPair(found.pair);
  const active = found.apps.filter((app) => app.status === "active").length;
  one("count").textContent = `${active} of ${found.apps.length} active`;
  one("rate").textContent = whole.format(found.apps.reduce((sum, app) => sum + app.rate, 0));
  one("errors").textContent = whole.format(found.apps.reduce((sum, app) => sum + app.errors, 0));
  one("empty").hidden = found.apps.length > 0;
  one("table").hidden = found.apps.length === 0;
  one("table").tBodies[0].replaceChildren(...found.apps.map(row));
}

// Only a node of a pair has one.
function showPair(pair) {
  one("pair").hidden = !pair;
  if (!pair) return;
  one("role").textContent = pair.role;
  one("group").textContent = pair.group;
  one("partner").textContent = pair.partner ? pair.partner.id : "not there";
  const since = pair.lastSync ? `, last at ${new Date(pair.lastSync).toLocaleTimeString()}` : "";
  const why = pair.reason ? `: ${pair.reason}` : "";
  const unready = pair.unready ? ` The passive one could not go on at once: ${pair.unready}.` : "";
  one("sync").textContent = (pair.inSync ? `Both have the same${since}.` : `They do not have the same${why}${since}.`) + unready;
  one("alarms").replaceChildren(...pair.alarms.map((alarm) => {
    const made = document.createElement("li");
    made.textContent = `${alarm.message}. ${alarm.next}`;
    return made;
  }));
}

function row(app) {
  const made = document.createElement("tr");
  made.dataset.app = app.name;
  made.append(
    cell(app.name),
    state(app),
    cell(whole.format(sum(app.eventsIn)), "number"),
    cell(whole.format(sum(app.eventsOut)), "number"),
    errors(app),
    cell(whole.format(app.refused || 0), "number"),
    cell(`${short.format(app.stateBytes)}B`, "number"),
    plot(app.history.at, app.history.rate, "events per second"),
    plot(app.history.at, app.history.latency, "ms"),
  );
  return made;
}

function errors(app) {
  const made = cell(whole.format(app.errors), "number");
  if (app.setAside) {
    const aside = document.createElement("span");
    aside.className = "reason";
    aside.textContent = `${whole.format(app.setAside)} set aside`;
    aside.title = "Messages that hosts died of";
    made.append(aside);
  }
  return made;
}

function state(app) {
  const made = cell("");
  const word = document.createElement("span");
  word.textContent = app.status;
  word.className = ["active", "passive", "starting"].includes(app.status) ? app.status : "inactive";
  made.append(word);
  const why = app.reason || app.lastError;
  if (why) {
    const reason = document.createElement("span");
    reason.className = "reason";
    reason.textContent = why;
    made.append(reason);
  }
  return made;
}

// A line over the last minutes; `at` are ms since the epoch, values of null are gaps.
function plot(at, values, unit) {
  const made = cell("");
  const frame = document.createElement("div");
  frame.className = "plot";
  const known = values.map((value, i) => [at[i], value]).filter(([, value]) => value !== null);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const most = Math.max(...known.map(([, value]) => value), 0);
  svg.setAttribute("aria-label", known.length ? `${unit}, at most ${short.format(most)}` : `${unit}: nothing yet`);
  if (known.length > 1) {
    const from = at[0], width = Math.max(at[at.length - 1] - from, 1);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", known.map(([when, value]) => `${(100 * (when - from)) / width},${29 - (28 * value) / (most || 1)}`).join(" "));
    svg.append(line);
  }
  const last = document.createElement("output");
  last.textContent = known.length ? short.format(known[known.length - 1][1]) : "–";
  last.title = unit;
  frame.append(svg, last);
  made.append(frame);
  return made;
}

function sum(counts) {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

function span(seconds) {
  if (seconds < 120) return `${whole.format(seconds)} s`;
  if (seconds < 7200) return `${whole.format(seconds / 60)} min`;
  return seconds < 172800 ? `${whole.format(seconds / 3600)} h` : `${whole.format(seconds / 86400)} days`;
}

begin({ main: "apps", refresh, rest: () => clearTimeout(timer) });
