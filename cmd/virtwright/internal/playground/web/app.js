// The playground: two editors, the engine, and its result. Outside of the page, the link that Share
// makes has its state, and this browser tab, until it is closed.

import { newEditor } from "./editor.js";
import { Engine } from "./engine.js";
import { Fields } from "./fields.js";
import { decode, encode } from "./link.js";
import { Result } from "./result.js";
import { Tabs } from "./tabs.js";

const byId = (id) => document.getElementById(id);
const status = byId("status");

const leave = "Press Escape, then Tab, to leave the editor.";
const schema = load("schema.json");
const editors = {
  vm: newEditor({
    host: byId("vm"), label: "VM as YAML. " + leave, changed: edited,
    fields: schema.then((s) => new Fields(s, ["VirtualMachine", "VirtualMachineInstance"])),
  }),
  presets: newEditor({
    host: byId("presets"), label: "Presets as YAML. " + leave, changed: edited,
    fields: schema.then((s) => new Fields(s, [
      "ClusterVirtualMachinePreset", "VirtualMachinePreset", "PresetException", "Namespace", "VirtualMachineInstancePreset",
      "FrontendProfile", "BackendProfile",
    ])),
  }),
};
const tabs = new Tabs(byId("tabs"), (tab) => {
  byId("copy").hidden = !["tab-expanded", "tab-sparse", "tab-domain"].includes(tab);
  makeSparse();
});
const result = new Result({
  reveal: (where, line) => editors[where]?.reveal(line), tabs, chosen: makeSparse,
});

const engine = new Engine({
  progress(loaded, total) {
    if (total) byId("progress").value = loaded / total;
    const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
    byId("loaded").textContent = `${megabytes(loaded)}${total ? " of " + megabytes(total) : ""} MB`;
  },
  ready: (version) => (byId("version").textContent = version),
  result(output) {
    ended();
    byId("retry").hidden = true;
    delete document.body.dataset.trouble;
    result.show(output);
    const failed = (output.tests ?? []).filter(({ passed }) => !passed).map((test) => ({ ...test, severity: "error" }));
    for (const [where, editor] of Object.entries(editors)) {
      editor.mark([...(output.problems ?? []), ...failed].filter((problem) => problem.in === where));
    }
    say(result.summary);
    document.body.dataset.runs = Number(document.body.dataset.runs ?? 0) + 1; // for tests
    makeSparse();
  },
  slow(seconds) {
    if (tabs.selected === "tab-sparse") result.tooSlow();
    trouble(`Stopped after ${seconds} s: this input takes too long.`);
    byId("retry").hidden = false;
  },
  failed(text) {
    ended();
    trouble(`The engine stopped: ${text}.`);
    byId("retry").hidden = false;
  },
});

function ended() {
  byId("progress").hidden = byId("loaded").hidden = true;
}

let examples = [];
let quiet = 0; // texts that the page sets are not edits
let note = ""; // shown with the next result
say("Loading the engine …");

function state() {
  return { vm: editors.vm.text, presets: editors.presets.text, mode: byId("mode").value };
}

function edited() {
  if (quiet) return;
  byId("example").value = "";
  keep();
  run();
}

// kept is the key of the state in this tab. Each command that serves the page has its own.
const kept = "playground" + location.search;

// keep lets a reload show the state. A link from before would show an earlier one.
function keep() {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  try {
    sessionStorage.setItem(kept, JSON.stringify(state()));
  } catch { /* the browser keeps nothing, or not so much */ }
}

function restored() {
  try {
    return JSON.parse(sessionStorage.getItem(kept));
  } catch {
    return null;
  }
}

function run(wait) {
  engine.evaluate(input(0), wait);
}

// input is the state, with the number of the VM to make sparse.
function input(sparse) {
  return { ...state(), sparse };
}

// makeSparse adds the sparse manifest to a result if it is shown. It takes a while.
function makeSparse() {
  if (tabs.selected === "tab-sparse" && !result.isSparse) engine.evaluate(input(result.number), 0);
}

function set({ vm, presets, mode }) {
  quiet++;
  editors.vm.text = vm;
  editors.presets.text = presets;
  quiet--;
  byId("mode").value = mode;
  byId("lines").scrollTop = 0;
  run(0);
}

// say shows a status, which screen readers read aloud, unless it is shown already.
function say(text) {
  text = [note, text].filter(Boolean).join(" ");
  note = "";
  if (status.textContent !== text) status.textContent = text;
}

function trouble(text) {
  document.body.dataset.trouble = "";
  say(text);
}

async function load(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`cannot load ${name}: ${response.status}`);
  return response.json();
}

// initial returns what to show first: the link's state, the cluster's, or the first example.
async function initial() {
  byId("example").value = "";
  try {
    const linked = await decode(location.hash);
    if (linked) return linked;
    const before = restored();
    if (before) return before;
    if (new URLSearchParams(location.search).has("token")) {
      const response = await fetch("state.json" + location.search);
      if (response.ok) return { mode: "standalone", ...(await response.json()) };
      note = "This address is of a command that has ended. This is an example.";
    }
  } catch (error) {
    note = `The link cannot be read: ${error.message}. This is an example.`;
  }
  byId("example").value = "0";
  return examples[0];
}

async function share() {
  let link;
  try {
    link = new URL("#" + (await encode(state())), location.origin + location.pathname);
  } catch (error) {
    return say(`There is no link: ${error.message}.`);
  }
  history.replaceState(null, "", location.search + link.hash);
  try {
    await navigator.clipboard.writeText(link);
    say("The link is copied. It holds the VM and the presets.");
  } catch {
    say("The link is in the address bar. It holds the VM and the presets.");
  }
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say("The browser does not allow copying.");
  }
}

// commands print what the tabs show.
const commands = {
  "tab-expanded": "explain -o yaml", "tab-sparse": "sparsify -o yaml", "tab-matches": "explain --all", "tab-domain": "render",
  "tab-problems": "validate",
};

// command returns the command for the selected tab, with the texts of the editors in files; "" if
// they have only comments.
function command() {
  const isEmpty = (text) => !text.replace(/^\s*(---\s*)?(#.*)?$/gm, "").trim();
  const files = Object.entries(editors).filter(([, { text }]) => !isEmpty(text)).map(([name]) => `-f ${name}.yaml`);
  const verb = tabs.selected === "tab-problems" && result.hasTests ? "test" : commands[tabs.selected];
  return files.length ? ["virtwright", verb, ...files, "--mode", byId("mode").value].join(" ") : "";
}

byId("example").addEventListener("change", (event) => {
  if (!event.target.value) return;
  set(examples[event.target.value]);
  keep();
});
byId("mode").addEventListener("change", () => {
  keep();
  run(0);
});
byId("theme").addEventListener("change", (event) => (document.documentElement.dataset.theme = event.target.value));
byId("retry").addEventListener("click", () => engine.retry(input(tabs.selected === "tab-sparse" ? result.number : 0)));
byId("share").addEventListener("click", share);
byId("copy").addEventListener("click", () => {
  const text = result.text(tabs.selected);
  if (text) copy(text, "Copied.");
  else say("There is nothing to copy.");
});
byId("command").addEventListener("click", () => {
  const text = command();
  if (text) copy(text, `Copied: ${text}`);
  else say("There is nothing to run: both texts are empty.");
});
addEventListener("hashchange", begin);

async function begin() {
  try {
    if (!examples.length) {
      examples = await load("examples.json");
      byId("example").replaceChildren(new Option("Your own", ""), ...examples.map(({ title }, i) => new Option(title, i)));
    }
    set(await initial());
  } catch (error) {
    trouble(`The page does not work: ${error.message}`);
  }
}

begin();
