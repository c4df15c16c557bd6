package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var other = strings.Replace(small, "{name: vm}", "{name: other}", 1)

// One object is printed as itself, several as a List in one document.
func TestPrintsOneOrAList(t *testing.T) {
	for _, command := range []string{"expand", "template generate"} {
		for output, decode := range map[string]func([]byte, *map[string]any) error{
			"json": func(text []byte, into *map[string]any) error { return json.Unmarshal(text, into) },
			"yaml": func(text []byte, into *map[string]any) error { return yaml.Unmarshal(text, into) },
		} {
			args := append(strings.Fields(command), "-f", "-", "-o", output)
			var one, several map[string]any
			if err := decode([]byte(call(t, small, args...).fine(t).out), &one); err != nil || one["kind"] == "List" {
				t.Errorf("%s: %v: %v", args, err, one)
			}
			got := call(t, small+"---\n"+other, args...).fine(t).out
			if err := decode([]byte(got), &several); err != nil {
				t.Errorf("%s: %v in:\n%s", args, err, got)
			}
			if items, _ := several["items"].([]any); several["kind"] != "List" || several["apiVersion"] != "v1" || len(items) != 2 {
				t.Errorf("%s: is no List of two:\n%s", args, got)
			}
		}
	}
	list := call(t, small+"---\n"+other, "expand", "-f", "-").fine(t).out
	says(t, call(t, list, "validate", "-f", "-").fine(t).out, "2 objects: all fine")
	explained := call(t, list, "explain", "-f", "-", "-o", "json").fine(t).out
	if !json.Valid([]byte(explained)) {
		t.Errorf("is more than one JSON document:\n%s", explained)
	}
}

// Usage errors suggest the correct name.
func TestUsage(t *testing.T) {
	const cpu = "spec.template.spec.domain.cpu"
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"a file without -f":                    {"expand a.yaml", "a.yaml: use -f for each file"},
		"a second file":                        {"validate -f - b.yaml", "b.yaml: use -f for each file"},
		"a second file, in explain":            {"explain -f - b.yaml", "b.yaml: use -f for each file"},
		"two paths":                            {"explain -f - spec spec.template", "cannot read spec of a cluster: no cluster selected"},
		"a folder without -f":                  {"expand testdata/lint", "testdata/lint: use -f for files and folders"},
		"a type that does not exist":           {"expand pod/web", `pod: unsupported type: supported types: "vm", "vmi", "vmpreset", "cvmpreset"`},
		"a plan without a cluster":             {"plan -f -", "cannot compare with a cluster: no cluster selected: there is no kubeconfig; --base-dir or --base-ref compares with files"},
		"a VM without a cluster":               {"explain vm/web", "cannot read vm/web of a cluster: no cluster selected: there is no kubeconfig"},
		"nothing to adopt":                     {"adopt fleet -A", "Error: no cluster selected: there is no kubeconfig"},
		"a VM by its name":                     {"explain web -f -", "cannot read web of a cluster: no cluster selected"},
		"a type and a name":                    {"render vm web db", "cannot read vm web db of a cluster: no cluster selected"},
		"a misspelt root of a path":            {"explain -f - sepc.template", `unknown field "sepc"; did you mean "spec"?`},
		"a path without its root":              {"explain -f - runStrategy", `unknown field "runStrategy"`},
		"a misspelt flag":                      {"explain --namspace lab", "unknown flag: --namspace; did you mean --namespace?"},
		"the beginning of a flag":              {"expand --preset x", "unknown flag: --preset; did you mean --preset-conflicts?"},
		"a URL":                                {"expand -f https://example.com/vm.yaml", "https://example.com/vm.yaml: URLs are not supported: use curl and -f -"},
		"a command of kubectl":                 {"get vm", `unknown command "get" (see virtwright --help)`},
		"a misspelt path":                      {"explain -f - spec.template.spec.domain.memroy.guest", `path does not exist: under "spec.template.spec.domain" unknown field "memroy"; did you mean "memory"?`},
		"a path of a VMI, for a VM":            {"explain -f - spec.domain.cpu", `under "spec" unknown field "domain"`},
		"a misspelt command":                   {"expnd", `unknown command "expnd"; did you mean "expand"?`},
		"a misspelt command, with flag":        {"expnd -f vm.yaml", `unknown command "expnd"; did you mean "expand"?`},
		"a command like no other":              {"deploy", `unknown command "deploy" (see virtwright --help)`},
		"a misspelt template command":          {"template procss", `unknown command "procss"; did you mean "process"?`},
		"help for a misspelt command":          {"help expnad", `unknown command "expnad"; did you mean "expand"?`},
		"help for a misspelt template command": {"help template procss", `unknown command "procss"; did you mean "process"?`},
		"a verbosity of letters":               {"expand -f - -v x", `invalid argument "x" for "-v, --v" flag`},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, small, strings.Fields(c.args)...)
			if got.code != exitUsage || got.out != "" {
				t.Errorf("exit code %d, want %d: %s", got.code, exitUsage, got.out)
			}
			says(t, got.err, c.want)
		})
	}
	says(t, call(t, small, "explain", "-f", "-", ".spec.template.spec.domain.cpu").fine(t).out, "host-model")
	// A list element that the VM does not have gets no suggestion.
	near := call(t, small, "explain", "-f", "-", "spec.template.spec.networks[defalt]").fine(t)
	says(t, near.err, "Note: VirtualMachine default/vm does not set spec.template.spec.networks[defalt]; did you mean spec.template.spec.networks[default]?")
	// Neither does an existing field that is not set.
	unset := call(t, small, "explain", "-f", "-", cpu+".dedicatedCpuPlacement").fine(t)
	if want := "Note: VirtualMachine default/vm does not set " + cpu + ".dedicatedCpuPlacement\n"; unset.err != want {
		t.Errorf("got %q, want %q", unset.err, want)
	}
	labelled := strings.Replace(small, "{name: vm}", "{name: vm, labels: {tier: a}}", 1)
	says(t, call(t, labelled, "explain", "-f", "-", "metadata.labels.teir").fine(t).err, "did you mean metadata.labels.tier?")
	says(t, call(t, small, "explain", "-f", "-", cpu+".cores").fine(t).out, "platform")
	says(t, call(t, "", "help", "template", "process").fine(t).out, "virtwright template process")
	says(t, call(t, "", "--version").fine(t).out, "virtwright ", "go1.")
	call(t, small, "expand", "-f", "-", "-v", "2").fine(t)
	call(t, small, "expand", "-f", "-", "--v=2").fine(t)
}
