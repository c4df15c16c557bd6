// Tabs that follow the ARIA practices: one tab stop, and arrow keys between the tabs.

export class Tabs {
  #list;
  #changed;

  constructor(list, changed) {
    this.#list = list;
    this.#changed = changed;
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.select(tab.id);
    });
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  get selected() {
    return this.#all.find((tab) => tab.ariaSelected === "true").id;
  }

  get #all() {
    return [...this.#list.querySelectorAll("[role=tab]")];
  }

  select(id) {
    for (const tab of this.#all) {
      tab.ariaSelected = String(tab.id === id);
      tab.tabIndex = tab.id === id ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab.id !== id;
    }
    this.#changed(id);
  }

  #key(event) {
    const all = this.#all;
    const at = all.findIndex((tab) => tab.id === this.selected);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = all.at(to % all.length);
    this.select(tab.id);
    tab.focus();
  }
}
