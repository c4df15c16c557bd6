package blueprint

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/api/v1alpha1"
)

// cloudInit is a typical secret.
const cloudInit = "#cloud-config\npassword: \"hunter2 <&> €😀\"\nchpasswd: {expire: false}\nruncmd:\n  - [ls, /]\n"

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// wrapped breaks a text into lines of 76 columns.
func wrapped(text string) string {
	var out strings.Builder
	for len(text) > 76 {
		out.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return out.String() + text + "\n"
}

// copiesFound returns the encodings of a text that are found.
func copiesFound(text string) map[string]string {
	return map[string]string{
		"as it is":            "x" + text + "y",
		"no last newline":     strings.TrimSuffix(text, "\n"),
		"other ends of lines": strings.ReplaceAll(text, "\n", "\r\n"),
		"a YAML block":        "userData: |\n    " + strings.ReplaceAll(text, "\n", "\n    "),
		"Go's JSON":           `{"userData":"` + quoted(text, true) + `"}`,
		"JSON of jq":          `{"userData":"` + quoted(text, false) + `"}`,
		"base64":              encoded(text),
		"base64 without it":   encoded(strings.TrimSuffix(text, "\n")),
		"base64 for URLs":     "v1." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".z",
		"wrapped base64":      wrapped(encoded(text)),
		"base64 behind a /":   "/etc/x/" + encoded(text) + "/end",
		"base64 in a list":    "- abc\n- " + encoded(text) + "\n- def",
		"base64 of more 1":    encoded("a" + text + "!"),
		"base64 of more 2":    encoded("ab" + text + "!!"),
		"base64 of more 3":    encoded("abc" + text + "!!!"),
	}
}

func TestCopiesFound(t *testing.T) {
	for name, text := range copiesFound(cloudInit) {
		t.Run(name, func(t *testing.T) {
			for key, secret := range map[string]string{"userData": cloudInit, "userDataBase64": wrapped(encoded(cloudInit))} {
				vm := vmOf(fields{"volumes": []any{fields{"cloudInitNoCloud": fields{key: secret}}}})
				vm["metadata"].(fields)["annotations"] = fields{"copy": text, "other": "kept-kept-kept"}
				b, err := FromVM(vm, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := field(b.VM, "metadata", "annotations", "copy").(Reference); !ok {
					t.Errorf("%s: the template has the annotation unchanged", key)
				}
				if field(b.VM, "metadata", "annotations", "other") != "kept-kept-kept" {
					t.Errorf("%s: another annotation is withheld", key)
				}
				vm["metadata"].(fields)["annotations"] = fields{text: "x"}
				if _, err := FromVM(vm, Options{}); err == nil || !strings.Contains(err.Error(), "the secret in spec.template.spec.volumes[0].cloudInitNoCloud."+key) {
					t.Errorf("%s: a key that contains it: %v", key, err)
				}
			}
		})
	}
}

func TestWholeObjects(t *testing.T) {
	annotations := fields{"kept": "x"}
	for _, key := range v1alpha1.WholeObjects {
		annotations[key] = "anything"
	}
	vm := vmOf(fields{"a": annotations, "b": "y"})
	vm["metadata"].(fields)["annotations"] = annotations
	b, err := FromVM(vm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range [][]string{{"metadata", "annotations"}, {"spec", "template", "spec", "a"}} {
		if left := field(b.Source(), at...).(fields); len(left) != 1 {
			t.Errorf("%v: annotations are %v", at, left)
		}
	}
}

func TestCopiesNotFound(t *testing.T) {
	for name, text := range map[string]string{
		"a part":       strings.SplitAfter(cloudInit, "\n")[1],
		"escaped":      strings.NewReplacer("€", `\u20ac`, "😀", `\ud83d\ude00`).Replace(quoted(cloudInit, false)),
		"JSON in JSON": quoted(quoted(cloudInit, false), false),
		"base64 twice": encoded(encoded(cloudInit)),
		"hexadecimal":  hex.EncodeToString([]byte(cloudInit)),
	} {
		vm := vmOf(fields{"volumes": []any{fields{"cloudInitNoCloud": fields{"userData": cloudInit}}}})
		vm["metadata"].(fields)["annotations"] = fields{"copy": text}
		b, err := FromVM(vm, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if field(b.VM, "metadata", "annotations", "copy") != text {
			t.Errorf("%s: docs/template-reference.md says that it is not found", name)
		}
	}
}

// TestMessagesNameNoSecret checks a secret key that paths quote.
func TestMessagesNameNoSecret(t *testing.T) {
	secret := "hunter2'hunter2"
	for _, spec := range []fields{{"token": secret, "a": fields{secret: "x"}}, {"token": secret, "a": fields{secret: fields{"b/" + secret: "x"}}}} {
		if _, err := FromVM(vmOf(spec), Options{}); err == nil || strings.Contains(strings.ReplaceAll(err.Error(), `\`, ""), secret) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTooManySecrets(t *testing.T) {
	many := func(n int, token func(i int) string) map[string]any {
		var list []any
		for i := range n {
			list = append(list, fields{"token": token(i)})
		}
		return vmOf(fields{"a": list})
	}
	distinct := func(i int) string { return fmt.Sprintf("hunter2-%d", i) }
	if _, err := FromVM(many(maxSecrets+1, distinct), Options{}); !errors.Is(err, errTooManySecrets) {
		t.Errorf("got %v", err)
	}
	for name, vm := range map[string]map[string]any{
		"as many as allowed": many(maxSecrets, distinct),
		"one, repeated":      many(10*maxSecrets, func(int) string { return "hunter2-hunter2" }),
		"short ones":         many(10*maxSecrets, func(i int) string { return fmt.Sprint(i) }),
	} {
		if _, err := FromVM(vm, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCommonWords checks secrets that other fields contain by chance.
func TestCommonWords(t *testing.T) {
	header := func(name, value string) fields {
		return fields{"httpGet": fields{"httpHeaders": []any{fields{"name": name, "value": value}}}}
	}
	for _, value := range []string{"liveness", "kubevirt", "example.com", "web-server", "nodeSelector", "kubevirt.io"} {
		t.Run(value, func(t *testing.T) {
			vm := vmOf(fields{
				"livenessProbe": header("X-Probe", value), "readinessProbe": fields{"httpGet": fields{"path": "/?" + value}}, "nodeSelector": fields{"example.com/a": "b", "nodeSelectors": "c"}, "hostname": "web-server",
				"volumes":   []any{fields{"name": "web-server", "dataVolume": fields{"name": "web-server-root"}}},
				"subdomain": "kubevirt-example.com",
			})
			meta := vm["metadata"].(fields)
			meta["annotations"] = fields{"a/topology-key": value}
			meta["name"], meta["labels"] = "web-server", fields{"kubevirt.io/domain": "web-server", "example.com/x": "liveness"}
			vm["spec"].(fields)["dataVolumeTemplates"] = []any{fields{"metadata": fields{"name": "web-server-root"}}}
			for _, rename := range []bool{false, true} {
				b, err := FromVM(vm, Options{Rename: rename, Namespace: "web-server"})
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
		b, err := FromVM(vmOf(fields{"livenessProbe": header(name, "kubevirt/1.9")}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p := b.Parameters[0]; p.Class != Value || p.Default != "kubevirt/1.9" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestHasCredentials(t *testing.T) {
	for text, want := range map[string]bool{
		"https://example.com/a.img": false, "docker://quay.io/a/b:1": false, "https://example.com/a;v/b=c": true, "": false,
		"https://u:p@example.com/a": true, "https://example.com/a?sig=1": true, "user:pw@h": true, "https:u:pw@h/x": true, "https://h/a;sig=0123": true, "https://h/a;x": false, "::": true,
	} {
		if got := hasCredentials(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
