// Talk with the agent: microphone and typed text in, its voice out, over one WebSocket.
const MICROPHONE_HERTZ = 16000;
const SPEAKER_HERTZ = 24000;
const MOST_UNSENT_BYTES = 64000; // 2 s of sound; what is older than that is said too late
const SHORTEST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;
const MOST_FAILURES = 5; // of the agent, without a sound from it in between
const FAILED = 1011;
const GONE = new Set([1003, 1008, 1009]); // closed for what this page did: not to be tried again

const byId = (id) => document.getElementById(id);
const section = byId("talk-section");
let socket = null;
let microphone = null;
let player = null;
let isMuted = false;
let isWanted = false;
let isReady = false;
let waitMs = SHORTEST_WAIT_MS;
let retry = null;
let failures = 0;
let conversation = null; // resumed where the connection was lost
let news = "";
const unsaid = []; // typed before the connection was open

function tell(state, text) {
  section.dataset.state = state;
  byId("talk-state").textContent = text;
  byId("talk-start").hidden = Boolean(microphone);
  byId("talk-mute").hidden = !microphone;
  byId("talk-mute").setAttribute("aria-pressed", String(isMuted));
  byId("talk-end").hidden = !isWanted;
}

function tellOpen() {
  if (!isReady) { tell("connecting", "Connecting to the agent"); return; }
  if (!microphone) { tell("typing", `${news}Connected: type, or start the microphone`); return; }
  if (isMuted) { tell("muted", `${news}The microphone is muted`); return; }
  tell("listening", `${news}The agent hears you`);
}

function subprotocols() {
  const bytes = new TextEncoder().encode(sessionStorage.getItem("token") ?? "");
  const encoded = btoa(String.fromCharCode(...bytes));
  const token = encoded.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return ["leonidas.talk.v1", `bearer.${token}`];
}

function connect() {
  clearTimeout(retry);
  isWanted = true;
  isReady = false;
  const url = new URL("api/talk", location.href.replace(/^http/, "ws"));
  if (conversation) url.searchParams.set("conversation", conversation);
  const opened = new WebSocket(url, subprotocols());
  opened.binaryType = "arraybuffer";
  opened.addEventListener("message", ({ data }) => { if (socket === opened) receive(data); });
  opened.addEventListener("close", ({ code, reason }) => { if (socket === opened) closed(code, reason); });
  socket = opened;
  tellOpen();
}

function receive(data) {
  if (typeof data !== "string") {
    waitMs = SHORTEST_WAIT_MS; // only now: an agent may open and fail again and again
    failures = 0;
    player?.port.postMessage(data, [data]);
    return;
  }
  const { type, ...more } = JSON.parse(data);
  if (type === "interrupted") player?.port.postMessage("empty");
  if (type === "ready") {
    isReady = true;
    section.dataset.resumed = more.resumed;
    if (more.resumed) waitMs = SHORTEST_WAIT_MS;
    else player?.port.postMessage("empty"); // the sound of a conversation that is lost
    news = conversation && !more.resumed ? "A new conversation has begun. " : "";
    conversation = more.conversation;
    for (const said of unsaid.splice(0)) send(said);
    tellOpen();
  }
}

function closed(code, reason) {
  socket = null;
  isReady = false;
  if (code === FAILED) failures += 1;
  if (code === 1000 || GONE.has(code) || failures >= MOST_FAILURES) {
    failures = 0;
    waitMs = SHORTEST_WAIT_MS;
    end();
    tell(code === 1000 ? "idle" : "failed", `${reason || "The conversation has ended"}.`);
    return;
  }
  tell("lost", `${reason || "The connection was lost"}: trying again`);
  retry = setTimeout(connect, waitMs);
  waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
}

function send(said) { socket.send(JSON.stringify(said)); }

async function openPlayer() {
  if (player || !window.isSecureContext) return; // elsewhere there is no worklet: words only
  const context = new AudioContext({ sampleRate: SPEAKER_HERTZ });
  await context.audioWorklet.addModule("talk-sound.js");
  player = new AudioWorkletNode(context, "player", { numberOfInputs: 0, outputChannelCount: [1] });
  player.port.onmessage = ({ data }) => {
    section.dataset.played = data.played;
    section.dataset.queued = data.queued;
  };
  player.connect(context.destination);
}

function whyNoMicrophone(error) {
  if (error.name === "NotAllowedError") return "The microphone is not allowed: allow it for this page in the browser";
  if (error.name === "NotFoundError") return "There is no microphone: connect one";
  if (error.name === "NotReadableError") return "Another program has the microphone: close it";
  return `The microphone cannot be used (${error.name})`;
}

async function openMicrophone() {
  if (!window.isSecureContext || !navigator.mediaDevices) {
    throw new Error("A browser gives the microphone only to https:// and to this machine: open the page there");
  }
  const wanted = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: wanted });
  } catch (error) {
    throw new Error(whyNoMicrophone(error));
  }
  let context = new AudioContext({ sampleRate: MICROPHONE_HERTZ });
  let source;
  try {
    source = context.createMediaStreamSource(stream);
  } catch { // a browser that does not convert the rate: the worklet does
    await context.close();
    context = new AudioContext();
    source = context.createMediaStreamSource(stream);
  }
  await context.audioWorklet.addModule("talk-sound.js");
  const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
  node.port.onmessage = ({ data }) => {
    if (isReady && !isMuted && socket.bufferedAmount < MOST_UNSENT_BYTES) socket.send(data);
  };
  source.connect(node);
  const [track] = stream.getAudioTracks();
  track.addEventListener("ended", () => {
    closeMicrophone();
    tell("failed", "The microphone was disconnected: you can still type");
  });
  return { track, context };
}

function closeMicrophone() {
  if (!microphone) return;
  microphone.track.stop();
  microphone.context.close();
  microphone = null;
  if (isReady && !isMuted) send({ type: "audio_end" });
  isMuted = false;
}

async function start() {
  try {
    await openPlayer();
    microphone = await openMicrophone();
  } catch (error) {
    tell("failed", `${error.message}. You can still type.`);
    return;
  }
  if (!socket) connect();
  tellOpen();
}

function end() {
  clearTimeout(retry);
  closeMicrophone();
  isWanted = false;
  conversation = null;
  unsaid.length = 0;
  const ended = socket;
  socket = null;
  isReady = false;
  ended?.close(1000);
  player?.port.postMessage("empty");
  tell("idle", "Nobody is talking");
}

function mute() {
  isMuted = !isMuted;
  microphone.track.enabled = !isMuted;
  if (isReady && isMuted) send({ type: "audio_end" });
  tellOpen();
}

async function type(submitted) {
  submitted.preventDefault();
  const said = { type: "text", text: byId("talk-text").value.trim() };
  byId("talk-text").value = "";
  if (!said.text) return;
  await openPlayer();
  if (isReady) { send(said); return; }
  unsaid.push(said);
  if (!socket) connect();
}

async function show() {
  const headers = { authorization: `Bearer ${sessionStorage.getItem("token")}` };
  const answer = await fetch("api/talk", { headers });
  section.hidden = !answer.ok || !(await answer.json()).available;
}

byId("talk-start").addEventListener("click", start);
byId("talk-mute").addEventListener("click", mute);
byId("talk-end").addEventListener("click", end);
byId("talk-form").addEventListener("submit", type);
// Whenever the page has connected: it may have signed in, or the server may be another one.
new MutationObserver(() => {
  if (byId("connection").dataset.state === "open") show().catch(() => {});
}).observe(byId("connection"), { attributeFilter: ["data-state"] });
