// The page builds elements with textContent only: whatever a tool or a model wrote stays text.
const MOST_EVENTS = 200;
const byId = (id) => document.getElementById(id);
const state = { calls: new Map(), questions: new Map(), tasks: {}, tools: [] };
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

function button(text, className, act) {
  const made = element("button", text, className);
  made.type = "button";
  made.addEventListener("click", async () => {
    made.disabled = true;
    try { await act(); } finally { made.disabled = false; }
  });
  return made;
}

async function ask(method, path, body) {
  const headers = { authorization: `Bearer ${token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    byId("problem").textContent = said.error ?? `The console answered ${answer.status}.`;
    throw new Error(said.error);
  }
  byId("problem").textContent = "";
  return said;
}

const segment = (text) => encodeURIComponent(text);

function fill(id, items) { byId(id).replaceChildren(...items); }

function showQuestions() {
  fill("questions", [...state.questions.values()].map((question) => {
    const item = element("li");
    const decide = (answer) => () => ask("POST", `api/approvals/${segment(question.id)}`, { answer });
    const buttons = element("div", undefined, "buttons");
    if (!question.schema) buttons.append(button("Approve", "yes", decide("approve")));
    buttons.append(button("Deny", "no", decide("deny")));
    const left = element("span", "", "quiet");
    left.dataset.deadline = question.deadline;
    item.append(
      element("strong", question.title),
      element("pre", JSON.stringify(question.details, null, 1)),
      element("p", `${question.tool} · session ${question.session}`, "quiet"),
      left,
      buttons,
    );
    return item;
  }));
  tick();
}

function showCalls() {
  fill("calls", [...state.calls.values()].map((call) => {
    const item = element("li");
    const since = element("span", "", "quiet");
    since.dataset.since = call.at;
    const buttons = element("div", undefined, "buttons");
    buttons.append(button("Cancel", "no", () => ask(
      "POST", `api/calls/${segment(call.trace_id)}/cancel`, { session: call.session },
    )));
    item.append(element("strong", call.tool), since);
    if (call.message) item.append(element("p", call.message, "quiet"));
    item.append(buttons);
    return item;
  }));
  tick();
}

// Only texts change every second: a button that is about to be pressed stays the same element.
function tick() {
  const now = Date.now() / 1000;
  for (const each of document.querySelectorAll("[data-deadline]")) {
    each.textContent = `${Math.max(0, Math.round(each.dataset.deadline - now))} s left`;
  }
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = ` ${Math.max(0, Math.round(now - each.dataset.since))} s`;
  }
}

function showTasks() {
  fill("tasks", Object.values(state.tasks).flat().map((task) => {
    const item = element("li", task.title);
    item.append(element("span", ` ${task.status.replace("_", " ")}`, task.status));
    return item;
  }));
}

function showTools() {
  fill("tools", state.tools.map((tool) => {
    const item = element("li");
    const change = async () => {
      await ask("PATCH", `api/tools/${segment(tool.name)}`, { enabled: !tool.enabled });
      await loadTools();
    };
    const buttons = element("div", undefined, "buttons");
    buttons.append(button(tool.enabled ? `Disable ${tool.name}` : `Enable ${tool.name}`, "", change));
    item.append(element("strong", tool.name), element("p", tool.description, "quiet"), buttons);
    return item;
  }));
}

async function loadTools() {
  state.tools = await ask("GET", "api/tools");
  showTools();
}

function note(event) {
  const about = event.tool ?? event.session ?? "";
  const when = new Date(event.at * 1000).toLocaleTimeString();
  const item = element("li", `${when} ${event.event.replaceAll("_", " ")} ${about}`);
  if (event.message) item.append(element("p", event.message, "quiet"));
  byId("activity").prepend(item);
  while (byId("activity").childElementCount > MOST_EVENTS) byId("activity").lastChild.remove();
}

const ENDED = new Set(["tool_complete", "tool_error", "tool_failed", "tool_cancel"]);

function apply(event) {
  if (event.event === "state") {
    state.calls = new Map(event.calls.map((call) => [call.trace_id, call]));
    state.questions = new Map(event.approvals.map((question) => [question.id, question]));
    state.tasks = event.tasks;
  } else {
    note(event);
    if (event.event === "tool_start") state.calls.set(event.trace_id, event);
    if (ENDED.has(event.event)) state.calls.delete(event.trace_id);
    if (event.event === "tool_progress" && state.calls.has(event.trace_id)) {
      state.calls.get(event.trace_id).message = event.message;
    }
    if (event.event === "tool_approval_request" && event.request) {
      state.questions.set(event.request.id, event.request);
    }
    if (event.event === "tool_approval_answer") state.questions.delete(event.approval_id);
    if (event.event === "task_list") state.tasks[event.session] = event.tasks;
    if (event.event === "settings_changed") loadTools().catch(() => {});
  }
  const kind = event.event;
  if (kind === "state" || kind.startsWith("tool_approval")) showQuestions();
  if (kind === "state" || kind.startsWith("tool_")) showCalls();
  if (kind === "state" || kind.startsWith("task_")) showTasks();
}

function connection(kind, text) {
  byId("connection").dataset.state = kind;
  byId("connection").textContent = text;
}

async function read() {
  const headers = { authorization: `Bearer ${token}` };
  if (lastEvent) headers["last-event-id"] = lastEvent;
  const answer = await fetch("api/events", { headers });
  if (answer.status === 401) { signIn(); return false; }
  if (!answer.ok) throw new Error(String(answer.status));
  connection("open", "Connected");
  await loadTools();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const pieces = (waiting + value).split("\n\n");
    waiting = pieces.pop();
    for (const piece of pieces) {
      const data = piece.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      const event = JSON.parse(data.slice(6));
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

setInterval(tick, 1000);
if (token) follow(); else signIn();
