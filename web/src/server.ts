// What the live app asks of its server.

import type { Given } from "./load";

export interface State {
  version: string;
  /** Of the file, without its folder; empty in memory. */
  name: string;
  characters: number;
  has_graph: boolean;
  systems: string[];
  documents: { id: string; title: string }[];
  questions: string[];
  read_only: boolean;
  upload_bytes: number;
  suffixes: string[];
}

/** A question and its answer. */
export type Turn = [question: string, answer: string];

export interface Told {
  event: string;
  data: unknown;
}

const KEPT = "hwdag-token";

const UNREACHABLE = "The server cannot be reached. Is it still running?";
export const BROKEN = "The connection broke off before the answer was complete. Ask again.";

/** An error of the network, in words that are not the browser's. */
function inWords(error: unknown, words: string): unknown {
  return error instanceof TypeError ? new Error(words) : error;
}

export class Server {
  wantsToken = false;
  private token: string;

  /** The token comes in the address, behind #, which is sent nowhere; it is taken out of sight. */
  constructor() {
    const passed = new URLSearchParams(location.hash.slice(1)).get("token");
    if (passed) {
      sessionStorage.setItem(KEPT, passed);
      history.replaceState(null, "", location.pathname);
    }
    this.token = sessionStorage.getItem(KEPT) ?? "";
  }

  useToken(token: string): void {
    this.token = token;
    sessionStorage.setItem(KEPT, token);
  }

  async state(): Promise<State> {
    return (await (await this.fetch("/api/state")).json()) as State;
  }

  async graph(): Promise<Given> {
    return (await (await this.fetch("/api/graph")).json()) as Given;
  }

  async remove(id: string): Promise<void> {
    await this.fetch(`/api/documents/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  /** The events of a question; aborting the signal ends it on the server too. */
  async *ask(question: string, system: string, history: Turn[], signal: AbortSignal): AsyncGenerator<Told> {
    const response = await this.fetch("/api/ask", {
      method: "POST",
      body: JSON.stringify({ question, system, history }),
      headers: { "Content-Type": "application/json" },
      signal,
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw inWords(error, BROKEN);
      });
      if (done) return;
      const frames = (held + value).split("\n\n");
      held = frames.pop()!;
      for (const frame of frames) yield told(frame);
    }
  }

  /** Send a file; how far it is comes as a stage with what is done of it. */
  upload(file: File, progress: (stage: string, done: number, total: number) => void): Promise<void> {
    return new Promise((done, failed) => {
      const request = new XMLHttpRequest(); // fetch says nothing of how much was sent
      let read = 0;
      const listen = () => {
        for (let end; (end = request.responseText.indexOf("\n\n", read)) >= 0; read = end + 2) {
          const { event, data } = told(request.responseText.slice(read, end));
          if (event === "progress") {
            const { stage, done, total } = data as { stage: string; done: number; total: number };
            progress(stage, done, total);
          } else if (event === "error") failed(new Error((data as { message: string }).message));
        }
      };
      request.upload.addEventListener("progress", (event) => progress("sending", event.loaded, event.total));
      request.addEventListener("progress", () => request.status < 300 && listen());
      request.addEventListener("error", () => failed(new Error(UNREACHABLE)));
      request.addEventListener("load", () => {
        if (request.status >= 300) return failed(new Error(messageOf(request.responseText)));
        listen();
        done();
      });
      request.open("PUT", `/api/documents/${encodeURIComponent(file.name)}`);
      if (this.token) request.setRequestHeader("Authorization", `Bearer ${this.token}`);
      request.send(file);
    });
  }

  private async fetch(path: string, options: RequestInit = {}): Promise<Response> {
    const headers = new Headers(options.headers);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    const response = await fetch(path, { ...options, headers }).catch((error: unknown) => {
      throw inWords(error, UNREACHABLE);
    });
    this.wantsToken = response.status === 401;
    if (!response.ok) throw new Error(messageOf(await response.text()));
    return response;
  }
}

function told(frame: string): Told {
  const lines = new Map(frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  return { event: lines.get("event") ?? "message", data: JSON.parse(lines.get("data") ?? "null") };
}

function messageOf(text: string): string {
  try {
    return (JSON.parse(text) as { error: { message: string } }).error.message;
  } catch {
    return "the server failed";
  }
}
