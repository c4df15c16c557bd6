package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/presets"
)

// hostile is text that a terminal obeys, and that begins a line of its own.
const hostile = "x\x1b[2J\x1b]8;;http://e\a\x1b]52;c;eA==\a\b\r\u009b31m\u202e\u2066\x7f\nFORGED\tx"

// allowedInXML is text that a terminal obeys, and that XML can hold.
const allowedInXML = "a\u202eb\u009bc"

// hostileCalls are calls of each command, by its name. FORMAT is each value of its flag --output;
// such calls print something.
var hostileCalls = map[string][]string{
	"adopt":             {"adopt H", "adopt PRESETS -A", "adopt VMS -A", "adopt BROKEN -A", "adopt EMPTY -A --enforce"},
	"learn":             {"learn -f FLEET -o FORMAT", "learn -f FLEET --propose-labels", "learn -f WEB -f PRESETS", "learn -f VMS -f PRESETS", "learn -f BROKEN"},
	"sparsify":          {"sparsify -f WEB -f PRESETS -o FORMAT", "sparsify -f VMS -f PRESETS", "sparsify -f BROKEN"},
	"expand":            {"expand -f WEB -f PRESETS -o FORMAT", "expand -f VMS -f PRESETS", "expand -f WEB -f BROKEN", "expand -A"},
	"explain":           {"explain -f WEB -f PRESETS -o FORMAT", "explain -f WEB -f PRESETS H", "explain -f VMS -f PRESETS"},
	"validate":          {"validate -f WEB -f PRESETS", "validate -f VMS -f PRESETS -f WEB -o FORMAT", "validate -f BROKEN -o FORMAT"},
	"lint":              {"lint -f PRESETS", "lint -f BROKEN -o FORMAT"},
	"test":              {"test -f SUITE -o FORMAT", "test -f SUITE --coverage"},
	"plan":              {"plan -f WEB -f PRESETS --base-dir EMPTY -o FORMAT", "plan -f VMS -f PRESETS --base-dir EMPTY", "plan -f PRESETS -A"},
	"drift":             {"drift -f STORED -f PRESETS -o FORMAT", "drift -f BROKEN", "drift -A"},
	"violations":        {"violations -f STORED -f PRESETS -o FORMAT", "violations -f WEB -f PRESETS --preset H", "violations -A"},
	"exceptions":        {"exceptions -f PRESETS -o FORMAT", "exceptions --propose -f WEB -f PRESETS", "exceptions -f BROKEN", "exceptions -A"},
	"render":            {"render -f WEB -f PRESETS -o FORMAT --decisions", "render -f VMS -f PRESETS"},
	"import":            {"import -f IMPORTS -o FORMAT", "import --vms -f IMPORTS -o FORMAT"},
	"template generate": {"template generate -f WEB -o FORMAT", "template generate -f WEB --format configMap", "template generate -f VMS"},
	"template process":  {"template process -f TEMPLATE -o FORMAT -p VOLUME0_USER_DATA=H", "template process -f TEMPLATE --parameters", "template process -f VMS"},
	"template create":   {"template create web -n lab", "template create H"},
	"start":             {"start web -n lab", "start H"},
	"stop":              {"stop web -n lab"},
	"restart":           {"restart web -n lab"},
	"pause":             {"pause web -n lab"},
	"unpause":           {"unpause web -n lab"},
	"reset":             {"reset web -n lab"},
	"softreboot":        {"softreboot web -n lab"},
	"console":           {"console web -n lab", "console H"},
	"vnc":               {"vnc web -n lab"},
	"reapply":           {"reapply web -n lab", "reapply -A"},
	"history":           {"history cluster/web", "history H", "history cluster/web --diff 1", "history cluster/web --revision 1"},
	"rollout":           {"rollout status H", "rollout H H", "rollout status web --watch", "rollout approve web", "rollout abort web", "rollout pause web"},
	"H":                 {"H", "expand --H", "__complete start H"},
}

// TestHostileOutput checks that no output has characters that a terminal obeys, except colours, and
// that no value begins a line of a text. Formats for programs remain valid.
func TestHostileOutput(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	t.Setenv("KUBECONFIG", hostileServer(t))
	inLine := strings.ReplaceAll(hostile, "\n", " ")
	words := map[string]string{"EMPTY": t.TempDir(), "H": inLine, "--H": "--" + inLine, "VOLUME0_USER_DATA=H": "VOLUME0_USER_DATA=" + hostile}
	for name, content := range hostileFiles {
		words[name] = write(t, name+".yaml", strings.ReplaceAll(content, "HOSTILE", presets.EscapeLine(hostile)))
	}
	words["STORED"] = write(t, "stored.yaml", strings.Replace(read(t, words["WEB"]), "metadata: {", `metadata: {resourceVersion: "1", uid: u, `, 1))
	fleet := ""
	for _, name := range []string{"a", "b", "c", "d"} {
		fleet += "---" + strings.Replace(read(t, words["WEB"]), "name: web", "name: "+name, 1)
	}
	words["FLEET"] = write(t, "fleet.yaml", fleet)
	words["TEMPLATE"] = write(t, "template.yaml", call(t, "", "template", "generate", "-f", words["WEB"]).fine(t).out)
	for _, c := range runnable(newRoot(program, streams{})) {
		if hostileCalls[c] == nil {
			t.Errorf("no call of %s", c)
		}
	}
	for _, line := range slices.Concat(slices.Collect(maps.Values(hostileCalls))...) {
		for _, format := range formats(t, line) {
			t.Run(strings.Replace(line, "FORMAT", format, 1), func(t *testing.T) {
				args := strings.Fields(strings.Replace(line, "FORMAT", format, 1))
				for i, arg := range args {
					if word, found := words[arg]; found {
						args[i] = word
					}
				}
				var out, errs screen
				run(t.Context(), append([]string{program}, args...), streams{strings.NewReader(""), &out, &errs})
				if got := withoutColours(out.String() + errs.String()); got == "" || got != presets.Escape(got) {
					t.Errorf("terminals obey %q", got)
				}
				isolated(t, errs.String())
				readable(t, format, withoutColours(out.String()))
			})
		}
	}
}

// runnable returns the names of the commands that print text from outside.
func runnable(c *cobra.Command) (out []string) {
	name := strings.TrimPrefix(c.CommandPath(), program+" ")
	if c.Runnable() && len(c.Commands()) == 0 && !slices.Contains([]string{"help", "version", "playground"}, name) {
		out = append(out, name)
	}
	for _, inner := range c.Commands() {
		out = append(out, runnable(inner)...)
	}
	return out
}

func formats(t *testing.T, line string) []string {
	t.Helper()
	if !strings.Contains(line, "FORMAT") {
		return []string{""}
	}
	name, _, _ := strings.Cut(line, " -")
	args := append(append([]string{"__complete"}, strings.Fields(strings.TrimSuffix(name, " --vms"))...), "--output", "")
	out, _, _ := strings.Cut(call(t, "", args...).out, ":")
	return strings.Fields(out)
}

// isolated checks that a value begins no line of a text.
func isolated(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("a value begins the line %q", line)
		}
	}
}

// readable checks that programs can decode an output, and that it holds the hostile text.
func readable(t *testing.T, format, out string) {
	t.Helper()
	if out == "" && format != "" {
		t.Fatal("the command printed nothing")
	}
	var values []string
	var err error
	want := hostile
	switch format {
	case "json", "sarif":
		var value any
		err = json.Unmarshal([]byte(out), &value)
		values = stringsIn(value)
	case "yaml":
		decoder := apiyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
		for err == nil {
			var document []byte
			var value any
			if document, err = decoder.Read(); err == nil {
				err = yaml.Unmarshal(document, &value)
				values = append(values, stringsIn(value)...)
			}
		}
	case "xml", "svg", "junit":
		decoder := xml.NewDecoder(strings.NewReader("<all>" + strings.TrimPrefix(out, xml.Header) + "</all>"))
		for err == nil {
			var token xml.Token
			if token, err = decoder.Token(); err == nil {
				values = append(values, textOf(token))
			}
		}
		want = map[string]string{"xml": allowedInXML}[format]
	case "html":
		return
	default:
		isolated(t, out)
		return
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("invalid %s: %v\n%s", format, err, out)
	}
	if !slices.ContainsFunc(values, func(s string) bool { return strings.Contains(s, want) }) {
		t.Errorf("the hostile text is lost: %s", out)
	}
}

// textOf returns the text and the attributes of a part of a document.
func textOf(token xml.Token) string {
	switch token := token.(type) {
	case xml.CharData:
		return string(token)
	case xml.StartElement:
		return fmt.Sprint(token.Attr)
	}
	return ""
}

// stringsIn returns all keys and strings of a value.
func stringsIn(value any) (out []string) {
	switch v := value.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, inner := range v {
			out = append(out, stringsIn(inner)...)
		}
	case map[string]any:
		for key, inner := range v {
			out = append(append(out, key), stringsIn(inner)...)
		}
	}
	return out
}

// hostileServer returns a kubeconfig of a server that rejects all requests with hostile text.
func hostileServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
			Reason: metav1.StatusReasonForbidden, Message: strings.ReplaceAll(hostile, "\n", " "),
		})
	}))
	t.Cleanup(server.Close)
	return write(t, "kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: '"+server.URL+"'}}]\n")
}

// TestSplitCharacters checks that characters are kept, or escaped, in parts of any size.
func TestSplitCharacters(t *testing.T) {
	text, want := "größer 日本 𝄞 \u009b \x1b \xff\n", "größer 日本 𝄞 \\u009b \\u001b \\xff\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := &terminalWriter{to: &out}
		for part := range slices.Chunk([]byte(text), size) {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != want {
			t.Errorf("parts of %d: got %q, want %q", size, &out, want)
		}
	}
}
