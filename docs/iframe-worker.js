/* Browsers start no worker from a file: address, so there the search runs in a hidden frame.
   Only the part of Worker that the search uses: a script, postMessage and "message" events. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>postMessage = (data) => frameElement.answer(data)</script>
        <script src="${script}"></script>`;
      frame.answer = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      this.ready = new Promise((loaded) => frame.addEventListener("load", loaded));
      this.frame = frame;
      document.body.append(frame);
    }

    async postMessage(data) {
      await this.ready; // the messages before it wait in their order
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
