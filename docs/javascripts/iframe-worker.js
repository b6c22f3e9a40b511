// Search where pages are opened from the disk. Browsers start no Worker from file://, so a hidden frame runs its script.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget { // the theme's search script looks for this name
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame); // about:blank: a document of this page's own origin
      const inside = frame.contentWindow;
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.inside = inside;
      this.ready = this.load(address);
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.src = address;
        script.onload = resolve;
        script.onerror = reject;
        this.inside.document.head.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
