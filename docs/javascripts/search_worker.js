// Search of pages that are opened as files: browsers start no workers for them, so the theme's search worker runs in a
// hidden frame of the page. Pages that a server sends use a worker, and this file does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.scope.importScripts = (...urls) => urls.reduce(
        (before, each) => before.then(() => this.load(new URL(each, url))), Promise.resolve());
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.scope.document.head.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
