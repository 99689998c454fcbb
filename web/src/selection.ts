// One thing is selected at a time; every view listens and shows its part of it.

export type Selection =
  | { kind: "step"; step: number; isReplayed?: boolean }
  | { kind: "citation"; citation: number }
  | { kind: "node"; node: number };

type Listener = (selection: Selection | null, from: object | null) => void;

export class Selected {
  private readonly listeners: Listener[] = [];
  current: Selection | null = null;

  listen(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** `from` is the view that selects: it need not scroll to what its reader is looking at. */
  select(selection: Selection | null, from: object | null = null): void {
    this.current = selection;
    for (const listener of this.listeners) listener(selection, from);
  }
}
