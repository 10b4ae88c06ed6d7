// The page builds elements with textContent only: whatever a tool or a model wrote stays text.
const MAX_EVENTS = 200;
const byId = (id) => document.getElementById(id);
const state = {
  calls: new Map(), questions: new Map(), failures: new Map(), tasks: {}, tools: [], servers: [],
  bars: [], events: [], turns: [], untrusted: new Map(), live: new Map(),
};
let token = takeToken();
let lastEvent = null;

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return given ?? sessionStorage.getItem("token");
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// What a person approves must not be reordered or hidden by characters that are not seen.
const UNSEEN = /[^\P{C}\n]|[\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

function visible(text) {
  const named = (sign) => `<U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
  return text.replace(UNSEEN, named);
}

function button(text, className, act) {
  const made = element("button", text, className);
  made.type = "button";
  made.addEventListener("click", async () => {
    made.disabled = true;
    try { await act(); } catch { /* `ask` has told it */ } finally { made.disabled = false; }
  });
  return made;
}

// A number of JavaScript has 16 digits: a longer one stays as it is written, shown and sent back.
function parsed(text) {
  return JSON.parse(text, (_, value, { source } = {}) => typeof value === "number"
    && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? JSON.rawJSON(source) : value);
}

async function ask(method, path, body) {
  const headers = { authorization: `Bearer ${token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const said = await answer.text().then(parsed).catch(() => ({}));
  if (!answer.ok) {
    byId("problem").textContent = said.error ?? `The console answered ${answer.status}.`;
    throw new Error(said.error);
  }
  byId("problem").textContent = "";
  return said;
}

const segment = (text) => encodeURIComponent(text);

function fill(id, items) { byId(id).replaceChildren(...items); }

// Lists are updated by key: a button that is about to be pressed stays the same element.
function show(id, entries, make) {
  const list = byId(id);
  const old = new Map([...list.children].map((item) => [item.dataset.key, item]));
  const items = entries.map(([key, value]) => {
    const item = old.get(key) ?? element("li");
    old.delete(key);
    if (item.shown !== value) {
      item.dataset.key = key;
      item.shown = value;
      item.replaceChildren(...make(value));
    }
    return item;
  });
  for (const item of old.values()) item.remove();
  items.forEach((item, index) => {
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] ?? null);
  });
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function row(...buttons) {
  const made = element("div", undefined, "buttons");
  made.append(...buttons);
  return made;
}

// Says that a session has read what anyone may have written; `mark` fills it in.
function badge(session) {
  const made = element("p", "", "badge");
  made.dataset.session = session;
  made.hidden = true;
  return made;
}

function mark(id) {
  for (const each of byId(id).querySelectorAll(".badge")) {
    const tools = state.untrusted.get(each.dataset.session) ?? [];
    each.hidden = !tools.length;
    each.textContent = `Untrusted content read: ${tools.join(", ")}`;
  }
}

function jsonForm(title, value, send) {
  const form = element("details");
  const text = element("textarea");
  text.value = JSON.stringify(value, null, 1);
  text.setAttribute("aria-label", title);
  form.append(element("summary", title), text, button("Send", "yes", () => {
    let read;
    try { read = parsed(text.value); } catch { problem("That is not JSON: check brackets and quotation marks."); return; }
    return send(read);
  }));
  return form;
}

function question(asked) {
  const decide = (body) => ask("POST", `api/approvals/${segment(asked.id)}`, body);
  const left = element("span", "", "quiet");
  left.dataset.deadline = asked.deadline;
  const buttons = [button("Deny", "no", () => decide({ answer: "deny" }))];
  if (!asked.schema) {
    buttons.unshift(button("Approve", "yes", () => decide({ answer: "approve" })));
    buttons.push(button("Always in this session", "", () => decide({ answer: "always" })));
  }
  const form = asked.schema
    ? jsonForm("Answer", {}, (read) => decide({ answer: "fill", arguments: read }))
    : jsonForm("Edit and approve", asked.details, (read) => decide({ answer: "edit", arguments: read }));
  const parts = [
    element("strong", visible(asked.title)), badge(asked.session),
    element("pre", visible(JSON.stringify(asked.details, null, 1))),
    element("p", visible(`${asked.tool} · session ${asked.session}`), "quiet"), left, row(...buttons), form,
  ];
  if (asked.problem) parts.splice(1, 0, element("p", visible(asked.problem), "failed"));
  return parts;
}

function runningCall(call) {
  const limit = call.deadline_seconds ?? call.timeout_seconds;
  const since = element("span", "", "quiet");
  since.dataset.since = call.at;
  const parts = [element("strong", call.tool), since, badge(call.session)];
  if (limit) {
    since.dataset.limit = limit;
    const ring = drawn("svg", { class: "ring", viewBox: "0 0 36 36", "aria-hidden": "true" });
    const left = drawn("circle", {
      class: "left", cx: 18, cy: 18, r: 15.9, pathLength: 100, "stroke-dasharray": "100 100",
      transform: "rotate(-90 18 18)", "data-since": call.at, "data-limit": limit,
    });
    ring.append(drawn("circle", { cx: 18, cy: 18, r: 15.9 }), left);
    parts.unshift(ring);
  }
  parts.push(element("p", "", "message quiet"));
  parts.push(row(button(`Cancel ${call.tool}`, "no", () => ask(
    "POST", `api/calls/${segment(call.trace_id)}/cancel`, { session: call.session },
  ))));
  return parts;
}

function liveSession(used) {
  const cost = used.session_cost === undefined ? "" : `, ${used.session_cost.toFixed(4)} ${used.currency}`;
  return [
    element("strong", visible(used.session)),
    element("span", ` ${(used.session_tokens ?? 0).toLocaleString()} tokens${cost}`, "quiet"),
  ];
}

function failedCall(call) {
  const decide = (what) => async () => {
    await ask("POST", `api/calls/${segment(call.trace_id)}/${what}`, { session: call.session });
    state.failures.delete(call.trace_id);
    soon("failures");
  };
  return [
    element("strong", call.tool),
    element("span", ` ${call.status}${call.reason_code ? `, ${call.reason_code}` : ""}`, "failed"),
    badge(call.session),
    row(button(`Retry ${call.tool}`, "", decide("retry")), button(`Skip ${call.tool}`, "", decide("skip"))),
  ];
}

function toolItem(tool) {
  const settings = element("details");
  const fillIn = (shown) => settings.replaceChildren(settings.firstChild, ...settingsOf(shown, change));
  const change = async (body) => {
    fillIn(await ask("PATCH", `api/tools/${segment(tool.name)}`, body));
    await loadTools();
  };
  settings.append(element("summary", `Settings of ${tool.name}`));
  settings.addEventListener("toggle", async () => {
    if (settings.open) fillIn(await ask("GET", `api/tools/${segment(tool.name)}`));
  });
  return [
    element("strong", tool.name), element("p", tool.description, "quiet"),
    row(button(tool.enabled ? `Disable ${tool.name}` : `Enable ${tool.name}`, "", () => change({ enabled: !tool.enabled }))),
    settings,
  ];
}

function settingsOf(shown, change) {
  const list = element("dl");
  const names = element("select");
  names.setAttribute("aria-label", `Setting of ${shown.name}`);
  for (const [name, each] of Object.entries(shown.effective)) {
    const source = [each.source, each.place, each.note].filter(Boolean).join(", ");
    list.append(element("dt", name), element("dd", `${said(each.value)} (${source})`));
    names.append(element("option", name));
  }
  const value = element("input");
  value.setAttribute("aria-label", "New value; empty for the default");
  return [list, row(names, value, button("Save", "yes", () => {
    let read = value.value.trim();
    try { read = read === "" ? null : parsed(read); } catch { /* a text such as 5s */ }
    return change({ [names.value]: read });
  }))];
}

const changesOf = new Map();

function serverItem(server) {
  const changes = changesOf.get(server.name) ?? element("div");
  changesOf.set(server.name, changes);
  const look = async () => {
    const found = await ask("GET", `api/servers/${segment(server.name)}/changes`);
    changes.replaceChildren(...found.flatMap((each) => [
      element("strong", each.tool), element("p", `Changed: ${each.changed.join(", ")}`, "failed"),
      element("pre", [each.diff].flat().join("\n")),
      button(`Trust ${each.tool}`, "yes", async () => {
        await ask("POST", `api/servers/${segment(server.name)}/trust`, { tool: each.tool, fingerprint: each.fingerprint });
        await look();
      }),
    ]));
    if (!found.length) changes.replaceChildren(element("p", "No tool has changed.", "quiet"));
  };
  const parts = [
    element("strong", server.name), element("span", ` ${server.state}`, server.last_error ? "failed" : "completed"),
    element("p", `${server.transport}; ${server.tools.length} tools, ${server.calls} calls running`, "quiet"),
    row(button(`Show changes of ${server.name}`, "", look)), changes,
  ];
  if (server.last_error) parts.splice(2, 0, element("p", server.last_error, "failed"));
  return parts;
}

function said(value) { return typeof value === "string" ? value : JSON.stringify(value); }

// Only texts and rings change every second.
function tick() {
  const now = Date.now() / 1000;
  for (const each of document.querySelectorAll("[data-deadline]")) {
    each.textContent = `${Math.max(0, Math.round(each.dataset.deadline - now))} s left`;
  }
  for (const each of document.querySelectorAll("[data-since]")) {
    const passed = Math.max(0, now - each.dataset.since);
    const limit = each.dataset.limit;
    if (each.tagName === "circle") {
      each.setAttribute("stroke-dasharray", `${Math.max(0, 100 - 100 * passed / limit)} 100`);
    } else {
      each.textContent = ` ${Math.round(passed)} s${limit ? ` of ${Math.round(limit)} s` : ""}`;
    }
  }
  if (Math.abs(now - timelineAt) >= SHORTEST_STILL_SECONDS) drawTimeline(now);
}

const WINDOW_SECONDS = 60;
const SHORTEST_STILL_SECONDS = 0.25; // of the timeline, which is drawn whole
let timelineAt = 0;
const MAX_BARS = 150;
const ROWS = ["user", "agent", "call"];

// In pixels of the page, so that letters have their size on a phone too.
const widthOf = (id) => Math.max(280, byId(id).getBoundingClientRect().width);

function drawTimeline(now) {
  timelineAt = now;
  state.bars = state.bars.filter((bar) => (bar.end ?? now) > now - WINDOW_SECONDS).slice(-MAX_BARS);
  const [left, high] = [60, 28];
  const width = widthOf("timeline") - left - 20;
  const x = (at) => left + width * Math.max(0, 1 - (now - at) / WINDOW_SECONDS);
  const parts = ROWS.map((name, index) => drawn("text", { x: 0, y: 18 + index * high }, `${name}${name === "call" ? "s" : ""}`));
  for (let seconds = 0; seconds <= WINDOW_SECONDS; seconds += 15) {
    const at = x(now - seconds);
    parts.push(drawn("line", { class: "axis", x1: at, x2: at, y1: 0, y2: 88 }));
    parts.push(drawn("text", { x: at, y: 104, "text-anchor": "middle" }, seconds ? `−${seconds} s` : "now"));
  }
  for (const bar of state.bars) {
    const from = x(bar.at);
    const made = drawn("rect", {
      class: bar.broken ? "broken" : bar.kind, x: from, y: 4 + ROWS.indexOf(bar.kind) * high, rx: 3,
      width: Math.max(3, x(Math.min(bar.end ?? now, now)) - from), height: high - 8,
    });
    made.append(drawn("title", {}, bar.label));
    parts.push(made);
  }
  byId("timeline").setAttribute("viewBox", `0 0 ${left + width + 20} 110`);
  byId("timeline").replaceChildren(...parts);
}

async function loadMetrics() {
  const found = await ask("GET", "api/metrics");
  const { system, cache } = found;
  byId("totals").textContent = `${system.executions} calls, ${system.failures} failed, `
    + `${(100 * system.error_rate).toFixed(1)} % errors; cache: ${cache.hits} hits, ${cache.misses} misses`;
  const tools = Object.entries(found.tools).filter(([, each]) => each.p95_seconds !== null)
    .sort(([, a], [, b]) => b.executions - a.executions).slice(0, 12);
  const most = Math.max(0.000001, ...tools.map(([, each]) => each.p95_seconds));
  const width = widthOf("latency");
  const took = (seconds) => seconds < 1 ? `${(seconds * 1000).toPrecision(3)} ms` : `${seconds.toPrecision(3)} s`;
  const parts = tools.flatMap(([name, each], index) => {
    const y = index * 40;
    return [
      drawn("text", { x: 0, y: y + 14 }, `${name}: p50 ${took(each.p50_seconds)}, p95 ${took(each.p95_seconds)}`),
      drawn("rect", { class: "high", x: 0, y: y + 20, height: 12, width: (width - 4) * each.p95_seconds / most }),
      drawn("rect", { class: "median", x: 0, y: y + 20, height: 12, width: (width - 4) * each.p50_seconds / most }),
    ];
  });
  byId("latency").setAttribute("viewBox", `0 0 ${width} ${Math.max(1, tools.length * 40)}`);
  byId("latency").replaceChildren(...parts);
}

// What is as it was stays the same element, with its settings open.
function updated(before, found) {
  const known = new Map(before.map((each) => [each.name, each]));
  return found.map((each) => {
    const old = known.get(each.name);
    return JSON.stringify(old) === JSON.stringify(each) ? old : each;
  });
}

async function loadTools() {
  state.tools = updated(state.tools, await ask("GET", "api/tools"));
  soon("tools");
}

const toolsOf = (servers) => JSON.stringify(servers.map((server) => server.tools));

async function loadServers() {
  const before = toolsOf(state.servers);
  state.servers = updated(state.servers, await ask("GET", "api/servers"));
  soon("servers");
  if (toolsOf(state.servers) !== before) await loadTools();
}

let failuresSeen = 0;

async function loadFailures() {
  const before = failuresSeen;
  const found = await ask("GET", "api/failures");
  if (failuresSeen !== before) { afterwards(loadFailures); return; } // the answer may be older
  state.failures = new Map(found.map((call) => [call.trace_id, call]));
  soon("failures");
}

// At most one request in two seconds, however many events there are.
const later = new Map();
function afterwards(load) {
  if (later.has(load)) return;
  later.set(load, setTimeout(() => { later.delete(load); load().catch(() => {}); }, 2000));
}

function listed(title, ...more) {
  const item = element("li");
  item.append(element("strong", title), ...more);
  return item;
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const when = (at) => clock.format(at * 1000);

async function replay({ session, user }) {
  const steps = await ask("GET", `api/conversations/${segment(session)}?user=${segment(user)}`);
  fill("found", steps.map((step) => listed(
    `${when(step.at)} ${step.kind.replaceAll("_", " ")} ${step.tool}`, element("pre", JSON.stringify(step.data, null, 1)),
  )));
}

byId("search").addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const asked = new URLSearchParams({ limit: 100 });
  if (byId("search-tool").value) asked.set("tool", byId("search-tool").value);
  if (byId("search-text").value) asked.set("text", byId("search-text").value);
  const rows = await ask("GET", `api/history?${asked}`).catch(() => []);
  fill("found", rows.map((each) => listed(
    each.tool, element("span", ` ${each.status}`, each.status === "ok" ? "completed" : "failed"),
    element("p", `${when(each.at ?? each.started)} · session ${each.session}`, "quiet"),
  )));
});

byId("list-conversations").addEventListener("click", async () => {
  const found = await ask("GET", "api/conversations").catch(() => []);
  fill("found", found.map((each) => listed(
    each.session, element("p", `${when(each.started)}, ${each.calls} calls, ${each.failures} failed, ${each.input_tokens + each.output_tokens} tokens`, "quiet"),
    row(button(`Replay ${each.session}`, "", () => replay(each))),
  )));
});

function noted(event) {
  const item = element("li", `${when(event.at)} ${event.event.replaceAll("_", " ")} ${event.tool ?? event.session ?? ""}`);
  if (event.message) item.append(element("p", said(event.message), "quiet"));
  return item;
}

function turn(event) {
  return listed(event.who === "user" ? "User" : "Agent", element("p", event.text + (event.interrupted ? " (interrupted)" : "")));
}

// Newest first and bounded: only what will be seen becomes elements.
function prepend(id, waiting, make) {
  const list = byId(id);
  list.prepend(...waiting.splice(0).slice(-MAX_EVENTS).reverse().map(make));
  while (list.childElementCount > MAX_EVENTS) list.lastChild.remove();
}

const SHOW = {
  questions: () => { show("questions", [...state.questions], question); mark("questions"); },
  calls: () => {
    show("calls", [...state.calls].slice(0, MAX_EVENTS), runningCall);
    for (const item of byId("calls").children) {
      item.querySelector(".message").textContent =
        item.shown.waits_for ? `waits for ${item.shown.waits_for}` : said(item.shown.message ?? "");
    }
    mark("calls");
  },
  failures: () => { show("failures", [...state.failures].slice(-MAX_EVENTS), failedCall); mark("failures"); },
  tasks: () => fill("tasks", Object.values(state.tasks).flat().map((task) => {
    const item = element("li", `${task.status === "completed" ? "✓ " : ""}${task.title}`);
    item.append(element("span", ` ${task.status.replace("_", " ")}`, task.status));
    return item;
  })),
  tools: () => show("tools", state.tools.map((tool) => [tool.name, tool]), toolItem),
  servers: () => show("servers", state.servers.map((server) => [server.name, server]), serverItem),
  live: () => show("live", [...state.live].slice(-MAX_EVENTS), liveSession),
  activity: () => prepend("activity", state.events, noted),
  spoken: () => prepend("spoken", state.turns, turn),
};
const changed = new Set();

function soon(name) {
  if (!changed.size) requestAnimationFrame(flush);
  changed.add(name);
}

function flush() {
  const names = [...changed];
  changed.clear();
  for (const name of names) SHOW[name]();
  tick();
}

const ENDED = new Set(["tool_complete", "tool_error", "tool_failed", "tool_cancel"]);
const open = new Map();

function bar(key, kind, at, label) {
  const made = { kind, at, label };
  open.set(key, made);
  state.bars.push(made);
  if (state.bars.length > 2 * MAX_BARS) state.bars.splice(0, MAX_BARS);
}

function endBar(key, event) {
  const ended = open.get(key);
  if (!ended) return;
  open.delete(key);
  ended.end = Math.max(event.at, ended.at + (event.interrupted ? 0 : event.sound_seconds ?? 0));
  ended.broken = event.event === "tool_failed";
  if (event.text) ended.label = event.text;
}

const ON = {
  state: (event) => {
    state.calls = new Map(event.calls.map((call) => [call.trace_id, call]));
    state.questions = new Map(event.approvals.map((asked) => [asked.id, asked]));
    state.tasks = event.tasks;
    state.untrusted = new Map(Object.entries(event.untrusted));
    state.live = new Map(event.live.map((each) => [each.session, each]));
    open.clear();
    state.bars = [];
    for (const call of event.calls) bar(call.trace_id, "call", call.at, call.tool);
    for (const name of ["questions", "calls", "tasks", "live"]) soon(name);
    for (const load of [loadTools, loadServers, loadFailures, loadMetrics]) load().catch(() => {});
  },
  tool_start: (event) => {
    state.calls.set(event.trace_id, event);
    if (event.untrusted) state.untrusted.set(event.session, event.untrusted);
    else state.untrusted.delete(event.session);
    bar(event.trace_id, "call", event.at, event.tool);
  },
  tool_progress: (event) => {
    const call = state.calls.get(event.trace_id);
    if (call) call.message = event.message;
  },
  tool_wait: (event) => {
    const call = state.calls.get(event.trace_id);
    if (call) call.waits_for = event.waits_for;
  },
  tool_failed: (event) => { failuresSeen += 1; state.failures.set(event.trace_id, event); soon("failures"); },
  tool_untrusted: (event) => {
    const known = state.untrusted.get(event.session) ?? [];
    if (!known.includes(event.tool)) state.untrusted.set(event.session, [...known, event.tool]);
    for (const name of ["questions", "failures"]) soon(name);
  },
  tool_skip: (event) => { state.failures.delete(event.trace_id); soon("failures"); },
  tool_retry: (event) => { if (event.by) afterwards(loadFailures); },
  tool_approval_request: (event) => {
    if (event.request) state.questions.set(event.request.id, event.request);
    soon("questions");
  },
  tool_approval_answer: (event) => { state.questions.delete(event.approval_id); soon("questions"); },
  task_list: (event) => { state.tasks[event.session] = event.tasks; soon("tasks"); },
  task_update: (event) => {
    const tasks = state.tasks[event.session] ?? [];
    state.tasks[event.session] = tasks.map((task) => task.id === event.task.id ? event.task : task);
    soon("tasks");
  },
  speech: (event) => {
    const key = `${event.session} ${event.who}`;
    if (event.state === "began") { bar(key, event.who, event.at, event.who); return; }
    endBar(key, event);
    if (event.text) { state.turns.push(event); soon("spoken"); }
  },
  session_started: (event) => { state.live.set(event.session, event); soon("live"); },
  usage: (event) => { state.live.set(event.session, event); soon("live"); },
  session_ended: (event) => { state.live.delete(event.session); soon("live"); },
  settings_changed: () => loadTools().catch(() => {}),
  tool_quarantined: () => loadServers().catch(() => {}),
};

function apply(event) {
  const kind = event.event;
  if (kind !== "state") {
    state.events.push(event);
    if (state.events.length > 2 * MAX_EVENTS) state.events.splice(0, MAX_EVENTS);
    soon("activity");
  }
  if (ON[kind]) ON[kind](event);
  if (ENDED.has(kind)) {
    state.calls.delete(event.trace_id);
    endBar(event.trace_id, event);
    afterwards(loadMetrics);
    if (kind !== "tool_failed") afterwards(loadFailures);
  }
  if (kind.startsWith("tool_")) soon("calls");
}

function problem(text) { byId("problem").textContent = text; }

function connection(kind, text) {
  byId("connection").dataset.state = kind;
  byId("connection").textContent = text;
}

const MAX_SILENCE_MS = 45000; // the server says something every 15 s

async function read() {
  const hanging = new AbortController();
  const heard = () => setTimeout(() => hanging.abort(), MAX_SILENCE_MS);
  let silence = heard();
  try {
    return await readEvents(hanging.signal, () => { clearTimeout(silence); silence = heard(); });
  } finally { clearTimeout(silence); }
}

async function readEvents(signal, heard) {
  const headers = { authorization: `Bearer ${token}` };
  if (lastEvent) headers["last-event-id"] = lastEvent;
  const answer = await fetch("api/events", { headers, signal });
  if (answer.status === 401) { signIn(); return false; }
  if (!answer.ok) throw new Error(String(answer.status));
  connection("open", "Connected");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    heard();
    const pieces = (waiting + value).split("\n\n");
    waiting = pieces.pop();
    for (const piece of pieces) {
      const data = piece.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      const event = parsed(data.slice(6));
      lastEvent = String(event.sequence);
      apply(event);
    }
  }
}

function signIn() {
  sessionStorage.removeItem("token");
  token = null;
  connection("lost", "Not signed in");
  byId("sign-in").hidden = false;
  byId("token").focus();
}

byId("sign-in").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  token = byId("token").value;
  sessionStorage.setItem("token", token);
  byId("sign-in").hidden = true;
  follow();
});

async function follow() {
  let wait = 250;
  while (token) {
    try {
      if (!await read()) return;
      wait = 250;
    } catch { /* the loop tries again */ }
    connection("lost", "Connection lost, trying again");
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    wait = Math.min(wait * 2, 5000);
  }
}

// No event says how a server does.
setInterval(() => {
  if (!document.hidden && byId("connection").dataset.state === "open") loadServers().catch(() => {});
}, 5000);
setInterval(tick, 1000);
if (token) follow(); else signIn();
