// Runs on the audio thread: the microphone as frames of 20 ms, and a player with a jitter buffer.
const MICROPHONE_HERTZ = 16000;
const FRAME_SAMPLES = 320;
const LEAD_SECONDS = 0.1;
const MOST_SECONDS = 120;
const REPORT_SECONDS = 0.05;

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.step = sampleRate / MICROPHONE_HERTZ;
    this.at = 0; // where the next sample is taken, counted in samples of this block
    this.last = 0;
    this.frame = new Int16Array(FRAME_SAMPLES);
    this.filled = 0;
  }

  process([[heard]]) {
    if (!heard) return true;
    for (; this.at <= heard.length - 1; this.at += this.step) {
      const index = Math.floor(this.at);
      const before = index < 0 ? this.last : heard[index];
      const part = this.at - index;
      this.add(part ? before + (heard[index + 1] - before) * part : before);
    }
    this.at -= heard.length;
    this.last = heard[heard.length - 1];
    return true;
  }

  add(sample) {
    this.frame[this.filled] = Math.max(-32768, Math.min(32767, Math.round(sample * 32767)));
    this.filled += 1;
    if (this.filled < FRAME_SAMPLES) return;
    this.port.postMessage(this.frame.buffer, [this.frame.buffer]);
    this.frame = new Int16Array(FRAME_SAMPLES);
    this.filled = 0;
  }
}

class Player extends AudioWorkletProcessor {
  constructor() {
    super();
    this.empty();
    this.played = 0;
    this.reported = "";
    this.unreported = 0;
    this.port.onmessage = ({ data }) => {
      if (data === "empty") this.empty(); else this.add(new Int16Array(data));
    };
  }

  empty() {
    this.chunks = [];
    this.offset = 0; // in the first chunk
    this.queued = 0;
    this.playing = false;
    this.waited = 0;
  }

  add(chunk) {
    this.chunks.push(chunk);
    this.queued += chunk.length;
    while (this.queued > MOST_SECONDS * sampleRate && this.chunks.length > 1) {
      this.queued -= this.chunks.shift().length - this.offset;
      this.offset = 0;
    }
  }

  process(_, [[sound]]) {
    if (this.queued && !this.playing) {
      const lead = LEAD_SECONDS * sampleRate;
      this.waited += sound.length; // what is shorter than the lead is played after that time
      this.playing = this.queued >= lead || this.waited >= lead;
    }
    if (this.playing) this.play(sound);
    this.report(sound.length);
    return true;
  }

  play(sound) {
    let filled = 0;
    while (filled < sound.length && this.chunks.length) {
      const [chunk] = this.chunks;
      const count = Math.min(sound.length - filled, chunk.length - this.offset);
      for (let index = 0; index < count; index += 1) {
        sound[filled + index] = chunk[this.offset + index] / 32768;
      }
      filled += count;
      this.offset += count;
      if (this.offset === chunk.length) { this.chunks.shift(); this.offset = 0; }
    }
    this.played += filled;
    this.queued -= filled;
    if (!this.queued) { this.playing = false; this.waited = 0; }
  }

  report(samples) {
    this.unreported += samples;
    const now = `${this.played} ${this.queued}`;
    const isDue = this.unreported >= REPORT_SECONDS * sampleRate || !this.queued;
    if (now === this.reported || !isDue) return;
    this.reported = now;
    this.unreported = 0;
    this.port.postMessage({ played: this.played, queued: this.queued });
  }
}

registerProcessor("microphone", Microphone);
registerProcessor("player", Player);
