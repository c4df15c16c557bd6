package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReapplyUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "select VMs by name, or by one of -l, --preset, --all, -A",
		"vm":                           "cannot reapply presets to a vm: name VMs, for example vm/web",
		"vmi/web":                      "cannot reapply presets to a vmi: name VMs, for example vm/web",
		"web":                          "web: unsupported type",
		"vm/web --all":                 "names cannot be combined with -l, --preset, --all, -A",
		"-l =":                         "invalid selector",
		"--all --dry-run client":       `--dry-run: Unsupported value: "client": supported values: "none", "server"`,
		"--all --kubeconfig /no/where": "cannot read the kubeconfig: stat /no/where",
	} {
		got := call(t, "", append([]string{"reapply"}, strings.Fields(args)...)...)
		if got.code != exitUsage || got.out != "" {
			t.Errorf("%s: exit code %d: %s", args, got.code, got.out)
		}
		says(t, got.err, want)
	}
}

func TestReapplyDifferences(t *testing.T) {
	for name, test := range map[string]struct {
		a, b any
		want int
	}{
		"equal":            {map[string]any{"a": int64(1)}, map[string]any{"a": int64(1)}, 0},
		"a value":          {map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}, 1},
		"an object":        {map[string]any{}, map[string]any{"a": map[string]any{"b": "x", "c": "y"}}, 2},
		"an element":       {map[string]any{"a": []any{"x"}}, map[string]any{"a": []any{"x", "y"}}, 1},
		"an object's list": {map[string]any{"a": []any{map[string]any{"b": "x"}}}, map[string]any{"a": []any{map[string]any{"b": "z"}}}, 1},
		"an empty object":  {map[string]any{}, map[string]any{"a": map[string]any{}}, 1},
		"labels":           {map[string]any{}, map[string]any{"a": map[string]string{"b": "x"}}, 1},
		"something gone":   {map[string]any{"a": map[string]any{"b": "x", "c": "y"}}, map[string]any{}, 2},
	} {
		if got := differences(test.a, test.b); got != test.want {
			t.Errorf("%s: %d differences, want %d", name, got, test.want)
		}
	}
}

func TestRestartRequired(t *testing.T) {
	vm := &unstructured.Unstructured{Object: map[string]any{}}
	if restartRequired(vm) {
		t.Error("a VM without conditions requires a restart")
	}
	vm.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "RestartRequired", "status": "True"}}}
	if !restartRequired(vm) {
		t.Error("the condition is not seen")
	}
}
