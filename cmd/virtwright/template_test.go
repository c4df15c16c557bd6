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
	for command, usage := range map[string]string{"create": "create VM", "generate": "generate -f FILE...", "process": "process -f FILE"} {
		says(t, call(t, "", "template", command, "--help").fine(t).out, "Usage:\n  virtwright template "+usage, "Examples:\n  # ", "  virtwright template "+command+" ")
	}
	says(t, callAs(t, plugin, "", "template", "create", "--help").fine(t).out, "  kubectl virtwright template create web -n shop\n")
	says(t, call(t, "", "__complete", "template", "generate", "--format", "").fine(t).out, "openshiftTemplate\nvirtualMachineTemplate\nconfigMap\n")
	says(t, call(t, "", "__complete", "template", "create", "--data-volumes", "").fine(t).out, "Keep\nRename\n")
}

// What is wrong with a call is said before anything is read or asked.
func TestTemplateUsage(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		want []string
	}{
		"unknown command":      {"template makes", []string{`unknown command "makes" (see virtwright template --help)`}},
		"no machine":           {"template create", []string{"cannot make a template of 0 machines: name one"}},
		"two machines":         {"template create a b", []string{"cannot make a template of 2 machines"}},
		"no such format":       {"template create a --format ova", []string{"--format must be one of", `"openshiftTemplate"`, `not "ova"`}},
		"no such data volumes": {"template create a --data-volumes Clone", []string{`--data-volumes must be one of ["Keep" "Rename"], not "Clone"`}},
		"impossible name":      {"template create a --name A_B", []string{`--name "A_B": a lowercase RFC 1123 subdomain`}},
		"impossible namespace": {"template create a --to-namespace A", []string{`--to-namespace "A": `}},
		"impossible label":     {"template create a --label a=b/c", []string{"--label a=b/c: a valid label"}},
		"no time":              {"template create a --timeout 0s", []string{"--timeout must be longer than 0"}},
		"time that has passed": {"template create a --ttl=-1s", []string{"--ttl -1s must be 0 or more, in whole seconds"}},
		"half a second":        {"template create a --ttl 500ms", []string{"--ttl 500ms must be 0 or more, in whole seconds"}},
		"nothing to wait for":  {"template create a --dry-run --wait", []string{"give --wait or --dry-run"}},
		"all at once":          {"template create a --format x --name Y --ttl=-1s", []string{"--format ", "--name ", "--ttl "}},
		"a cluster that is not": {"template create a --kubeconfig /does/not/exist", []string{
			"cannot tell which cluster to ask: stat /does/not/exist"}},

		"nothing to generate of": {"template generate", []string{"-f is missing"}},
		"no such file":           {"template generate -f missing.yaml", []string{"cannot read missing.yaml"}},
		"wrong flags":            {"template generate -o xml -n A --label x", []string{`invalid argument "x" for "--label"`}},
		"wrong output":           {"template generate -o xml -n A", []string{"-f is missing", `"xml"`, `--namespace "A"`}},

		"nothing to process":   {"template process", []string{"-f is missing"}},
		"no such template":     {"template process -f missing.yaml", []string{"cannot read missing.yaml"}},
		"a name without value": {"template process -f x -p CORES", []string{"-p, 1 of 1, has no =: want NAME=VALUE"}},
		"a value without name": {"template process -f x -p =4 -p A=1", []string{"-p, 1 of 2, has no name: want NAME=VALUE"}},
		"a name twice":         {"template process -f x -p A=1 -p B=1 -p A=1", []string{"-p A is given twice"}},
		"no file of values":    {"template process -f x --param-file missing.env", []string{"--param-file: open missing.env: no such file"}},
		"values of nothing":    {"template process -f x --parameters -p A=1", []string{"parameters", "param"}},
		"several":              {"template process -p A -l a=b/c -o xml", []string{"-f is missing", "-p, 1 of 1, has no =", "--label a=b/c", `"xml"`}},
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

// What is no name may be a part of a secret, and is not repeated.
func TestTemplateValuesSecret(t *testing.T) {
	tests := map[string]struct {
		reason, file string
		given        []string
		want         []string
	}{
		"NoNames": {"Lines and flags are counted.", "A=1\nhunter two\n=hunter three\n", []string{"pass word\nhunter"},
			[]string{"-p, 1 of 1, has no =: want NAME=VALUE", "values.env, line 2: a line must be NAME=VALUE", "values.env, line 3: "}},
		"Lines": {"A value of several lines is none of a file.", "VOLUME0_USER_DATA=#cloud-config\npassword: hunter2=\n", nil,
			[]string{"values.env, line 2: a line must be NAME=VALUE"}},
		"NoValue":      {"A secret may look like a name.", "", []string{"A=1", "hunter2"}, []string{"-p, 2 of 2, has no =: want NAME=VALUE"}},
		"NoName":       {"Names have no spaces.", "", []string{"pass word=hunter2", "A=1"}, []string{"-p, 1 of 2, has no name: want NAME=VALUE"}},
		"UnknownLine":  {"The last line of what is encoded looks like a name.", "VOLUME0_USER_DATA=-----BEGIN\n  aHVudGVyMg==\n", nil, []string{"  --param-file ", "values.env, line 2: the template has no such parameter"}},
		"UnknownTwice": {"Also a second time.", "hunter2=1\n\nhunter2=2\n", nil, []string{"values.env, line 3: has the name of line 1"}},
		"NoLetter":     {"Names begin with a letter.", "", []string{"VOLUME0_USER_DATA=x", "2hunter=2"}, []string{"-p, 2 of 2: the template has no such parameter"}},
		"Unquoted":     {"The shell made words of a value.", "", []string{"VOLUME0_USER_DATA=#cloud-config", "hunter2"}, nil},
		"UnknownAndMissing": {"All problems come at once.", "hunter2=x\n", []string{"NOTHING=1"},
			[]string{"values.env, line 1: the template has no such parameter", "VOLUME0_USER_DATA: a value must be given", "NOTHING: the template has no such parameter"}},
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
				test.want = []string{"cannot take 1 argument: quote values with spaces or several lines, as -p \"NAME=VALUE\""}
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
		o      processing
		want   map[string]string
	}{
		"None":       {"There may be none.", processing{}, map[string]string{}},
		"Typed":      {"The first = ends the name; a value has several lines.", processing{given: []string{"A=b=c", "B=", "C=x\ny\n"}}, map[string]string{"A": "b=c", "B": "", "C": "x\ny\n"}},
		"File":       {"A value is what is behind =, as it is.", processing{paramFile: file}, map[string]string{"CORES": "4", "EMPTY": "", "TEXT": " a = b # c ", "INDENTED": "x"}},
		"Overruling": {"-p overrules the file.", processing{paramFile: file, given: []string{"CORES=8", "TEXT=t", "EMPTY=e"}}, map[string]string{"CORES": "8", "EMPTY": "e", "TEXT": "t", "INDENTED": "x"}},
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
	twice := processing{paramFile: write(t, "twice.env", "A=1\nB=2\nA=1\n")}
	if _, err := twice.values(); err == nil || !strings.HasSuffix(err.Error(), "twice.env, line 3: has the name of line 1") {
		t.Errorf("got %v", err)
	}
}

// What goes well is not told before it is done, but known when time is up.
func TestTemplateProgress(t *testing.T) {
	var told strings.Builder
	w := &makingWait{source: "lab/web", namespace: "lab"}
	w.name, w.tell = "web-1", func(state string) { fmt.Fprintf(&told, "Request web-1: %s\n", state) }
	for _, reason := range []string{"Reconciling", "FormatUnavailable", "Reconciling"} {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON([]byte(`{"apiVersion":"ssp.kubevirt.io/v1alpha1","kind":"VirtualMachineTemplateRequest","status":{` + conditions("False", reason, "so", "True") + `}}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.look(t.Context(), &object); err != nil {
			t.Fatal(err)
		}
	}
	if want := "Request web-1: not ready (FormatUnavailable: so; --format configMap needs no API of its own)\n"; told.String() != want {
		t.Errorf("got %q, want %q", told.String(), want)
	}
	says(t, w.late().Error(), "request lab/web-1 is not ready (Reconciling: so); it stays")
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
		if err := report(streams{out: &out}, &status); err != nil || out.String() != want {
			t.Errorf("got %q, %v; want %q", out.String(), err, want)
		}
	}
}

// A request that names no format leaves the choice to the cluster.
func TestTemplateCreateLeavesFormat(t *testing.T) {
	o := &creation{machine: "web", to: "shop"}
	if got := o.request("shop").Spec; got.TemplateName != "web-template" || got.Target != (sspv1alpha1.VirtualMachineTemplateRequestTarget{}) {
		t.Errorf("got %+v", got)
	}
	o.format = sspv1alpha1.FormatConfigMap
	if got := o.request("shop").Spec; got.TemplateName != "" || got.Target.ConfigMap == nil || got.Target.ConfigMap.Name != "web-template" {
		t.Errorf("got %+v", got)
	}
}
