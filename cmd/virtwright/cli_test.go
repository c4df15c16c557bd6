package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	exampleVMs        = "../../examples/vms"
	examplePresets    = "../../examples/presets"
	exampleRejected   = "../../examples/rejected"
	exampleNamespaces = "../../examples/namespaces.yaml"
)

// outcome is the result of a call of the program.
type outcome struct {
	code     int
	out, err string
}

// call runs the program in this process, as virtwright.
func call(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return callAs(t, program, stdin, args...)
}

func callAs(t *testing.T, name, stdin string, args ...string) outcome {
	t.Helper()
	var out, err bytes.Buffer
	code := run(t.Context(), append([]string{name}, args...), streams{strings.NewReader(stdin), &out, &err})
	return outcome{code, out.String(), err.String()}
}

// fine fails t unless the exit code is 0.
func (o outcome) fine(t *testing.T) outcome {
	t.Helper()
	if o.code != exitFine {
		t.Fatalf("exit code %d: %s", o.code, o.err)
	}
	return o
}

// says fails t unless text contains each part.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("nothing says %q in:\n%s", part, text)
		}
	}
}

// write creates a file in a new folder and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t testing.TB, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(exampleVMs + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	return files
}

const (
	sparse = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm}\n"
	// small is a VM that is valid without presets.
	small = sparse + "spec: {template: {spec: {domain: {memory: {guest: 1Gi}}}}}\n"
	// misspelt has an unknown field.
	misspelt = sparse + "spec: {template: {spec: {domain: {cpu: {CORES: 3}, memory: {guest: 1Gi}}}}}\n"
	cores    = "apiVersion: virtwright.dev/v1alpha1\nkind: VirtualMachinePreset\nmetadata: {name: cores}\n" +
		"spec: {defaults: {spec: {template: {spec: {domain: {cpu: {cores: 7}, memory: {guest: 1Gi}}}}}}}\n"
)
