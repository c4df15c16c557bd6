package blueprint

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// cloudInit is a secret as users have them.
const cloudInit = "#cloud-config\npassword: \"hunter2 <&> €😀\"\nchpasswd: {expire: false}\nruncmd:\n  - [ls, /]\n"

// quoted is a text as JSON has it without Go's escapes for HTML.
func quoted(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"spec": map[string]any{"userData": text}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// wrapped is a text in lines of 76 columns.
func wrapped(text string) string {
	var out strings.Builder
	for len(text) > 76 {
		out.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return out.String() + text + "\n"
}

// spellings are ways in which people's tools keep copies of a text.
func spellings(t testing.TB, text string) map[string]string {
	t.Helper()
	html, err := json.Marshal(map[string]string{"userData": text})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"as it is":            "x" + text + "y",
		"Go's JSON":           string(html),
		"JSON of jq":          quoted(t, text),
		"JSON of Python":      strings.NewReplacer("€", `\u20ac`, "😀", `\ud83d\ude00`).Replace(quoted(t, text)),
		"JSON in JSON":        quoted(t, quoted(t, text)),
		"a part of JSON":      "config: " + quoted(t, text) + " # end",
		"base64":              encoded(text),
		"base64 for URLs":     "v1." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".z",
		"wrapped base64":      wrapped(encoded(text)),
		"base64 behind a /":   "/etc/x/" + encoded(text) + "/end",
		"base64 in a list":    "- abc\n- " + encoded(text) + "\n- def",
		"base64 of JSON":      encoded(quoted(t, text)),
		"base64 of more":      encoded("prefix " + text + "!"),
		"base64 twice":        encoded(encoded(text)),
		"wrapped in JSON":     quoted(t, wrapped(encoded(text))),
		"no last newline":     strings.TrimSuffix(text, "\n"),
		"base64 without it":   encoded(strings.TrimSuffix(text, "\n")),
		"other ends of lines": strings.ReplaceAll(text, "\n", "\r\n"),
		"a YAML block":        "userData: |\n    " + strings.ReplaceAll(text, "\n", "\n    "),
		"gzip":                encoded(zipped(t, text)),
		"gzip, wrapped":       wrapped(encoded(zipped(t, strings.Repeat("x", 500)+text))),
		"gzip behind more":    "helm.v3/" + encoded(zipped(t, quoted(t, text))),
		"as Helm keeps it":    encoded(encoded(zipped(t, quoted(t, text)))),
	}
}

func TestSpellings(t *testing.T) {
	for name, text := range spellings(t, cloudInit) {
		t.Run(name, func(t *testing.T) {
			for key, secret := range map[string]string{"userData": cloudInit, "userDataBase64": wrapped(encoded(cloudInit))} {
				vm := vmOf(fields{"volumes": []any{fields{"cloudInitNoCloud": fields{key: secret}}}})
				vm["metadata"].(fields)["annotations"] = fields{"copy": text, "other": "kept-kept-kept"}
				b, err := Of(vm, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := field(b.VM, "metadata", "annotations", "copy").(Reference); !ok {
					t.Errorf("%s: the template has the annotation as it is", key)
				}
				if field(b.VM, "metadata", "annotations", "other") != "kept-kept-kept" {
					t.Errorf("%s: another annotation is withheld", key)
				}
				vm["metadata"].(fields)["annotations"] = fields{text: "x"}
				if _, err := Of(vm, Options{}); err == nil || !strings.Contains(err.Error(), "the value of the secret in spec.template.spec.volumes[0].cloudInitNoCloud."+key) {
					t.Errorf("%s: a key with it: %v", key, err)
				}
			}
		})
	}
}

func TestWholeObjects(t *testing.T) {
	annotations := fields{"kept": "x"}
	for _, key := range wholeObjects {
		annotations[key] = "anything"
	}
	vm := vmOf(fields{"a": annotations, "b": "y"})
	vm["metadata"].(fields)["annotations"] = annotations
	b, err := Of(vm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range [][]string{{"metadata", "annotations"}, {"spec", "template", "spec", "a"}} {
		if left := field(b.Source(), at...).(fields); len(left) != 1 {
			t.Errorf("%v: what is left is %v", at, left)
		}
	}
}

// TestTracerEnds gives it what could take for ever.
func TestTracerEnds(t *testing.T) {
	bomb := encoded(zipped(t, strings.Repeat("a", 64<<20)))
	nested := strings.Repeat("A", 1<<20)
	cases := map[string]string{
		"a bomb":      bomb,
		"bombs":       strings.Repeat(bomb+" ", 10),
		"one run":     nested,
		"backslashes": strings.Repeat(`\\`, 1<<19),
		"prefixes":    strings.Repeat("#cloud-c", 1<<17),
	}
	for range 3 {
		nested = encoded(nested[:1<<19])
	}
	cases["nested"] = nested
	var traces []trace
	for i := range 1000 {
		traces = append(traces, trace{text: cloudInit + strings.Repeat("x", i)})
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			tracer := newTracer(traces)
			if _, found := tracer.InValue(text); found {
				t.Error("it finds what is not there")
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestTooMuchToLookAt(t *testing.T) {
	bomb := encoded(zipped(t, strings.Repeat("a", 5<<20)))
	annotations := fields{}
	for i := range 16 {
		annotations[strings.Repeat("k", i+1)] = bomb
	}
	vm := vmOf(fields{"token": "hunter2-hunter2"})
	vm["metadata"].(fields)["annotations"] = annotations
	if _, err := Of(vm, Options{}); err == nil || !strings.Contains(err.Error(), "more is packed in it") {
		t.Errorf("got %v", err)
	}
}

// TestProbes has probes with headers that are words of other fields.
func TestProbes(t *testing.T) {
	probe := func(name, value string) fields {
		return fields{"httpGet": fields{"httpHeaders": []any{fields{"name": name, "value": value}}}}
	}
	for _, value := range []string{"liveness", "kubevirt", "example.com", "web-server", "nodeSelector", "kubevirt.io"} {
		t.Run(value, func(t *testing.T) {
			vm := vmOf(fields{
				"livenessProbe": probe("X-Probe", value), "nodeSelector": fields{"example.com/a": "b", "nodeSelectors": "c"}, "hostname": "web-server",
				"volumes":   []any{fields{"name": "web-server", "dataVolume": fields{"name": "web-server-root"}}},
				"subdomain": "kubevirt-example.com",
			})
			meta := vm["metadata"].(fields)
			meta["name"], meta["labels"] = "web-server", fields{"kubevirt.io/domain": "web-server", "example.com/x": "liveness"}
			vm["spec"].(fields)["dataVolumeTemplates"] = []any{fields{"metadata": fields{"name": "web-server-root"}}}
			for _, rename := range []bool{false, true} {
				b, err := Of(vm, Options{Rename: rename, Namespace: "web-server"})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range b.Parameters {
					if p.Default == value {
						t.Errorf("%s has it as default", p.Name)
					}
				}
			}
		})
	}
	for _, name := range []string{"Host", "ACCEPT", "accept-encoding", "Accept-Language", "User-Agent", "content-type", "Connection", "Cache-Control"} {
		b, err := Of(vmOf(fields{"livenessProbe": probe(name, "kubevirt/1.9")}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p := b.Parameters[0]; p.Class != Value || p.Default != "kubevirt/1.9" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestConfidential(t *testing.T) {
	for text, want := range map[string]bool{
		"https://example.com/a.img": false, "docker://quay.io/a/b:1": false, "https://example.com/a;v/b=c": true, "": false,
		"https://u:p@example.com/a": true, "https://example.com/a?sig=1": true, "user:pw@h": true, "https:u:pw@h/x": true, "https://h/a;sig=0123": true, "https://h/a;x": false, "::": true,
	} {
		if got := confidential(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
