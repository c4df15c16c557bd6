// The source of editor.js: CodeMirror with only the parts that the playground uses.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yamlLanguage } from "@codemirror/lang-yaml";
import {
  HighlightStyle, Language, bracketMatching, foldGutter, foldKeymap, indentService, indentUnit, syntaxHighlighting,
} from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, Transaction } from "@codemirror/state";
import {
  EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers,
} from "@codemirror/view";
import { NodeType, Parser, Tree } from "@lezer/common";
import { tags } from "@lezer/highlight";

// Colours are variables of the page, so that they follow its theme.
const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--paper)", fontSize: "var(--code-size)" },
  "&.cm-focused": { outline: "none" }, // the page shows the focus around the editor
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--selection)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine, &.cm-focused .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-gutters": { color: "var(--quiet)", backgroundColor: "var(--paper)", border: "none" },
  ".cm-selectionMatch, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)" },
  ".cm-foldPlaceholder, .cm-panels, .cm-tooltip": {
    color: "var(--text)", backgroundColor: "var(--raised)", border: "1px solid var(--border)",
  },
  ".cm-tooltip": { borderRadius: "6px", boxShadow: "var(--shadow)", maxWidth: "min(28rem, 90vw)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--text)", backgroundColor: "var(--selection)" },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal" },
  ".cm-completionIcon": { display: "none" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "bold" },
  ".cm-tooltip.cm-completionInfo, .cm-describe, .cm-diagnostic": {
    padding: ".5rem .75rem", fontFamily: "var(--sans)", fontSize: ".8125rem", lineHeight: "1.45", whiteSpace: "pre-wrap",
    overflowWrap: "anywhere",
  },
  ".cm-describe p": { margin: ".25rem 0 0" },
  ".cm-describe small": { color: "var(--quiet)" },
  ".cm-textfield, .cm-button": { color: "var(--text)", background: "var(--paper)", border: "1px solid var(--border)" },
});

const colours = syntaxHighlighting(HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syntax-key)" },
  { tag: [tags.string, tags.special(tags.string), tags.content, tags.attributeValue], color: "var(--syntax-value)" },
  { tag: [tags.comment, tags.lineComment, tags.meta], color: "var(--quiet)" },
  { tag: [tags.keyword, tags.labelName, tags.typeName], color: "var(--syntax-mark)" },
  { tag: [tags.separator, tags.punctuation, tags.squareBracket, tags.brace], color: "var(--quiet)" },
]));

// FlatParser returns no tree for text that nests too deep for the recursion of YAML's parser.
class FlatParser extends Parser {
  createParse(input, fragments, ranges) {
    const parse = yamlLanguage.parser.createParse(input, fragments, ranges);
    const advance = parse.advance.bind(parse);
    parse.advance = () => {
      try {
        return advance();
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        return new Tree(NodeType.none, [], [], input.length);
      }
    };
    return parse;
  }
}

// indentation returns the column where Enter starts a line: that of the key above, also in an element
// of a list, or one level deeper if the key has no value yet.
function indentation(context, at) {
  if (context.options.simulateBreak === undefined) return undefined;
  const { text } = context.lineAt(at, -1);
  const column = /^\s*(- +)*/.exec(text)[0].length;
  if (/(:(\s+[|>]\S*)?|[{[])\s*(#.*)?$/.test(text)) return column + 2;
  return /:\s/.test(text) ? column : text.length - text.trimStart().length;
}

// newEditor puts an editor for YAML into host, below a shadow root: CodeMirror then needs no inline
// styles, which the page's content security policy rejects. fields is a Fields of fields.js, or a
// promise of one.
export function newEditor({ host, label, fields, changed }) {
  let known;
  Promise.resolve(fields).then((value) => (known = value), () => {});
  const root = host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    extensions: [
      lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), highlightActiveLine(), highlightActiveLineGutter(),
      bracketMatching(), closeBrackets(), highlightSelectionMatches(), search({ top: true }), EditorState.tabSize.of(2), indentUnit.of("  "),
      indentService.of(indentation),
      EditorView.lineWrapping,
      new Language(yamlLanguage.data, new FlatParser(), [], "yaml"), colours, look,
      autocompletion({
        override: [({ state, pos, explicit }) => known?.complete(state.doc, pos, explicit) ?? null],
        activateOnCompletion: ({ type }) => type === "property", // its values
      }),
      hoverTooltip((view, pos) => description(known?.describe(view.state.doc, pos))),
      keymap.of([
        ...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...defaultKeymap,
        indentWithTab,
      ]),
      EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
      EditorView.updateListener.of((update) => update.docChanged && changed()),
    ],
  });
  return {
    get text() {
      return view.state.doc.toString();
    },
    // set replaces the text. It is no edit, so undo brings no earlier text back.
    set text(text) {
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 }, scrollIntoView: true,
        annotations: Transaction.addToHistory.of(false),
      });
    },
    // mark shows problems {line, column, severity, message} at their lines.
    mark(problems) {
      const { doc } = view.state;
      view.dispatch(setDiagnostics(view.state, problems.map(({ line, column, severity, message }) => {
        const { from, to, text } = doc.line(Math.min(Math.max(line || 1, 1), doc.lines));
        const start = column > 1 ? column - 1 : text.length - text.trimStart().length;
        return { from: Math.min(from + start, to), to, severity, message };
      })));
    },
    // reveal moves the cursor to a line and focuses the editor.
    reveal(line) {
      const { doc } = view.state;
      const { from } = doc.line(Math.min(Math.max(line || 1, 1), doc.lines));
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
  };
}

function description(field) {
  if (!field) return null;
  return {
    pos: field.from,
    end: field.to,
    create() {
      const dom = document.createElement("div");
      dom.className = "cm-describe";
      const add = (tag, text) => dom.appendChild(document.createElement(tag)).textContent = text;
      add("b", field.name);
      if (field.type) add("small", "  " + field.type);
      if (field.text) add("p", field.text);
      if (field.values?.length) add("p", "One of " + field.values.join(", ") + ".");
      return { dom };
    },
  };
}
