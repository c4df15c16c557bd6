package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sspv1alpha1 "github.com/virtwright/virtwright/api/ssp/v1alpha1"
)

func TestTemplateHelp(t *testing.T) {
	says(t, call(t, "", "--help").fine(t).out, "Templates:\n  template ")
	says(t, call(t, "", "template").fine(t).out, "virtwright template [command]", "create", "generate", "process")
	for command, usage := range map[string]string{"create": "create NAME", "generate": "generate -f FILE...", "process": "process -f FILE"} {
		says(t, call(t, "", "template", command, "--help").fine(t).out, "Usage:\n  virtwright template "+usage, "Examples:\n  # ", "  virtwright template "+command+" ")
	}
	says(t, callAs(t, plugin, "", "template", "create", "--help").fine(t).out, "  kubectl virtwright template create web -n shop\n")
	says(t, call(t, "", "__complete", "template", "generate", "--format", "").fine(t).out, "openshiftTemplate\nvirtualMachineTemplate\nconfigMap\n")
	says(t, call(t, "", "__complete", "template", "create", "--data-volumes", "").fine(t).out, "Keep\nRename\n")
}

// TestTemplateUsage checks that wrong usage is reported before anything is read.
func TestTemplateUsage(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		want []string
	}{
		"unknown command":      {"template makes", []string{`unknown command "makes" (see virtwright template --help)`}},
		"no VM":                {"template create", []string{"name one VM, for example web or vm/web"}},
		"two VMs":              {"template create a b", []string{`cannot make a template of "a b": name one VM`}},
		"unknown format":       {"template create a --format ova", []string{"--format: Unsupported value", `"openshiftTemplate"`}},
		"unknown data volumes": {"template create a --data-volumes Clone", []string{`--data-volumes: Unsupported value: "Clone": supported values: "Keep", "Rename"`}},
		"invalid name":         {"template create a --name A_B", []string{`--name "A_B": a lowercase RFC 1123 subdomain`}},
		"invalid namespace":    {"template create a --to-namespace A", []string{`--to-namespace "A": `}},
		"invalid label":        {"template create a --label a=b/c", []string{"--label a=b/c: a valid label"}},
		"no timeout":           {"template create a --timeout 0s", []string{"--timeout 0s must be longer than 0"}},
		"negative TTL":         {"template create a --ttl=-1s", []string{"--ttl -1s must be 0 or more, in whole seconds"}},
		"TTL of half a second": {"template create a --ttl 500ms", []string{"--ttl 500ms must be 0 or more, in whole seconds"}},
		"wait for a dry run":   {"template create a --dry-run --wait", []string{"give --wait or --dry-run"}},
		"all problems":         {"template create a --format x --name Y --ttl=-1s", []string{"--format: ", "--name ", "--ttl "}},
		"missing kubeconfig": {"template create a --kubeconfig /does/not/exist", []string{
			"cannot read the kubeconfig: stat /does/not/exist"}},

		"generate without files": {"template generate", []string{"-f is required"}},
		"missing file":           {"template generate -f missing.yaml", []string{"cannot read missing.yaml"}},
		"wrong flags":            {"template generate -o xml -n A --label x", []string{`invalid argument "x" for "--label"`}},
		"wrong output":           {"template generate -o xml -n A", []string{"-f is required", `"xml"`, `--namespace "A"`}},

		"process without file":  {"template process", []string{"-f is required"}},
		"missing template":      {"template process -f missing.yaml", []string{"cannot read missing.yaml"}},
		"name without value":    {"template process -f x -p CORES", []string{"-p, 1 of 1: want NAME=VALUE"}},
		"value without name":    {"template process -f x -p =4 -p A=1", []string{"-p, 1 of 2: want NAME=VALUE"}},
		"duplicate name":        {"template process -f x -p A=1 -p B=1 -p A=1", []string{"-p, 3 of 3: duplicate name, as in -p, 1 of 3"}},
		"missing param-file":    {"template process -f x --param-file missing.env", []string{"--param-file: open missing.env: no such file"}},
		"values and parameters": {"template process -f x --parameters -p A=1", []string{"parameters", "param"}},
		"several":               {"template process -p A -l a=b/c -o xml", []string{"-f is required", "-p, 1 of 1: want NAME=VALUE", "--label a=b/c", `"xml"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, "", strings.Fields(test.args)...)
			if got.code != exitUsage || got.out != "" {
				t.Errorf("exit code %d, output %q", got.code, got.out)
			}
			says(t, got.err, append(test.want, "Error: ")...)
		})
	}
}

// TestTemplateValuesSecret checks that errors quote nothing that may be a part of a secret.
func TestTemplateValuesSecret(t *testing.T) {
	tests := map[string]struct {
		reason, file string
		given        []string
		want         []string
	}{
		"NoNames": {"Lines and flags are named by number.", "A=1\nhunter two\n=hunter three\n", []string{"pass word\nhunter"},
			[]string{"-p, 1 of 1: want NAME=VALUE", "values.env, line 2: want NAME=VALUE", "values.env, line 3: "}},
		"Lines": {"A file cannot hold a value of several lines.", "VOLUME0_USER_DATA=#cloud-config\npassword: hunter2=\n", nil,
			[]string{"values.env, line 2: want NAME=VALUE"}},
		"NoValue":      {"A secret may look like a name.", "", []string{"A=1", "hunter2"}, []string{"-p, 2 of 2: want NAME=VALUE"}},
		"NoName":       {"Names have no spaces.", "", []string{"pass word=hunter2", "A=1"}, []string{"-p, 1 of 2: want NAME=VALUE"}},
		"UnknownLine":  {"The last line of a key looks like a name.", "VOLUME0_USER_DATA=-----BEGIN\n  aHVudGVyMg==\n", nil, []string{"  --param-file ", "values.env, line 2: undefined parameter"}},
		"UnknownTwice": {"A duplicate is not quoted either.", "hunter2=1\n\nhunter2=2\n", nil, []string{"values.env, line 3: duplicate name, as in "}},
		"NoLetter":     {"Names begin with a letter.", "", []string{"VOLUME0_USER_DATA=x", "2hunter=2"}, []string{"-p, 2 of 2: undefined parameter"}},
		"Unquoted":     {"The shell split a value.", "", []string{"VOLUME0_USER_DATA=#cloud-config", "hunter2"}, nil},
		"UnknownAndMissing": {"All problems are reported at once.", "hunter2=x\n", []string{"NOTHING=1"},
			[]string{"values.env, line 1: undefined parameter", "VOLUME0_USER_DATA: Required value", "NOTHING: undefined parameter"}},
	}
	template := generate(t, confidential).fine(t).out
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := []string{"--param-file", write(t, "values.env", test.file)}
			for _, text := range test.given {
				args = append(args, "-p", text)
			}
			if name == "Unquoted" {
				args = slices.Delete(args, len(args)-2, len(args)-1)
				test.want = []string{"unexpected 1 argument: quote values with spaces or several lines, as -p \"NAME=VALUE\""}
			}
			got := process(t, template, args...)
			if got.code == exitFine || got.out != "" {
				t.Errorf("%s: exit code %d, output %q", test.reason, got.code, got.out)
			}
			says(t, got.err, test.want...)
			for _, secret := range []string{"hunter", "pass", "aHVud"} {
				if strings.Contains(got.err, secret) {
					t.Errorf("%s: %s", test.reason, got.err)
				}
			}
		})
	}
}

func TestTemplateValues(t *testing.T) {
	file := write(t, "values.env", "\ufeff# what differs\n\n  # more\nCORES=4\r\nEMPTY=\nTEXT= a = b # c \n INDENTED=x\n")
	tests := map[string]struct {
		reason string
		o      templateProcess
		want   map[string]string
	}{
		"None":       {"No flags are given.", templateProcess{}, map[string]string{}},
		"Typed":      {"The first = ends the name; a value has several lines.", templateProcess{params: []string{"A=b=c", "B=", "C=x\ny\n"}}, map[string]string{"A": "b=c", "B": "", "C": "x\ny\n"}},
		"File":       {"A value is the rest of the line.", templateProcess{paramFile: file}, map[string]string{"CORES": "4", "EMPTY": "", "TEXT": " a = b # c ", "INDENTED": "x"}},
		"Overriding": {"-p overrides the file.", templateProcess{paramFile: file, params: []string{"CORES=8", "TEXT=t", "EMPTY=e"}}, map[string]string{"CORES": "8", "EMPTY": "e", "TEXT": "t", "INDENTED": "x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values, err := test.o.values()
			got := map[string]string{}
			for _, v := range values {
				got[v.name] = v.text
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%s\n%v\n-want, +got:\n%s", test.reason, err, diff)
			}
		})
	}
	twice := templateProcess{paramFile: write(t, "twice.env", "A=1\nB=2\nA=1\n")}
	if _, err := twice.values(); err == nil || !strings.Contains(err.Error(), "twice.env, line 3: duplicate name, as in ") {
		t.Errorf("got %v", err)
	}
}

// TestTemplateProgress checks that only delays are printed, and that a timeout names the last
// state.
func TestTemplateProgress(t *testing.T) {
	var told strings.Builder
	w := &templateWait{source: "lab/web", namespace: "lab"}
	w.name, w.tell = "web-1", func(state string) { fmt.Fprintf(&told, "Request web-1: %s\n", state) }
	for _, reason := range []string{"Reconciling", "FormatUnavailable", "Reconciling"} {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON([]byte(`{"apiVersion":"ssp.kubevirt.io/v1alpha1","kind":"VirtualMachineTemplateRequest","status":{` + conditions("False", reason, "so", "True") + `}}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.check(t.Context(), &object); err != nil {
			t.Fatal(err)
		}
	}
	if want := "Request web-1: not ready (FormatUnavailable: so; --format configMap works in every cluster)\n"; told.String() != want {
		t.Errorf("got %q, want %q", told.String(), want)
	}
	says(t, w.timedOut().Error(), "request lab/web-1 is not ready (Reconciling: so); it stays")
}

func TestTemplateReport(t *testing.T) {
	for apiVersion, want := range map[string]string{
		"v1":                       "Kind x created in namespace lab, with 10 parameters\n",
		"template.openshift.io/v1": "Kind x of template.openshift.io/v1 created in namespace lab, with 10 parameters\n",
	} {
		var out strings.Builder
		status := sspv1alpha1.VirtualMachineTemplateRequestStatus{
			ParameterCount: 10,
			TemplateRef:    &sspv1alpha1.TemplateReference{APIVersion: apiVersion, Kind: "Kind", Name: "x", Namespace: "lab"},
		}
		if err := printTemplate(streams{out: &out}, &status); err != nil || out.String() != want {
			t.Errorf("got %q, %v; want %q", out.String(), err, want)
		}
	}
}

// TestTemplateCreateLeavesFormat checks that without --format the cluster chooses the format.
func TestTemplateCreateLeavesFormat(t *testing.T) {
	o := &templateCreate{vm: "web", toNamespace: "shop"}
	if got := o.request("shop").Spec; got.TemplateName != "web-template" || got.Target != (sspv1alpha1.VirtualMachineTemplateRequestTarget{}) {
		t.Errorf("got %+v", got)
	}
	o.format = sspv1alpha1.FormatConfigMap
	if got := o.request("shop").Spec; got.TemplateName != "" || got.Target.ConfigMap == nil || got.Target.ConfigMap.Name != "web-template" {
		t.Errorf("got %+v", got)
	}
}
