// The notebook widget: the page in a frame of its own, which says what is selected in it.

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  on(event: string, act: () => void): void;
  off(event: string, act: () => void): void;
  save_changes(): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const frame = document.createElement("iframe");
  frame.title = "hwdag";
  frame.sandbox.add("allow-scripts");
  frame.style.cssText = "border: 0; width: 100%";
  const resize = () => (frame.style.height = `${model.get("height") as number}px`);
  const hear = ({ source, data }: MessageEvent<{ hwdag?: unknown } | null>) => {
    if (source !== frame.contentWindow || data?.hwdag === undefined) return;
    model.set("selection", data.hwdag);
    model.save_changes();
  };
  resize();
  model.on("change:height", resize);
  addEventListener("message", hear);
  frame.srcdoc = model.get("html") as string;
  el.append(frame);
  return () => {
    model.off("change:height", resize);
    removeEventListener("message", hear);
  };
}

export default { render };
