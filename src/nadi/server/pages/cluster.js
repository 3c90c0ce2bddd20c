// The page of a cluster: who is there, what runs where, what has happened. It asks once, and then waits for news. `login.js` goes before it.
"use strict";

const AGAIN = 2000; // ms after which a manager that did not answer is asked once more
const CHANNELS = 5000; // ms between two looks at the channels of an app, at least
const EVENTS = 40; // so many are shown
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });

let mark = ""; // of what the page shows
let waiting = new AbortController();

// ---- asking

function rest() {
  waiting.abort();
}

async function refresh() {
  rest();
  waiting = new AbortController();
  mark = "";
  const mine = waiting.signal;
  if (await look(mine)) follow(mine);
}

async function follow(mine) {
  while (!mine.aborted && (await look(mine)));
}

// Waits for news and shows it; false where it is of no use to go on.
async function look(mine) {
  try {
    const answer = await asked(`status/cluster?after=${encodeURIComponent(mark)}`, { signal: mine });
    if (answer === null) return false;
    if (answer.status !== 204) show(await answer.json());
    one("stale").textContent = "";
  } catch (problem) {
    if (mine.aborted) return false;
    one("stale").textContent = `No answer since ${new Date().toLocaleTimeString()}: ${problem.message}. What runs goes on without this manager.`;
    await new Promise((done) => setTimeout(done, AGAIN));
  }
  return true;
}

// ---- showing

function show(found) {
  letIn();
  mark = found.mark;
  const leader = found.managers.find((manager) => manager.leads);
  one("node").textContent = found.group;
  one("ready").textContent = `${leader ? `${leader.id} leads` : "nobody leads"}; asked: ${found.node.id}`;
  const there = found.workers.filter((worker) => worker.state !== "gone");
  const instances = found.apps.flatMap((app) => app.instances);
  one("managercount").textContent = found.managers.length;
  one("workercount").textContent = counted(there, found.workers);
  one("appcount").textContent = `${counted(found.apps.filter((app) => app.status === "active"), found.apps)} active`;
  one("instancecount").textContent = `${counted(instances.filter((one) => one.runs), instances)} running`;
  one("noworkers").hidden = found.workers.length > 0;
  one("noapps").hidden = found.apps.length > 0;
  one("managers").tBodies[0].replaceChildren(...found.managers.map(managerRow));
  one("workers").tBodies[0].replaceChildren(...found.workers.map(workerRow));
  one("events").tBodies[0].replaceChildren(...found.events.slice(0, EVENTS).map(eventRow));
  showApps(found.apps);
}

function counted(some, all) {
  return `${whole.format(some.length)} of ${whole.format(all.length)}`;
}

function managerRow(manager) {
  const made = document.createElement("tr");
  made.dataset.manager = manager.id;
  made.append(cell(manager.id), cell(manager.leads ? "leads" : "stands by", manager.leads ? "leads" : ""), cell(manager.address));
  return made;
}

function workerRow(worker) {
  const made = document.createElement("tr");
  made.dataset.worker = worker.id;
  if (worker.state === "gone") made.className = "gone";
  made.append(
    cell(worker.id),
    cell(worker.receiver ? `${worker.state}, takes events in` : worker.state, worker.state),
    link(worker.address),
    cell(worker.version || "–"),
    cell(worker.heard === null ? "–" : `${whole.format(worker.heard / 1000)} s ago`, "number"),
    cell(worker.cpu === null ? "–" : percent.format(worker.cpu), "number"),
    cell(worker.memory === null ? "–" : percent.format(worker.memory), "number"),
    cell(worker.instances.join(", ")),
  );
  return made;
}

// The address of a worker, which has a page of its own.
function link(address) {
  const made = cell("");
  const anchor = document.createElement("a");
  anchor.textContent = address;
  if (/^https?:/.test(address)) anchor.href = address;
  anchor.rel = "noreferrer";
  made.append(anchor);
  return made;
}

function eventRow(event) {
  const made = document.createElement("tr");
  made.append(cell(new Date(event.at).toLocaleTimeString()), cell(event.kind), cell(event.subject), cell(event.detail));
  return made;
}

function showApps(apps) {
  const names = new Set(apps.map((app) => app.name));
  const shown = new Map([...one("apps").children].map((section) => [section.dataset.app, section]));
  for (const [name, section] of shown) if (!names.has(name)) section.remove();
  for (const app of apps) {
    const section = shown.get(app.name) ?? newApp(app.name);
    one("apps").append(section); // in the order of names
    showApp(section, app);
  }
}

function newApp(name) {
  const made = one("app").content.firstElementChild.cloneNode(true);
  made.dataset.app = name;
  made.querySelector(".name").textContent = name;
  return made;
}

function showApp(section, app) {
  const status = section.querySelector(".status");
  status.textContent = app.waits ? "waits" : app.status;
  status.className = `status ${app.status}`;
  section.querySelector(".version").textContent = `version ${app.version}`;
  section.querySelector(".reason").textContent = app.reason;
  section.querySelector(".instances").tBodies[0].replaceChildren(...app.instances.map(instanceRow));
  for (const box of section.querySelectorAll("[data-instance]")) colour(box, app.instances);
  if (section.dataset.version !== String(app.version)) draw(section, app);
  if (Date.now() - Number(section.dataset.looked ?? 0) > CHANNELS) showChannels(section, app.name);
}

function instanceRow(instance) {
  const made = document.createElement("tr");
  made.dataset.instance = instance.name;
  const state = cell(instance.state, instance.state);
  if (instance.reason) {
    const reason = document.createElement("span");
    reason.className = "reason";
    reason.textContent = instance.reason;
    state.append(reason);
  }
  made.append(cell(instance.name), state, cell(instance.worker || "–"), cell(instance.epoch || "–", "number"), cell(instance.failures || "", "number"));
  return made;
}

// ---- drawings and channels, which are asked for aside

async function aside(path) {
  try {
    return await asked(path, { signal: waiting.signal });
  } catch {
    return null; // the app has just gone, or a broker is away: the next news try again
  }
}

async function draw(section, app) {
  section.dataset.version = app.version;
  const answer = await aside(`status/cluster/apps/${encodeURIComponent(app.name)}/drawing`);
  if (answer === null) {
    delete section.dataset.version;
    return;
  }
  const picture = new DOMParser().parseFromString(await answer.text(), "image/svg+xml").documentElement;
  section.querySelector(".drawing").replaceChildren(document.importNode(picture, true));
}

function colour(box, instances) {
  const found = instances.find((instance) => instance.name === box.dataset.instance);
  if (box instanceof SVGElement && found) box.setAttribute("class", `instance ${found.state}`);
}

async function showChannels(section, app) {
  section.dataset.looked = Date.now();
  const answer = await aside(`status/cluster/apps/${encodeURIComponent(app)}/channels`);
  const table = section.querySelector(".channels");
  const rows = answer === null ? [] : (await answer.json()).flatMap(channelRows);
  table.hidden = rows.length === 0;
  table.tBodies[0].replaceChildren(...rows);
}

// A row for each of those who fill a channel, then for each of those who read it.
function channelRows(channel) {
  const filling = channel.producers.map((one) => ({
    who: one.instance,
    does: one.closed ? "has ended" : "fills",
    chunks: whole.format(one.chunks.reduce((total, count) => total + count, 0)),
    till: one.clock > 0 ? `till ${new Date(one.clock).toLocaleTimeString()}` : "",
  }));
  const reading = channel.readers.map((one) => ({
    who: one.instance,
    does: "reads",
    chunks: one.lagChunks === null ? "" : `${whole.format(one.lagChunks)} behind`,
    till: one.lagMs === null ? "" : `${whole.format(one.lagMs)} ms behind`,
  }));
  const rows = [...filling, ...reading];
  if (!rows.length) rows.push({ who: "–", does: channel.away || "nothing yet", chunks: "", till: "" });
  return rows.map((row, i) => {
    const made = document.createElement("tr");
    const held = channel.bytes == null ? "" : `, ${short.format(channel.bytes)}B`;
    made.append(
      cell(i ? "" : channel.channel),
      cell(i ? "" : `${channel.partitions}${held}`, "number"),
      cell(row.who),
      cell(row.does),
      cell(row.chunks, "number"),
      cell(row.till, "number"),
    );
    return made;
  });
}

begin({ main: "cluster", refresh, rest });
