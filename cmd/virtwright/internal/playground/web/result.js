// The result of the engine as DOM. Every text is set by textContent, so that names and values of
// the input never become markup.

const maxLines = 5000; // of one VM; more would make the page slow

const coarse = matchMedia("(pointer: coarse)"); // touch screens

const byId = (id) => document.getElementById(id);

// make returns an element with a class and text or children.
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== undefined && child !== ""));
  return element;
}

const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

export class Result {
  summary = "";
  #reveal;
  #tabs;
  #chosen; // called when another VM is shown
  #output = { vms: [], problems: [], tests: [], notes: [] };
  #at = 0; // the VM that is shown
  #lines = []; // of that VM
  #active = -1; // the chosen line
  #seen = new Set(); // lines of the previous result

  constructor({ reveal, tabs, chosen }) {
    this.#reveal = reveal;
    this.#tabs = tabs;
    this.#chosen = chosen;
    const list = byId("lines");
    const indexOf = (event) => Number(event.target.closest("[role=option]")?.dataset.index ?? -1);
    list.addEventListener("pointerover", (event) => this.#detail(this.#lines[indexOf(event)]));
    list.addEventListener("pointerleave", () => this.#detail(this.#lines[this.#active]));
    list.addEventListener("click", (event) => this.#choose(indexOf(event)));
    list.addEventListener("focus", () => this.#choose(Math.max(this.#active, 0)));
    list.addEventListener("keydown", (event) => this.#key(event));
    byId("chosen").addEventListener("change", (event) => {
      this.#at = Number(event.target.value);
      this.#seen.clear();
      this.#showVM();
      this.#chosen();
    });
  }

  show(output) {
    this.#output = { ...output, vms: output.vms ?? [], problems: output.problems ?? [], tests: output.tests ?? [], notes: output.notes ?? [] };
    const { vms, tests } = this.#output;
    const failed = tests.filter(({ passed }) => !passed).length;
    this.#at = Math.min(this.#at, Math.max(vms.length - 1, 0));
    byId("which").hidden = vms.length < 2;
    byId("chosen").replaceChildren(...vms.map((vm, i) => new Option(`${vm.namespace}/${vm.name}`, i, false, i === this.#at)));
    const [errors, warnings] = this.#count();
    byId("count").hidden = errors + warnings + failed === 0;
    byId("count").textContent = errors + warnings + failed;
    byId("count").dataset.severity = errors + failed ? "error" : "warning";
    this.#showVM();
    this.#showProblems();
    const tested = tests.length && (failed ? `${failed} of ${count(tests.length, "test case")} failed` : `${count(tests.length, "test case")} passed`);
    this.summary = [this.#verdict(), errors && count(errors, "error"), warnings && count(warnings, "warning"), tested].filter(Boolean).join(", ") + ".";
  }

  // verdict says whether a cluster would take the input.
  #verdict() {
    const { vms, problems, tests, more } = this.#output;
    const wrong = (where) => problems.some((problem) => problem.severity === "error" && problem.in === where);
    if (wrong("presets")) return "Rejected presets";
    if (wrong("vm")) return "Rejected";
    if (more) return `The first ${vms.length} VMs are accepted, the others are not read`;
    return vms.length ? "Accepted" : tests.length ? "" : "No VM";
  }

  // unplaced returns the warnings of a VM that no problem shows at its line.
  #unplaced(vm) {
    return (vm.warnings ?? []).filter((text) => !this.#output.problems.some(({ message }) => text.includes(message)));
  }

  // count returns how many errors and warnings there are.
  #count() {
    const { vms, problems } = this.#output;
    const errors = problems.filter(({ severity }) => severity === "error").length;
    return [errors, problems.length - errors + vms.reduce((sum, vm) => sum + this.#unplaced(vm).length, 0)];
  }

  // number of the VM that is shown, from 1.
  get number() {
    return this.#at + 1;
  }

  // isSparse reports whether the result has the sparse manifest of the VM that is shown, if any.
  get isSparse() {
    return this.#output.sparse === this.number;
  }

  // tooSlow says that no sparse manifest comes.
  tooSlow() {
    byId("sparse").replaceChildren(make("p", "empty", "The sparse manifest of this VM takes too long here: use virtwright sparsify."));
  }

  // hasTests reports whether the input has tests.
  get hasTests() {
    return this.#output.tests.length > 0;
  }

  // text returns what a tab shows, to copy it.
  text(tab) {
    const vm = this.#output.vms[this.#at];
    return { "tab-expanded": vm?.expanded, "tab-sparse": vm?.sparse, "tab-domain": vm?.domain }[tab] ?? "";
  }

  #showVM() {
    const vm = this.#output.vms[this.#at] ?? {};
    const key = (line) => line.path + "\n" + line.text;
    const before = this.#seen;
    const keep = this.#lines[this.#active]?.path;
    this.#lines = (vm.lines ?? []).slice(0, maxLines);
    this.#seen = new Set(this.#lines.map(key));
    const elements = this.#lines.map(lineElement);
    const fresh = elements.filter((_, i) => !before.has(key(this.#lines[i])));
    if (fresh.length < elements.length / 2) fresh.forEach((element) => element.classList.add("fresh"));
    if (vm.lines?.length > maxLines) elements.push(make("div", "more", `… and ${vm.lines.length - maxLines} more lines`));
    const list = byId("lines");
    list.replaceChildren(...elements);
    list.hidden = elements.length === 0;
    this.#active = this.#lines.findIndex(({ path }) => path && path === keep);
    if (list.matches(":focus")) this.#choose(Math.max(this.#active, 0));
    else this.#choose(this.#active);
    this.#legend();
    this.#showMatches(vm);
    byId("sparse").replaceChildren(...(!this.isSparse
      ? [make("p", "empty", "Making the sparse manifest …")]
      : vm.sparse
      ? [make("p", "empty", `A create of this manifest gives the same VM. Besides its name, it has ${count(vm.stay, "field")}.`), make("pre", "", vm.sparse)]
      : [make("p", "empty", "There is no sparse manifest for this input.")]));
    byId("domain").replaceChildren(vm.domain ? make("pre", "", ...markXML(vm.domain)) : make("p", "empty", "There is no domain for this input."));
  }

  #legend() {
    const entries = this.#output.vms[this.#at]?.legend ?? [];
    byId("legend").replaceChildren(...(entries.length ? [make("li", "empty", "Fields by origin:")] : []), ...entries.map(({ class: name, name: label, count }) =>
      make("li", name, make("i", ""), make("span", "", label), make("b", "", String(count)))));
    if (this.#lines.length === 0) {
      const { problems } = this.#output;
      const first = problems.find(({ severity }) => severity === "error") ?? problems[0];
      const message = make("li", "empty", first ? `There is no result for this input: ${first.message} ` : "Write a VM on the left to see it expanded.");
      if (first) {
        const button = make("button", "link", "See the problems");
        button.addEventListener("click", () => this.#tabs.select("tab-problems"));
        message.append(button);
      }
      byId("legend").replaceChildren(message);
    }
  }

  #showMatches(vm) {
    const items = (vm.presets ?? []).map(({ preset, mode, matched, reason }) => make("li", matched ? "matched" : "unmatched",
      make("span", "badge", matched ? "matched" : "no match"), this.#link(preset), make("small", "", mode), make("p", "", reason)));
    byId("matches").replaceChildren(items.length ? make("ul", "cards", ...items)
      : make("p", "empty", vm.presets && this.#count()[0] === 0 ? "There are no presets." : "There is no result for this input: see the problems."));
  }

  #showProblems() {
    const { problems, tests, vms, notes } = this.#output;
    const placed = (kind, badge, { in: where, line }, name, text) => {
      const button = make("button", "",
        make("span", "badge", badge), make("small", "", `${where === "vm" ? "VM" : "Presets"}, line ${line || 1}`),
        name && make("code", "", name), make("p", "", text));
      button.type = "button";
      button.addEventListener("click", () => this.#reveal(where, line));
      return make("li", kind, button);
    };
    const items = problems.map((p) => placed(p.severity === "error" ? "error" : "warning", p.severity, p, p.field, p.message));
    items.push(...tests.map((t) => placed(t.passed ? "matched" : "error", t.passed ? "passed" : "failed", t, t.name, t.message?.replace(/^ {2}/gm, "") ?? "")));
    const says = (kind, name, text) => make("li", kind, make("span", "badge", kind), make("small", "", name), make("p", "", text));
    items.push(...vms.flatMap((vm) => this.#unplaced(vm).map((text) => says("warning", `${vm.namespace}/${vm.name}`, text))));
    items.push(...notes.map((text) => says("note", "", text)));
    byId("problems").replaceChildren(items.length ? make("ul", "cards", ...items) : make("p", "empty", "There are no problems."));
  }

  // link leads to a preset in its editor, if it is there.
  #link(preset, text = preset) {
    const at = this.#output.vms[this.#at]?.presets.find((p) => p.preset === preset);
    if (!at?.line) return make("code", "", text);
    const button = make("button", "link", text);
    button.type = "button";
    button.addEventListener("click", () => this.#reveal(at.in, at.line));
    return button;
  }

  #choose(index) {
    const list = byId("lines");
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    this.#active = index < this.#lines.length ? index : -1;
    const element = list.children[this.#active];
    if (element) {
      element.setAttribute("aria-selected", "true");
      list.setAttribute("aria-activedescendant", element.id);
      if (list.matches(":focus")) element.scrollIntoView({ block: "nearest" });
    } else {
      list.removeAttribute("aria-activedescendant");
    }
    this.#detail(this.#lines[this.#active]);
  }

  #key(event) {
    const last = this.#lines.length - 1;
    const to = {
      ArrowUp: this.#active - 1, ArrowDown: this.#active + 1, PageUp: this.#active - 15, PageDown: this.#active + 15, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#choose(Math.min(Math.max(to, 0), last));
  }

  // detail shows the origin of a line, and the values that it replaced.
  #detail(line) {
    byId("detail").hidden = this.#lines.length === 0;
    if (!line?.from) {
      byId("detail").replaceChildren(make("p", "empty", `${coarse.matches ? "Tap a line" : "Point at a line, or use the arrow keys,"} to see its origin.`));
      return;
    }
    byId("detail").replaceChildren(
      make("p", line.class, make("i", ""), make("b", "", line.by || line.from), line.removed ? " removed this field" : "",
        line.from === "preset" ? this.#link(line.by.split(" (")[0], "Show the preset") : ""),
      line.path ? make("code", "", line.path) : "", ...(line.notes ?? []).map((note) => make("p", "", note)));
  }
}

// markXML returns the text with tags and values in elements of their own.
function markXML(text) {
  return text.split(/(<\/?[\w:-]+|'[^']*'|"[^"]*")/).map((token, i) => (i % 2 ? make(token[0] === "<" ? "b" : "i", "", token) : token));
}

function lineElement(line, index) {
  const text = line.text.trimStart();
  const aside = [line.removed && "removed.", ...(line.notes ?? [])].filter(Boolean).join(" "); // for screen readers
  const element = make("div", ["line", line.class, line.notes?.length && "noted", line.removed && "removed",
    line.by && !line.from && "record"].filter(Boolean).join(" "),
    make("code", "indent", line.text.slice(0, -text.length)), make(line.removed ? "del" : "code", "", text),
    make("span", "by", line.by ?? ""), aside && make("span", "unseen", aside));
  element.id = "line-" + index;
  element.role = "option";
  element.dataset.index = index;
  element.setAttribute("aria-selected", "false");
  return element;
}
