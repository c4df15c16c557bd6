// Runs the engine for the page. The latest input wins, and a run that takes too long is ended.

const pause = 120; // ms without an edit before a run
const limit = 2000; // ms that a run may take
// The first run may take longer, because browsers compile functions when they first run.
const firstLimit = 15000;

export class Engine {
  #report;
  #worker;
  #module;
  #ready = false;
  #limit = firstLimit;
  #next; // the input to run next, if any
  #running; // the timer of the run, if any
  #waiting; // the timer of the pause, if any
  #id = 0;

  // report has the functions progress(loaded, total), ready(version), result(output),
  // slow(seconds), failed(text).
  constructor(report) {
    this.#report = report;
    this.#start();
  }

  // evaluate runs the input after a pause, unless a later one replaces it.
  evaluate(input, wait = pause) {
    this.#next = input;
    if (!this.#worker) this.#start();
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => this.#run(), wait);
  }

  // retry runs an input that was stopped, with more time.
  retry(input) {
    this.#limit = firstLimit;
    this.evaluate(input, 0);
  }

  #start() {
    this.#ready = false;
    this.#running = undefined;
    this.#worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#receive(data);
    this.#worker.onerror = (event) => this.#fail(event.message || "cannot start the worker");
    this.#worker.postMessage({ module: this.#module });
  }

  #receive(data) {
    if ("loaded" in data) {
      this.#report.progress(data.loaded, data.total);
    } else if (data.ready) {
      this.#ready = true;
      this.#module = data.module; // a new worker need not load and compile it again
      this.#report.ready(data.version);
      this.#run();
    } else {
      clearTimeout(this.#running);
      this.#running = undefined;
      if (data.failed) return this.#fail(data.failed);
      this.#limit = limit;
      if (!this.#next) this.#report.result(data.output);
      this.#run();
    }
  }

  #run() {
    if (!this.#ready || this.#running || !this.#next) return;
    const input = this.#next;
    this.#next = undefined;
    this.#worker.postMessage({ id: ++this.#id, input });
    this.#running = setTimeout(() => this.#end(), this.#limit);
  }

  // fail ends the worker. The next input starts another, also if it came while the worker ran.
  #fail(text) {
    clearTimeout(this.#running);
    this.#worker.terminate();
    this.#worker = undefined;
    this.#report.failed(text);
    if (this.#ready && this.#next) this.#start();
    this.#ready = false;
  }

  #end() {
    this.#running = undefined;
    this.#worker.terminate();
    this.#report.slow(this.#limit / 1000);
    this.#start();
  }
}
